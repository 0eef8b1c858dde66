"""Runs and projects in the database keep their promises, on SQLite and on PostgreSQL alike."""

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Literal

import pytest
from sqlalchemy import func, select
from sqlalchemy.exc import IntegrityError

from evenhand.errors import EvenhandError
from evenhand.service.settings import Service, Settings
from evenhand.service.storage.database import Database
from evenhand.service.storage.people import NoSuchProject
from evenhand.service.storage.runs import MOST_ATTEMPTS, STATES, Claim, LeaseLost
from evenhand.service.storage.tables import Event, Project, Run
from tests.service_world import lapse, small_run

pytest_plugins = ["tests.service_world"]


def kinds(service: Service, run_id: str) -> list[str]:
    return [event.kind for event in service.runs.events(run_id)]


def claimed(service: Service, worker: str = "worker") -> Claim:
    claim = service.runs.claim(worker)
    assert claim is not None
    return claim


def in_state(service: Service, state: str) -> Run:
    """A run that has come to a state as runs do."""
    run = small_run(service)
    if state == "queued":
        return run
    claim = claimed(service)
    if state == "interrupted":
        service.runs.give_up(claim)
    elif state == "cancelling":
        service.runs.cancel(run.id)
    elif state == "failed":
        service.runs.finish(claim, "failed", error="It broke.")
    elif state in ("done", "cancelled"):
        service.runs.finish(claim, "done" if state == "done" else "cancelled", result={"findings": 1})
    return service.runs.get(run.id)


@pytest.mark.parametrize("state", STATES)
def test_every_state_can_be_reached(sqlite_service: Service, state: str) -> None:
    assert in_state(sqlite_service, state).state == state


def test_a_run_is_made_claimed_kept_alive_and_ended_once(service: Service) -> None:
    run = small_run(service)
    assert (run.state, run.created.tzinfo) == ("queued", UTC)
    claim = claimed(service)
    assert (claim.run, claim.config, claim.attempt) == (run.id, run.config, 1)
    assert service.runs.claim("second") is None
    assert service.runs.beat(claim, {"done": 1, "total": 2}) is False
    service.runs.tell(claim, "pair", {"words": "ä"})
    service.runs.finish(claim, "done", result={"findings": 3})
    ended = service.runs.get(run.id)
    assert (ended.state, ended.result, ended.progress) == ("done", {"findings": 3}, {"done": 1, "total": 2})
    assert (ended.worker, ended.lease_until) == (None, None)
    assert ended.started is not None
    assert ended.finished is not None
    assert ended.created <= ended.started <= ended.finished
    assert kinds(service, run.id) == ["queued", "started", "pair", "done"]


def test_what_is_over_cannot_be_touched_by_its_last_worker(service: Service) -> None:
    run = small_run(service)
    claim = claimed(service)
    service.runs.finish(claim, "done", result={"findings": 3})
    late: list[Callable[[], Any]] = [
        lambda: service.runs.beat(claim, {"done": 9}),
        lambda: service.runs.tell(claim, "pair", {}),
        lambda: service.runs.finish(claim, "failed", error="no"),
        lambda: service.runs.give_up(claim),
    ]
    for attempt in late:
        with pytest.raises(LeaseLost):
            attempt()
    assert kinds(service, run.id) == ["queued", "started", "done"]
    assert service.runs.get(run.id).progress == {}


def test_runs_are_claimed_from_the_oldest_on(service: Service) -> None:
    made = [small_run(service).id for _ in range(3)]
    assert [claimed(service).run for _ in range(3)] == made
    assert service.runs.claim("w") is None


def test_a_silent_workers_run_goes_to_another_and_the_first_cannot_touch_it(service: Service) -> None:
    run = small_run(service)
    first = claimed(service, "first")
    lapse(service, run.id)
    second = claimed(service, "second")
    assert (second.run, second.attempt, second.lease) == (run.id, 2, first.lease + 1)
    with pytest.raises(LeaseLost):
        service.runs.beat(first)
    with pytest.raises(LeaseLost):
        service.runs.finish(first, "done", result={"from": "first"})
    service.runs.finish(second, "done", result={"from": "second"})
    assert service.runs.get(run.id).result == {"from": "second"}


def test_a_worker_that_is_late_but_not_replaced_keeps_its_run(service: Service) -> None:
    run = small_run(service)
    claim = claimed(service)
    lapse(service, run.id)
    service.runs.beat(claim)
    assert service.runs.claim("second") is None


def test_a_run_that_kills_its_workers_is_given_up(service: Service) -> None:
    run = small_run(service)
    for _ in range(MOST_ATTEMPTS):
        claimed(service)
        lapse(service, run.id)
    assert service.runs.claim("last") is None
    ended = service.runs.get(run.id)
    assert ended.state == "failed"
    assert f"{MOST_ATTEMPTS} times" in str(ended.error)


