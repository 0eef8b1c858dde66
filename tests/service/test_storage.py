"""Runs in the database: claimed, kept alive, ended once, cancelled, resumed, deleted; on SQLite and PostgreSQL."""

from collections.abc import Callable
from datetime import UTC
from typing import Any

import pytest
from sqlalchemy import func, select

from evenhand.errors import EvenhandError
from evenhand.service.settings import Service
from evenhand.service.storage.runs import MOST_ATTEMPTS, STATES, LeaseLost
from evenhand.service.storage.tables import Event
from tests.worlds.service import lapse, small_run
from tests.worlds.storage import claimed, in_state, kinds

pytest_plugins = ["tests.worlds.service"]


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
        lambda: service.runs.hand_back(claim),
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
        service.runs.hand_back(claim)
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
    with pytest.raises(EvenhandError, match=f"is {state}; only a run that failed"):
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
