"""A service from its copy: into an empty folder and an empty database, of whichever kind."""

import hashlib
import json
import lzma
import re
import shutil
import tarfile
import uuid
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from sqlalchemy import Connection, select, update

from evenhand.errors import EvenhandError
from evenhand.files import cannot_write
from evenhand.service.storage.backup import FORMAT, SUMMARY
from evenhand.service.storage.database import Database
from evenhand.service.storage.home import ID, TABLES, Home
from evenhand.service.storage.projects import FIRST
from evenhand.service.storage.rows import put_lines, tables_of
from evenhand.service.storage.upgrade import known_revisions, revision, upgrade

MEMBER = re.compile(rf"{re.escape(SUMMARY)}|tables/[a-z_]+\.jsonl|files/(?:{'|'.join(TABLES)})/{ID.pattern}/.+")
PIECE = 1 << 20


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
            wanted = select(table).where(table.c.id != FIRST) if table.name == "projects" else select(table)
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
                found[entry.name] = _sha256(stream)
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
        return _sha256(stream)


def _sha256(stream: IO[bytes]) -> str:
    found = hashlib.sha256()
    while piece := stream.read(PIECE):
        found.update(piece)
    return found.hexdigest()
