"""One database, SQLite or PostgreSQL: transactions that read or write, and tables that Alembic brings up to date."""

import math
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, create_engine, event, func, select, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import (
    ArgumentError,
    DataError,
    IntegrityError,
    NoSuchModuleError,
    OperationalError,
    ProgrammingError,
    SQLAlchemyError,
)
from sqlalchemy.orm import Session

from evenhand.errors import EvenhandError

if TYPE_CHECKING:
    from alembic.config import Config

BUSY_SECONDS = 30  # how long SQLite waits for another writer
LOCKED_SECONDS = 0.02  # between two tries where it does not wait by itself
CONNECT_SECONDS = 10
KINDS = ("sqlite", "postgresql")
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
REFUSED = (DataError, IntegrityError, ProgrammingError)  # the database answers, and will say the same the next time
SCRIPTS = Path(__file__).parent / "migrations"
UPGRADE_LOCK = 0x65_76_65_6E  # any number that others on the same PostgreSQL server are unlikely to use


def storable(value: Any) -> Any:
    """JSON that every database takes: PostgreSQL knows neither the character NUL nor numbers that are none."""
    if isinstance(value, str):
        return value.replace("\0", REPLACEMENT).encode(errors="replace").decode()  # half a character is refused too
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {storable(key): storable(item) for key, item in value.items()}
    return [storable(item) for item in value] if isinstance(value, list | tuple) else value


def sqlite_file(url: str) -> Path | None:
    """The file of a SQLite database; None: it has none, or its address tells only the database."""
    try:
        parts = make_url(url)
    except ArgumentError:
        return None
    is_path = parts.get_backend_name() == "sqlite" and parts.database and not parts.database.startswith("file:")
    return Path(str(parts.database)) if is_path else None


class Database:
    """Opens sessions. `writing` holds SQLite's write lock from its beginning, so that a read before a write is safe."""

    def __init__(self, url: str) -> None:
        try:
            self.url = make_url(url)
            if self.url.get_backend_name() not in KINDS:
                raise ArgumentError(f"{self.url.get_backend_name()} is not one of {', '.join(KINDS)}")
            patience = {"connect_timeout": CONNECT_SECONDS} if self.url.get_backend_name() == "postgresql" else {}
            self.engine = create_engine(self.url, pool_pre_ping=True, connect_args=patience, hide_parameters=True)
        except ModuleNotFoundError as error:
            raise EvenhandError(
                f'PostgreSQL needs {error.name}, which is not installed. Run `pip install "evenhand[postgres]"`.'
            ) from error
        except (ArgumentError, NoSuchModuleError) as error:
            raise EvenhandError(
                f"The database '{url.partition('@')[2] or url}' cannot be used: {error}. Write "
                "sqlite:///PATH or postgresql+psycopg://USER@HOST/NAME."
            ) from error
        self.is_sqlite = self.engine.dialect.name == "sqlite"
        if self.is_sqlite:
            event.listen(self.engine, "connect", _prepare_sqlite)
            event.listen(self.engine, "begin", _begin_sqlite)
        self._writing = self.engine.execution_options(evenhand_writes=True)

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """A session that sees one state of the database and changes nothing."""
        with Session(self.engine, expire_on_commit=False) as session:
            yield session  # closed, not rolled back: a rollback would empty the objects that were read

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """A session whose changes are kept together, or not at all where the block fails."""
        with Session(self._writing, expire_on_commit=False) as session, session.begin():
            yield session

    @contextmanager
    def begin_writing(self) -> Iterator[Connection]:
        """The same as a plain connection."""
        with self._writing.begin() as connection:
            yield connection

    def now(self, session: Session) -> datetime:
        """The database's own clock where it has one, since the clocks of several workers differ."""
        if self.is_sqlite:
            return datetime.now(UTC)
        moment = session.scalar(select(func.clock_timestamp()))
        assert isinstance(moment, datetime)
        return moment.astimezone(UTC)

    def answers(self) -> bool:
        """Whether the database can be asked at all."""
        try:
            with self.engine.connect() as connection:
                connection.execute(text("select 1"))
        except Exception:
            return False
        return True

    def check_answers(self) -> None:
        """Say what is wrong where the database cannot be asked."""
        try:
            with self.engine.connect() as connection:
                connection.execute(text("select 1"))
        except SQLAlchemyError as error:
            reason = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
            shown = self.url.render_as_string(hide_password=True)
            raise EvenhandError(f"The database {shown} does not answer: {reason}. {self._remedy(error)}") from error

    def _remedy(self, error: SQLAlchemyError) -> str:
        """What to do about a database that does not answer. A file cannot be started."""
        if not self.is_sqlite:
            return "Start it or correct --database."
        if "locked" in str(getattr(error, "orig", "")):
            return "Another process is writing to it: try again when that has ended."
        if isinstance(error, OperationalError):  # it cannot be got at
            return "Check where it is and who may write there, or choose another --home or --database."
        return (
            "Restore a backup into a new folder (`evenhand storage restore FILE --home DIR`), or choose another --home "
            "or --database."
        )

    def close(self) -> None:
        """Give all connections back."""
        self.engine.dispose()


