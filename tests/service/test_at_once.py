"""What happens when two do something at the same moment: opening a database, sweeping, ending."""

import fcntl
import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from evenhand.service import run_folder
from evenhand.service.run_folder import PARTIAL, attempt_folder, drop, sweep, tidy
from evenhand.service.settings import Service
from evenhand.service.storage.database import BUSY_SECONDS, _log_ahead
from evenhand.service.worker import Worker
from tests.worlds.service import small_run
from tests.worlds.workers import QUICK

pytest_plugins = ["tests.worlds.service", "tests.worlds.worker_checks"]

# Ends itself as soon as it has said where it listens, before the server can have begun.
ENDING = (
    "import json, signal, sys; from evenhand.service.settings import Settings;"
    "from evenhand.service.server import run_server;"
    "run_server(Settings(**json.loads(sys.argv[1])).open(), lambda address: signal.raise_signal(int(sys.argv[2])))"
)


class Cursor(sqlite3.Cursor):
    """Refuses some times, as SQLite does while another process makes the same change."""

    refusals = 2
    words = "database is locked"

    def execute(self, *_: object) -> "Cursor":
        if self.refusals:
            self.refusals -= 1
            raise sqlite3.OperationalError(self.words)
        return self


def test_a_new_file_that_others_open_too_is_asked_again() -> None:
    cursor = Cursor(sqlite3.connect(":memory:"))
    _log_ahead(cursor)
    assert cursor.refusals == 0


def test_other_refusals_are_errors_at_once_and_a_lock_that_stays_is_one_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cursor = Cursor(sqlite3.connect(":memory:"))
    cursor.words = "disk I/O error"
    with pytest.raises(sqlite3.OperationalError, match="disk"):
        _log_ahead(cursor)
    assert cursor.refusals == 1
    moments = iter([0.0, BUSY_SECONDS + 1.0])
    monkeypatch.setattr("evenhand.service.storage.database.time.monotonic", lambda: next(moments))
    cursor.words = "database is locked"
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        _log_ahead(cursor)


def remove_once(folder: Path) -> Callable[[], None]:
    """A function that removes an empty folder when it is first called."""
    left = [folder]

    def remove() -> None:
        if left:
            left.pop().rmdir()

    return remove


def test_a_folder_that_goes_before_it_is_locked_is_made_again(
    sqlite_service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_run(sqlite_service)
    claim = sqlite_service.runs.claim("worker")
    assert claim is not None
    folder, lock = sqlite_service.home.run(claim.run), run_folder._lock
    remove = remove_once(folder)

    def late(wanted: Path) -> int:
        remove()
        return lock(wanted)

    monkeypatch.setattr(run_folder, "_lock", late)
    attempt = attempt_folder(sqlite_service.home, claim)
    assert attempt.is_dir()
    assert attempt.parent == folder


def test_a_lock_on_a_folder_that_has_gone_counts_for_nothing(
    sqlite_service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_run(sqlite_service)
    claim = sqlite_service.runs.claim("worker")
    assert claim is not None
    remove, flock = remove_once(sqlite_service.home.run(claim.run)), fcntl.flock

    def after_a_wait(handle: int, kind: int) -> None:
        remove()  # by whoever held the lock until now
        flock(handle, kind)

    monkeypatch.setattr(fcntl, "flock", after_a_wait)
    assert attempt_folder(sqlite_service.home, claim).is_dir()


def test_an_empty_folder_goes_only_under_its_lock(sqlite_service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that has just locked it is about to write into it."""
    run = small_run(sqlite_service)
    folder = sqlite_service.home.run(run.id)
    held: list[Path] = []
    lock = run_folder._lock

    def noted(wanted: Path) -> int:
        held.append(wanted)
        return lock(wanted)

    monkeypatch.setattr(run_folder, "_lock", noted)
    for remove in (lambda: tidy(folder, sqlite_service.runs), lambda: drop(folder / f"attempt-1{PARTIAL}")):
        folder.mkdir(parents=True, exist_ok=True)
        held.clear()
        remove()
        assert held == [folder]
        assert not folder.exists()


def test_a_sweep_goes_on_where_a_folder_goes_away(sqlite_service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    left = [sqlite_service.home.run(small_run(sqlite_service).id) / f"attempt-1{PARTIAL}" for _ in range(3)]
    for attempt in left:
        attempt.mkdir(parents=True)
    gone, look = sorted(left)[1].parent, run_folder._attempts

    def attempts(run: Path) -> list[Path]:
        if run == gone and run.exists():
            left[left.index(run / f"attempt-1{PARTIAL}")].rmdir()
            run.rmdir()
        return look(run)

    monkeypatch.setattr(run_folder, "_attempts", attempts)
    assert len(sweep(sqlite_service.home, sqlite_service.runs)) == 2
    assert not any(attempt.exists() for attempt in left)


def test_a_worker_lives_on_where_it_cannot_sweep(
    quick_service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(*_: object) -> list[Path]:
        raise PermissionError(13, "Permission denied", "runs")

    monkeypatch.setattr("evenhand.service.worker.sweep", refused)
    run = small_run(quick_service, seed=1)
    assert Worker(quick_service, command=QUICK).run_once() == run.id
    assert quick_service.runs.get(run.id).state == "done"
    assert "Cannot remove what killed workers left" in caplog.text


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_before_the_server_has_begun_ends_it(sqlite_service: Service, number: signal.Signals) -> None:
    settings = sqlite_service.settings.model_copy(update={"workers": 0, "port": 0}).model_dump(mode="json")
    command = [sys.executable, "-c", ENDING, json.dumps(settings), str(int(number))]
    ended = subprocess.run(command, timeout=600, capture_output=True, text=True, check=False)
    assert (ended.returncode, "Traceback" in ended.stderr) == (0, False), ended.stderr
