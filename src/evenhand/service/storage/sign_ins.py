"""Signing in with a password: who may, and how long it lasts."""

import hashlib
import secrets
from datetime import datetime, timedelta

from sqlalchemy import delete, or_, select, update
from sqlalchemy.orm import Session

from evenhand.errors import EvenhandError
from evenhand.service.storage.database import Database
from evenhand.service.storage.passwords import NAME, hashed, is_outdated, matches, plain_name
from evenhand.service.storage.people import Person, hold_project, person_of, role_of, user_or_none
from evenhand.service.storage.tables import SignIn, User
from evenhand.service.storage.tries import REFUSED, SIGNED_IN, SignInRefused, check_tries, in_turn, note_try

LONGEST_USE = timedelta(hours=12)
LONGEST_PAUSE = timedelta(hours=2)
SEEN_EVERY = timedelta(minutes=1)  # a write for every request would be too many


class SignIns:
    """Who is signed in. Only hashes of the secrets are kept."""

    database: Database

    def sign_in(self, name: str, password: str, address: str | None) -> str:
        """The secret that stands for the user from now on, for a cookie."""
        proven = self._proven(name, password, address)
        better = hashed(password) if is_outdated(proven.password) else None
        secret = secrets.token_urlsafe(32)
        with self.database.writing() as session:
            now = self.database.now(session)
            user = session.get(User, proven.id, with_for_update=True)
            if user is None or user.disabled or user.password != proven.password:  # changed at this very moment
                raise _refused()
            user.password = better or user.password
            session.execute(delete(SignIn).where(or_(SignIn.expires <= now, SignIn.seen <= now - LONGEST_PAUSE)))
            session.add(SignIn(digest=digest(secret), user=user.id, created=now, seen=now, expires=now + LONGEST_USE))
            note_try(session, now, SIGNED_IN, user.name, address)
        return secret

    def signed_in(self, secret: str, *, touch: bool = True) -> tuple[Person, SignIn] | None:
        """Whose secret this is, if it still counts. Without `touch` that it was asked for counts as no use of it."""
        with self.database.reading() as session:
            now = self.database.now(session)
            found = _valid(session, secret, now)
        if found is None:
            return None
        user, entry = found
        if touch and entry.seen <= now - SEEN_EVERY:
            with self.database.writing() as session:
                session.execute(update(SignIn).where(SignIn.digest == entry.digest).values(seen=now))
            entry.seen = now
        return person_of(user), entry

    def sign_out(self, secret: str) -> None:
        """Let a secret count no more."""
        with self.database.writing() as session:
            session.execute(delete(SignIn).where(SignIn.digest == digest(secret)))

    def choose_project(self, secret: str, project_id: str) -> None:
        """Remember which project is looked at in this browser."""
        with self.database.writing() as session:
            found = _valid(session, secret, self.database.now(session))
            if found is None:
                raise SignInRefused("You are not signed in any more. Sign in again.")
            user, entry = found
            if role_of(session, user, project_id) is None:
                raise EvenhandError(f"There is no project {project_id[:100]!r}, or you have no role in it.")
            hold_project(session, project_id)
            entry.project = project_id

    def check_password(self, name: str, password: str, address: str | None) -> None:
        """Refuse a wrong password of somebody who is signed in, with the same limits as `sign_in`."""
        self._proven(name, password, address)

    def _proven(self, name: str, password: str, address: str | None) -> User:
        """The user whose password it is. Wrong tries are noted, and limited."""
        name = plain_name(name)
        # What cannot be a name is not kept: people type their password into the wrong field.
        tried = name if NAME.fullmatch(name) else None
        with in_turn():
            with self.database.reading() as session:
                check_tries(session, self.database.now(session), tried, address)
                user = user_or_none(session, name)
            right = matches(user.password if user is not None else None, password)
            if user is not None and right and not user.disabled:
                return user
            with self.database.writing() as session:
                note_try(session, self.database.now(session), REFUSED, tried, address)
        raise _refused()


def digest(secret: str) -> str:
    """What is kept of a secret. It is long and random, so that a plain hash is enough."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _refused() -> SignInRefused:
    return SignInRefused("The name or the password is wrong.")


def _valid(session: Session, secret: str, now: datetime) -> tuple[User, SignIn] | None:
    wanted = select(User, SignIn).join(SignIn, SignIn.user == User.id).where(SignIn.digest == digest(secret))
    row = session.execute(wanted).one_or_none()
    if row is None or row.User.disabled or row.SignIn.expires <= now or row.SignIn.seen <= now - LONGEST_PAUSE:
        return None
    return row.User, row.SignIn
