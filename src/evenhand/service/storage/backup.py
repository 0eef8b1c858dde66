"""A copy of everything in one .tar file, made while the service works."""

import hashlib
import json
import os
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO, Any

from sqlalchemy import Connection

from evenhand.errors import EvenhandError
from evenhand.files import cannot_write
from evenhand.service.storage.database import Database
from evenhand.service.storage.home import TABLES, Home
from evenhand.service.storage.rows import lines_of, tables_of
from evenhand.service.storage.runs import OVER
from evenhand.service.storage.upgrade import revision, revision_of

FORMAT = "evenhand backup 1"
SUMMARY = "backup.json"
UNFINISHED = ".partial"  # how names of files end that are still being written
NOT_COPIED = "sign_ins"  # whoever opens a copy shall not be signed in as somebody; people sign in again


def backup(database: Database, home: Home, path: Path) -> dict[str, Any]:
    """Write a copy to `path`, whole or not at all; returns what is in it.

    The database is seen at one moment. Folders of runs that were not over then are left out: a restored service runs
    them again.
    """
    if revision(database) is None:
        raise EvenhandError("The database has no tables yet, so there is nothing to copy.")
    with _private(path) as temporary, _snapshot(database) as connection, tarfile.open(temporary, "w") as archive:
        copy = _Copy(archive, home)
        copy.add_folders(connection)
        copy.add_tables(connection)
        summary = {
            "format": FORMAT,
            "made": datetime.now(UTC).isoformat(timespec="seconds"),
            "revision": revision_of(connection),
            "rows": copy.rows,
            "files": copy.files,
            "left_out": sorted(f"{kind}/{known_as}" for kind, known_as in copy.gone),
        }
        with tempfile.TemporaryFile() as stream:
            stream.write(json.dumps(summary, indent=1).encode())
            copy.add_stream(SUMMARY, stream)
    return summary


@contextmanager
def _private(path: Path) -> Iterator[Path]:
    """Like `files.replacing`, but for the owner's eyes only: there are people in it."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=UNFINISHED, dir=path.parent)
        os.close(handle)
    except OSError as error:
        raise cannot_write(path, error) from error
    try:
        yield Path(name)
        Path(name).replace(path)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        Path(name).unlink(missing_ok=True)


@contextmanager
def _snapshot(database: Database) -> Iterator[Connection]:
    """A connection that sees the database as it is now, whatever others change. SQLite always reads so."""
    level = {} if database.is_sqlite else {"isolation_level": "REPEATABLE READ"}
    with database.engine.connect().execution_options(**level) as connection:
        yield connection


class _Copy:
    """An archive that is being written."""

    def __init__(self, archive: tarfile.TarFile, home: Home) -> None:
        self.archive, self.home = archive, home
        self.files: dict[str, str] = {}  # checksums by name
        self.rows: dict[str, int] = {}
        self.gone: set[tuple[str, str]] = set()  # their folders are not there: deleted since the snapshot

    def add_folders(self, connection: Connection) -> None:
        """The folders of what the database knows of."""
        for table in tables_of(connection):
            if table.name not in TABLES:
                continue
            wanted = table.select().where(table.c.state.in_(OVER)) if table.name == "runs" else table.select()
            for row in connection.execute(wanted).mappings().all():
                # A run that failed or was cancelled need not have left anything.
                self._add_folder(table.name, row["id"], needed=row.get("state", "done") == "done")

    def _add_folder(self, kind: str, known_as: str, needed: bool) -> None:
        folder = self.home.path / kind / known_as
        try:
            for file in sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()):
                if not any(part.endswith(UNFINISHED) for part in file.relative_to(folder).parts):
                    with file.open("rb") as stream:
                        self.add_stream(f"files/{kind}/{file.relative_to(self.home.path / kind)}", stream)
        except FileNotFoundError:
            self.gone.add((kind, known_as))
        if needed and not folder.is_dir():
            self.gone.add((kind, known_as))

    def add_tables(self, connection: Connection) -> None:
        """The rows, without those whose folder was deleted in the meantime."""
        for table in tables_of(connection):
            with tempfile.TemporaryFile() as stream:
                count = 0
                for line in lines_of(connection, table, partial(self._kept, table.name)):
                    stream.write(line.encode())
                    count += 1
                self.rows[table.name] = count
                self.add_stream(f"tables/{table.name}.jsonl", stream)

    def _kept(self, table: str, row: dict[str, Any]) -> dict[str, Any] | None:
        key = ("runs", row["run"]) if table == "events" else (table, row.get("id"))
        if table == NOT_COPIED or key in self.gone:
            return None
        return row | {"parent": None} if ("runs", row.get("parent")) in self.gone else row

    def add_stream(self, name: str, stream: IO[bytes]) -> None:
        """One file, with its checksum."""
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode, entry.mtime = stream.seek(0, 2), 0o600, int(datetime.now(UTC).timestamp())
        stream.seek(0)
        reader = _Hashing(stream)
        self.archive.addfile(entry, reader)
        self.files[name] = reader.hash.hexdigest()


class _Hashing:
    """Reads a stream and remembers its checksum."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream, self.hash = stream, hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        content = self.stream.read(size)
        self.hash.update(content)
        return content
