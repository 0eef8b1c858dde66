"""A copy of everything in one .tar file, made while the service works, and a service made from such a copy.

Rows are lines of JSON, the same for every database, so that a copy of one kind can be restored into the other.
"""

import hashlib
import json
import lzma
import os
import re
import shutil
import tarfile
import tempfile
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Any

from sqlalchemy import Connection, DateTime, MetaData, Table, func, insert, select, text, update

from evenhand.errors import EvenhandError
from evenhand.files import cannot_write
from evenhand.service.requests import ID
from evenhand.service.storage.database import Database, known_revisions, revision, revision_of, upgrade
from evenhand.service.storage.home import TABLES, Home
from evenhand.service.storage.projects import DEFAULT_PROJECT
from evenhand.service.storage.runs import OVER

VERSION_TABLE = "alembic_version"
BATCH = 500
FORMAT = "evenhand backup 1"
SUMMARY = "backup.json"
UNFINISHED = ".partial"  # how names of files end that are still being written
NOT_COPIED = "sign_ins"  # whoever opens a copy shall not be signed in as somebody; people sign in again
MEMBER = re.compile(rf"{re.escape(SUMMARY)}|tables/[a-z_]+\.jsonl|files/(?:{'|'.join(TABLES)})/{ID.pattern}/.+")
Row = dict[str, Any]


def tables_of(connection: Connection) -> list[Table]:
    """The tables as the database has them, which may be those of another version; those first that others name."""
    metadata = MetaData()
    metadata.reflect(connection)
    return [table for table in metadata.sorted_tables if table.name != VERSION_TABLE]


def lines_of(connection: Connection, table: Table, kept: Callable[[Row], Row | None]) -> Iterator[str]:
    """A table's rows, one line each, in an order in which they can be put back: a run's parent is older than it.

    `kept` says what is kept of a row; None: nothing.
    """
    order = [table.c[name] for name in ("created", "id") if name in table.c]
    rows = connection.execution_options(yield_per=BATCH).execute(select(table).order_by(*order))
    for row in rows.mappings():
        content = kept(dict(row))
        if content is not None:
            yield json.dumps(content, default=_as_text, ensure_ascii=False) + "\n"


def put_lines(connection: Connection, table: Table, lines: Iterable[str]) -> None:
    """Put rows back."""
    moments = [column.name for column in table.c if isinstance(column.type, DateTime)]
    aware = connection.dialect.name != "sqlite"
    rows = map(json.loads, lines)
    while batch := list(islice(rows, BATCH)):
        for row in batch:
            row.update({name: _moment(row[name], aware) for name in moments if row[name] is not None})
        connection.execute(insert(table), batch)
    _count_on(connection, table)


def _count_on(connection: Connection, table: Table) -> None:
    """PostgreSQL's counters do not notice ids that were put in by hand."""
    counted = table.autoincrement_column
    if connection.dialect.name != "postgresql" or counted is None or counted.server_default is None:
        return
    last = connection.scalar(select(func.max(counted)))
    if last is not None:
        counter = "select setval(pg_get_serial_sequence(:table, :column), :last)"
        connection.execute(text(counter), {"table": table.name, "column": counted.name, "last": last})


def _as_text(value: Any) -> str:
    assert isinstance(value, date)
    if isinstance(value, datetime):  # SQLite forgets the time zone, which is UTC
        return (value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)).isoformat()
    return value.isoformat()


def _moment(text: str, aware: bool) -> datetime:
    moment = datetime.fromisoformat(text).astimezone(UTC)
    return moment if aware else moment.replace(tzinfo=None)


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


def restore(database: Database, home: Home, path: Path, known: dict[str, Any] | None = None) -> dict[str, Any]:
    """Bring back what `backup` wrote, and the tables up to date; returns what was in it.

    `known` is what `check_copy` returned, where it was asked before: a large copy need not be read once more.
    """
    summary = check_copy(path) if known is None else known
    _check_empty(database)
    staging = home.uploads / uuid.uuid4().hex
    try:
        _unpack(path, staging)
        if revision(database) is None:
            upgrade(database, to=summary["revision"])
        elif revision(database) != summary["revision"]:
            raise EvenhandError(
                f"The copy has tables of the version {summary['revision']}, the database of {revision(database)}. "
                "Restore into a database without tables."
            )
        with database.begin_writing() as connection:
            _put_rows(connection, staging)
            _put_folders(connection, home, staging)
    except OSError as error:
        raise cannot_write(home.path, error) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    upgrade(database)
    return summary