def test_a_run_that_comes_further_each_time_is_not_given_up(service: Service) -> None:
    run = small_run(service)
    for attempt in range(2 * MOST_ATTEMPTS):
        service.runs.tell(claimed(service), "resumed", {"step": 10 * attempt, "findings": 3})
        lapse(service, run.id)
    for _ in range(MOST_ATTEMPTS - 1):  # from here on it always ends at the same place
        service.runs.tell(claimed(service), "resumed", {"step": 10 * attempt, "findings": 3})
        lapse(service, run.id)
    assert service.runs.claim("last") is None
    assert service.runs.get(run.id).state == "failed"


def test_a_run_that_was_handed_back_waits_and_has_lost_no_attempt(service: Service) -> None:
    run = in_state(service, "interrupted")
    assert (run.worker, run.attempts) == (None, 0)
    assert claimed(service).attempt == 1


@pytest.mark.parametrize("state", ["queued", "interrupted"])
def test_a_run_that_waits_is_cancelled_at_once(service: Service, state: str) -> None:
    run = in_state(service, state)
    assert service.runs.cancel(run.id).state == "cancelled"
    assert service.runs.claim("w") is None


def test_a_run_at_work_hears_of_the_cancellation_with_its_next_beat(service: Service) -> None:
    run = small_run(service)
    claim = claimed(service)
    assert service.runs.cancel(run.id).state == "cancelling"
    assert service.runs.cancel(run.id).state == "cancelling"  # a second click
    assert service.runs.beat(claim) is True
    service.runs.finish(claim, "cancelled", result={"findings": 2})
    assert kinds(service, run.id) == ["queued", "started", "cancelling", "cancelled"]


@pytest.mark.parametrize("how", ["its worker dies", "its worker hands it back"])
def test_a_cancelled_run_is_not_taken_up_again(service: Service, how: str) -> None:
    run = small_run(service)
    claim = claimed(service)
    service.runs.cancel(run.id)
    if how == "its worker dies":
        lapse(service, run.id)
    else:
        service.runs.give_up(claim)
    assert service.runs.claim("w") is None
    assert service.runs.get(run.id).state == "cancelled"


@pytest.mark.parametrize("state", ["done", "failed", "cancelled"])
def test_cancelling_what_is_over_changes_nothing(sqlite_service: Service, state: str) -> None:
    run = in_state(sqlite_service, state)
    before = kinds(sqlite_service, run.id)
    assert sqlite_service.runs.cancel(run.id).state == state
    assert kinds(sqlite_service, run.id) == before


@pytest.mark.parametrize("state", ["failed", "cancelled"])
def test_a_resumed_run_begins_anew(service: Service, state: str) -> None:
    run = service.runs.resume(in_state(service, state).id)
    assert (run.state, run.attempts, run.cancel, run.progress) == ("queued", 0, False, {})
    assert (run.result, run.error, run.started, run.finished) == (None, None, None, None)
    assert claimed(service).attempt == 1


@pytest.mark.parametrize("state", ["queued", "running", "cancelling", "done", "interrupted"])
def test_only_what_ended_badly_is_resumed(sqlite_service: Service, state: str) -> None:
    run = in_state(sqlite_service, state)
    with pytest.raises(EvenhandError, match=f"is {state}; only one that failed"):
        sqlite_service.runs.resume(run.id)


@pytest.mark.parametrize("state", ["queued", "done", "failed", "cancelled", "interrupted"])
def test_a_deleted_run_is_gone_with_its_events_and_its_folder(service: Service, state: str) -> None:
    run = in_state(service, state)
    child = service.runs.create("default", "repair", "a repair", {}, parent=run.id)
    folder = service.home.run(run.id)
    folder.mkdir()
    (folder / "report.html").write_text("words")
    service.delete_run(run.id)
    assert not folder.exists()
    assert list(service.home.trash.iterdir()) == []
    assert service.runs.get(child.id).parent is None
    with pytest.raises(EvenhandError, match="There is no run"):
        service.runs.get(run.id)
    with service.database.reading() as session:
        assert session.scalar(select(func.count()).select_from(Event).where(Event.run == run.id)) == 0


@pytest.mark.parametrize("state", ["running", "cancelling"])
def test_a_run_at_work_is_not_deleted(sqlite_service: Service, state: str) -> None:
    run = in_state(sqlite_service, state)
    with pytest.raises(EvenhandError, match="Cancel it first"):
        sqlite_service.delete_run(run.id)
    assert sqlite_service.runs.get(run.id).state == state


def test_runs_are_listed_page_by_page_without_gap_or_repetition(service: Service) -> None:
    made = [small_run(service).id for _ in range(7)]
    seen: list[Run] = []
    while page := service.runs.newest("default", after=(seen[-1].created, seen[-1].id) if seen else None, limit=3):
        seen += page
        small_run(service, project="default")  # newer ones do not disturb the pages that follow
    assert [run.id for run in seen] == made[::-1]