def _prepare_sqlite(connection: Any, record: Any) -> None:  # noqa: ARG001 - SQLAlchemy hands both over
    """Write-ahead log, so that readers and a writer do not wait for each other; foreign keys; begin by ourselves."""
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in (f"busy_timeout={BUSY_SECONDS * 1000}", "synchronous=FULL", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    _log_ahead(cursor)
    cursor.close()


def _log_ahead(cursor: sqlite3.Cursor) -> None:
    """Where others open the same new file SQLite refuses this at once, whatever its busy timeout."""
    end = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > end:
                raise
            time.sleep(LOCKED_SECONDS)
        else:
            return


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("evenhand_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def upgrade(database: Database, to: str = "head") -> None:
    """Bring the tables up to date in one transaction; several processes may ask for it at once."""
    from alembic import command

    with database.begin_writing() as connection:
        if not database.is_sqlite:
            connection.execute(text("select pg_advisory_xact_lock(:key)"), {"key": UPGRADE_LOCK})
        config = _config()
        config.attributes["connection"] = connection
        command.upgrade(config, to)


def revision(database: Database) -> str | None:
    """The version of the tables; None: there are none yet."""
    with database.engine.connect() as connection:
        return revision_of(connection)


def newest_revision() -> str:
    """The version of the tables that this evenhand works with."""
    from alembic.script import ScriptDirectory

    head = ScriptDirectory.from_config(_config()).get_current_head()
    assert head is not None
    return head


def check_revision(database: Database) -> None:
    """Refuse to work with tables of another version."""
    found, wanted = revision(database), newest_revision()
    if found == wanted:
        return
    shown = database.url.render_as_string(hide_password=True)
    if found is None:
        raise EvenhandError(f"The database {shown} has no tables yet. Run `evenhand storage upgrade`.")
    check_if_newer(database)
    raise EvenhandError(
        f"The database {shown} has the tables of an older evenhand (version {found}, now {wanted}). Make a copy with "
        "`evenhand storage backup`, then run `evenhand storage upgrade`."
    )


def check_if_newer(database: Database) -> None:
    """Refuse tables of a version that this evenhand has never heard of."""
    found = revision(database)
    if found is not None and found not in known_revisions():
        shown = database.url.render_as_string(hide_password=True)
        raise EvenhandError(
            f"The database {shown} was made by a newer evenhand (its version is {found}, this one knows "
            f"{newest_revision()}). Upgrade evenhand."
        )


def known_revisions() -> list[str]:
    """All versions, from the first to the newest."""
    from alembic.script import ScriptDirectory

    return [script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()][::-1]


def revision_of(connection: Connection) -> str | None:
    """The same, over a connection that is open already."""
    from alembic.migration import MigrationContext

    return MigrationContext.configure(connection).get_current_revision()


def _config() -> "Config":
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
