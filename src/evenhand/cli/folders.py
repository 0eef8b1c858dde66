"""Where commands put their results."""

from pathlib import Path

PARENT = Path("evenhand-out")


def free_folder(name: str) -> Path:
    """A folder in evenhand-out that does not exist yet, so that no earlier result is lost."""
    candidates = (PARENT / (name if number == 1 else f"{name}-{number}") for number in range(1, 1_000_000))
    return next(folder for folder in candidates if not folder.exists())
