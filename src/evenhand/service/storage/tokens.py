"""Tokens: secrets with which programs act for a user, in one project."""

import secrets
import uuid
from contextlib import suppress
from datetime import timedelta

from sqlalchemy import select, update

from evenhand.errors import EvenhandError
from evenhand.service.storage.database import Database
from evenhand.service.storage.log import one_line
from evenhand.service.storage.people import (
    NoSuchProject,
    Person,
    Role,
    at_least,
    checked_role,
    hold_project,
    lower_of,
    person_of,
    role_of,
)
from evenhand.service.storage.sign_ins import SEEN_EVERY, digest
from evenhand.service.storage.tables import Token, User

BEGINNING = "evh_"  # so that a token is known for one, wherever it turns up
MOST_DAYS = 366
LONGEST_NAME = 100


class Tokens:
    """The tokens of a database. Only hashes of them are kept."""

    database: Database

    def add_token(self, person: Person, project_id: str, role: Role, name: str, days: int) -> tuple[Token, str]:
        """A new token and its secret, which cannot be shown again."""
        role, name = checked_role(role), _checked_name(name)
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
        """Let a token work no more: one of this person's, or anybody's."""
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


def _checked_name(name: str) -> str:
    shown = one_line(name)
    if not 1 <= len(shown) <= LONGEST_NAME:
        raise EvenhandError(f"A token needs a name of 1 to {LONGEST_NAME} characters, so that it can be known again.")
    return shown
