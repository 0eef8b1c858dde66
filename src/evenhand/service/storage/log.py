"""The audit log: who did what, when and from where."""

from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from evenhand.service.storage.database import REPLACEMENT, Database
from evenhand.service.storage.tables import LogEntry

LONGEST_FIELDS = {"user": 100, "address": 100, "project": 32, "subject": 200}
LONGEST_VALUE = 500  # of a text among an entry's data


class Log:
    """The log of a database. Entries are only ever added."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def note(
        self,
        action: str,
        *,
        user: str | None = None,
        address: str | None = None,
        project: str | None = None,
        subject: str | None = None,
        **data: Any,
    ) -> None:
        """Log what was done: by whom (a name), from which address, in which project, to what."""
        with self.database.writing() as session:
            now = self.database.now(session)
            add_entry(session, now, action, user=user, address=address, project=project, subject=subject, **data)

    def entries(
        self,
        *,
        user: str | None = None,
        action: str | None = None,
        project: str | None = None,
        after: int | None = None,
        limit: int = 50,
    ) -> list[LogEntry]:
        """Entries from the newest to the oldest; `after` is the id of the last one that was seen."""
        wanted = select(LogEntry).order_by(LogEntry.id.desc()).limit(limit)
        if user is not None:
            wanted = wanted.where(LogEntry.user == printable(user, LONGEST_FIELDS["user"]))
        if action is not None:
            wanted = wanted.where(LogEntry.action == printable(action, 50))
        if project is not None:
            wanted = wanted.where(LogEntry.project == printable(project, LONGEST_FIELDS["project"]))
        if after is not None:
            wanted = wanted.where(LogEntry.id < after)
        with self.database.reading() as session:
            return list(session.scalars(wanted))


def add_entry(session: Session, at: datetime, action: str, *, user: str | None = None, **rest: Any) -> None:
    """An entry as part of a transaction, for what must not happen without being noted."""
    fields = {"user": user} | {name: rest.pop(name, None) for name in LONGEST_FIELDS if name != "user"}
    texts = {name: None if text is None else printable(text, LONGEST_FIELDS[name]) for name, text in fields.items()}
    data = {name: printable(value, LONGEST_VALUE) if isinstance(value, str) else value for name, value in rest.items()}
    session.add(LogEntry(at=at, action=action, data=data, **texts))


def one_line(name: str) -> str:
    """A name from outside without what cannot be shown, and with single spaces."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in name).split())


def printable(text: str, longest: int) -> str:
    """A text from outside as it may be kept and shown: one line, nothing that a terminal would obey."""
    return "".join(letter if letter.isprintable() else REPLACEMENT for letter in text[:longest])
