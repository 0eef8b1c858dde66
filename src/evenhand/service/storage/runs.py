"""Runs in the database: made, claimed with a lease, kept alive, ended once, listed, cancelled, deleted."""

import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from sqlalchemy import and_, delete, or_, select, tuple_
from sqlalchemy.orm import Session

from evenhand.errors import EvenhandError
from evenhand.service.storage.database import Database, storable
from evenhand.service.storage.projects import hold_project
from evenhand.service.storage.tables import Event, Run

State = Literal["queued", "running", "cancelling", "done", "failed", "cancelled", "interrupted"]
STATES: tuple[State, ...] = ("queued", "running", "cancelling", "done", "failed", "cancelled", "interrupted")
OVER = ("done", "failed", "cancelled")  # a run ends in one of these, once
HELD = ("running", "cancelling")  # somebody does it
MOST_ATTEMPTS = 5  # a run that has killed so many workers and comes no further is the cause of it
LEASE_SECONDS = 30.0


class LeaseLost(Exception):  # noqa: N818 - not an error but the news that another worker has the run
    """The run belongs to another worker now; what this one still does to it must not count."""


@dataclass(frozen=True)
class Claim:
    """A run that a worker holds: nobody else does, until the lease ends."""

    run: str
    kind: str
    project: str
    config: dict[str, Any]
    lease: int
    attempt: int


