"""Passwords: which are accepted, how they are stored (argon2's hash and nothing else), how often one may be tried."""

import ipaddress
import math
import re
import threading
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import lru_cache

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from sqlalchemy import ColumnElement, exists, or_, select
from sqlalchemy.orm import Session

from evenhand.errors import EvenhandError
from evenhand.service.storage.log import LONGEST_FIELDS, add_entry, printable
from evenhand.service.storage.tables import LogEntry

NAME = re.compile(r"[a-z0-9][a-z0-9._@-]{0,99}")
SHORTEST_PASSWORD, LONGEST_PASSWORD = 12, 200
HASHER = PasswordHasher()  # argon2id with the library's parameters, which follow RFC 9106
REFUSED, SIGNED_IN = "sign-in refused", "signed in"  # actions in the log
WINDOW = timedelta(minutes=15)  # how far back wrong tries count
MOST_OF_BOTH, MOST_OF_NAME, MOST_OF_ADDRESS = 5, 10, 20  # wrong tries; the next one has to wait
KNOWN_FOR = timedelta(days=7)  # how long a network counts as one that a user signs in from
# One password is looked at a time: a hash takes 64 MiB, and tries sent all at once must not slip past the limits.
_ONE_AT_A_TIME = threading.Lock()
MOST_WAITING = 20  # for their turn: each holds a thread that others need
_WAITING = threading.BoundedSemaphore(MOST_WAITING)
BUSY_SECONDS = 10


def plain_name(name: str) -> str:
    """A name as it is kept and compared: in small letters."""
    return name.strip().lower()


def checked_name(name: str) -> str:
    """A new user's name, in small letters; what is no name is refused."""
    found = plain_name(name)
    if NAME.fullmatch(found) is None:
        raise EvenhandError(
            f"{name[:100]!r} cannot be a user's name. A name has 1 to 100 letters a to z, digits or . _ @ - and begins "
            "with a letter or digit."
        )
    return found


def check_new_password(name: str, password: str) -> None:
    """Refuse a password that is easily guessed. Nothing else is asked of it: length is what counts."""
    if len(password) < SHORTEST_PASSWORD:
        raise EvenhandError(
            f"Choose a password of at least {SHORTEST_PASSWORD} characters; this one has {len(password)}."
        )
    if len(password) > LONGEST_PASSWORD:
        raise EvenhandError(
            f"Choose a password of at most {LONGEST_PASSWORD} characters; this one has {len(password):,}."
        )
    if plain_name(password) == plain_name(name):
        raise EvenhandError("The password is the user's name. Choose another one.")


def hash_of(password: str) -> str:
    """What is kept of a password."""
    return HASHER.hash(_bytes(password))


def matches(stored: str | None, password: str) -> bool:
    """Whether a password is the one of the hash; without a hash the same work is done, and the answer is no.

    What is longer than a password can be is not even normalised, which takes very long for long texts.
    """
    nobody = _dummy_hash(HASHER)
    tried = b"too long" if len(password) > LONGEST_PASSWORD else _bytes(password)
    known = None if len(password) > LONGEST_PASSWORD else stored
    try:
        return HASHER.verify(known or nobody, tried) and known is not None
    except (VerificationError, InvalidHashError):
        return False


def is_outdated(stored: str) -> bool:
    """Whether a hash was made with other parameters than new ones are."""
    return HASHER.check_needs_rehash(stored)


@lru_cache(maxsize=1)
def _dummy_hash(hasher: PasswordHasher) -> str:
    """A hash to compare with where there is no user, so that an unknown name takes as long as a known one."""
    return hasher.hash(b"nobody's password")


def _bytes(password: str) -> bytes:
    """The same for a letter however the keyboard composes it; JSON can hold halves of letters, which UTF-8 cannot."""
    return unicodedata.normalize("NFKC", password).encode("utf-8", "surrogatepass")


class SignInRefused(EvenhandError):  # noqa: N818 - not an error of anybody's
    """The name or the password is wrong; which of them is not said."""


class TooManyTries(SignInRefused):
    """Too many wrong tries: the next one has to wait for so many `seconds`."""

    def __init__(self, seconds: int, words: str = "Too many wrong tries.") -> None:
        minutes = math.ceil(seconds / 60)
        super().__init__(f"{words} Try again in {minutes} minute{'s' if minutes != 1 else ''}.")
        self.seconds = seconds


class TooBusy(TooManyTries):
    """So many passwords wait to be looked at that no more can."""

    def __init__(self) -> None:
        super().__init__(BUSY_SECONDS, "Too many people are signing in at this moment.")


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Wait until nobody else's password is being looked at, unless too many wait already."""
    if not _WAITING.acquire(blocking=False):
        raise TooBusy
    try:
        with _ONE_AT_A_TIME:
            yield
    finally:
        _WAITING.release()


def network_of(address: str | None) -> str | None:
    """What counts as one address: with IPv6 the first half of it, of which everybody has all the rest."""
    if address is None:
        return None
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return printable(address, LONGEST_FIELDS["address"])
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return f"{ipaddress.IPv6Address(int(found) >> 64 << 64)}/64"


def note_try(session: Session, now: datetime, action: str, name: str | None, address: str | None) -> None:
    """Keep in the log how a try ended."""
    add_entry(session, now, action, user=name, address=address, network=network_of(address))


def _network_column() -> ColumnElement[str]:
    """The network that an entry of the log names."""
    named: ColumnElement[str] = LogEntry.data["network"].as_string()
    return named


def check_tries(session: Session, now: datetime, name: str | None, address: str | None) -> None:
    """Refuse a try where too many wrong ones came before it: from this network, for this name, or both.

    Where a name signed in lately, wrong tries from elsewhere do not count: nobody shuts others out by guessing.
    """
    network = network_of(address)
    recent = select(LogEntry.user, _network_column().label("network"), LogEntry.at).where(
        LogEntry.action == REFUSED, LogEntry.at > now - WINDOW, or_(LogEntry.user == name, _network_column() == network)
    )
    tries = session.execute(recent.order_by(LogEntry.at.desc())).all()
    of_name = [tried.at for tried in tries if name is not None and tried.user == name]
    of_network = [tried.at for tried in tries if network is not None and tried.network == network]
    of_both = [tried.at for tried in tries if (tried.user, tried.network) == (name, network)]
    limited = [(of_both, MOST_OF_BOTH), (of_network, MOST_OF_ADDRESS)]
    if not _signed_in_there(session, now, name, network):
        limited.append((of_name, MOST_OF_NAME))
    ends = [tried[most - 1] + WINDOW for tried, most in limited if len(tried) >= most]
    if ends:
        raise TooManyTries(max(1, math.ceil((max(ends) - now).total_seconds())))


def _signed_in_there(session: Session, now: datetime, name: str | None, network: str | None) -> bool:
    """Whether somebody of this name signed in from this network in the last days."""
    if name is None or network is None:
        return False
    entries = exists().where(
        LogEntry.action == SIGNED_IN, LogEntry.at > now - KNOWN_FOR, LogEntry.user == name, _network_column() == network
    )
    return bool(session.scalar(select(entries)))
