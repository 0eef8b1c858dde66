"""How often a password may be tried: from one network, for one name, and at one moment."""

import ipaddress
import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, exists, or_, select
from sqlalchemy.orm import Session

from evenhand.errors import EvenhandError
from evenhand.service.storage.log import LONGEST, add_entry, kept
from evenhand.service.storage.tables import LogEntry

REFUSED, SIGNED_IN = "sign-in refused", "signed in"  # actions in the log
WINDOW = timedelta(minutes=15)  # how far back wrong tries count
MOST_OF_BOTH, MOST_OF_NAME, MOST_OF_ADDRESS = 5, 10, 20  # wrong tries; the next one has to wait
KNOWN_FOR = timedelta(days=7)  # how long a network counts as one that a user signs in from

# One password is looked at a time: a hash takes 64 MiB, and tries sent all at once must not slip past the limits.
_ONE_AT_A_TIME = threading.Lock()
MOST_WAITING = 20  # for their turn: each holds a thread that others need
_WAITING = threading.BoundedSemaphore(MOST_WAITING)
BUSY_SECONDS = 10


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
        super().__init__(BUSY_SECONDS, "Too many sign in at this moment.")


@contextmanager
def in_turn() -> Iterator[None]:
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
        return kept(address, LONGEST["address"])
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return f"{ipaddress.IPv6Address(int(found) >> 64 << 64)}/64"


def note_try(session: Session, now: datetime, action: str, name: str | None, address: str | None) -> None:
    """Keep in the log how a try ended."""
    add_entry(session, now, action, user=name, address=address, network=network_of(address))


def _came_from() -> ColumnElement[str]:
    """The network that an entry of the log names."""
    named: ColumnElement[str] = LogEntry.data["network"].as_string()
    return named


def check_tries(session: Session, now: datetime, name: str | None, address: str | None) -> None:
    """Refuse a try where too many wrong ones came before it: from this network, for this name, or both.

    Where a name signed in lately, wrong tries from elsewhere do not count: nobody shuts others out by guessing.
    """
    network = network_of(address)
    recent = select(LogEntry.user, _came_from().label("network"), LogEntry.at).where(
        LogEntry.action == REFUSED, LogEntry.at > now - WINDOW, or_(LogEntry.user == name, _came_from() == network)
    )
    tries = session.execute(recent.order_by(LogEntry.at.desc())).all()
    of_name = [tried.at for tried in tries if name is not None and tried.user == name]
    of_network = [tried.at for tried in tries if network is not None and tried.network == network]
    of_both = [tried.at for tried in tries if (tried.user, tried.network) == (name, network)]
    limited = [(of_both, MOST_OF_BOTH), (of_network, MOST_OF_ADDRESS)]
    if not _is_known_there(session, now, name, network):
        limited.append((of_name, MOST_OF_NAME))
    ends = [tried[most - 1] + WINDOW for tried, most in limited if len(tried) >= most]
    if ends:
        raise TooManyTries(max(1, math.ceil((max(ends) - now).total_seconds())))


def _is_known_there(session: Session, now: datetime, name: str | None, network: str | None) -> bool:
    """Whether somebody of this name signed in from this network in the last days."""
    if name is None or network is None:
        return False
    entries = exists().where(
        LogEntry.action == SIGNED_IN, LogEntry.at > now - KNOWN_FOR, LogEntry.user == name, _came_from() == network
    )
    return bool(session.scalar(select(entries)))