class Runs:
    """The runs of a database."""

    def __init__(self, database: Database, lease_seconds: float = LEASE_SECONDS) -> None:
        self.database = database
        self.lease_seconds = lease_seconds

    def create(
        self,
        project: str,
        kind: str,
        title: str,
        config: dict[str, Any],
        parent: str | None = None,
        *,
        schema_text: str | None = None,
        asked_by: str | None = None,
        place: str = "worker",
        check: Callable[[Session], None] | None = None,
    ) -> Run:
        """A new run, which waits for a worker. `check` may refuse it within the transaction that makes it."""
        with self.database.writing() as session:
            hold_project(session, project)
            if check is not None:
                check(session)
            run = self._add(
                session, project, kind, title, config, parent=parent, place=place, asked_by=asked_by,
                schema_text=schema_text,
            )  # fmt: skip
            self._note(session, run.id, run.created, "queued", {})
        return run

    def begin(
        self, project: str, kind: str, title: str, config: dict[str, Any], worker: str, place: str = "terminal"
    ) -> Claim:
        """A new run that whoever requests it does at once, in a terminal: no worker ever claims it."""
        with self.database.writing() as session:
            hold_project(session, project)
            run = self._add(session, project, kind, title, config, place=place)
            return self._start(session, run, run.created, worker)

    def _add(
        self, session: Session, project: str, kind: str, title: str, config: dict[str, Any], **more: str | None
    ) -> Run:
        run = Run(
            id=uuid.uuid4().hex, project=project, kind=kind, title=title, config=config, state="queued", cancel=False,
            progress={}, attempts=0, created=self.database.now(session), lease=0, **more,
        )  # fmt: skip
        session.add(run)
        session.flush()
        return run

    def claim_again(self, run_id: str, worker: str, project: str | None = None) -> Claim:
        """Do a terminal's run again that was interrupted, failed or was cancelled; nobody else must be doing it."""
        with self.database.writing() as session:
            run, now = self._locked_run(session, run_id, project), self.database.now(session)
            if run.place != "terminal":
                raise EvenhandError(f"The run {run_id} is for a worker: `evenhand runs resume` lets it wait for one.")
            if run.state in HELD:
                raise EvenhandError(f"The run {run_id} is being done already, by {run.worker}.")
            if run.state == "done":
                raise EvenhandError(f"The run {run_id} is done; there is nothing to resume.")
            run.cancel, run.progress = False, {}
            run.result = run.error = run.started = run.finished = None
            return self._start(session, run, now, worker)

    def claim(self, worker: str) -> Claim | None:
        """The oldest run that waits, or whose worker has not been heard of for the length of a lease; None: none."""
        found: Claim | bool = True
        while found is True:  # a run that only had to be ended is no claim; look at the next one
            found = self._claim(worker)
        return found or None

    def _claim(self, worker: str) -> Claim | bool:
        """A claim, or whether there may be another one to look at."""
        with self.database.writing() as session:
            now = self.database.now(session)
            waits = and_(Run.state.in_(("queued", "interrupted")), Run.place == "worker")
            orphaned = and_(Run.state.in_(HELD), Run.lease_until < now)
            oldest = select(Run).where(or_(waits, orphaned)).order_by(Run.created, Run.id).limit(1)
            run = session.scalar(oldest.with_for_update(skip_locked=True))
            if run is None:
                return False
            if run.place == "terminal":  # it is only said that it ended: a worker has not the files that it reads
                self._interrupt(session, run, now)
                return True
            if run.cancel:
                self._end(session, run, now, "cancelled", None, None)
                return True
            if run.attempts >= MOST_ATTEMPTS and not self._advances(session, run):
                words = (
                    f"Its worker stopped {run.attempts} times without a message. The model may take too much memory."
                )
                self._end(session, run, now, "failed", None, words)
                return True
            return self._start(session, run, now, worker)

    def _advances(self, session: Session, run: Run) -> bool:
        """Whether the last attempts went on from different checkpoints, so that it is others who end them."""
        of_run = select(Event).where(Event.run == run.id).order_by(Event.id.desc())
        started = session.scalars(of_run.where(Event.kind == "started").limit(MOST_ATTEMPTS)).all()
        resumed = session.scalars(of_run.where(Event.kind == "resumed", Event.id > started[-1].id))
        return len({(event.data.get("step"), event.data.get("findings")) for event in resumed}) > 1

    def _start(self, session: Session, run: Run, now: datetime, worker: str) -> Claim:
        """Let somebody hold a run."""
        run.state, run.worker, run.lease, run.attempts = "running", worker, run.lease + 1, run.attempts + 1
        run.lease_until = now + timedelta(seconds=self.lease_seconds)
        run.started = run.started or now
        self._note(session, run.id, now, "started", {"worker": worker, "attempt": run.attempts, "place": run.place})
        return Claim(run.id, run.kind, run.project, run.config, run.lease, run.attempts)

    def beat(self, claim: Claim, progress: dict[str, Any] | None = None) -> bool:
        """Say that the worker is alive, and how far it is; returns whether somebody has cancelled the run."""
        with self.database.writing() as session:
            run = self._held_run(session, claim)
            run.lease_until = self.database.now(session) + timedelta(seconds=self.lease_seconds)
            if progress is not None:
                run.progress = storable(progress)
            return run.cancel

    def tell(self, claim: Claim, kind: str, data: dict[str, Any]) -> None:
        """Add an event to a run that the worker holds."""
        with self.database.writing() as session:
            self._held_run(session, claim)
            self._note(session, claim.run, self.database.now(session), kind, data)

    def finish(
        self,
        claim: Claim,
        state: Literal["done", "failed", "cancelled"],
        result: dict[str, Any] | None = None,
        error: str | None = None,
    ) -> None:
        """End a run; only the worker that holds it can."""
        with self.database.writing() as session:
            run = self._held_run(session, claim)
            self._end(session, run, self.database.now(session), state, result, error)

    def hand_back(self, claim: Claim) -> None:
        """Hand a run back unfinished, for another worker: this one was told to stop."""
        with self.database.writing() as session:
            run, now = self._held_run(session, claim), self.database.now(session)
            run.attempts -= 1  # it was no fault of the run
            if run.cancel:
                self._end(session, run, now, "cancelled", None, None)
                return
            run.state, run.worker, run.lease_until = "interrupted", None, None
            self._note(session, run.id, now, "interrupted", {})

    def cancel(self, run_id: str, project: str | None = None) -> Run:
        """Cancel a run: at once where it waits, soon where it runs; one that is over stays as it is."""
        with self.database.writing() as session:
            run, now = self._locked_run(session, run_id, project), self.database.now(session)
            if run.state in OVER:
                return run
            run.cancel = True
            if run.state in ("queued", "interrupted"):
                self._end(session, run, now, "cancelled", None, None)
            elif run.state == "running":
                run.state = "cancelling"
                self._note(session, run.id, now, "cancelling", {})
            return run

    def resume(
        self, run_id: str, project: str | None = None, *, check: Callable[[Session, Run], None] | None = None
    ) -> Run:
        """Let a run that failed or was cancelled wait for a worker again, unless `check` refuses it."""
        with self.database.writing() as session:
            run, now = self._locked_run(session, run_id, project), self.database.now(session)
            if run.place == "terminal":
                raise EvenhandError(
                    f"The run {run_id} was started in a terminal, with files that only its user has. Resume it "
                    f"there: `evenhand runs resume {run_id[:8]}`."
                )
            if run.state not in ("failed", "cancelled"):
                raise EvenhandError(
                    f"The run {run_id} is {run.state}; only a run that failed or was cancelled can be resumed."
                )
            if check is not None:
                check(session, run)
            run.state, run.cancel, run.attempts, run.progress = "queued", False, 0, {}
            run.result = run.error = run.started = run.finished = None
            self._note(session, run.id, now, "queued", {"again": True})
            return run

    def delete(self, run_id: str, project: str | None = None) -> Run:
        """Remove a run and its events from the database. Its folder is for the caller to remove afterwards."""
        with self.database.writing() as session:
            run = self._locked_run(session, run_id, project)
            if run.state in HELD:
                raise EvenhandError(f"The run {run_id} is {run.state}. Cancel it first, and wait until it has ended.")
            session.execute(delete(Event).where(Event.run == run_id))
            session.delete(run)
            return run

    def get(self, run_id: str, project: str | None = None) -> Run:
        """One run."""
        with self.database.reading() as session:
            run = session.get(Run, run_id)
            if run is None or (project is not None and run.project != project):
                raise EvenhandError(f"There is no run '{run_id}'. `evenhand runs list` shows all.")
            lapsed = self._is_silent(session, run)
        return self._refreshed(run_id) if lapsed else run

    def with_prefix(self, beginning: str, limit: int = 5) -> list[Run]:
        """Runs whose id begins so."""
        self._interrupt_silent()
        wanted = select(Run).where(Run.id.startswith(beginning, autoescape=True)).order_by(Run.id).limit(limit)
        with self.database.reading() as session:
            return list(session.scalars(wanted))

    def newest(
        self,
        project: str | None = None,
        *,
        state: str | None = None,
        kind: str | None = None,
        parent: str | None = None,
        after: tuple[datetime, str] | None = None,
        limit: int = 50,
    ) -> list[Run]:
        """Runs from the newest to the oldest; `after` is the creation and the id of the last one that was seen."""
        self._interrupt_silent()
        wanted = select(Run).order_by(Run.created.desc(), Run.id.desc()).limit(limit)
        filters = {Run.project: project, Run.state: state, Run.kind: kind, Run.parent: parent}
        wanted = wanted.where(*(column == value for column, value in filters.items() if value is not None))
        if after is not None:
            wanted = wanted.where(tuple_(Run.created, Run.id) < after)
        with self.database.reading() as session:
            return list(session.scalars(wanted))

    def events(self, run_id: str, after: int = 0, limit: int = 500) -> list[Event]:
        """What happened to a run, after the event with this number."""
        wanted = select(Event).where(Event.run == run_id, Event.id > after).order_by(Event.id).limit(limit)
        with self.database.reading() as session:
            return list(session.scalars(wanted))

    def _locked_run(self, session: Session, run_id: str, project: str | None) -> Run:
        run = session.scalar(select(Run).where(Run.id == run_id).with_for_update())
        if run is None or (project is not None and run.project != project):
            raise EvenhandError(f"There is no run '{run_id}'. `evenhand runs list` shows all.")
        if self._is_silent(session, run):
            self._interrupt(session, run, self.database.now(session))
        return run

    def _held_run(self, session: Session, claim: Claim) -> Run:
        """The run of a claim, if the claim still counts.

        That of a terminal counts until somebody takes the run up: its machine may only have been asleep.
        """
        run = session.scalar(select(Run).where(Run.id == claim.run).with_for_update())
        if run is None or run.lease != claim.lease:
            raise LeaseLost
        if run.place == "terminal" and run.state == "interrupted":
            run.state = "running"
            self._note(session, run.id, self.database.now(session), "note", {"text": "It was silent; it goes on."})
        if run.state not in HELD:
            raise LeaseLost
        return run

    def _is_silent(self, session: Session, run: Run) -> bool:
        """Whether a terminal's run is held by a process that has not been heard of for the length of a lease."""
        if run.place != "terminal" or run.state not in HELD or run.lease_until is None:
            return False
        return run.lease_until < self.database.now(session)

    def _interrupt(self, session: Session, run: Run, now: datetime) -> None:
        if run.cancel:
            self._end(session, run, now, "cancelled", None, None)
        else:
            run.state = "interrupted"
            self._note(session, run.id, now, "interrupted", {})

    def _interrupt_silent(self) -> None:
        """Before runs are shown: terminals' runs whose process has died are interrupted, and no worker may be there."""
        with self.database.reading() as session:
            now = self.database.now(session)
            lapsed = select(Run.id).where(Run.state.in_(HELD), Run.place == "terminal", Run.lease_until < now)
            found = list(session.scalars(lapsed))
        for run_id in found:
            with suppress(EvenhandError):  # it may have been deleted meanwhile
                self._refreshed(run_id)

    def _refreshed(self, run_id: str) -> Run:
        with self.database.writing() as session:
            return self._locked_run(session, run_id, None)

    def _end(
        self, session: Session, run: Run, now: datetime, state: str, result: dict[str, Any] | None, error: str | None
    ) -> None:
        run.state, run.result, run.error, run.finished = state, storable(result), storable(error), now
        run.worker = run.lease_until = None
        self._note(session, run.id, now, state, {} if error is None else {"error": error})

    def _note(self, session: Session, run_id: str, now: datetime, kind: str, data: dict[str, Any]) -> None:
        session.add(Event(run=run_id, at=now, kind=kind, data=storable(data)))
