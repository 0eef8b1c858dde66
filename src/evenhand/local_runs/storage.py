"""The storage as a command in a terminal opens it: quickly, and with words for what stands in the way."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from evenhand.errors import EvenhandError
from evenhand.service.settings import Service, Settings
from evenhand.service.storage.database import SCRIPTS, Database
from evenhand.service.storage.projects import DEFAULT_PROJECT, ensure_project

AROUND = "To write the files to a folder of your own and keep nothing in the storage, say --out DIR."


def opened(settings: Settings) -> Service:
    """The storage. Alembic takes long to import, so it is asked only where the tables are not those of this version."""
    service = settings.storage()
    try:
        if _version(service.database) == _newest_version():
            ensure_project(service.database, DEFAULT_PROJECT)
            return service
    except BaseException:
        service.close()
        raise
    service.close()
    return settings.open()


def _version(database: Database) -> str | None:
    """The version of the tables, as Alembic notes it; None: there are none."""
    try:
        with database.engine.connect() as connection:
            found: str | None = connection.scalar(text("select version_num from alembic_version"))
    except SQLAlchemyError:
        return None
    return found


def _newest_version() -> str:
    """The newest migration by the names of their files, which begin with v and the version."""
    return max(path.name for path in (SCRIPTS / "versions").glob("v*_*.py"))[1:].partition("_")[0]


def first_line(error: SQLAlchemyError) -> str:
    """What a database said."""
    return str(getattr(error, "orig", None) or error).strip().splitlines()[0]


@contextmanager
def with_a_way_around() -> Iterator[None]:
    """An error of the storage's, with what to do where it cannot be mended now."""
    try:
        yield
    except SQLAlchemyError as error:
        raise EvenhandError(f"The run cannot be stored: the database says: {first_line(error)}. {AROUND}") from error
    except EvenhandError as error:
        raise EvenhandError(f"{error} {AROUND}") from error
