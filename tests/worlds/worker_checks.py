"""Services with quick runs, workers for them, and what must hold when all is over.   PYTEST_DONT_REWRITE

A test file that wants the fixtures says `pytest_plugins = ["tests.worlds.service", "tests.worlds.worker_checks"]`.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from evenhand.service.run_folder import PARTIAL
from evenhand.service.settings import Service
from evenhand.service.storage.runs import OVER, Claim
from evenhand.service.storage.tables import Run
from evenhand.service.worker import Worker
from tests.worlds.quick_child import is_alive, result_bytes
from tests.worlds.service import small_run
from tests.worlds.workers import QUICK, Nursery, children, until

LEASE = 5.0  # a busy machine may keep a heartbeat waiting for a while
FILES = {"findings.parquet", "summary.json"}  # of a quick run


@pytest.fixture
def short_service(open_service: Callable[..., Service], database_url: str) -> Service:
    return open_service(database=database_url, lease_seconds=LEASE)


@pytest.fixture
def quick_service(open_service: Callable[..., Service], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Service:
    """On SQLite, with runs that are quick; they may take five seconds of the processor and 1 GiB."""
    (tmp_path / "marks").mkdir()
    monkeypatch.setenv("EVENHAND_TEST_MARKS", str(tmp_path / "marks"))
    return open_service(lease_seconds=LEASE, run_seconds=5.0, run_memory=1 << 30)


@pytest.fixture
def nursery(short_service: Service, tmp_path: Path) -> Iterator[Nursery]:
    nursery = nursery_for(short_service, tmp_path / "marks")
    yield nursery
    nursery.close()


@pytest.fixture
def quick_nursery(quick_service: Service, tmp_path: Path) -> Iterator[Nursery]:
    nursery = nursery_for(quick_service, tmp_path / "marks")
    yield nursery
    nursery.close()


def nursery_for(service: Service, marks: Path, **settings: Any) -> Nursery:
    return Nursery(service.settings.model_dump(mode="json"), marks, **settings)


def quick_run(service: Service, seed: int, steps: int = 30) -> Run:
    return small_run(service, seed=seed, steps=steps)


def claimed(service: Service, worker: str) -> Claim:
    """Wait until there is a run to claim."""
    found: list[Claim] = []

    def claim() -> bool:
        found.extend(filter(None, [service.runs.claim(worker)]))
        return bool(found)

    until(claim)
    return found[0]


def files(service: Service, run: Run) -> set[str]:
    folder = service.home.run(run.id)
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


def is_right(service: Service, run: Run) -> bool:
    """Whether a run is over; if it is, it must be done and its result must be whole, from this moment on."""
    now = service.runs.get(run.id)
    assert now.state not in ("failed", "cancelled"), now.error
    if now.state == "done":
        assert (service.home.run(run.id) / "findings.parquet").read_bytes() == result_bytes(run.config["seed"])
    return now.state == "done"


def kinds(service: Service, run: Run) -> list[str]:
    return [event.kind for event in service.runs.events(run.id)]


def no_attempts_left(service: Service) -> bool:
    return not list(service.home.path.glob(f"runs/*/attempt-*{PARTIAL}"))


def check_ends(service: Service, nursery: Nursery, runs: list[Run]) -> None:
    """Every run ends once, by itself, with the whole result and nothing beside it."""
    until(lambda: sum(is_right(service, run) for run in runs) == len(runs))
    until(lambda: no_attempts_left(service))
    for run in runs:
        assert kinds(service, run).count("done") == 1
        assert files(service, run) == FILES
        assert is_right(service, run)
        check_nothing_saved_was_lost(service, run)
    assert not (nursery.marks / "overlap").exists(), (nursery.marks / "overlap").read_text()


def check_nothing_saved_was_lost(service: Service, run: Run) -> None:
    """Every attempt goes on from where a run was said to be saved, or from further on."""
    events = service.runs.events(run.id, limit=100_000)
    steps = [event.data["step"] for event in events if event.kind in ("saved", "resumed")]
    assert steps == sorted(steps)


def wait_for_work(service: Service, nursery: Nursery, worker: int) -> list[int]:
    """Wait until a worker's process works at a run, or there is none to work at; returns all processes that it has."""
    busy: list[int] = []

    def works() -> bool:
        busy[:] = children(worker)
        at_work = {pid for pid in nursery.run_pids() if is_alive(pid)} & set(busy)
        return bool(at_work) or all(run.state in OVER for run in service.runs.newest(limit=500))

    until(works)
    return busy


@contextmanager
def working(service: Service, **settings: Any) -> Iterator[Worker]:
    """A worker in a thread of this process."""
    worker = Worker(service, command=QUICK, poll_seconds=0.05, **settings)
    thread = threading.Thread(target=worker.run_forever)
    thread.start()
    try:
        yield worker
    finally:
        worker.stop()
        thread.join()


def until_over(service: Service, run: Run) -> Run:
    until(lambda: service.runs.get(run.id).state in OVER)
    return service.runs.get(run.id)