def _check_empty(database: Database) -> None:
    """Two services cannot be mixed, and nothing is ever overwritten. Only the first project is there from the start."""
    with database.engine.connect() as connection:
        for table in tables_of(connection):
            wanted = select(table).where(table.c.id != DEFAULT_PROJECT) if table.name == "projects" else select(table)
            if connection.execute(wanted.limit(1)).first() is not None:
                raise EvenhandError(
                    f"The database is not empty: '{table.name}' has entries, which a copy must not overwrite. "
                    "Restore into a new folder (--home) and an empty database (--database)."
                )


def _is_ours(name: str) -> bool:
    """Whether an entry has a name that a backup writes, and stays in the folder that it is written to."""
    return MEMBER.fullmatch(name) is not None and ".." not in name.split("/")


def _write(archive: tarfile.TarFile, entry: tarfile.TarInfo, to: Path) -> None:
    """One file of the archive, its content and nothing else; tarfile's own safe way needs a newer Python."""
    source = archive.extractfile(entry)
    assert source is not None
    to.parent.mkdir(parents=True, exist_ok=True)
    with source, to.open("wb") as target:
        shutil.copyfileobj(source, target)


def check_copy(path: Path) -> dict[str, Any]:
    """Read all of a copy and refuse one that is not whole; nothing is written. Returns its summary."""
    content, found = b"", dict[str, str]()
    with _reading(path) as archive:
        for entry in _entries(archive, path):
            stream = archive.extractfile(entry)
            assert stream is not None
            if entry.name == SUMMARY:
                content = stream.read()
            else:
                found[entry.name] = hashlib.file_digest(stream, "sha256").hexdigest()  # type: ignore[arg-type]  # it has readinto
    summary = _summary(path, content)
    for name, checksum in summary["files"].items():
        if found.get(name) != checksum:
            raise EvenhandError(f"{path} is damaged: {name} is not what was written. Use another copy.")
    return summary


def _unpack(path: Path, staging: Path) -> None:
    with tarfile.open(path) as archive:
        for entry in _entries(archive, path):
            _write(archive, entry, staging / entry.name)


def _entries(archive: tarfile.TarFile, path: Path) -> Iterator[tarfile.TarInfo]:
    """What a copy holds, one after another; anything that a backup does not write is refused."""
    for entry in archive:
        if not (entry.isfile() and _is_ours(entry.name)):
            raise EvenhandError(f"{path} is no copy that evenhand made: it holds '{entry.name[:80]}'.")
        yield entry


@contextmanager
def _reading(path: Path) -> Iterator[tarfile.TarFile]:
    """An archive that is read, and words for what is wrong with it."""
    try:
        with tarfile.open(path) as archive:
            yield archive
    except OSError as error:
        raise EvenhandError(f"Cannot read {path}: {error.strerror or error}.") from error
    except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise EvenhandError(
            f"{path} is damaged, or no .tar file. Name a file that `evenhand storage backup` wrote."
        ) from error


def _summary(path: Path, content: bytes) -> dict[str, Any]:
    if not content:
        raise EvenhandError(f"{path} is no copy that evenhand made, or it is cut off: it has no {SUMMARY}.")
    try:
        summary = json.loads(content)
    except ValueError as error:
        raise EvenhandError(f"{path} is damaged: its {SUMMARY} cannot be read. Use another copy.") from error
    if not isinstance(summary, dict):
        raise EvenhandError(f"{path} is no copy that evenhand made: its {SUMMARY} holds no facts about one.")
    if summary.get("format") != FORMAT or summary.get("revision") not in known_revisions():
        raise EvenhandError(f"{path} was made by a newer evenhand. Install that one to restore it.")
    if not isinstance(summary.get("files"), dict):
        raise EvenhandError(f"{path} is damaged: its {SUMMARY} does not list its files. Use another copy.")
    return summary


def _put_rows(connection: Connection, staging: Path) -> None:
    for table in tables_of(connection):
        connection.execute(table.delete())  # the default project, which is in the copy too
    for table in tables_of(connection):
        source = staging / "tables" / f"{table.name}.jsonl"
        with source.open(encoding="utf-8") as lines:
            put_lines(connection, table, lines)
        if table.name == "runs":  # nobody works on them any more
            held = table.c.state.in_(("running", "cancelling"))
            values = {"state": "interrupted", "worker": None, "lease_until": None}
            connection.execute(update(table).where(held).values(values))


def _put_folders(connection: Connection, home: Home, staging: Path) -> None:
    """The folders of what there is; what was deleted while the copy was made may have left some files in it."""
    for table in tables_of(connection):
        source = staging / "files" / table.name
        for known_as in connection.scalars(select(table.c.id)) if source.is_dir() else ():
            if (source / known_as).is_dir():
                (source / known_as).rename(home.path / table.name / known_as)


def file_sha256(path: Path) -> str:
    """A file's checksum."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
