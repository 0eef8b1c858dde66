"""A worker claims runs, one after the other, and does each to its end; a server starts several and watches them.

Each run has a process of its own (`execute`). A run whose worker is killed is claimed by another when its lease has
ended. An audit then goes on from its last checkpoint, everything else from its beginning; either way the result is the
same as if nothing had happened.
"""

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType

from sqlalchemy.exc import SQLAlchemyError

from evenhand.errors import EvenhandError
from evenhand.service.attempt import EXECUTE, Attempt, Child
from evenhand.service.run_folder import sweep
from evenhand.service.settings import Service, Settings

POLL_SECONDS = 0.5  # between two looks for a run
STOP_SECONDS = 30.0  # that a process has to come to an end by itself
RESTART_SECONDS = 2.0  # before a worker that has died is started again
LAST_SECONDS = 5.0  # that a worker has for itself once its run has ended
WORK = (sys.executable, "-c", "from evenhand.service.worker import work_for_parent; work_for_parent()")
log = logging.getLogger(__name__)


class Worker:
    """Does runs for a service until it is stopped."""

    def __init__(
        self,
        service: Service,
        name: str | None = None,
        *,
        command: Sequence[str] = EXECUTE,
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
        Attempt(self.service, claim, child, self._stopping, self._stop_seconds).run()
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
    """SIGTERM and Ctrl-C stop the worker; only the main thread can hear them."""
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


class Workers:
    """Worker processes, started again when they die.

    Each gets its settings through a pipe: a database's password must not show in a list of processes. The pipe stays
    open as long as this process lives; when it closes, for whatever reason, the worker ends too.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._ending = threading.Event()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._watcher = threading.Thread(target=self._watch, name="workers", daemon=True)

    def start(self) -> None:
        """Start all of them."""
        self._processes = [self._started() for _ in range(self._settings.workers)]
        self._watcher.start()

    def stop(self) -> None:
        """End them kindly, and after a while in any case."""
        self._ending.set()
        if self._watcher.is_alive():
            self._watcher.join()
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            try:
                process.wait(STOP_SECONDS + LAST_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            _close(process)

    def _watch(self) -> None:
        while not self._ending.wait(RESTART_SECONDS):
            for place, process in enumerate(self._processes):
                if process.poll() is not None and not self._ending.is_set():
                    log.warning("a worker ended with %s; another one is started", process.returncode)
                    _close(process)
                    self._processes[place] = self._started()

    def _started(self) -> "subprocess.Popen[bytes]":
        # A session of its own: Ctrl-C is for this process, which then ends its workers in order.
        process = subprocess.Popen(WORK, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # it has died already, which the watch will see
            process.stdin.write(self._settings.model_dump_json().encode() + b"\n")
            process.stdin.flush()
        return process


def _close(process: "subprocess.Popen[bytes]") -> None:
    assert process.stdin is not None
    with suppress(BrokenPipeError):
        process.stdin.close()


def work_for_parent() -> None:
    """What a worker process does: reads its settings, and works until it is told to end or its parent is gone."""
    settings = Settings.model_validate(json.loads(sys.stdin.buffer.readline()))
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s worker: %(message)s")
    try:
        service = settings.open()
    except EvenhandError as error:
        log.error("%s", error)
        sys.exit(1)
    worker = Worker(service)

    def until_the_parent_ends() -> None:
        while os.read(0, 1024):  # not through a buffer, whose lock would be held when the process ends
            pass
        worker.stop()

    threading.Thread(target=until_the_parent_ends, daemon=True).start()
    worker.run_forever()
    service.close()