def test_runs_made_at_the_same_moment_are_listed_by_their_ids(service: Service) -> None:
    with service.database.writing() as session:
        moment = datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=5)))
        for letter in "abc":
            values = {"id": letter * 32, "created": moment, "project": "default", "state": "done", "title": "t"}
            session.add(Run(**values, kind="audit", config={}, cancel=False, progress={}, attempts=0, lease=0))
    first = service.runs.newest(limit=2)
    assert [run.id[0] for run in first] == ["c", "b"]
    assert first[0].created == moment
    assert [run.id[0] for run in service.runs.newest(after=(first[1].created, first[1].id))] == ["a"]


def test_lists_are_filtered(service: Service) -> None:
    done, waiting = in_state(service, "done"), small_run(service)
    measure = service.runs.create("default", "measure", "m", {})
    assert [run.id for run in service.runs.newest(state="done")] == [done.id]
    assert [run.id for run in service.runs.newest(kind="measure")] == [measure.id]
    assert [run.id for run in service.runs.newest(state="queued", kind="audit")] == [waiting.id]
    assert service.runs.newest("another") == []


def test_events_are_read_on_from_the_last_one_that_was_seen(service: Service) -> None:
    run, other = small_run(service), small_run(service)
    claim = claimed(service)
    for number in range(5):
        service.runs.tell(claim, "pair", {"number": number})
    first = service.runs.events(run.id, limit=3)
    rest = service.runs.events(run.id, after=first[-1].id)
    assert [event.data.get("number") for event in first + rest] == [None, None, 0, 1, 2, 3, 4]
    assert kinds(service, other.id) == ["queued"]


def test_another_projects_run_is_as_if_it_were_not_there(service: Service) -> None:
    run = in_state(service, "failed")
    for ask in (service.runs.get, service.runs.cancel, service.runs.resume, service.runs.delete):
        with pytest.raises(EvenhandError, match="There is no run"):
            ask(run.id, "another")
    assert service.runs.get(run.id, "default").state == "failed"


def test_a_run_belongs_to_a_project_that_there_is(service: Service) -> None:
    with pytest.raises(NoSuchProject):
        small_run(service, project="nobody")
    assert service.runs.newest() == []


def test_what_people_keep_is_not_in_the_words_of_an_error(service: Service) -> None:
    """They go to the log of the server, which others read."""

    def twice() -> None:
        with service.database.writing() as session:
            session.add(Project(id="default", name="a secret name", created=service.database.now(session)))

    with pytest.raises(IntegrityError) as failed:
        twice()
    assert "a secret name" not in str(failed.value)


def test_a_failed_block_leaves_nothing_behind(service: Service) -> None:
    def broken() -> None:
        with service.database.writing() as session:
            session.add(Project(id="half", name="half", created=service.database.now(session)))
            session.flush()
            raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError):
        broken()
    with service.database.reading() as session:
        assert list(session.scalars(select(Project.id))) == ["default"]


def test_a_reader_does_not_wait_for_a_writer(service: Service) -> None:
    run = small_run(service)
    with service.database.writing() as session:
        written = session.get(Run, run.id)
        assert written is not None
        written.title = "changed"
        session.flush()
        assert service.runs.get(run.id).title == run.title
    assert service.runs.get(run.id).title == "changed"


def test_opening_a_second_time_changes_nothing(open_service: Callable[..., Service], database_url: str) -> None:
    run = small_run(open_service(database=database_url))
    assert open_service(database=database_url).runs.get(run.id).title == run.title


def test_the_address_shows_no_password(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, database="postgresql+psycopg://me:geheim@127.0.0.1:1/none")
    with pytest.raises(EvenhandError, match="does not answer") as caught:
        settings.open()
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize("url", ["nonsense", "oracle9://x", "mysql+nothing://me:geheim@host/db"])
def test_an_address_that_cannot_be_used_is_said(url: str) -> None:
    with pytest.raises(EvenhandError, match="sqlite:///PATH") as caught:
        Database(url)
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "localhost", "::1", "[::1]"])
def test_this_machine_is_a_place_to_listen(host: str) -> None:
    Settings(host=host).check_host()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org", "", "127.0.0.1.example.org"])
def test_every_other_place_is_refused_without_tls(host: str) -> None:
    with pytest.raises(EvenhandError, match="Without TLS"):
        Settings(host=host).check_host()


# Runs that a terminal's command does.


def begun(service: Service) -> Claim:
    return service.runs.begin("default", "audit", "census, sex", {}, "a terminal")


