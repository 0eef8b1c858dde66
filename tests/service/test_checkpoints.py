"""A run that is taken up goes on from its last checkpoint, whoever did it before and however that ended."""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import evenhand
from evenhand.service.attempt import EXECUTE
from evenhand.service.run_folder import CHECKPOINT, attempt_folder, checkpoint_of, drop, publish, put_by, sweep, tidy
from evenhand.service.settings import Service
from evenhand.service.storage.runs import Claim, LeaseLost
from evenhand.service.storage.tables import Run
from tests.worlds.quick_child import FAILING_LATE, is_alive
from tests.worlds.service import LONG_LEASE, lapse
from tests.worlds.worker_checks import (
    FILES,
    check_ends,
    claimed,
    files,
    is_right,
    kinds,
    no_attempts_left,
    nursery_for,
    quick_run,
    until_over,
    wait_for_work,
    working,
)
from tests.worlds.workers import Nursery, children, kill, until

pytest_plugins = ["tests.worlds.service", "tests.worlds.worker_checks"]


def begun(service: Service, words: str | None = None) -> tuple[Claim, Path]:
    """An attempt at the only run there is, with a checkpoint of its own if there are words for it."""
    claim = claimed(service, "somebody")
    attempt = attempt_folder(service.home, claim)
    if words is not None:
        checkpoint_of(attempt).mkdir(exist_ok=True)
        (checkpoint_of(attempt) / "state").write_text(words)
    return claim, attempt


def kept(folder: Path) -> str | None:
    """What a checkpoint says, if it is there."""
    path = folder / CHECKPOINT / "state"
    return path.read_text() if path.is_file() else None


def test_the_next_attempt_takes_the_checkpoint_over(sqlite_service: Service) -> None:
    run = quick_run(sqlite_service, 1)
    for words in ("first", "second", "third"):
        _, attempt = begun(sqlite_service, words)
        lapse(sqlite_service, run.id)
    _, last = begun(sqlite_service)
    assert kept(last) == "third"
    assert not (attempt / CHECKPOINT).exists()  # a process that still writes there finds nothing
    sweep(sqlite_service.home, sqlite_service.runs)
    assert files(sqlite_service, run) == {last.name}
    assert kept(last) == "third"


def test_a_worker_that_slept_takes_nothing_from_the_next(sqlite_service: Service) -> None:
    run = quick_run(sqlite_service, 1)
    slow = claimed(sqlite_service, "slow")
    lapse(sqlite_service, run.id)
    _, attempt = begun(sqlite_service, "of the second")
    late = attempt_folder(sqlite_service.home, slow)
    assert (kept(attempt), kept(late)) == ("of the second", None)
    with pytest.raises(LeaseLost):
        put_by(late, lambda: sqlite_service.runs.beat(slow))
    tidy(late.parent, sqlite_service.runs)
    assert files(sqlite_service, run) == {attempt.name}


def test_a_sweep_between_a_claim_and_its_folder_keeps_the_checkpoint(sqlite_service: Service) -> None:
    run = quick_run(sqlite_service, 1)
    begun(sqlite_service, "of the first")
    lapse(sqlite_service, run.id)
    second = claimed(sqlite_service, "second")
    sweep(sqlite_service.home, sqlite_service.runs)
    assert files(sqlite_service, run) == {CHECKPOINT}
    assert kept(attempt_folder(sqlite_service.home, second)) == "of the first"


@pytest.mark.parametrize("keep", [False, True])
def test_a_result_has_a_checkpoint_only_if_it_may_be_gone_on_with(sqlite_service: Service, keep: bool) -> None:
    run, runs = quick_run(sqlite_service, 1), sqlite_service.runs
    claim, attempt = begun(sqlite_service, "words")
    (attempt / "summary.json").write_text("result")
    publish(attempt, lambda: runs.beat(claim), keep_checkpoint=keep)
    runs.finish(claim, "cancelled" if keep else "done", {})
    drop(attempt)
    assert files(sqlite_service, run) == {"summary.json"} | ({CHECKPOINT} if keep else set())


def test_a_result_that_was_never_finished_leaves_its_checkpoint_to_the_next(sqlite_service: Service) -> None:
    run, runs = quick_run(sqlite_service, 1), sqlite_service.runs
    claim, attempt = begun(sqlite_service, "words")
    (attempt / "summary.json").write_text("result")
    publish(attempt, lambda: runs.beat(claim))
    lapse(sqlite_service, run.id)
    assert kept(begun(sqlite_service)[1]) == "words"


@pytest.mark.parametrize("published", [False, True])
def test_the_checkpoint_of_a_killed_workers_run_that_is_then_cancelled_stays(
    sqlite_service: Service, published: bool
) -> None:
    run, runs = quick_run(sqlite_service, 1), sqlite_service.runs
    claim, attempt = begun(sqlite_service, "words")
    if published:
        publish(attempt, lambda: runs.beat(claim))
    runs.cancel(run.id)
    lapse(sqlite_service, run.id)
    assert runs.claim("next") is None
    sweep(sqlite_service.home, runs)
    assert files(sqlite_service, run) == {CHECKPOINT}
    runs.resume(run.id)
    assert kept(begun(sqlite_service)[1]) == "words"
    lapse(sqlite_service, run.id)
    runs.cancel(run.id)
    assert runs.claim("next") is None
    sqlite_service.delete_run(run.id)
    assert not sqlite_service.home.run(run.id).exists()
    assert not list(sqlite_service.home.trash.iterdir())


