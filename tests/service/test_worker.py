"""Workers see runs through to one end, whatever is killed on the way."""

import os
import random
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import DataError, OperationalError

import evenhand
from evenhand.service.attempt import EXECUTE
from evenhand.service.run_folder import CHECKPOINT, attempt_folder, drop, publish, sweep
from evenhand.service.settings import Service
from evenhand.service.storage.runs import Claim, LeaseLost
from evenhand.service.storage.tables import Run
from evenhand.service.worker import Worker
from tests.worlds.quick_child import BUSY, CRASHING, FILLING, STUBBORN, is_alive
from tests.worlds.service import LASTING_LEASE, small_run
from tests.worlds.soak import times
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
from tests.worlds.workers import QUICK, Nursery, children, kill, until

pytest_plugins = ["tests.worlds.service", "tests.worlds.worker_checks"]
MOMENTS = times(8, 60)


@pytest.mark.soak
def test_kills_of_workers_at_random_moments_lose_nothing(short_service: Service, nursery: Nursery) -> None:
    def life(number: int) -> None:
        draw, worker = random.Random(number), nursery.start()
        runs.append(quick_run(short_service, number))
        if draw.random() < 0.7:  # at its work, or when it hands the result over; else at any time from its start
            wait_for_work(short_service, nursery, worker)
        time.sleep(draw.uniform(0.0, 0.6))
        kill(worker)

    runs: list[Run] = []
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(life, range(MOMENTS)))
    nursery.start()
    nursery.start()
    check_ends(short_service, nursery, runs)


@pytest.mark.soak
def test_kills_of_a_runs_process_at_random_moments_lose_nothing(quick_nursery: Nursery, quick_service: Service) -> None:
    def life(number: int) -> None:
        draw = random.Random(number)
        worker = quick_nursery.start()
        for moment in range(MOMENTS // 4):
            runs.append(quick_run(quick_service, 4 * moment + number))
            processes = wait_for_work(quick_service, quick_nursery, worker)
            time.sleep(draw.uniform(0.0, 0.5))
            for process in processes:
                kill(process)

    runs: list[Run] = []
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(life, range(4)))
    check_ends(quick_service, quick_nursery, runs)


@pytest.mark.soak
@pytest.mark.usefixtures("lasting_leases")
def test_two_workers_never_hold_one_run(short_service: Service, nursery: Nursery) -> None:
    runs = [quick_run(short_service, seed, steps=3) for seed in range(times(12, 90))]
    for _ in range(4):
        nursery.start()
    check_ends(short_service, nursery, runs)
    assert all(kinds(short_service, run).count("started") == 1 for run in runs)


@pytest.mark.usefixtures("long_leases")
def test_a_worker_that_sleeps_loses_its_run_and_does_no_harm(quick_service: Service, quick_nursery: Nursery) -> None:
    run = quick_run(quick_service, 5, steps=1500)  # so many that it is not done before the lease runs out
    sleeper = quick_nursery.start()
    (process,) = wait_for_work(quick_service, quick_nursery, sleeper)
    with quick_service.database.begin_writing():  # so that it does not fall asleep with SQLite's only lock
        kill(sleeper, signal.SIGSTOP)
    until(lambda: not is_alive(process))  # its run's process is not reassured any more
    quick_nursery.start()
    until(lambda: kinds(quick_service, run).count("started") == 2)
    kill(sleeper, signal.SIGCONT)
    check_ends(quick_service, quick_nursery, [run])
    assert kinds(quick_service, run).count("started") == 2


@pytest.mark.usefixtures("lasting_leases")
def test_a_worker_that_is_told_to_stop_hands_its_run_back(quick_service: Service, quick_nursery: Nursery) -> None:
    run = quick_run(quick_service, 6, steps=600)
    worker = quick_nursery.start()
    processes = wait_for_work(quick_service, quick_nursery, worker)
    kill(worker, signal.SIGTERM)
    until(lambda: not is_alive(worker))
    handed_back = quick_service.runs.get(run.id)
    assert (handed_back.state, handed_back.attempts) == ("interrupted", 0)
    assert files(quick_service, run) <= {CHECKPOINT}
    assert not any(is_alive(process) for process in processes)
    quick_nursery.start()
    check_ends(quick_service, quick_nursery, [run])


def test_a_waiting_run_is_cancelled_at_once(quick_service: Service) -> None:
    run = quick_run(quick_service, 1)
    quick_service.runs.cancel(run.id)
    assert Worker(quick_service, command=QUICK).run_once() is None
    assert quick_service.runs.get(run.id).state == "cancelled"


@pytest.mark.usefixtures("lasting_leases")
def test_a_cancelled_run_keeps_what_it_has_found(quick_service: Service) -> None:
    run = quick_run(quick_service, 2, steps=10_000)
    with working(quick_service):
        until(lambda: "pair" in kinds(quick_service, run))
        assert quick_service.runs.cancel(run.id).state == "cancelling"
        over = until_over(quick_service, run)
    assert over.state == "cancelled"
    assert over.result is not None
    assert over.result["stopped"] == "interrupted"
    assert files(quick_service, run) == FILES | {CHECKPOINT}


@pytest.mark.usefixtures("lasting_leases")
def test_a_cancelled_run_that_does_not_listen_is_killed(quick_service: Service) -> None:
    run = quick_run(quick_service, STUBBORN)
    with working(quick_service, stop_seconds=0.3):
        until(lambda: quick_service.runs.get(run.id).state == "running")
        time.sleep(0.5)
        quick_service.runs.cancel(run.id)
        over = until_over(quick_service, run)
    assert (over.state, over.result, files(quick_service, run)) == ("cancelled", None, set())


