"""Reading TOML files that people write."""

import tomllib
from pathlib import Path
from typing import Any

from evenhand.data.toml_places import place_at
from evenhand.errors import EvenhandError


def read_toml(path: Path, what: str) -> tuple[dict[str, Any], str]:
    """The content of a file and its text, for `place_of`; `what` names the file in errors: "gate file"."""
    try:
        written = path.read_bytes()
    except OSError as error:
        raise EvenhandError(f"Cannot read the {what} {path}: {error.strerror}.") from error
    try:
        text = written.decode("utf-8").replace("\r\n", "\n")
        return tomllib.loads(text), text
    except UnicodeDecodeError as error:
        before = written[: error.start].decode("utf-8")
        reason = f"{place_at(before, len(before))} is not UTF-8"
    except tomllib.TOMLDecodeError as error:
        reason = str(error).replace("(at end of document)", f"(at {place_at(text, len(text.rstrip()))})")
    except RecursionError:
        reason = "its lists or tables lie too deep in one another"
    raise EvenhandError(f"The {what} {path} is not valid TOML: {reason}.")