def test_a_terminals_run_is_held_from_its_beginning_and_never_claimed(service: Service) -> None:
    claim = begun(service)
    run = service.runs.get(claim.run)
    assert (run.state, run.place, run.worker, run.attempts) == ("running", "terminal", "a terminal", 1)
    assert service.runs.claim("worker") is None
    assert service.runs.beat(claim, {"done": 1}) is False
    lapse(service, claim.run)
    assert service.runs.claim("worker") is None
    assert kinds(service, claim.run) == ["started", "interrupted"]
    assert service.runs.claim("worker") is None


def test_a_terminals_run_whose_process_died_is_interrupted_for_all_who_look(service: Service) -> None:
    looks: list[Callable[[str], Run]] = [
        lambda run: service.runs.get(run),
        lambda run: service.runs.newest(state="interrupted", limit=1)[0],
        lambda run: service.runs.beginning_with(run)[0],
    ]
    for look in looks:
        claim = begun(service)
        lapse(service, claim.run)
        found = look(claim.run)
        assert (found.id, found.state) == (claim.run, "interrupted")
        assert kinds(service, claim.run) == ["started", "interrupted"]


def test_a_terminal_that_only_slept_goes_on(service: Service) -> None:
    claim = begun(service)
    lapse(service, claim.run)
    assert service.runs.get(claim.run).state == "interrupted"
    assert service.runs.beat(claim) is False
    assert service.runs.get(claim.run).state == "running"
    service.runs.finish(claim, "done", result={"findings": 1})
    assert service.runs.get(claim.run).state == "done"


def test_a_terminal_that_slept_too_long_has_lost_its_run(service: Service) -> None:
    claim = begun(service)
    lapse(service, claim.run)
    again = service.runs.take_up(claim.run, "another terminal")
    assert (again.lease, again.attempt) == (claim.lease + 1, 2)
    for late in (lambda: service.runs.beat(claim), lambda: service.runs.finish(claim, "done", result={})):
        with pytest.raises(LeaseLost):
            late()
    service.runs.finish(again, "done", result={"findings": 1})
    with pytest.raises(EvenhandError, match="is done"):
        service.runs.take_up(claim.run, "a third")


@pytest.mark.parametrize("state", ["failed", "cancelled"])
def test_a_terminals_run_that_ended_without_being_done_is_taken_up_afresh(
    service: Service, state: Literal["failed", "cancelled"]
) -> None:
    claim = begun(service)
    service.runs.finish(claim, state, result={"findings": 1}, error="It broke.")
    service.runs.take_up(claim.run, "a terminal")
    run = service.runs.get(claim.run)
    assert (run.state, run.result, run.error, run.finished, run.cancel) == ("running", None, None, None, False)
    with pytest.raises(EvenhandError, match="being done already, by a terminal"):
        service.runs.take_up(claim.run, "another")


def test_a_wish_to_cancel_outlives_the_terminal(service: Service) -> None:
    claim = begun(service)
    assert service.runs.cancel(claim.run).state == "cancelling"
    lapse(service, claim.run)
    assert service.runs.get(claim.run).state == "cancelled"
    with pytest.raises(LeaseLost):
        service.runs.beat(claim)


@pytest.mark.parametrize("act", ["cancel", "delete"])
def test_a_dead_terminals_run_is_cancelled_or_deleted_at_once(service: Service, act: str) -> None:
    claim = begun(service)
    lapse(service, claim.run)
    getattr(service.runs, act)(claim.run)
    assert [run.state for run in service.runs.newest()] == (["cancelled"] if act == "cancel" else [])


def test_a_workers_run_and_a_terminals_are_resumed_each_in_its_own_way(service: Service) -> None:
    run = small_run(service)
    with pytest.raises(EvenhandError, match="is for a worker"):
        service.runs.take_up(run.id, "a terminal")
    claim = begun(service)
    service.runs.finish(claim, "failed", error="It broke.")
    with pytest.raises(EvenhandError, match=f"evenhand runs resume {claim.run[:8]}"):
        service.runs.resume(claim.run)


def test_what_a_database_would_refuse_is_kept_without_it(service: Service) -> None:
    small_run(service)
    claim = service.runs.claim("a worker")
    assert claim is not None
    odd = {"text": "m\0x", "number": math.nan, "list": [math.inf, 1.5, "\ud800"], "m\0": 1}
    service.runs.tell(claim, "note", odd)
    service.runs.beat(claim, odd)
    service.runs.finish(claim, "failed", odd, error="Row 301: 'm\0x' is not among them.")
    kept = {"text": "m\ufffdx", "number": None, "list": [None, 1.5, "?"], "m\ufffd": 1}
    run = service.runs.get(claim.run)
    assert (run.state, run.error) == ("failed", "Row 301: 'm\ufffdx' is not among them.")
    assert (run.result, run.progress) == (kept, kept)
    assert [event.data for event in service.runs.events(run.id) if event.kind == "note"] == [kept]
