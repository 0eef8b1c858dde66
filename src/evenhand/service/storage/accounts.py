"""Accounts: users with their passwords and roles, sign-ins of browsers, tokens of programs."""

import hashlib
import secrets
import uuid
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Literal

from sqlalchemy import delete, exists, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from evenhand.errors import EvenhandError, unknown_name
from evenhand.service.storage.database import Database
from evenhand.service.storage.log import one_line
from evenhand.service.storage.passwords import (
    NAME,
    REFUSED,
    SIGNED_IN,
    SignInRefused,
    check_new_password,
    check_tries,
    checked_name,
    hash_of,
    is_outdated,
    matches,
    note_try,
    one_at_a_time,
    plain_name,
)
from evenhand.service.storage.projects import (
    NoSuchProject,
    Person,
    Role,
    at_least,
    checked_role,
    found_project,
    hold_project,
    lower_of,
    person_of,
    role_of,
)
from evenhand.service.storage.tables import Member, Project, SignIn, Token, User

PROJECT_ROLES = ("viewer", "auditor")  # roles in a project; an admin is one everywhere
ACTIVE_ADMIN = User.admin & ~User.disabled
SIGN_IN_LASTS = timedelta(hours=12)
UNUSED_SIGN_IN_LASTS = timedelta(hours=2)
SEEN_EVERY = timedelta(minutes=1)  # a write for every request would be too many
BEGINNING = "evh_"  # so that a token is known for one, wherever it turns up
MOST_DAYS = 366
LONGEST_NAME = 100


