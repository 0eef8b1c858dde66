"""Runs that a terminal's command does, in the database: held from their beginning, never claimed, taken up again."""

from collections.abc import Callable
from typing import Literal

import pytest

from evenhand.errors import EvenhandError
from evenhand.service.settings import Service
from evenhand.service.storage.runs import Claim, LeaseLost
from evenhand.service.storage.tables import Run
from tests.worlds.service import lapse, small_run
from tests.worlds.storage import kinds

pytest_plugins = ["tests.worlds.service"]


def started(service: Service) -> Claim:
    return service.runs.begin("default", "audit", "census, sex", {}, "a terminal")


def test_a_terminals_run_is_held_from_its_beginning_and_never_claimed(service: Service) -> None:
    claim = started(service)
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
        lambda run: service.runs.with_prefix(run)[0],
    ]
    for look in looks:
        claim = started(service)
        lapse(service, claim.run)
        found = look(claim.run)
        assert (found.id, found.state) == (claim.run, "interrupted")
        assert kinds(service, claim.run) == ["started", "interrupted"]


def test_a_terminal_that_only_slept_goes_on(service: Service) -> None:
    claim = started(service)
    lapse(service, claim.run)
    assert service.runs.get(claim.run).state == "interrupted"
    assert service.runs.beat(claim) is False
    assert service.runs.get(claim.run).state == "running"
    service.runs.finish(claim, "done", result={"findings": 1})
    assert service.runs.get(claim.run).state == "done"


def test_a_terminal_that_slept_too_long_has_lost_its_run(service: Service) -> None:
    claim = started(service)
    lapse(service, claim.run)
    again = service.runs.claim_again(claim.run, "another terminal")
    assert (again.lease, again.attempt) == (claim.lease + 1, 2)
    for late in (lambda: service.runs.beat(claim), lambda: service.runs.finish(claim, "done", result={})):
        with pytest.raises(LeaseLost):
            late()
    service.runs.finish(again, "done", result={"findings": 1})
    with pytest.raises(EvenhandError, match="is done"):
        service.runs.claim_again(claim.run, "a third")


@pytest.mark.parametrize("state", ["failed", "cancelled"])
def test_a_terminals_run_that_ended_without_being_done_is_taken_up_afresh(
    service: Service, state: Literal["failed", "cancelled"]
) -> None:
    claim = started(service)
    service.runs.finish(claim, state, result={"findings": 1}, error="It broke.")
    service.runs.claim_again(claim.run, "a terminal")
    run = service.runs.get(claim.run)
    assert (run.state, run.result, run.error, run.finished, run.cancel) == ("running", None, None, None, False)
    with pytest.raises(EvenhandError, match="being done already, by a terminal"):
        service.runs.claim_again(claim.run, "another")


def test_a_wish_to_cancel_outlives_the_terminal(service: Service) -> None:
    claim = started(service)
    assert service.runs.cancel(claim.run).state == "cancelling"
    lapse(service, claim.run)
    assert service.runs.get(claim.run).state == "cancelled"
    with pytest.raises(LeaseLost):
        service.runs.beat(claim)


@pytest.mark.parametrize("act", ["cancel", "delete"])
def test_a_dead_terminals_run_is_cancelled_or_deleted_at_once(service: Service, act: str) -> None:
    claim = started(service)
    lapse(service, claim.run)
    getattr(service.runs, act)(claim.run)
    assert [run.state for run in service.runs.newest()] == (["cancelled"] if act == "cancel" else [])


def test_a_workers_run_and_a_terminals_are_resumed_each_in_its_own_way(service: Service) -> None:
    run = small_run(service)
    with pytest.raises(EvenhandError, match="is for a worker"):
        service.runs.claim_again(run.id, "a terminal")
    claim = started(service)
    service.runs.finish(claim, "failed", error="It broke.")
    with pytest.raises(EvenhandError, match=f"evenhand runs resume {claim.run[:8]}"):
        service.runs.resume(claim.run)
