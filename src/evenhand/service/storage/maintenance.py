"""Is everything there, unharmed, and nothing else? And copies, for the day when it is not."""

from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import func, select, text

from evenhand.service.storage.assets import Assets
from evenhand.service.storage.backup import backup, check_copy, file_sha256, restore
from evenhand.service.storage.database import Database
from evenhand.service.storage.home import GRACE_SECONDS, Home
from evenhand.service.storage.tables import DataFile, ModelFile, Run

__all__ = ["Problem", "backup", "check", "check_copy", "counts", "restore"]


@dataclass(frozen=True)
class Problem:
    """Something that is not as it should be."""

    where: str
    what: str
    remedy: str


def check(database: Database, home: Home, grace: float = GRACE_SECONDS) -> list[Problem]:
    """All that is wrong with the storage. It reads every uploaded file once."""
    return [*_database_problems(database), *_folder_problems(database, home, grace), *_file_problems(database, home)]


def counts(database: Database) -> dict[str, int]:
    """How many runs, data sets and models there are."""
    tables = {"runs": Run, "data sets": DataFile, "models": ModelFile}
    with database.reading() as session:
        return {name: session.scalar(select(func.count()).select_from(table)) or 0 for name, table in tables.items()}


def _database_problems(database: Database) -> Iterator[Problem]:
    """What SQLite says about its own file. PostgreSQL has programs of its own for that (pg_amcheck)."""
    if not database.is_sqlite:
        return
    with database.engine.connect() as connection:
        words = [str(row[0]) for row in connection.execute(text("PRAGMA integrity_check"))]
        for word in words if words != ["ok"] else []:
            yield Problem(str(database.url.database), word, "Restore a copy: `evenhand storage restore`.")
        for row in connection.execute(text("PRAGMA foreign_key_check")):
            yield Problem(f"{row[0]} {row[1]}", f"names a row of {row[2]} that is not there", "Restore a copy.")


def _folder_problems(database: Database, home: Home, grace: float) -> Iterator[Problem]:
    for path in home.missing(database):
        yield Problem(str(path), "the folder is missing", "Restore a copy, or delete the entry.")
    for path in home.orphans(database, grace):
        yield Problem(str(path), "belongs to nothing", "Remove it: `evenhand storage check --sweep`.")


def _file_problems(database: Database, home: Home) -> Iterator[Problem]:
    """Uploaded files whose content is not what was received."""
    assets = Assets(database, home)
    with database.reading() as session:
        files = [(assets.dataset_path(entry), entry.sha256) for entry in session.scalars(select(DataFile))]
        files += [(assets.model_path(entry), entry.sha256) for entry in session.scalars(select(ModelFile))]
    for path, checksum in files:
        if path.parent.is_dir() and (not path.is_file() or file_sha256(path) != checksum):
            yield Problem(str(path), "is not the file that was uploaded", "Restore a copy, or upload it again.")
