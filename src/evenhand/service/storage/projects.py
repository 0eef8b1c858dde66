"""Projects, which keep people's data apart."""

from sqlalchemy.exc import IntegrityError

from evenhand.service.storage.database import Database
from evenhand.service.storage.tables import Project


def ensure_project(database: Database, name: str) -> None:
    """Make the project of this id and name if there is none; another process may be doing the same."""
    with database.reading() as session:
        if session.get(Project, name) is not None:
            return
    try:
        with database.writing() as session:
            session.add(Project(id=name, name=name, created=database.now(session)))
    except IntegrityError:
        with database.reading() as session:
            if session.get(Project, name) is None:
                raise
