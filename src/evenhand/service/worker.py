"""A worker: claims runs, one after the other, and sees each of them through to its end.

Each run has a process of its own (`execute`). A run whose worker is killed is taken up by another when its lease has
ended. An audit then goes on from its last checkpoint, everything else from its beginning; either way the result is the
same as if nothing had happened.
"""

import logging
import os
import signal
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from sqlalchemy.exc import SQLAlchemyError

from evenhand.service.attempt import Attempt
from evenhand.service.child import COMMAND, Child
from evenhand.service.run_folder import sweep
from evenhand.service.settings import Service

POLL_SECONDS = 0.5  # between two looks for a run
STOP_SECONDS = 30.0  # that a process has to come to an end by itself
log = logging.getLogger(__name__)


class Worker:
    """Does runs for a service until it is stopped."""

    def __init__(
        self,
        service: Service,
        name: str | None = None,
        *,
        command: Sequence[str] = COMMAND,
        poll_seconds: float = POLL_SECONDS,
        stop_seconds: float = STOP_SECONDS,
    ) -> None:
        self.service = service
        self.name = name or f"{socket.gethostname()[:60]}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._command, self._poll, self._stop_seconds = command, poll_seconds, stop_seconds
        self._stopping = threading.Event()
        self._swept = float("-inf")
        self._spare: Child | None = None

    def stop(self) -> None:
        """Take no more runs, and hand back the one that is being done."""
        self._stopping.set()

    def run_forever(self) -> None:
        """Do runs until stopped, by `stop` or, where this is the main thread, by SIGTERM or Ctrl-C."""
        with _signals(self.stop):
            try:
                while not self._stopping.is_set():
                    if self.run_once() is None:
                        self._prepare()
                        self._stopping.wait(self._poll)
            finally:
                self._close_spare()

    def run_once(self) -> str | None:
        """Do one run, if one waits; returns its id."""
        try:
            self._sweep()
            claim = self.service.runs.claim(self.name)
        except SQLAlchemyError as error:
            log.warning("The database does not answer: %s", error)
            return None
        if claim is None:
            return None
        log.info("run %s: attempt %d begins", claim.run, claim.attempt)
        child = self._spare if self._spare is not None and self._spare.alive else Child(self._command)
        if child is self._spare:
            self._spare = None
        Attempt(self.service, claim, child, self._stopping, self._stop_seconds).see_through()
        return claim.run

    def _prepare(self) -> None:
        """A process that is ready when a run comes: importing what it needs takes longer than a small audit."""
        if self._spare is not None and not self._spare.alive:
            self._close_spare()
        if self._spare is None:
            self._spare = Child(self._command)

    def _close_spare(self) -> None:
        if self._spare is not None:
            self._spare.end()
            self._spare = None

    def _sweep(self) -> None:
        """At the beginning, and once in the time of a lease, remove what killed workers left."""
        now = time.monotonic()
        if now - self._swept >= self.service.runs.lease_seconds:
            self._swept = now
            try:
                for path in sweep(self.service.home, self.service.runs):
                    log.info("removed %s, which a killed worker left", path)
            except OSError as error:  # the next sweep may do better; runs can be done meanwhile
                log.warning("Cannot remove what killed workers left: %s", error)


@contextmanager
def _signals(stop: Callable[[], None]) -> Iterator[None]:
    """SIGTERM and Ctrl-C as a wish to stop; only the main thread can hear them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def heard(_number: int, _frame: FrameType | None) -> None:
        stop()

    before = {number: signal.signal(number, heard) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
