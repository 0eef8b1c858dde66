"""Is everything in the storage there, unharmed, and nothing else?"""

from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import func, select, text

from evenhand.service.storage.assets import Assets
from evenhand.service.storage.backup import file_sha256
from evenhand.service.storage.database import Database
from evenhand.service.storage.home import GRACE_SECONDS, Home
from evenhand.service.storage.tables import DataFile, ModelFile, Run


@dataclass(frozen=True)
class StorageProblem:
    """Something that is not as it should be."""

    where: str
    what: str
    remedy: str


def check(database: Database, home: Home, grace: float = GRACE_SECONDS) -> list[StorageProblem]:
    """All that is wrong with the storage. It reads every uploaded file once."""
    return [*_database_problems(database), *_folder_problems(database, home, grace), *_file_problems(database, home)]


def counts(database: Database) -> dict[str, int]:
    """How many runs, data sets and models there are."""
    tables = {"runs": Run, "data sets": DataFile, "models": ModelFile}
    with database.reading() as session:
        return {name: session.scalar(select(func.count()).select_from(table)) or 0 for name, table in tables.items()}


def _database_problems(database: Database) -> Iterator[StorageProblem]:
    """What SQLite says about its own file. PostgreSQL has programs of its own for that (pg_amcheck)."""
    if not database.is_sqlite:
        return
    with database.engine.connect() as connection:
        words = [str(row[0]) for row in connection.execute(text("PRAGMA integrity_check"))]
        for word in words if words != ["ok"] else []:
            yield StorageProblem(str(database.url.database), word, "Restore a copy: `evenhand storage restore`.")
        for row in connection.execute(text("PRAGMA foreign_key_check")):
            yield StorageProblem(f"{row[0]} {row[1]}", f"names a row of {row[2]} that is not there", "Restore a copy.")


def _folder_problems(database: Database, home: Home, grace: float) -> Iterator[StorageProblem]:
    for path in home.missing(database):
        yield StorageProblem(str(path), "the folder is missing", "Restore a copy, or delete the entry.")
    for path in home.orphans(database, grace):
        yield StorageProblem(str(path), "belongs to nothing", "Remove it: `evenhand storage check --sweep`.")


def _file_problems(database: Database, home: Home) -> Iterator[StorageProblem]:
    """Uploaded files whose content is not what was received."""
    assets = Assets(database, home)
    with database.reading() as session:
        files = [(assets.dataset_path(entry), entry.sha256) for entry in session.scalars(select(DataFile))]
        files += [(assets.model_path(entry), entry.sha256) for entry in session.scalars(select(ModelFile))]
    for path, checksum in files:
        if path.parent.is_dir() and (not path.is_file() or file_sha256(path) != checksum):
            yield StorageProblem(str(path), "is not the file that was uploaded", "Restore a copy, or upload it again.")
