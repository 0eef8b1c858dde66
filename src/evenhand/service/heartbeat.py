"""The thread that keeps a run's lease alive and tells the database what happens to the run."""

import logging
import threading
import time
from collections import deque
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from evenhand.service.storage.database import REFUSED
from evenhand.service.storage.runs import Claim, LeaseLost, Runs

PROGRESS_SECONDS = 0.5  # progress is saved no more often than this
LONGEST_SECONDS = 1.0  # a wish to cancel is heard within this time
SAFE_PART = 0.8  # of a lease: after it somebody else may soon have the run

log = logging.getLogger(__name__)


class Heartbeat:
    """Beats until it is stopped. A database that does not answer is asked again; only it can say that a lease is lost.

    All that a running attempt writes to the database goes through this thread, so that the worker itself never waits
    for a database while its run's process goes on.
    """

    def __init__(self, runs: Runs, claim: Claim) -> None:
        self._runs, self._claim = runs, claim
        self._progress: dict[str, Any] = {}
        self._changed = False
        self._news: deque[tuple[str, dict[str, Any]]] = deque()
        self._stopping = threading.Event()
        self._wake = threading.Event()
        self._beaten = self._saved = time.monotonic()
        self.cancelled = False  # somebody has cancelled the run
        self.lost = False  # the run belongs to somebody else
        self._thread = threading.Thread(target=self._run, name=f"heartbeat of {claim.run}", daemon=True)
        self._thread.start()

    @property
    def left(self) -> float:
        """Seconds for which nobody else can have the run; zero or less: the last beat that was heard is too old."""
        if self.lost:
            return 0.0
        return self._beaten + SAFE_PART * self._runs.lease_seconds - time.monotonic()

    def progress(self, progress: dict[str, Any]) -> None:
        """How far the run is; what was said before and is not said again stays."""
        self._progress = self._progress | progress
        self._changed = True

    def tell(self, kind: str, data: dict[str, Any]) -> None:
        """Something that happened to the run."""
        self._news.append((kind, data))
        self._wake.set()

    def stop(self) -> None:
        """Save what there is to say, and beat no more."""
        self._stopping.set()
        self._wake.set()
        self._thread.join()

    def _run(self) -> None:
        every = min(LONGEST_SECONDS, self._runs.lease_seconds / 3)
        while not self.lost and not self._stopping.is_set():
            self._wake.wait(min(every, PROGRESS_SECONDS))
            self._wake.clear()
            now = time.monotonic()
            if self._news or self._changed or now - self._saved >= every:
                self._save()
        if not self.lost:
            self._save()

    def _save(self) -> None:
        """Everything that is new, once; what cannot be saved now is kept for the next time."""
        start = time.monotonic()
        try:
            while self._news:
                self._runs.tell(self._claim, *self._news[0])
                self._news.popleft()
            changed, self._changed = self._changed, False
            self.cancelled = self._runs.beat(self._claim, self._progress if changed else None)
            self._beaten = self._saved = start
        except LeaseLost:
            self.lost = True
        except REFUSED as error:
            self._progress, self._saved = {}, start
            if self._news:
                self._news.popleft()
            log.warning("run %s: the database refuses what there is to say: %s", self._claim.run, error)
        except SQLAlchemyError as error:
            self._changed, self._saved = True, start
            log.warning("The database does not answer; the run %s goes on: %s", self._claim.run, error)
