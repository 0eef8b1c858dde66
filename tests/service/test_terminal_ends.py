"""Runs of commands in a terminal come to their end: cancelled, stopped by Ctrl-C, refused by the database."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import DataError
from typer.testing import CliRunner

from evenhand.cli.main import app
from evenhand.errors import EvenhandError
from evenhand.local_runs import held_run, interrupts
from evenhand.runs import audit as audits
from evenhand.runs.tasks import Task
from evenhand.service import jobs
from evenhand.service.run_folder import attempt_folder, checkpoint_of
from evenhand.service.settings import Service
from evenhand.service.storage.runs import Runs
from evenhand.service.storage.tables import Run
from evenhand.service.telling import ProgressTeller
from tests.worlds.service import lapse
from tests.worlds.terminal import LONG, PATIENCE, SMALL, evenhand, is_searching, only_run, started
from tests.worlds.workers import until

pytest_plugins = ["tests.worlds.service", "tests.worlds.terminal"]

WAITS = """
import signal
import sys
import threading
from evenhand.cli import tasks
from evenhand.cli.main import main

assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN

def work(task, listener, out, **more):
    print("at work", flush=True)
    threading.Event().wait()

tasks.perform = work
main()
"""


# Ended before its time.


def test_a_run_that_is_cancelled_elsewhere_ends_and_keeps_what_was_found(
    storage: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = ProgressTeller.search

    def cancel(teller: ProgressTeller, progress: Any) -> None:
        told(teller, progress)
        run = only_run(storage)
        if progress.phase == "local" and run is not None and not run.cancel:
            assert storage.runs.cancel(run.id).state == "cancelling"

    monkeypatch.setattr(ProgressTeller, "search", cancel)
    evenhand(*LONG, code=130)
    run = only_run(storage)
    assert run is not None
    assert (run.state, run.error) == ("cancelled", None)
    assert run.result is not None
    assert (run.result["stopped"], "report.html" in run.result["files"]) == ("interrupted", True)
    assert storage.runs.claim("worker") is None


def test_control_c_keeps_what_was_found(here: Path, sqlite_service: Service) -> None:
    with started(*LONG) as process:
        until(lambda: is_searching(sqlite_service) or process.poll() is not None, PATIENCE)
        process.send_signal(signal.SIGINT)
        words, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, errors
    run = only_run(sqlite_service)
    assert run is not None
    assert (run.state, run.result is not None) == ("cancelled", True)
    folder = sqlite_service.home.run(run.id)
    assert f"report: {folder}/report.html" in words
    assert not list(folder.glob("attempt-*"))


def then(place: object, name: str, act: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Something happens each time right after a function has done its work."""
    work = getattr(place, name)

    def both(*given: Any, **named: Any) -> Any:
        done = work(*given, **named)
        act()
        return done

    monkeypatch.setattr(place, name, both)


def control_c() -> None:
    signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize(
    ("place", "name"),
    [(audits, "audit"), (jobs, "flush"), (held_run, "publish"), (held_run, "drop")],
    ids=["audited", "flushed", "published", "dropped"],
)
def test_control_c_after_an_audit_keeps_it_and_begins_no_other(
    here: Path, sqlite_service: Service, monkeypatch: pytest.MonkeyPatch, place: object, name: str
) -> None:
    then(place, name, control_c, monkeypatch)
    before = signal.getsignal(signal.SIGINT)
    done = CliRunner().invoke(app, [*SMALL, "-p", "sex,race", "--each"])
    run = only_run(sqlite_service)
    assert run is not None
    assert (done.exit_code, run.state) == (130, "done")
    assert f"is stored: evenhand runs show {run.id[:8]}" in done.stderr
    folder = sqlite_service.home.run(run.id)
    assert {path.name for path in folder.iterdir()} == {
        "findings.index", "findings.parquet", "report.html", "summary.json",
    }  # fmt: skip
    assert signal.getsignal(signal.SIGINT) is before


def test_a_wish_that_comes_after_an_audit_changes_nothing(
    here: Path, sqlite_service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cancel() -> None:
        run = only_run(sqlite_service)
        assert run is not None
        assert sqlite_service.runs.cancel(run.id).state == "cancelling"
        interrupts.wish()

    then(audits, "audit", cancel, monkeypatch)
    done = CliRunner().invoke(app, SMALL)
    run = only_run(sqlite_service)
    assert run is not None
    assert (done.exit_code, run.state, run.result is not None) == (0, "done", True)
    assert "cancelled from elsewhere" not in done.stderr


def test_control_c_as_soon_as_a_run_has_its_entry_ends_it(storage: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    then(Runs, "begin", control_c, monkeypatch)
    evenhand(*SMALL, code=130)
    run = only_run(storage)
    assert run is not None
    assert (run.state, run.error) == ("cancelled", None)


def test_a_second_control_c_does_not_stop_the_run_from_being_ended(
    storage: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*given: Any, **named: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(audits, "audit", interrupted)
    then(held_run, "put_by", control_c, monkeypatch)
    evenhand(*SMALL, code=130)
    run = only_run(storage)
    assert run is not None
    assert run.state == "cancelled"
    assert not list(storage.home.path.glob("runs/*"))


@pytest.mark.parametrize("how", ["cancelled", "lost"])
def test_a_run_in_a_scripts_background_hears_that_it_is_to_end(here: Path, sqlite_service: Service, how: str) -> None:
    ignoring = ("sh", "-c", "trap '' INT; exec \"$@\"", "sh")
    with started("repair", "census", "-p", "sex", code=WAITS, before=ignoring) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "at work\n"
        run = only_run(sqlite_service)
        assert run is not None
        if how == "cancelled":
            evenhand("runs", "cancel", run.id)
        else:
            with sqlite_service.database.writing() as session:
                held = session.get(Run, run.id)
                assert held is not None
                held.lease += 1  # as if somebody else had taken it up
        _, errors = process.communicate(timeout=PATIENCE)
    if how == "cancelled":
        assert process.returncode == 130, errors
        assert f"The run {run.id[:8]} was cancelled from elsewhere." in errors
        assert sqlite_service.runs.get(run.id).state == "cancelled"
    else:
        assert process.returncode == 2, errors
        assert f"The run {run.id} is not this command's any more" in errors


def test_a_result_that_the_database_refuses_is_said_at_once(storage: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    finish, asked = Runs.finish, list[str]()

    def refuse(runs: Runs, claim: Any, state: Any, result: Any = None, error: str | None = None) -> None:
        asked.append(state)
        if result is not None:
            raise DataError("update run", {}, Exception("a figure out of range"))
        finish(runs, claim, state, result, error)

    monkeypatch.setattr(Runs, "finish", refuse)
    with pytest.raises(EvenhandError, match=r"refuses.*a figure out of range\. The run's files are in "):
        evenhand(*SMALL)
    run = only_run(storage)
    assert run is not None
    assert (asked, run.state) == (["done", "failed"], "failed")
    assert "a figure out of range" in (run.error or "")
    assert (storage.home.run(run.id) / "report.html").is_file()


def test_a_cancelled_run_of_a_dead_terminal_leaves_only_its_checkpoint(here: Path, sqlite_service: Service) -> None:
    claim = held_run.begin(sqlite_service, Task("audit", "census", ["sex"], None, {}))
    attempt = attempt_folder(sqlite_service.home, claim)
    (attempt / "findings.parquet").write_text("half of it")
    checkpoint_of(attempt).mkdir()
    lapse(sqlite_service, claim.run)
    assert "is cancelled" in evenhand("runs", "cancel", claim.run)
    assert [path.name for path in attempt.parent.iterdir()] == ["checkpoint"]
