"""A run that a command does in its own process and that the storage knows of.

It is held with a lease as a worker holds one, so that lists and pages see it live, `evenhand runs cancel` ends it, and
the death of its process shows. No worker ever takes it up: it may need files, modules and addresses of its terminal.
"""

import errno
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeGuard

from sqlalchemy.exc import SQLAlchemyError

from evenhand.errors import EvenhandError
from evenhand.files import cannot_write
from evenhand.local_runs.interrupts import Interrupts, wish
from evenhand.local_runs.storage import AROUND, first_line
from evenhand.local_runs.stored_task import stored_config, title_of_task
from evenhand.runs.tasks import Listener, Task
from evenhand.service.heartbeat import Heartbeat
from evenhand.service.jobs import result_of
from evenhand.service.run_folder import LAST, attempt_folder, checkpoint_of, drop, publish, put_by
from evenhand.service.settings import Service
from evenhand.service.storage.database import REFUSED
from evenhand.service.storage.projects import DEFAULT_PROJECT
from evenhand.service.storage.runs import Claim, LeaseLost
from evenhand.service.telling import FirstPairs, ProgressTeller

if TYPE_CHECKING:
    from evenhand.runs.checkpoints import Checkpoints, News
    from evenhand.search.recorder import Findings

LOOK_SECONDS = 0.2  # between two looks whether somebody wishes that the run ends
PATIENCE_SECONDS = 20.0  # with a database that does not answer when the result is to be kept
AGAIN_SECONDS = 0.5
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


def begin(service: Service, task: Task) -> Claim:
    """The entry of a run that this process does now."""
    return service.runs.begin(DEFAULT_PROJECT, task.kind, title_of_task(task), stored_config(task), this_process())


def this_process() -> str:
    """How lists name this process."""
    return f"{socket.gethostname()[:60]}, process {os.getpid()}"


def is_gone(worker: str) -> bool:
    """Whether a process that `this_process` named was one of this machine and is there no more."""
    machine, _, number = worker.rpartition(", process ")
    if machine != socket.gethostname()[:60] or not number.isdecimal():
        return False
    try:
        os.kill(int(number), 0)  # 0 is no signal: it is only looked whether there is somebody to send one to
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):  # another user's, for instance
        return False
    return False


@contextmanager
def doing(service: Service, enter: Callable[[], Claim], *, again: bool = False) -> Iterator["HeldRun"]:
    """The run that `enter` makes an entry of, for a block that does it and hands its summary to `keep`.

    Otherwise the run failed or was cancelled. From the entry on, no Ctrl-C leaves it behind as if somebody did it.
    """
    interrupts = Interrupts()
    with _saying_once("evenhand.service.heartbeat"), interrupts.heard():
        run: HeldRun | None = None
        try:
            with interrupts.deferring_interrupts():
                run = HeldRun(service, enter(), again, interrupts)
                run.open()
            yield run
        except BaseException as error:
            interrupts.shut()
            words = None if run is None else run.left(error)
            if words is None:
                raise
            raise EvenhandError(words) from error
        finally:
            if run is not None:
                run.close()


