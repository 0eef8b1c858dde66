"""The folder where the service keeps its files: one folder for each run, data set and model, known by its id."""

import os
import shutil
import stat
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

from sqlalchemy import select

from evenhand.errors import EvenhandError
from evenhand.files import writable_folder
from evenhand.service.requests import ID
from evenhand.service.storage.database import Database
from evenhand.service.storage.tables import DataFile, ModelFile, Run

Kind = Literal["runs", "datasets", "models"]
TABLES: dict[Kind, type[Run] | type[DataFile] | type[ModelFile]] = {
    "runs": Run,
    "datasets": DataFile,
    "models": ModelFile,
}
GRACE_SECONDS = 3600.0  # a folder without an entry may belong to an upload that is not finished yet


def default_home() -> Path:
    """Where runs are kept: $EVENHAND_HOME, else the platform's usual place for data. It need not exist yet."""
    if chosen := os.environ.get("EVENHAND_HOME"):
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "evenhand" / "Data"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "evenhand"
    # The XDG rule: a relative path is to be ignored.
    xdg = Path(os.environ.get("XDG_DATA_HOME", ""))
    return (xdg if xdg.is_absolute() else Path.home() / ".local" / "share") / "evenhand"


def check_no_file(path: Path) -> None:
    """Refuse a home that can never be made, since a file stands where it or a folder above it should be."""
    there = next(place for place in (path.absolute(), *path.absolute().parents) if os.path.exists(place))  # noqa: PTH110 - Path.exists raises where it may not look
    if not there.is_dir():
        raise EvenhandError(f"{there} is a file, not a folder to keep runs in. Correct --home or $EVENHAND_HOME.")


class Home:
    """The folders of a service. Names are ids that we made ourselves; anything else is refused."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.uploads = self.path / "uploads"  # what is still being received
        self.trash = self.path / "trash"  # what is being deleted

    def make(self) -> None:
        """Make the folders, and find out now whether they can be written to. They are the owner's alone."""
        existed = self.path.exists()
        writable_folder(self.path)
        if not existed:
            self.path.chmod(0o700)
        for folder in (self.uploads, self.trash, *(self.path / kind for kind in TABLES)):
            keep_private(writable_folder(folder), 0o700)

    def run(self, run_id: str) -> Path:
        """The folder of a run's results."""
        return self.folder("runs", run_id)

    def dataset(self, dataset_id: str) -> Path:
        """The folder of an uploaded table."""
        return self.folder("datasets", dataset_id)

    def model(self, model_id: str) -> Path:
        """The folder of an uploaded model."""
        return self.folder("models", model_id)

    def folder(self, kind: Kind, known_as: str) -> Path:
        """A folder by what it holds and its id. It need not exist."""
        if not ID.fullmatch(known_as):
            raise EvenhandError(f"'{known_as[:80]}' is not an id. An id has 32 digits and letters a to f.")
        return self.path / kind / known_as

    def remove(self, folder: Path) -> None:
        """Delete a folder. It is moved away first, so that nobody ever finds half of it under its name."""
        doomed = self.trash / uuid.uuid4().hex
        try:
            folder.replace(doomed)
        except FileNotFoundError:
            return
        shutil.rmtree(doomed)

    def orphans(self, database: Database, grace: float = GRACE_SECONDS) -> list[Path]:
        """Folders that no entry in the database knows of, and rests of uploads and deletions."""
        old = [path for path in self._all() if _age(path) >= grace]
        with database.reading() as session:
            known = {kind: set(session.scalars(select(table.id))) for kind, table in TABLES.items()}
        kept = {self.path / kind / name for kind, names in known.items() for name in names}
        return sorted(path for path in old if path not in kept)

    def sweep(self, database: Database, grace: float = GRACE_SECONDS) -> list[Path]:
        """Remove all orphans; returns where they were."""
        found = self.orphans(database, grace)
        for path in found:
            self.remove(path) if path.parent != self.trash else shutil.rmtree(path, ignore_errors=True)
        return found

    def missing(self, database: Database) -> list[Path]:
        """Folders of data sets, models and finished runs that the database knows of but that are not there."""
        wanted = {
            "runs": select(Run.id).where(Run.state == "done"),
            "datasets": select(DataFile.id),
            "models": select(ModelFile.id),
        }
        with database.reading() as session:
            named = [self.path / kind / name for kind, query in wanted.items() for name in session.scalars(query)]
        return sorted(path for path in named if not path.is_dir())

    def _all(self) -> Iterator[Path]:
        for folder in (*(self.path / kind for kind in TABLES), self.uploads, self.trash):
            yield from folder.iterdir()


def keep_private(path: Path, mode: int) -> None:
    """Let nobody but the owner at it, whatever it was made with; what another user owns is theirs to protect."""
    if stat.S_IMODE(path.stat().st_mode) != mode:
        with suppress(PermissionError):
            path.chmod(mode)


def keep_database_private(database: Path) -> None:
    """The same for SQLite's file, made first where it is not there yet, and those that SQLite puts beside it.

    SQLite gives new ones the mode of the database.
    """
    with suppress(OSError):  # where it cannot be made, whoever opens it says why
        os.close(os.open(database, os.O_RDWR | os.O_CREAT, 0o600))
    for path in (database, *(database.with_name(database.name + ending) for ending in ("-wal", "-shm"))):
        with suppress(FileNotFoundError):
            keep_private(path, 0o600)


def _age(path: Path) -> float:
    """Seconds since the folder or a file right in it changed; what has just gone is young."""
    try:
        entries = [path, *path.iterdir()] if path.is_dir() else [path]
        newest = max(entry.stat().st_mtime for entry in entries)
    except FileNotFoundError:
        return -1.0
    return time.time() - newest
