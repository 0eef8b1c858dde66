"""A run's folder: attempts side by side, of which one becomes the result.

An attempt writes into `attempt-N.partial`, N being the number of its lease, which nobody else ever has. Its files move
up when it is done, by whoever holds the run. Since a worker may sleep between the question whether it holds the run
and the move, both happen under a lock on the folder: a later holder waits, looks, and clears away what came before.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from evenhand.errors import EvenhandError

if TYPE_CHECKING:
    from evenhand.service.storage.home import Home
    from evenhand.service.storage.runs import Claim, Runs

PARTIAL = ".partial"
LAST = "summary.json"  # the file that says that the others are there


def attempt_folder(home: "Home", claim: "Claim") -> Path:
    """The folder of this attempt, empty."""
    folder = home.run(claim.run) / f"attempt-{claim.lease}{PARTIAL}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def publish(attempt: Path, still_held: Callable[[], object]) -> None:
    """Make the files of an attempt the run's result; `still_held` raises where the run belongs to somebody else.

    The empty folder of the attempt stays until the run is finished: it tells `sweep` where to look.
    """
    folder = attempt.parent
    with locked(folder):
        still_held()
        for path in folder.iterdir():
            if path != attempt:
                _remove(path)
        for path in sorted(attempt.iterdir(), key=lambda path: path.name == LAST):
            path.replace(folder / path.name)
        _flush(folder)


def drop(attempt: Path) -> None:
    """Remove the folder of an attempt; a run's folder that is empty then goes with it."""
    shutil.rmtree(attempt, ignore_errors=True)
    with suppress(OSError):
        attempt.parent.rmdir()


def sweep(home: "Home", runs: "Runs") -> list[Path]:
    """Remove what killed workers left behind: attempts that nobody makes any more, results that were never finished."""
    folders = {path.parent for path in home.path.glob(f"runs/*/attempt-*{PARTIAL}")}
    return [path for folder in sorted(folders) for path in tidy(folder, runs)]


def tidy(folder: Path, runs: "Runs") -> list[Path]:
    """The same for one run's folder."""
    try:
        with locked(folder):
            swept = _swept(folder, runs)
    except FileNotFoundError:  # the run was deleted meanwhile
        return []
    drop(folder / "nothing")
    return swept


def _swept(folder: Path, runs: "Runs") -> list[Path]:
    try:
        run = runs.get(folder.name)
    except EvenhandError:  # the folder of a run that is not there: `Home.sweep` knows when it may go
        return []
    held = run.state in ("running", "cancelling")
    kept = f"attempt-{run.lease}{PARTIAL}" if held else None
    finished = held or run.result is not None
    doomed = [path for path in folder.iterdir() if path.name != kept and (_is_attempt(path) or not finished)]
    for path in doomed:
        _remove(path)
    return doomed


def _is_attempt(path: Path) -> bool:
    return path.name.startswith("attempt-") and path.suffix == PARTIAL


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock on a folder, which the system gives back when its holder dies."""
    import fcntl

    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _flush(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