class HeldRun(Listener):
    """A run that this process holds."""

    def __init__(self, service: Service, claim: Claim, again: bool, interrupts: Interrupts) -> None:
        self._service, self._runs, self._claim, self._again = service, service.runs, claim, again
        self._begun = False  # whether the work itself has begun: before, what goes wrong is a slip of the user's
        self._state: Literal["done", "failed", "cancelled"] | None = None  # once the result is kept
        self._beats: Heartbeat | None = None
        self._interrupts = interrupts
        self._over = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name=f"watcher of {claim.run}", daemon=True)
        self._teller = ProgressTeller(self._tell)
        self._pairs: FirstPairs | None = None
        self.say: Callable[[str], None] = lambda words: None
        self.run, self.place = claim.run, service.home.run(claim.run)
        self.folder = self.place / "nothing yet"

    def open(self) -> None:
        """Make the folder, and let the lease be kept."""
        self._beats = Heartbeat(self._runs, self._claim)
        try:
            self.folder = attempt_folder(self._service.home, self._claim)
        except OSError as error:
            raise EvenhandError(f"{cannot_write(self.place, error)} {AROUND}") from error
        self._interrupts.is_whole = (self.folder / LAST).is_file
        if threading.current_thread() is threading.main_thread():  # no other one hears of Ctrl-C
            self._watcher.start()

    @property
    def cancelled_elsewhere(self) -> bool:
        """Whether somebody else wished that it ends, before it was done."""
        return self._beats is not None and self._beats.cancelled and self._state != "done"

    @property
    def is_kept(self) -> bool:
        """Whether it has ended with a result."""
        return self._state is not None

    @property
    def _heart(self) -> Heartbeat:
        assert self._beats is not None
        return self._beats

    def search(self, progress: Any) -> None:
        """Where a search stands."""
        self._teller.search(progress)

    def count(self, what: str, done: int, total: int) -> None:
        """So many of so many."""
        self._teller.count(what, done, total)

    def step(self, what: str, share: float) -> None:
        """A part of the work, and the share of it that is done."""
        self._teller.step(what, share)

    def findings(self, findings: "Findings", words: Callable[[int], dict[str, Any]]) -> None:
        """Some more findings."""
        if self._pairs is None:
            events = self._runs.events(self.run) if self._again else []
            self._pairs = FirstPairs(self._tell, [event.data for event in events if event.kind == "pair"])
        self._pairs(findings, words)

    def checkpoints(self) -> "Checkpoints":
        """Where an audit keeps what it needs to go on after its process has died."""
        from evenhand.runs.checkpoints import Checkpoints
        from evenhand.service.execute import checkpoint_seconds

        return Checkpoints(checkpoint_of(self.folder), checkpoint_seconds(), self._news, keep=True)

    def keep(self, summary: dict[str, Any]) -> Path:
        """Make the files the run's result and end it; returns where they are."""
        with self._interrupts.deferring_interrupts():
            self._stop_watching()
            result = result_of(self._claim.kind, summary, self.folder)
            error = result.pop("error", None)
            stopped = result.get("stopped") == "interrupted"
            state: Literal["done", "failed", "cancelled"] = "failed" if error else "cancelled" if stopped else "done"
            self._heart.progress({"phase": "done", "done": 1, "total": 1, "left": 0.0} | _found(result))
            self._retry(lambda: publish(self.folder, self._still_held, keep_checkpoint=state != "done"))
            self._heart.stop()
            self._retry(lambda: self._runs.finish(self._claim, state, result, error))
            drop(self.folder)
            self._state = state
        return self.place

    def left(self, error: BaseException) -> str | None:
        """End a run whose block ended with an error; returns what to say instead of it, if anything."""
        self.close()
        if self.is_kept:
            return None
        if isinstance(error, LeaseLost) or (self._beats is not None and self._beats.lost):
            drop(self.folder)
            return (
                f"The run {self.run} is not this command's any more: while it was silent, it was taken up, cancelled "
                "or deleted elsewhere. Nothing of this attempt is kept."
            )
        if isinstance(error, SQLAlchemyError) and not isinstance(error, REFUSED):
            place = self.folder if any(self.folder.glob("*.json")) else self.place
            files = f"The run's files are in {place}." if self._begun else AROUND
            return f"The database does not answer any more: {first_line(error)}. {files}"
        words = self._words(error)
        with suppress(LeaseLost, SQLAlchemyError):  # then its lease ends, and it counts as interrupted
            self._end("cancelled" if isinstance(error, KeyboardInterrupt) else "failed", words)
            if isinstance(error, EvenhandError) and not self._begun and not self._again:
                self._service.delete_run(self.run)
        return words if isinstance(error, REFUSED) or _is_no_room(error) else None

    def close(self) -> None:
        """End the threads."""
        self._stop_watching()
        if self._beats is not None:
            self._beats.stop()

    def _end(self, state: Literal["failed", "cancelled"], words: str | None) -> None:
        try:
            put_by(self.folder, self._still_held)
        finally:
            drop(self.folder)
        self._runs.finish(self._claim, state, None, words)

    def _still_held(self) -> bool:
        return self._runs.beat(self._claim)

    def _words(self, error: BaseException) -> str | None:
        if isinstance(error, KeyboardInterrupt):
            return None
        if _is_no_room(error):
            return f"{cannot_write(self.folder, error)} {AROUND}"
        if isinstance(error, REFUSED):
            files = f" The run's files are in {self.place}." if (self.place / LAST).is_file() else ""
            return f"The database refuses what is to be stored of the run: {first_line(error)}.{files}"
        return str(error) if isinstance(error, EvenhandError) else f"{type(error).__name__}: {error}"

    def _tell(self, event: str, **data: Any) -> None:
        self._begun = True
        if event == "progress":
            self._heart.progress(data)
        else:
            self._heart.tell(event, {"attempt": self._claim.attempt, **data})

    def _news(self, news: "News") -> None:
        """What happens to checkpoints, as a worker tells it; a person at the terminal hears what changes the work."""
        if news.kind == "saved":
            self._tell("progress", saved=news.findings)
            return
        self.say(news.text)
        if news.kind == "resumed":
            self._teller.resumed(news.step, news.total, news.findings, news.seconds)
        else:
            self._tell("note", text=news.text)

    def _watch(self) -> None:
        """A wish from elsewhere that the run ends is what Ctrl-C is here; so is the news that it is another's."""
        while not self._over.wait(LOOK_SECONDS):
            if self._heart.cancelled or self._heart.lost:
                wish()
                return

    def _stop_watching(self) -> None:
        self._over.set()
        if self._watcher.is_alive():
            self._watcher.join()

    def _retry(self, act: Callable[[], object]) -> None:
        """Do something with the database; one that is away for a moment is asked again."""
        # SQLite has waited for its turn already; what it refuses now it refuses for good.
        end = time.monotonic() + (0.0 if self._service.database.is_sqlite else PATIENCE_SECONDS)
        while True:
            try:
                act()
                return
            except REFUSED:
                raise
            except SQLAlchemyError:
                if time.monotonic() >= end:
                    raise
                time.sleep(AGAIN_SECONDS)


def _is_no_room(error: BaseException) -> TypeGuard[OSError]:
    return isinstance(error, OSError) and error.errno in NO_ROOM


def _found(result: dict[str, Any]) -> dict[str, Any]:
    return {"findings": result.get("findings", 0)}


@contextmanager
def _saying_once(name: str) -> Iterator[None]:
    """The first warning of a logger is shown and no more: a terminal is no log."""
    seen: list[logging.LogRecord] = []

    def once(record: logging.LogRecord) -> bool:
        seen.append(record)
        return len(seen) == 1

    logger = logging.getLogger(name)
    logger.addFilter(once)
    try:
        yield
    finally:
        logger.removeFilter(once)
