"""Workers in processes of their own, which a test can kill: forked from one that has imported everything.

A test asks a `Nursery` for them; run as a program, this file is the process that they are forked from.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.worlds.quick_child import is_alive

QUICK = (sys.executable, "-m", "tests.worlds.quick_child")
ROOT = Path(__file__).parents[2]


class Nursery:
    """Starts workers for a service, on the command line of a run's process that it is given."""

    def __init__(self, settings: dict[str, Any], marks: Path, command: tuple[str, ...] = QUICK) -> None:
        environment = os.environ | {"EVENHAND_TEST_MARKS": str(marks), "PYTHONPATH": str(ROOT)}
        marks.mkdir(exist_ok=True)
        self.marks, self.pids, self._lock = marks, list[int](), threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.worlds.workers", json.dumps(settings), json.dumps(command)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment,
        )  # fmt: skip

    def start(self) -> int:
        """A new worker's process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            self._process.stdin.write("start\n")
            self._process.stdin.flush()
            pid = int(self._process.stdout.readline())
            self.pids.append(pid)
        return pid

    def close(self) -> None:
        """End all workers, by force, and wait until they and their runs' processes have gone."""
        for pid in self.pids:
            kill(pid)
        self._process.communicate()
        until(lambda: not any(is_alive(pid) for pid in (*self.pids, *self.run_pids())))

    def run_pids(self) -> list[int]:
        """All processes that have worked at runs."""
        return [int(mark.name.rpartition("-")[2]) for mark in self.marks.glob("*-*")]


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            found.append(int(path.parent.name))
    return found


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    """Send a signal to a process that may have gone."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def until(condition: Callable[[], bool], seconds: float = 600.0, every: float = 0.02) -> None:
    """Wait for something that happens soon; the limit is only there so that a broken test ends."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(every)


def _work(settings: dict[str, Any], command: list[str]) -> None:
    """What a forked worker does."""
    from evenhand.service.settings import Settings
    from evenhand.service.worker import Worker

    service = Settings(**settings).open()
    Worker(service, command=command, poll_seconds=0.05, stop_seconds=2.0).run_forever()


def _main() -> None:
    import evenhand.service.storage.runs as runs
    import evenhand.service.worker  # noqa: F401 - so that the forks have it

    runs.MOST_ATTEMPTS = 1000  # these tests kill for other reasons than a run's own fault
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the workers
    for _ in sys.stdin:
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            devnull = os.open(os.devnull, os.O_RDWR)
            os.dup2(devnull, 0)
            os.dup2(devnull, 1)
            try:
                _work(json.loads(sys.argv[1]), json.loads(sys.argv[2]))
            finally:
                os._exit(0)
        print(pid, flush=True)


if __name__ == "__main__":
    _main()
