"""The database's tables brought up to date: Alembic, run from the package, without a file of settings."""

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, text

from evenhand.errors import EvenhandError
from evenhand.service.storage.database import Database

if TYPE_CHECKING:
    from alembic.config import Config

SCRIPTS = Path(__file__).parent / "migrations"
UPGRADE_LOCK = 0x65_76_65_6E  # any number that others on the same PostgreSQL server are unlikely to use


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
