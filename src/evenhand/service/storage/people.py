"""Who somebody is and what they may do: roles, and users as the rest of the service knows them."""

from dataclasses import dataclass
from typing import Literal

from sqlalchemy import select
from sqlalchemy.orm import Session

from evenhand.errors import EvenhandError, unknown_name
from evenhand.service.storage.passwords import NAME, plain_name
from evenhand.service.storage.tables import Member, Project, User

Role = Literal["viewer", "auditor", "admin"]
ROLES: tuple[Role, ...] = ("viewer", "auditor", "admin")  # each may do what those before it may


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


def found_user(session: Session, name: str, *, locked: bool = False) -> User:
    """The user of a name; locked: nobody else changes it until the transaction ends."""
    user = user_or_none(session, name, locked=locked)
    if user is None:
        raise EvenhandError(f"There is no user {name[:100]!r}. `evenhand users list` shows all.")
    return user


def user_or_none(session: Session, name: str, *, locked: bool = False) -> User | None:
    """The user of a name, if there is one."""
    if NAME.fullmatch(plain_name(name)) is None:
        return None
    wanted = select(User).where(User.name == plain_name(name))
    return session.scalar(wanted.with_for_update() if locked else wanted)


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
