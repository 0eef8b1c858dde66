"""The tables of the service's database. Every change to them needs a migration."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, DateTime, ForeignKey, Index, Integer, MetaData, String, Text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.types import TypeDecorator

from evenhand.choices import Domain

LONG = BigInteger().with_variant(Integer, "sqlite")  # SQLite counts up by itself only for its own INTEGER

NAMES = {
    "ix": "ix_%(column_0_label)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}


class Moment(TypeDecorator[datetime]):
    """A moment in UTC; SQLite forgets time zones, so they are put back."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Any) -> datetime | None:  # noqa: ARG002
        """To the database."""
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Any) -> datetime | None:  # noqa: ARG002
        """From the database."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Base(DeclarativeBase):
    """All tables."""

    metadata = MetaData(naming_convention=NAMES)
    type_annotation_map = {dict[str, Any]: JSON, datetime: Moment}  # noqa: RUF012 - SQLAlchemy reads it so


class Project(Base):
    """What keeps people's data apart. There is one, `default`, until more are made."""

    __tablename__ = "projects"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    name: Mapped[str] = mapped_column(String(100), unique=True)
    created: Mapped[datetime]


class DataFile(Base):
    """A table or texts that were uploaded, with what says what the columns mean."""

    __tablename__ = "datasets"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    project: Mapped[str] = mapped_column(ForeignKey("projects.id", ondelete="CASCADE"), index=True)
    name: Mapped[str] = mapped_column(String(200))
    file: Mapped[str] = mapped_column(String(200))  # its name in the data set's folder, chosen by us
    size: Mapped[int] = mapped_column(LONG)
    sha256: Mapped[str] = mapped_column(String(64))
    rows: Mapped[int | None] = mapped_column(LONG)
    domain: Mapped[Domain] = mapped_column(String(10), default="table", server_default="table")  # or text
    schema_text: Mapped[str | None] = mapped_column(Text)  # TOML; of texts `CorpusFacts`; none until it is known
    created: Mapped[datetime]


class ModelFile(Base):
    """A model that was uploaded."""

    __tablename__ = "models"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    project: Mapped[str] = mapped_column(ForeignKey("projects.id", ondelete="CASCADE"), index=True)
    name: Mapped[str] = mapped_column(String(200))
    file: Mapped[str] = mapped_column(String(200))
    size: Mapped[int] = mapped_column(LONG)
    sha256: Mapped[str] = mapped_column(String(64))
    created: Mapped[datetime]


class Run(Base):
    """A run: what was asked for, where it stands, who holds it."""

    __tablename__ = "runs"
    __table_args__ = (Index("ix_runs_waiting", "state", "created"), Index("ix_runs_listed", "project", "created", "id"))

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    project: Mapped[str] = mapped_column(ForeignKey("projects.id", ondelete="CASCADE"))
    kind: Mapped[str] = mapped_column(String(20))  # audit, measure or repair
    title: Mapped[str] = mapped_column(String(200))
    config: Mapped[dict[str, Any]]  # see `service.requests`
    parent: Mapped[str | None] = mapped_column(ForeignKey("runs.id", ondelete="SET NULL"))  # a repair's audit
    state: Mapped[str] = mapped_column(String(20))  # see `STATES`
    cancel: Mapped[bool] = mapped_column(default=False)  # somebody has cancelled it
    progress: Mapped[dict[str, Any]] = mapped_column(default=dict)
    result: Mapped[dict[str, Any] | None]  # the figures that lists and pages show
    error: Mapped[str | None] = mapped_column(Text)
    attempts: Mapped[int] = mapped_column(default=0)
    created: Mapped[datetime]
    started: Mapped[datetime | None]
    finished: Mapped[datetime | None]
    place: Mapped[str] = mapped_column(String(20), default="worker")  # who does it: a worker, or a terminal's command
    asked_by: Mapped[str | None] = mapped_column(String(100))  # the name of an account; none where there are none
    schema_text: Mapped[str | None] = mapped_column(Text)  # of uploaded data, as it was when the run was asked for
    worker: Mapped[str | None] = mapped_column(String(100))
    lease: Mapped[int] = mapped_column(LONG, default=0)  # counts up with every claim: an older holder's number is stale
    lease_until: Mapped[datetime | None]


class Event(Base):
    """Something that happened to a run, in order."""

    __tablename__ = "events"

    id: Mapped[int] = mapped_column(LONG, primary_key=True, autoincrement=True)
    run: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), index=True)
    at: Mapped[datetime]
    kind: Mapped[str] = mapped_column(String(30))
    data: Mapped[dict[str, Any]]


class User(Base):
    """Somebody who may sign in."""

    __tablename__ = "users"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    name: Mapped[str] = mapped_column(String(100), unique=True)  # in small letters
    password: Mapped[str] = mapped_column(String(200))  # argon2's hash of it
    admin: Mapped[bool] = mapped_column(default=False)  # may do everything in every project
    disabled: Mapped[bool] = mapped_column(default=False)
    created: Mapped[datetime]


class Member(Base):
    """What a user who is no admin may do in a project."""

    __tablename__ = "members"

    user: Mapped[str] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), primary_key=True)
    project: Mapped[str] = mapped_column(ForeignKey("projects.id", ondelete="CASCADE"), primary_key=True, index=True)
    role: Mapped[str] = mapped_column(String(20))  # viewer or auditor


class SignIn(Base):
    """A browser in which somebody has signed in. Only the hash of what its cookie says is kept."""

    __tablename__ = "sign_ins"

    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    user: Mapped[str] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True)
    project: Mapped[str | None] = mapped_column(ForeignKey("projects.id", ondelete="SET NULL"))  # the one looked at
    created: Mapped[datetime]
    seen: Mapped[datetime]
    expires: Mapped[datetime]


class Token(Base):
    """A secret with which a program acts for a user, in one project. Only its hash is kept."""

    __tablename__ = "tokens"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    user: Mapped[str] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True)
    project: Mapped[str] = mapped_column(ForeignKey("projects.id", ondelete="CASCADE"))
    role: Mapped[str] = mapped_column(String(20))  # the most that it may do; never more than its user may
    name: Mapped[str] = mapped_column(String(100))
    digest: Mapped[str] = mapped_column(String(64), unique=True)
    created: Mapped[datetime]
    expires: Mapped[datetime]
    used: Mapped[datetime | None]
    revoked: Mapped[datetime | None]


class LogEntry(Base):
    """Who did what, when and from where. Nothing refers to anything: an entry outlives what it tells of."""

    __tablename__ = "log"
    __table_args__ = (Index("ix_log_action_at", "action", "at"),)

    id: Mapped[int] = mapped_column(LONG, primary_key=True, autoincrement=True)
    at: Mapped[datetime]
    user: Mapped[str | None] = mapped_column(String(100))  # a name, as it was then
    address: Mapped[str | None] = mapped_column(String(100))
    action: Mapped[str] = mapped_column(String(50))
    project: Mapped[str | None] = mapped_column(String(32))
    subject: Mapped[str | None] = mapped_column(String(200))  # the id or name of what it was done to
    data: Mapped[dict[str, Any]]
