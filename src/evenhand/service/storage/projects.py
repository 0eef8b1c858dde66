"""Projects, which keep people's data apart, and the roles that people have in them."""

import uuid
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import delete, func, or_, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from evenhand.errors import EvenhandError, unknown_name
from evenhand.service.requests import ID
from evenhand.service.storage.database import Database
from evenhand.service.storage.home import TABLES, Home
from evenhand.service.storage.log import one_line
from evenhand.service.storage.tables import Member, Project, Run, User

Role = Literal["viewer", "auditor", "admin"]
ROLES: tuple[Role, ...] = ("viewer", "auditor", "admin")  # each may do what those before it may
DEFAULT_PROJECT = "default"  # always there; the only one whose id is a word
LONGEST_NAME = 100


class NoSuchProject(EvenhandError):  # noqa: N818 - it may have been there a moment ago
    """There is no project of this id, or not any more."""


@dataclass(frozen=True)
class Person:
    """A user without the password's hash."""

    id: str
    name: str
    admin: bool


def person_of(user: User) -> Person:
    """The user as others may see them."""
    return Person(user.id, user.name, user.admin)


def at_least(role: Role | None, wanted: Role) -> bool:
    """Whether a role allows what `wanted` does."""
    return role is not None and ROLES.index(role) >= ROLES.index(wanted)


def lower_of(first: Role, second: Role) -> Role:
    """The role that allows less."""
    return min(first, second, key=ROLES.index)


def checked_role(role: str) -> Role:
    """A role by its name."""
    if role not in ROLES:
        raise unknown_name("role", role, ROLES)
    return role


def found_project(session: Session, project_id: str, *, locked: bool = False) -> Project:
    """The project of an id."""
    project = session.get(Project, project_id, with_for_update=locked) if project_id.isprintable() else None
    if project is None:
        raise NoSuchProject(f"There is no project {project_id[:100]!r}. `evenhand projects list` shows all.")
    return project


def hold_project(session: Session, project_id: str) -> None:
    """Keep a project from being deleted until the transaction has put something into it; one that is gone is refused.

    It is held before anything that is in it, in the order in which `Projects.delete` does.
    """
    held = {"read": True, "key_share": True}
    if not project_id.isprintable() or session.get(Project, project_id, with_for_update=held) is None:
        raise NoSuchProject(f"The project {project_id[:100]!r} is not there any more.")


def role_of(session: Session, person: Person | User, project_id: str) -> Role | None:
    """What somebody may do in a project; None: nothing, or there is no such project."""
    if not project_id.isprintable():
        return None
    if person.admin:
        return "admin" if session.get(Project, project_id) is not None else None
    member = session.get(Member, (person.id, project_id))
    return None if member is None else checked_role(member.role)


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


class Projects:
    """The projects of a service, and what is in them when they are deleted."""

    def __init__(self, database: Database, home: Home) -> None:
        self.database, self.home = database, home

    def add(self, name: str) -> Project:
        """A new project, which only admins see until others are given a role in it."""
        name = _checked_name(name)
        try:
            with self.database.writing() as session:
                project = Project(id=uuid.uuid4().hex, name=name, created=self.database.now(session))
                session.add(project)
        except IntegrityError as error:
            raise _taken(name) from error
        return project

    def all(self) -> list[Project]:
        """All projects, by name."""
        with self.database.reading() as session:
            return list(session.scalars(select(Project).order_by(Project.name)))

    def get(self, known_as: str) -> Project:
        """One project, by its id or its name."""
        with self.database.reading() as session:
            wanted = select(Project).where(or_(Project.id == known_as, Project.name == known_as))
            found = list(session.scalars(wanted)) if known_as.isprintable() else []
            if not found:
                raise EvenhandError(f"There is no project {known_as[:100]!r}. `evenhand projects list` shows all.")
            return found[0]

    def rename(self, project_id: str, name: str) -> Project:
        """Give a project another name; its id stays."""
        name = _checked_name(name, project_id)
        try:
            with self.database.writing() as session:
                project = found_project(session, project_id, locked=True)
                project.name = name
        except IntegrityError as error:
            raise _taken(name) from error
        return project

    def counts(self, project_id: str) -> dict[str, int]:
        """How many runs, data sets and models a project has, by the names of their tables."""
        with self.database.reading() as session:
            return {
                kind: session.scalar(select(func.count()).where(table.project == project_id)) or 0
                for kind, table in TABLES.items()
            }

    def delete(self, project_id: str) -> Project:
        """Delete a project with all that is in it: first the entries, then the folders of its files.

        Folders that a crash leaves behind belong to nothing any more, and are swept away later.
        """
        if project_id == DEFAULT_PROJECT:
            raise EvenhandError(f"The project '{DEFAULT_PROJECT}' is always there. Delete what is in it instead.")
        with self.database.writing() as session:
            project = found_project(session, project_id, locked=True)  # so nothing is added to it from here on
            _check_idle(session, project)
            folders = [
                self.home.folder(kind, known_as)
                for kind, table in TABLES.items()
                for known_as in session.scalars(select(table.id).where(table.project == project_id))
            ]
            session.execute(delete(Project).where(Project.id == project_id))  # the rest goes with it, by foreign keys
        for folder in folders:
            self.home.remove(folder)
        return project


def _check_idle(session: Session, project: Project) -> None:
    """Refuse while somebody works on a run; those that wait are locked, so that nobody begins with one."""
    runs = session.execute(select(Run.id, Run.state).where(Run.project == project.id).with_for_update()).all()
    busy = [run.id for run in runs if run.state in ("running", "cancelling")]
    if busy:
        raise EvenhandError(
            f"The project '{project.name}' has runs that are not over, for instance {busy[0]}. Cancel them first, and "
            "wait until they have ended."
        )


def _checked_name(name: str, project_id: str | None = None) -> str:
    """A name that can be shown, and that is no other project's id."""
    shown = one_line(name)
    if not 1 <= len(shown) <= LONGEST_NAME:
        raise EvenhandError(f"A project's name has 1 to {LONGEST_NAME} characters; {name[:120]!r} has {len(shown)}.")
    if shown != project_id and (shown == DEFAULT_PROJECT or ID.fullmatch(shown)):
        raise EvenhandError(f"'{shown}' could be mistaken for a project's id. Choose another name.")
    return shown


def _taken(name: str) -> EvenhandError:
    return EvenhandError(f"There is a project '{name}' already. Choose another name.")
