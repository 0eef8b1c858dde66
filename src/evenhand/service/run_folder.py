"""A run's folder: attempts side by side, of which one becomes the result.

An attempt writes into `attempt-N.partial`, N being the number of its lease, which nobody else ever has. Its files move
up when it is done, by whoever holds the run. Since a worker may sleep between the question whether it holds the run
and the move, both happen under a lock on the folder: a later holder waits, looks, and clears away what came before.

An attempt's checkpoints are in a folder of their own, `checkpoint`. The next attempt takes it over by moving it, so an
older process that still lives cannot write to it any more. While nobody makes an attempt it lies in the run's folder.
"""

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from evenhand.errors import EvenhandError
from evenhand.files import flush

if TYPE_CHECKING:
    from evenhand.service.storage.home import Home
    from evenhand.service.storage.runs import Claim, Runs

PARTIAL = ".partial"
LAST = "summary.json"  # the file that says that the others are there
CHECKPOINT = "checkpoint"


def attempt_folder(home: "Home", claim: "Claim") -> Path:
    """The folder of this attempt: empty, but for the checkpoint of the newest one before it.

    A worker that slept since it claimed the run takes nothing from those that came after it.
    """
    run = home.run(claim.run)
    folder = run / f"attempt-{claim.lease}{PARTIAL}"
    with _made(run):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        if not any(_number(attempt) > claim.lease for attempt in _attempts(run)):
            _put_by(run)
            with suppress(FileNotFoundError):
                (run / CHECKPOINT).rename(checkpoint_of(folder))
    return folder


def checkpoint_of(attempt: Path) -> Path:
    """The folder of an attempt's checkpoints; it need not be there."""
    return attempt / CHECKPOINT


def publish(attempt: Path, still_held: Callable[[], object], keep_checkpoint: bool = False) -> None:
    """Make the files of an attempt the run's result; `still_held` raises where the run belongs to somebody else.

    The folder of the attempt stays until the run is finished: it tells `sweep` where to look, and its checkpoint is
    there for the next attempt if this one dies now. That of a run that may be gone on with later is kept with it.
    """
    folder = attempt.parent
    with locked(folder):
        still_held()
        for path in folder.iterdir():
            if path != attempt:
                _remove(path)
        for path in sorted(attempt.iterdir(), key=lambda path: path.name == LAST):
            if keep_checkpoint or path != checkpoint_of(attempt):
                path.replace(folder / path.name)
        flush(folder)


def put_by(attempt: Path, still_held: Callable[[], object]) -> None:
    """Keep the checkpoint of an attempt that leaves nothing else; `still_held` as in `publish`."""
    with suppress(OSError), locked(attempt.parent):  # without it nothing is lost but time
        still_held()
        _put_by(attempt.parent)


def drop(attempt: Path) -> None:
    """Remove the folder of an attempt; a run's folder that is empty then goes with it."""
    shutil.rmtree(attempt, ignore_errors=True)
    with suppress(OSError), locked(attempt.parent):
        attempt.parent.rmdir()


def sweep(home: "Home", runs: "Runs") -> list[Path]:
    """Remove what killed workers left behind: attempts that nobody makes any more, results that were never finished."""
    swept: list[Path] = []
    for folder in sorted(_with_attempts(home)):
        with suppress(OSError):  # one that may not be read keeps no other from being swept
            swept += tidy(folder, runs)
    return swept


def _with_attempts(home: "Home") -> Iterator[Path]:
    """Folders of runs that have attempts; any of them may go away meanwhile."""
    for folder in home.path.glob("runs/*"):
        with suppress(OSError):
            if _attempts(folder):
                yield folder


def tidy(folder: Path, runs: "Runs") -> list[Path]:
    """The same for one run's folder."""
    try:
        with locked(folder):
            swept = _swept(folder, runs)
            with suppress(OSError):
                folder.rmdir()  # where nothing is left
    except FileNotFoundError:  # the run was deleted meanwhile
        return []
    return swept


def _swept(folder: Path, runs: "Runs") -> list[Path]:
    try:
        run = runs.get(folder.name)
    except EvenhandError:  # the folder of a run that is not there: `Home.sweep` knows when it may go
        return []
    # A terminal that was not heard of may only be asleep, and goes on with the same lease.
    asleep = run.place == "terminal" and run.state == "interrupted"
    held = run.state in ("running", "cancelling") or asleep
    kept = f"attempt-{run.lease}{PARTIAL}" if held else None
    finished = held or run.result is not None
    if run.state != "done" and (kept is None or not (folder / kept).is_dir()):  # a claim may be without its folder yet
        _put_by(folder)
    doomed = [path for path in folder.iterdir() if path.name != kept and (_is_attempt(path) or not finished)]
    if run.state != "done":
        doomed = [path for path in doomed if path.name != CHECKPOINT]
    for path in doomed:
        _remove(path)
    return doomed


def _put_by(run: Path) -> None:
    """Move the checkpoint of the newest attempt that has one to the run's folder, unless there is one.

    One that is there is newer: an attempt takes it with it when it begins.
    """
    having = [path for path in _attempts(run) if checkpoint_of(path).is_dir()]
    if having and not (run / CHECKPOINT).is_dir():
        checkpoint_of(max(having, key=_number)).rename(run / CHECKPOINT)


def _attempts(run: Path) -> list[Path]:
    return [path for path in run.iterdir() if _is_attempt(path)]


def _is_attempt(path: Path) -> bool:
    return path.name.startswith("attempt-") and path.suffix == PARTIAL


def _number(attempt: Path) -> int:
    number = attempt.stem.removeprefix("attempt-")
    return int(number) if number.isdecimal() else 0


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock on a folder, which the system gives back when its holder dies."""
    handle = _lock(folder)
    try:
        yield
    finally:
        os.close(handle)


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """The same for a folder that need not be there, or that somebody removes because it is empty."""
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            handle = _lock(folder)
            break
    try:
        yield
    finally:
        os.close(handle)


def _lock(folder: Path) -> int:
    """A handle that holds the lock on the folder of this name, not on one of that name that was removed meanwhile."""
    import fcntl

    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        if not os.path.samestat(os.fstat(handle), folder.stat()):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(folder))
    except BaseException:
        os.close(handle)
        raise
    return handle


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
