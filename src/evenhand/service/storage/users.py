"""Users: made, changed, deleted; and their roles in projects."""

import uuid
from typing import Literal

from sqlalchemy import delete, exists, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from evenhand.errors import EvenhandError, unknown_name
from evenhand.service.storage.database import Database
from evenhand.service.storage.passwords import check_new_password, checked_name, hashed
from evenhand.service.storage.people import (
    Person,
    Role,
    checked_role,
    found_project,
    found_user,
    hold_project,
    person_of,
    role_of,
)
from evenhand.service.storage.tables import Member, Project, SignIn, Token, User

GIVEN = ("viewer", "auditor")  # roles in a project; an admin is one everywhere
HERE = User.admin & ~User.disabled


class Users:
    """The users of a database."""

    database: Database

    def any(self) -> bool:
        """Whether there is a user at all."""
        with self.database.reading() as session:
            return bool(session.scalar(select(exists().where(User.id.is_not(None)))))

    def has_admin(self) -> bool:
        """Whether there is an admin who can sign in."""
        with self.database.reading() as session:
            return bool(session.scalar(select(exists().where(HERE))))

    def add_user(self, name: str, password: str, *, admin: bool = False) -> Person:
        """A new user, who may do nothing yet unless they are an admin."""
        name = checked_name(name)
        check_new_password(name, password)
        stored = hashed(password)
        try:
            with self.database.writing() as session:
                user = User(id=uuid.uuid4().hex, name=name, password=stored, admin=admin, disabled=False)
                user.created = self.database.now(session)
                session.add(user)
        except IntegrityError as error:
            raise EvenhandError(f"There is a user '{name}' already. Choose another name.") from error
        return person_of(user)

    def users(self) -> list[User]:
        """All users, by name."""
        with self.database.reading() as session:
            return list(session.scalars(select(User).order_by(User.name)))

    def user(self, name: str) -> User:
        """One user."""
        with self.database.reading() as session:
            return found_user(session, name)

    def set_password(self, name: str, password: str) -> None:
        """Change a password. Whoever knew the old one is out: sign-ins end, and all tokens are revoked."""
        check_new_password(name, password)
        stored = hashed(password)
        with self.database.writing() as session:
            user = found_user(session, name, locked=True)
            user.password = stored
            self._shut_out(session, user)

    def set_admin(self, name: str, admin: bool) -> None:
        """Let a user do everything everywhere, or not any more."""
        with self.database.writing() as session:
            user = _found_unless_last(session, name) if not admin else found_user(session, name, locked=True)
            user.admin = admin

    def set_disabled(self, name: str, disabled: bool) -> None:
        """Keep a user out, or let them in again. Being kept out ends their sign-ins and revokes all their tokens."""
        with self.database.writing() as session:
            user = _found_unless_last(session, name) if disabled else found_user(session, name, locked=True)
            user.disabled = disabled
            if disabled:
                self._shut_out(session, user)

    def delete_user(self, name: str) -> None:
        """Delete a user, with roles, sign-ins and tokens. What they made stays, and so does the log."""
        with self.database.writing() as session:
            session.delete(_found_unless_last(session, name))

    def set_role(self, name: str, project_id: str, role: Literal["viewer", "auditor"] | None) -> None:
        """Say what a user may do in a project; None: nothing."""
        if role is not None and role not in GIVEN:
            raise unknown_name("role in a project", role, GIVEN)
        with self.database.writing() as session:
            project = found_project(session, project_id)
            hold_project(session, project.id)
            user = found_user(session, name, locked=True)
            member = session.get(Member, (user.id, project.id))
            if role is None and member is not None:
                session.delete(member)
            elif role is not None:
                session.merge(Member(user=user.id, project=project.id, role=role))

    def members(self, project_id: str) -> list[tuple[User, Role]]:
        """Who was given a role in a project, by name. Admins, who need none, are not listed."""
        wanted = select(User, Member.role).join(Member, Member.user == User.id).where(Member.project == project_id)
        with self.database.reading() as session:
            return [(user, checked_role(role)) for user, role in session.execute(wanted.order_by(User.name))]

    def projects_of(self, person: Person) -> list[tuple[Project, Role]]:
        """The projects in which somebody may do something, by name, with what; an admin: all of them."""
        with self.database.reading() as session:
            if person.admin:
                return [(project, "admin") for project in session.scalars(select(Project).order_by(Project.name))]
            wanted = select(Project, Member.role).join(Member, Member.project == Project.id)
            rows = session.execute(wanted.where(Member.user == person.id).order_by(Project.name))
            return [(project, checked_role(role)) for project, role in rows]

    def role_in(self, person: Person, project_id: str) -> Role | None:
        """What somebody may do in a project; None: nothing, or there is no such project."""
        with self.database.reading() as session:
            return role_of(session, person, project_id)

    def _shut_out(self, session: Session, user: User) -> None:
        """Let nothing count any more that was had with the password; who has to go on makes new tokens."""
        session.execute(delete(SignIn).where(SignIn.user == user.id))
        working = update(Token).where(Token.user == user.id, Token.revoked.is_(None))
        session.execute(working.values(revoked=self.database.now(session)))


def _found_unless_last(session: Session, name: str) -> User:
    """A user who is about to lose what an admin has; the last admin who can sign in is refused.

    All admins are locked, in one order: of two that are demoted at the same moment, the second one sees the first.
    """
    admins = list(session.scalars(select(User).where(HERE).order_by(User.id).with_for_update()))
    user = found_user(session, name, locked=True)
    if [admin.id for admin in admins] == [user.id]:
        raise EvenhandError(f"'{user.name}' is the last admin. Make another user an admin first.")
    return user