class Accounts:
    """The accounts of a database. Of secrets only hashes are kept."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def any(self) -> bool:
        """Whether there is a user at all."""
        with self.database.reading() as session:
            return bool(session.scalar(select(exists().where(User.id.is_not(None)))))

    def has_admin(self) -> bool:
        """Whether there is an admin who can sign in."""
        with self.database.reading() as session:
            return bool(session.scalar(select(exists().where(ACTIVE_ADMIN))))

    def add_user(self, name: str, password: str, *, admin: bool = False) -> Person:
        """A new user, who may do nothing yet unless they are an admin."""
        name = checked_name(name)
        check_new_password(name, password)
        stored = hash_of(password)
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
        stored = hash_of(password)
        with self.database.writing() as session:
            user = found_user(session, name, locked=True)
            user.password = stored
            self._end_access(session, user)

    def set_admin(self, name: str, admin: bool) -> None:
        """Let a user do everything everywhere, or not any more."""
        with self.database.writing() as session:
            user = _user_unless_last_admin(session, name) if not admin else found_user(session, name, locked=True)
            user.admin = admin

    def set_disabled(self, name: str, disabled: bool) -> None:
        """Disable a user, or enable them again. Disabling ends their sign-ins and revokes all their tokens."""
        with self.database.writing() as session:
            user = _user_unless_last_admin(session, name) if disabled else found_user(session, name, locked=True)
            user.disabled = disabled
            if disabled:
                self._end_access(session, user)

    def delete_user(self, name: str) -> None:
        """Delete a user, with roles, sign-ins and tokens. What they made stays, and so does the log."""
        with self.database.writing() as session:
            session.delete(_user_unless_last_admin(session, name))

    def set_role(self, name: str, project_id: str, role: Literal["viewer", "auditor"] | None) -> None:
        """Say what a user may do in a project; None: nothing."""
        if role is not None and role not in PROJECT_ROLES:
            raise unknown_name("role in a project", role, PROJECT_ROLES)
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

    def sign_in(self, name: str, password: str, address: str | None) -> str:
        """The secret that stands for the user from now on, for a cookie."""
        proven = self._user_with_password(name, password, address)
        better = hash_of(password) if is_outdated(proven.password) else None
        secret = secrets.token_urlsafe(32)
        with self.database.writing() as session:
            now = self.database.now(session)
            user = session.get(User, proven.id, with_for_update=True)
            if user is None or user.disabled or user.password != proven.password:  # changed at this very moment
                raise _wrong_password()
            user.password = better or user.password
            session.execute(delete(SignIn).where(or_(SignIn.expires <= now, SignIn.seen <= now - UNUSED_SIGN_IN_LASTS)))
            session.add(SignIn(digest=digest(secret), user=user.id, created=now, seen=now, expires=now + SIGN_IN_LASTS))
            note_try(session, now, SIGNED_IN, user.name, address)
        return secret

    def signed_in(self, secret: str, *, touch: bool = True) -> tuple[Person, SignIn] | None:
        """Whose secret this is, if it still counts. Without `touch` that it was asked for counts as no use of it."""
        with self.database.reading() as session:
            now = self.database.now(session)
            found = _valid_sign_in(session, secret, now)
        if found is None:
            return None
        user, entry = found
        if touch and entry.seen <= now - SEEN_EVERY:
            with self.database.writing() as session:
                session.execute(update(SignIn).where(SignIn.digest == entry.digest).values(seen=now))
            entry.seen = now
        return person_of(user), entry

    def sign_out(self, secret: str) -> None:
        """Forget a secret."""
        with self.database.writing() as session:
            session.execute(delete(SignIn).where(SignIn.digest == digest(secret)))

    def choose_project(self, secret: str, project_id: str) -> None:
        """Remember which project is looked at in this browser."""
        with self.database.writing() as session:
            found = _valid_sign_in(session, secret, self.database.now(session))
            if found is None:
                raise SignInRefused("You are not signed in any more. Sign in again.")
            user, entry = found
            if role_of(session, user, project_id) is None:
                raise EvenhandError(f"There is no project {project_id[:100]!r}, or you have no role in it.")
            hold_project(session, project_id)
            entry.project = project_id

    def check_password(self, name: str, password: str, address: str | None) -> None:
        """Refuse a wrong password of somebody who is signed in, with the same limits as `sign_in`."""
        self._user_with_password(name, password, address)

    def _user_with_password(self, name: str, password: str, address: str | None) -> User:
        """The user whose password it is. Wrong tries are noted, and limited."""
        name = plain_name(name)
        # What cannot be a name is not kept: people type their password into the wrong field.
        tried = name if NAME.fullmatch(name) else None
        with one_at_a_time():
            with self.database.reading() as session:
                check_tries(session, self.database.now(session), tried, address)
                user = user_or_none(session, name)
            right = matches(user.password if user is not None else None, password)
            if user is not None and right and not user.disabled:
                return user
            with self.database.writing() as session:
                note_try(session, self.database.now(session), REFUSED, tried, address)
        raise _wrong_password()

    def add_token(self, person: Person, project_id: str, role: Role, name: str, days: int) -> tuple[Token, str]:
        """A new token and its secret, which cannot be shown again."""
        role, name = checked_role(role), _token_name(name)
        if not 1 <= days <= MOST_DAYS:
            raise EvenhandError(f"A token cannot be valid for {days} days. Choose 1 to {MOST_DAYS}.")
        secret = BEGINNING + secrets.token_urlsafe(32)
        with self.database.writing() as session:
            with suppress(NoSuchProject):  # whoever has no role in a project is not told whether it is there
                hold_project(session, project_id)
            user = session.get(User, person.id, with_for_update=True)  # so that a new password revokes this one too
            own = None if user is None else role_of(session, user, project_id)
            if own is None or not at_least(own, role):
                words = f"is only {own}" if own else "has no role"
                raise EvenhandError(f"'{person.name}' {words} in this project, so a token cannot be {role} there.")
            now = self.database.now(session)
            token = Token(
                id=uuid.uuid4().hex, user=person.id, project=project_id, role=role, name=name, digest=digest(secret),
                created=now, expires=now + timedelta(days=days),
            )  # fmt: skip
            session.add(token)
        return token, secret

    def tokens(self, person: Person | None) -> list[Token]:
        """Somebody's tokens, or everybody's, the newest first; also those that do not work any more."""
        wanted = select(Token).order_by(Token.created.desc(), Token.id)
        with self.database.reading() as session:
            return list(session.scalars(wanted if person is None else wanted.where(Token.user == person.id)))

    def revoke_token(self, token_id: str, person: Person | None) -> Token:
        """Revoke a token: one of this person's, or anybody's."""
        with self.database.writing() as session:
            token = session.get(Token, token_id, with_for_update=True) if token_id.isprintable() else None
            if token is None or (person is not None and token.user != person.id):
                raise EvenhandError(f"There is no token {token_id[:100]!r}. `evenhand users tokens` shows all.")
            token.revoked = token.revoked or self.database.now(session)
            return token

    def by_token(self, secret: str) -> tuple[Person, Token, Role] | None:
        """Whose secret this is and what it allows, if it still counts: never more than its user may do now."""
        if not secret.startswith(BEGINNING):
            return None
        wanted = select(User, Token).join(Token, Token.user == User.id).where(Token.digest == digest(secret))
        with self.database.reading() as session:
            now = self.database.now(session)
            row = session.execute(wanted).one_or_none()
            if row is None or row.User.disabled or row.Token.revoked is not None or row.Token.expires <= now:
                return None
            user, token = row.User, row.Token
            own = role_of(session, user, token.project)
        if own is None:
            return None
        if token.used is None or token.used <= now - SEEN_EVERY:
            with self.database.writing() as session:
                session.execute(update(Token).where(Token.id == token.id).values(used=now))
            token.used = now
        return person_of(user), token, lower_of(checked_role(token.role), own)

    def _end_access(self, session: Session, user: User) -> None:
        """Let nothing count any more that was had with the password; who has to go on makes new tokens."""
        session.execute(delete(SignIn).where(SignIn.user == user.id))
        working = update(Token).where(Token.user == user.id, Token.revoked.is_(None))
        session.execute(working.values(revoked=self.database.now(session)))


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


def _user_unless_last_admin(session: Session, name: str) -> User:
    """A user who is about to lose what an admin has; the last admin who can sign in is refused.

    All admins are locked, in one order: of two that are demoted at the same moment, the second one sees the first.
    """
    admins = list(session.scalars(select(User).where(ACTIVE_ADMIN).order_by(User.id).with_for_update()))
    user = found_user(session, name, locked=True)
    if [admin.id for admin in admins] == [user.id]:
        raise EvenhandError(f"'{user.name}' is the last admin. Make another user an admin first.")
    return user


def digest(secret: str) -> str:
    """What is kept of a secret. It is long and random, so that a plain hash is enough."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _wrong_password() -> SignInRefused:
    return SignInRefused("The name or the password is wrong.")


def _valid_sign_in(session: Session, secret: str, now: datetime) -> tuple[User, SignIn] | None:
    wanted = select(User, SignIn).join(SignIn, SignIn.user == User.id).where(SignIn.digest == digest(secret))
    row = session.execute(wanted).one_or_none()
    if row is None or row.User.disabled or row.SignIn.expires <= now or row.SignIn.seen <= now - UNUSED_SIGN_IN_LASTS:
        return None
    return row.User, row.SignIn


def _token_name(name: str) -> str:
    shown = one_line(name)
    if not 1 <= len(shown) <= LONGEST_NAME:
        raise EvenhandError(f"A token needs a name of 1 to {LONGEST_NAME} characters, so that it can be recognised.")
    return shown
