"""One attempt at a run, from the claim to a result, a failure, or the run handed back; and the process that does it."""

import json
import logging
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from sqlalchemy.exc import SQLAlchemyError

from evenhand.errors import EvenhandError
from evenhand.files import cannot_write
from evenhand.service.heartbeat import Heartbeat
from evenhand.service.jobs import UNSURE, Job, job_of
from evenhand.service.run_folder import attempt_folder, drop, publish, put_by, tidy
from evenhand.service.settings import Service
from evenhand.service.storage.database import REFUSED
from evenhand.service.storage.runs import Claim, LeaseLost

EXECUTE = (sys.executable, "-m", "evenhand.service.execute")
LAST_LINES = 50  # of what it writes to its errors that are kept
LONGEST_LINE = 1 << 20
TICK_SECONDS = 0.1
MARGIN = 0.1  # of a lease, that a process ends by itself later than its worker would pause it
AGAIN_SECONDS = 0.5  # before a database that did not answer is asked again
HANGING = 4  # times the processor time that a run may take by the clock, and a minute, in case it only waits
KILLED = "The run's process was killed from outside, perhaps because memory ran out. The run starts again shortly."
log = logging.getLogger(__name__)


class Child:
    """A process that does one job. It is started before there is one, since it takes a while until it is ready."""

    def __init__(self, command: Sequence[str] = EXECUTE) -> None:
        pipe = subprocess.PIPE
        # A session of its own: Ctrl-C in a terminal is for the worker, which decides what becomes of its run.
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True)
        self._events: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._last: deque[str] = deque(maxlen=LAST_LINES)
        self._readers = [threading.Thread(target=target, daemon=True) for target in (self._listen, self._remember)]
        self.paused = False
        for reader in self._readers:
            reader.start()

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def begin(self, job: Job) -> None:
        """Tell it what to do. Its input stays open: the end of it means that the worker has gone."""
        self._say(job.text())
        assert self._process.stdin is not None
        os.set_blocking(self._process.stdin.fileno(), False)

    def reassure(self, seconds: float) -> None:
        """Tell it that the run is ours for so many seconds more; it ends by itself when it is not told in time."""
        self._say(f"{max(0.0, seconds):.3f}\n")

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        rest = line.encode()
        # It may be dead, and how it ended says more; or it has not listened for so long that it is as good as dead.
        with suppress(BrokenPipeError, BlockingIOError):
            while rest:
                rest = rest[os.write(self._process.stdin.fileno(), rest) :]

    def event(self, seconds: float) -> dict[str, Any] | None:
        """The next thing that it says; an empty one where it says nothing for so long, and None after the last."""
        try:
            return self._events.get(timeout=seconds)
        except queue.Empty:
            return {}

    def stop(self) -> None:
        """Ask it to come to an end and to keep what it has."""
        self.go_on()
        self._process.send_signal(signal.SIGTERM)

    def pause(self) -> None:
        """Let it stand still."""
        if not self.paused:
            self.paused = True
            self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it move again."""
        if self.paused:
            self.paused = False
            self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it at once, whatever it does."""
        self._process.kill()

    def end(self) -> None:
        """The same, and wait until it has gone."""
        self.kill()
        self.close()

    def close(self) -> int:
        """Wait for a process that has come to its end; returns its exit code, below zero for a signal."""
        code = self._process.wait()
        for reader in self._readers:
            reader.join()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert stream is not None
            with suppress(BrokenPipeError):
                stream.close()
        return code

    def last_words(self) -> str:
        """The last lines that it wrote to its errors."""
        return "\n".join(self._last)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in iter(lambda: self._process.stdout.readline(LONGEST_LINE), b""):  # type: ignore[union-attr]
            try:
                event = json.loads(line)
            except ValueError:  # the end of a line that a kill cut off
                continue
            if isinstance(event, dict) and event:
                self._events.put(event)
        self._events.put(None)

    def _remember(self) -> None:
        assert self._process.stderr is not None
        for line in iter(lambda: self._process.stderr.readline(LONGEST_LINE), b""):  # type: ignore[union-attr]
            self._last.append(line.decode("utf-8", "replace").rstrip())


def reason_of_end(code: int, last_words: str, seconds: float) -> str:
    """Why a process that said nothing came to its end."""
    if code == -signal.SIGXCPU:
        return f"The run took more than the {seconds:,.0f} seconds of processor time that it may take."
    if code < 0:
        return f"The run's process was ended by {signal.Signals(-code).name}. It may have taken too much memory."
    last = last_words.rpartition("\n")[2] or "it said nothing"
    return f"The run's process ended with the code {code}: {last}"


