"""A run's own process as its worker sees it: told to begin, listened to, paused, stopped, and asked why it ended."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from evenhand.service.jobs import Job

COMMAND = (sys.executable, "-m", "evenhand.service.execute")
LAST_LINES = 50  # of what it writes to its errors that are kept
LONGEST_LINE = 1 << 20


class Child:
    """A process that does one job. It is started before there is one, since it takes a while until it is ready."""

    def __init__(self, command: Sequence[str] = COMMAND) -> None:
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


def words_for(code: int, last_words: str, seconds: float) -> str:
    """Why a process that said nothing came to its end."""
    if code == -signal.SIGXCPU:
        return f"The run took more than the {seconds:,.0f} seconds of processor time that it may take."
    if code < 0:
        return f"The run's process was ended by {signal.Signals(-code).name}. It may have taken too much memory."
    last = last_words.rpartition("\n")[2] or "it said nothing"
    return f"The run's process ended with the code {code}: {last}"