def steps_of(service: Service, run: Run, kind: str) -> list[int]:
    return [event.data["step"] for event in service.runs.events(run.id, limit=100_000) if event.kind == kind]


@pytest.mark.usefixtures("lasting_leases")
def test_a_cancelled_run_goes_on_where_it_was(quick_service: Service, quick_nursery: Nursery) -> None:
    run = quick_run(quick_service, 7, steps=600)
    with working(quick_service):
        until(lambda: len(steps_of(quick_service, run, "saved")) >= 2)
        quick_service.runs.cancel(run.id)
        assert until_over(quick_service, run).state == "cancelled"
    assert files(quick_service, run) == FILES | {CHECKPOINT}
    quick_service.runs.resume(run.id)
    quick_nursery.start()
    check_ends(quick_service, quick_nursery, [run])
    assert steps_of(quick_service, run, "resumed")[0] >= 10
    assert kinds(quick_service, run).count("pair") == 1


@pytest.mark.usefixtures("lasting_leases")
def test_a_failed_run_goes_on_where_it_was(quick_service: Service) -> None:
    run = quick_run(quick_service, FAILING_LATE, steps=40)
    with working(quick_service):
        failed = until_over(quick_service, run)
        assert (failed.state, failed.error) == ("failed", "It failed in the middle.")
        assert files(quick_service, run) == {CHECKPOINT}
        quick_service.runs.resume(run.id)
        assert until_over(quick_service, run).state == "done"
    assert steps_of(quick_service, run, "resumed") == [20]
    assert files(quick_service, run) == FILES
    assert is_right(quick_service, run)


@pytest.mark.usefixtures("lasting_leases")
def test_a_run_that_is_handed_back_goes_on_where_it_was(quick_service: Service, quick_nursery: Nursery) -> None:
    run = quick_run(quick_service, 6, steps=600)
    worker = quick_nursery.start()
    until(lambda: len(steps_of(quick_service, run, "saved")) >= 2)
    kill(worker, signal.SIGTERM)
    until(lambda: not is_alive(worker))
    assert files(quick_service, run) == {CHECKPOINT}
    quick_nursery.start()
    check_ends(quick_service, quick_nursery, [run])
    assert steps_of(quick_service, run, "resumed")[0] >= 10


@pytest.mark.usefixtures("long_leases")
def test_a_worker_that_is_killed_while_its_run_is_paused_leaves_no_process(
    quick_service: Service, quick_nursery: Nursery
) -> None:
    run = quick_run(quick_service, 8, steps=600)
    worker = quick_nursery.start()
    (process,) = wait_for_work(quick_service, quick_nursery, worker)
    until(lambda: steps_of(quick_service, run, "saved") != [])
    kill(process, signal.SIGSTOP)
    kill(worker)
    until(lambda: not is_alive(process))
    quick_nursery.start()
    check_ends(quick_service, quick_nursery, [run])
    assert len(steps_of(quick_service, run, "resumed")) == 1


def saved_in_the_last_phase(service: Service, run: Run, known: list[int]) -> bool:
    """Whether there is a checkpoint from after the time when the search was first seen in its last phase.

    On a busy machine there are some from before, which count the steps of the first phase.
    """
    progress = service.runs.get(run.id).progress
    if progress.get("phase") == "local" and progress["done"] > 0:
        known.append(progress.get("saved", 0))
    return known != [] and known[-1] > known[0]


@pytest.mark.parametrize("killed", ["process", "worker"])
def test_an_audit_whose_process_is_killed_goes_on_from_its_checkpoint(
    open_service: Callable[..., Service], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: str
) -> None:
    """The real thing: a search that takes some seconds, killed when it has said that something is saved."""
    monkeypatch.setenv("EVENHAND_CHECKPOINT_SECONDS", "0.1")
    service = open_service(lease_seconds=LONG_LEASE)
    settings: dict[str, Any] = {"seeds": 20, "steps": 1200, "seed": 3}
    run = service.runs.create("default", "audit", "census", {"dataset": "census", "protected": ["sex"], **settings})
    nursery, known = nursery_for(service, tmp_path / "marks", command=EXECUTE), list[int]()
    try:
        worker = nursery.start()
        until(lambda: saved_in_the_last_phase(service, run, known))
        processes = children(worker)
        saved = service.runs.get(run.id).progress["saved"]
        for process in processes if killed == "process" else [worker]:
            kill(process)
        if killed == "worker":
            nursery.start()
        over = until_over(service, run)
        until(lambda: no_attempts_left(service))
    finally:
        nursery.close()
    assert over.state == "done", over.error
    until(lambda: not any(is_alive(process) for process in processes))
    alone = evenhand.audit("census", "sex", out=tmp_path / "alone", **settings)
    folder = service.home.run(run.id)
    assert (folder / "findings.parquet").read_bytes() == (alone.folder / "findings.parquet").read_bytes()
    assert files(service, run) == {"findings.parquet", "findings.index", "report.html", "summary.json"}
    assert json.loads((folder / "summary.json").read_text())["search"]["taken_up"] == 1
    (resumed,) = (event.data for event in service.runs.events(run.id) if event.kind == "resumed")
    assert resumed["findings"] >= saved
    assert 0 < resumed["step"] < resumed["total"] == 1200
    pairs = [event.data for event in service.runs.events(run.id) if event.kind == "pair"]
    assert [pair["number"] for pair in pairs] == list(range(1, len(pairs) + 1))
    assert len({pair["description"] for pair in pairs}) == len(pairs) > 0