class Attempt:
    """A run that is held, its process, its folder and the thread that keeps the lease."""

    def __init__(
        self, service: Service, claim: Claim, child: Child, stopping: threading.Event, stop_seconds: float
    ) -> None:
        self._service, self._runs, self._claim, self._child = service, service.runs, claim, child
        self._stopping, self._stop_seconds = stopping, stop_seconds
        self._folder: Path | None = None
        self._outcome: dict[str, Any] = {}  # the child's last event: how it ended
        self._end_at: float | None = None  # when a child that was asked to stop is made to
        self._reassure_at = 0.0
        self._hangs_at = time.monotonic() + HANGING * service.settings.run_seconds + 60

    def run(self) -> None:
        """Do the run; whatever happens to it, the worker lives on."""
        try:
            self._run()
        except SQLAlchemyError as error:  # the lease runs out, and what is left of this attempt is swept away
            log.warning("run %s: left behind, since the database did not take its news: %s", self._claim.run, error)

    def _run(self) -> None:
        self._heartbeat = Heartbeat(self._runs, self._claim)
        try:
            self._folder = attempt_folder(self._service.home, self._claim)
            self._child.begin(job_of(self._service, self._claim, self._folder))
            self._listen()
            self._conclude(self._child.close())
        except LeaseLost:
            self._abandon()
        except EvenhandError as error:
            self._fail(str(error))
        except OSError as error:
            self._fail(str(cannot_write(Path("the service's folder"), error)))
        finally:
            self._child.end()
            self._heartbeat.stop()

    def _listen(self) -> None:
        """Until the child has ended, pass on what it says and look after it."""
        while (event := self._child.event(TICK_SECONDS)) is not None:
            if event:
                self._on_event(event)
            self._watch_child()

    def _on_event(self, event: dict[str, Any]) -> None:
        kind = event.pop("event", "")
        if kind == "progress":
            self._heartbeat.progress(event)
        elif kind in ("done", "failed", "stopped"):
            self._outcome = {"event": kind, **event}
        else:
            self._heartbeat.tell(str(kind)[:30], {"attempt": self._claim.attempt, **event})

    def _watch_child(self) -> None:
        """The child goes on only while the run is surely ours and wanted."""
        now = time.monotonic()
        if self._heartbeat.lost or (self._stopping.is_set() and not self._outcome):
            self._child.kill()
        elif self._heartbeat.left <= 0:
            self._child.pause()  # the database does not answer; when it does, it says whose the run is
        elif now >= self._reassure_at:
            self._reassure_at = now + self._runs.lease_seconds / 10
            self._child.reassure(self._heartbeat.left + MARGIN * self._runs.lease_seconds)
            self._child.go_on()
        if self._heartbeat.cancelled and self._end_at is None:
            self._end_at = now + self._stop_seconds
            self._child.stop()
        if self._end_at is not None and now > self._end_at:
            self._child.kill()
        if now > self._hangs_at:
            self._outcome = {
                "event": "failed",
                "error": f"The run had not ended after {HANGING} times the time that it may take.",
            }
            self._child.kill()

    def _conclude(self, code: int) -> None:
        """What becomes of the run, now that its process has ended."""
        if self._heartbeat.lost:
            raise LeaseLost
        said = self._outcome.get("event")
        if said == "done":
            self._publish_result(self._outcome["result"])
        elif said == "failed":
            self._fail(str(self._outcome["error"]))
        elif self._heartbeat.cancelled:
            self._end("cancelled")
        elif self._stopping.is_set():
            self._without_files(lambda: self._runs.hand_back(self._claim))
        elif code in (-signal.SIGKILL, UNSURE):
            # No end: the lease runs out and the run is taken up again, as it is when a worker is killed.
            self._heartbeat.tell("note", {"attempt": self._claim.attempt, "text": KILLED})
            self._without_files(lambda: None)
        else:
            self._fail(reason_of_end(code, self._child.last_words(), self._service.settings.run_seconds))

    def _publish_result(self, result: dict[str, Any]) -> None:
        """Make the files the run's result, and only then say that it is over."""
        error = result.pop("error", None)
        self._heartbeat.progress(
            {"phase": "done", "done": 1, "total": 1, "left": 0.0, "findings": result.get("findings", 0)}
        )
        stopped = self._heartbeat.cancelled and result.get("stopped") == "interrupted"
        state: Literal["done", "failed", "cancelled"] = "failed" if error else "cancelled" if stopped else "done"
        assert self._folder is not None
        folder = self._folder
        self._retry_database(lambda: publish(folder, self._still_held, keep_checkpoint=state != "done"))
        self._heartbeat.stop()
        self._retry_database(lambda: self._runs.finish(self._claim, state, result, error))
        drop(folder)
        log.info("run %s: %s", self._claim.run, state)

    def _fail(self, words: str) -> None:
        log.warning("run %s: failed: %s\n%s", self._claim.run, words, self._child.last_words())
        self._child.end()
        self._end("failed", words)

    def _end(self, state: Literal["failed", "cancelled"], error: str | None = None) -> None:
        self._without_files(lambda: self._runs.finish(self._claim, state, None, error))

    def _without_files(self, end: Callable[[], None]) -> None:
        """End an attempt that leaves nothing but its last checkpoint."""
        try:
            if self._folder is not None:
                folder = self._folder
                self._retry_database(lambda: put_by(folder, self._still_held))
                drop(folder)
            self._heartbeat.stop()
            self._retry_database(end)
        except LeaseLost:
            self._abandon()

    def _still_held(self) -> None:
        self._runs.beat(self._claim)

    def _abandon(self) -> None:
        """The run belongs to another worker, or to nobody any more: what this one made of it must go."""
        log.warning("run %s: it is not this worker's any more", self._claim.run)
        self._child.end()
        if self._folder is not None:
            self._retry_database(lambda: tidy(self._folder.parent, self._runs))  # type: ignore[union-attr]

    def _retry_database(self, act: Callable[[], object]) -> None:
        """Do something with the database, again and again until it answers or the worker is told to stop."""
        while True:
            try:
                act()
                return
            except REFUSED:
                raise
            except SQLAlchemyError as error:
                log.warning("The database does not answer; the run %s waits for it: %s", self._claim.run, error)
                if self._stopping.wait(AGAIN_SECONDS):
                    raise
