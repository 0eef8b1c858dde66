"""The worker processes that a server starts, watches and ends."""

import json
import logging
import os
import subprocess
import sys
import threading
from contextlib import suppress

from evenhand.errors import EvenhandError
from evenhand.service.settings import Settings
from evenhand.service.worker import STOP_SECONDS, Worker

RESTART_SECONDS = 2.0  # before a worker that has died is started again
LAST_SECONDS = 5.0  # that a worker has for itself once its run has ended
COMMAND = (sys.executable, "-c", "from evenhand.service.workers import work_for_parent; work_for_parent()")
log = logging.getLogger(__name__)


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
        process = subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)
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
