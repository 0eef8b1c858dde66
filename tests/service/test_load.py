"""Many people at once: every answer is one that is meant for them, and every run ends once."""

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from evenhand.service.client import Client
from evenhand.service.settings import Service
from evenhand.service.storage.runs import OVER
from tests.service.test_client import served
from tests.worlds.soak import times
from tests.worlds.worker_checks import files, is_right, kinds, no_attempts_left, working
from tests.worlds.workers import until

pytest_plugins = ["tests.worlds.service", "tests.worlds.worker_checks"]
PEOPLE, RUNS_EACH = times(4, 20), times(2, 10)


@pytest.fixture
def address(quick_service: Service) -> Iterator[str]:
    with served(quick_service) as address, working(quick_service), working(quick_service):
        yield address


def visit(address: str, number: int) -> list[str]:
    """Somebody asks for runs, looks at pages, and changes their mind about some; returns the runs they let be."""
    draw, client, kept = random.Random(number), Client(address, timeout=600), []
    with httpx.Client(base_url=address, timeout=600) as browser:
        for turn in range(RUNS_EACH):
            run = client.audit(
                "census", ["sex"], seed=1000 + RUNS_EACH * number + turn, seeds=10, iterations=2, steps=20
            )
            for page in ("/", "/runs", "/new", f"/runs/{run.id}", f"/api/v1/runs/{run.id}/events?after=0"):
                assert browser.get(page).status_code == 200, page
            assert run.id in {other.id for other in client.runs()}
            if draw.random() < 0.5:
                kept.append(run.id)
                continue
            answer = browser.post(f"/api/v1/runs/{run.id}/cancel", headers={"Content-Type": "application/json"})
            assert answer.status_code in (200, 409), answer.text  # 409: it was over before
    return kept


@pytest.mark.soak
@pytest.mark.usefixtures("lasting_leases")
def test_many_people_at_once(address: str, quick_service: Service) -> None:
    with ThreadPoolExecutor(PEOPLE) as pool:
        kept = [run for runs in pool.map(lambda number: visit(address, number), range(PEOPLE)) for run in runs]
    runs = quick_service.runs.newest(limit=10_000)
    assert len(runs) == PEOPLE * RUNS_EACH
    until(lambda: all(quick_service.runs.get(run.id).state in OVER for run in runs))
    until(lambda: no_attempts_left(quick_service))
    for run in runs:
        ends = [kind for kind in kinds(quick_service, run) if kind in OVER]
        assert ends == [quick_service.runs.get(run.id).state]
        if run.id in kept:
            assert is_right(quick_service, run)
            assert files(quick_service, run) == {"findings.parquet", "summary.json"}