@pytest.mark.usefixtures("lasting_leases")
@pytest.mark.parametrize(
    ("seed", "words"),
    [
        (FILLING, "The run needed more than the 1.0 GiB of memory"),
        (BUSY, "more than the 5 seconds of processor time"),
        (CRASHING, "ended with the code 3: the last words"),
    ],
)
def test_a_run_that_takes_too_much_fails_with_clear_words_and_the_worker_lives_on(
    quick_service: Service, seed: int, words: str
) -> None:
    bad, good = quick_run(quick_service, seed), quick_run(quick_service, 3)
    with working(quick_service):
        failed = until_over(quick_service, bad)
        assert until_over(quick_service, good).state == "done"
    assert failed.state == "failed"
    assert words in (failed.error or "")
    assert files(quick_service, bad) == set()
    assert is_right(quick_service, good)


def test_a_run_whose_data_are_gone_fails(quick_service: Service) -> None:
    run = small_run(quick_service, dataset="0" * 32)
    assert Worker(quick_service, command=QUICK).run_once() == run.id
    over = quick_service.runs.get(run.id)
    assert over.state == "failed"
    assert "0" * 32 in (over.error or "")
    assert files(quick_service, run) == set()


def test_a_run_stands_still_while_the_database_is_gone(quick_service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = threading.Event()
    beat = quick_service.runs.beat

    def beat_if_there(claim: Claim, progress: dict[str, Any] | None = None) -> bool:
        if gone.is_set():
            raise OperationalError("beat", {}, Exception("no database"))
        return beat(claim, progress)

    monkeypatch.setattr(quick_service.runs, "beat", beat_if_there)
    monkeypatch.setattr("evenhand.service.attempt.MARGIN", 5.0)  # a worker that is slow still pauses it first
    run = quick_run(quick_service, 4, steps=1500)  # so many that it is still at work when it is paused
    with working(quick_service):
        until(lambda: "pair" in kinds(quick_service, run))
        gone.set()
        until(lambda: any(_stands_still(pid) for pid in children(os.getpid())))
        gone.clear()
        assert until_over(quick_service, run).state == "done"
    assert is_right(quick_service, run)
    assert kinds(quick_service, run).count("started") == 1


def _stands_still(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_an_attempt_that_lost_its_lease_cannot_publish(quick_service: Service) -> None:
    runs, home = quick_service.runs, quick_service.home
    run = quick_run(quick_service, 1)
    slow = claimed(quick_service, "slow")
    late = attempt_folder(home, slow)
    (late / "summary.json").write_text("late")
    quick = claimed(quick_service, "quick")
    attempt = attempt_folder(home, quick)
    (attempt / "summary.json").write_text("first")
    publish(attempt, lambda: runs.beat(quick))
    with pytest.raises(LeaseLost):
        publish(late, lambda: runs.beat(slow))
    runs.finish(quick, "done", {})
    drop(attempt)
    assert (home.run(run.id) / "summary.json").read_text() == "first"
    assert files(quick_service, run) == {"summary.json"}


def test_a_result_that_was_published_but_never_finished_is_swept(quick_service: Service) -> None:
    runs, home = quick_service.runs, quick_service.home
    run = quick_run(quick_service, 1)
    claim = claimed(quick_service, "killed")
    attempt = attempt_folder(home, claim)
    (attempt / "summary.json").write_text("never finished")
    publish(attempt, lambda: runs.beat(claim))
    assert sweep(home, runs) == []  # somebody holds it
    runs.cancel(run.id)
    until(lambda: runs.claim("next") is None and runs.get(run.id).state == "cancelled")
    sweep(home, runs)
    assert files(quick_service, run) == set()


def test_a_run_through_the_worker_equals_an_audit(open_service: Callable[..., Service], tmp_path: Path) -> None:
    """The real process; `test_checkpoints` and `test_kills` have those that are killed in the middle."""
    service = open_service(lease_seconds=LASTING_LEASE)
    request = {"dataset": "census", "protected": ["sex"], "seeds": 20, "steps": 50, "seed": 3}
    run = service.runs.create("default", "audit", "census", request)
    nursery = nursery_for(service, tmp_path / "marks", command=EXECUTE)
    try:
        nursery.start()
        over = until_over(service, run)
        until(lambda: no_attempts_left(service))
    finally:
        nursery.close()
    assert over.state == "done", over.error
    alone = evenhand.audit("census", "sex", seeds=20, steps=50, seed=3, out=tmp_path / "alone")
    folder = service.home.run(run.id)
    assert (folder / "findings.parquet").read_bytes() == (alone.folder / "findings.parquet").read_bytes()
    assert files(service, run) == {"findings.parquet", "findings.index", "report.html", "summary.json"}
    assert over.result is not None
    assert over.result["findings"] == alone.summary["search"]["findings"]["total"]
    assert kinds(service, run).count("started") == 1


@pytest.mark.usefixtures("lasting_leases")
def test_news_that_the_database_refuses_do_not_hold_up_a_worker(
    quick_service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell = quick_service.runs.tell

    def tell_others(claim: Claim, kind: str, data: dict[str, Any]) -> None:
        if kind == "pair":
            raise DataError("tell", {}, Exception("not this"))
        tell(claim, kind, data)

    monkeypatch.setattr(quick_service.runs, "tell", tell_others)
    run = quick_run(quick_service, 5)
    with working(quick_service):
        assert until_over(quick_service, run).state == "done"
    assert is_right(quick_service, run)
    assert "pair" not in kinds(quick_service, run)
