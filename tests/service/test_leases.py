"""Never two workers with one run, never a run that is lost: processes that claim, die, stall and lose the database."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import SQLAlchemyError

from evenhand.service.settings import Service, Settings
from evenhand.service.storage.database import REFUSED
from evenhand.service.storage.runs import OVER, Claim, LeaseLost, Runs
from tests.worlds.service import Cluster, lapse, new_cluster, small_run
from tests.worlds.soak import times

pytest_plugins = ["tests.worlds.service"]

PATIENCE = 600.0  # seconds; only a broken test waits so long
ROOT = Path(__file__).parents[2]

# A worker that only claims and ends runs. Between the two it holds a file that no other holder of the run may have: it
# is made so that a second maker fails. One in three first claims ends as if the worker had died and the lease had run
# out. Time plays no part: on a busy machine a short lease would run out by itself, and rightly so.
WORKER = """
import json, os, random, sys, time
from pathlib import Path
from evenhand.service.settings import Settings
from tests.worlds.service import lapse

home, url, folder, name = sys.argv[1:]
service = Settings(home=home, database=url).open()
chance = random.Random(name)
idle = 0
while idle < 40:
    claim = service.runs.claim(name)
    if claim is None:
        idle += 1
        time.sleep(0.05)
        continue
    idle = 0
    held = Path(folder) / claim.run
    handle = os.open(held, os.O_CREAT | os.O_EXCL)  # fails where another holds the run
    os.close(handle)
    time.sleep(chance.random() * 0.02)
    if claim.attempt == 1 and chance.random() < 0.33:
        held.unlink()
        lapse(service, claim.run)
        continue
    service.runs.beat(claim, {"by": name})
    held.unlink()
    service.runs.finish(claim, "done", result={"by": name, "attempt": claim.attempt})
    print(json.dumps([claim.run, claim.attempt]), flush=True)
"""


def start_worker(service: Service, folder: Path, name: str, code: str = WORKER) -> "subprocess.Popen[str]":
    url = service.database.url.render_as_string(hide_password=False)
    arguments = [str(service.home.path), url, str(folder), name]
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    )


@pytest.mark.soak
def test_processes_that_claim_never_share_a_run_and_each_run_ends_once(service: Service, tmp_path: Path) -> None:
    runs = [small_run(service).id for _ in range(times(40, 800))]
    (tmp_path / "held").mkdir()
    workers = [start_worker(service, tmp_path / "held", f"worker {number}") for number in range(3)]
    said = [worker.communicate(timeout=PATIENCE) for worker in workers]
    assert [(worker.returncode, words) for worker, (_, words) in zip(workers, said, strict=True)] == [(0, "")] * 3
    ended = [json.loads(line)[0] for out, _ in said for line in out.splitlines()]
    assert sorted(ended) == sorted(runs)
    assert {service.runs.get(run).state for run in runs} == {"done"}
    for run in runs:
        counted = Counter(event.kind for event in service.runs.events(run))
        assert counted["done"] == 1
        assert counted["started"] == service.runs.get(run).attempts
    assert any(service.runs.get(run).attempts == 2 for run in runs)  # or nothing was left to lapse


@pytest.mark.soak
def test_threads_that_claim_at_the_same_moment_get_different_runs(service: Service) -> None:
    runs = [small_run(service).id for _ in range(times(24, 600))]
    together, claims = threading.Barrier(6), []

    def claim_all(name: str) -> None:
        together.wait()
        while claim := service.runs.claim(name):
            claims.append(claim.run)

    threads = [threading.Thread(target=claim_all, args=(f"thread {number}",)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(claims) == sorted(runs)


@pytest.mark.soak
def test_only_one_of_two_holders_can_end_a_run(service: Service) -> None:
    """The last beat of an old holder and the claim of a new one, again and again at the same moment."""
    late = Runs(service.database, lease_seconds=0.0)  # whatever it claims has lapsed already
    for _ in range(times(15, 500)):
        small_run(service)
        old = late.claim("old")
        assert old is not None
        together = threading.Barrier(2)
        outcomes: dict[str, Any] = {}

        def beat(claim: Claim = old, together: threading.Barrier = together, seen: dict[str, Any] = outcomes) -> None:
            together.wait()
            try:
                service.runs.beat(claim)
                seen["old"] = "kept"
            except LeaseLost:
                seen["old"] = "lost"

        thread = threading.Thread(target=beat)
        thread.start()
        together.wait()
        new = service.runs.claim("new")
        thread.join()
        if new is None:
            assert outcomes["old"] == "kept"
            service.runs.finish(old, "done")
        else:  # the beat came before the claim only if the claim saw it; the old one is out in any case
            with pytest.raises(LeaseLost):
                service.runs.finish(old, "done")
            service.runs.finish(new, "done")


SLEEPER = """
import sys, time
from evenhand.service.settings import Settings
home, url, folder, name = sys.argv[1:]
service = Settings(home=home, database=url).open()
claim = service.runs.claim(name)
print(claim.run, flush=True)
while True:
    service.runs.beat(claim, {"beats": 1})
    time.sleep(0.02)  # SQLite's lock has no queue: without a pause others might never get it
"""


def test_a_killed_workers_run_is_taken_up_after_its_lease_and_not_before(service: Service, tmp_path: Path) -> None:
    run = small_run(service)
    worker = start_worker(service, tmp_path, "doomed", SLEEPER)
    assert worker.stdout is not None
    assert worker.stdout.readline().strip() == run.id
    assert service.runs.claim("heir") is None  # it beats all the time
    worker.send_signal(signal.SIGKILL)
    worker.communicate()
    assert service.runs.claim("heir") is None  # nobody can know yet that it is dead
    lapse(service, run.id)
    claim = service.runs.claim("heir")
    assert claim is not None
    assert (claim.run, claim.attempt) == (run.id, 2)
    service.runs.finish(claim, "done")


@contextmanager
def _busy_elsewhere(service: Service) -> Iterator[None]:
    """Another process writes, and takes its time."""
    with service.database.writing() as session:
        session.connection()
        yield


def test_a_writer_waits_for_another_and_does_not_fail(service: Service) -> None:
    small_run(service)
    claims: list[Claim | None] = []
    thread = threading.Thread(target=lambda: claims.append(service.runs.claim("patient")))
    with _busy_elsewhere(service):
        thread.start()
        thread.join(0.3)
    thread.join()
    assert claims[0] is not None


@pytest.fixture
def own_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A server that may be stopped without harm to other tests."""
    with tempfile.TemporaryDirectory(prefix="pg") as folder:
        cluster = new_cluster(Path(folder))
        yield cluster
        cluster.stop()


def test_after_the_database_was_gone_for_a_while_all_goes_on(
    own_cluster: Cluster, open_service: Callable[..., Service]
) -> None:
    service = open_service(database=own_cluster.new_database(own_cluster.template))
    run = small_run(service)
    claim = service.runs.claim("worker")
    assert claim is not None
    own_cluster.stop()  # as a crash would: connections break, nothing is said
    assert not service.database.answers()
    asks: list[Callable[[], Any]] = [
        lambda: service.runs.beat(claim),
        lambda: service.runs.claim("other"),
        lambda: service.runs.newest(),
        lambda: small_run(service),
    ]
    for ask in asks:
        with pytest.raises(SQLAlchemyError) as caught:
            ask()
        assert not isinstance(caught.value, REFUSED)  # it may be asked again
    own_cluster.start()
    assert service.database.answers()
    assert service.runs.beat(claim) is False
    service.runs.finish(claim, "done", result={"findings": 1})
    assert [run.id for run in service.runs.newest()] == [run.id]
    assert service.runs.get(run.id).state in OVER


def test_sqlites_file_can_be_opened_by_many_at_once(tmp_path: Path) -> None:
    """Several processes that find no file yet: one makes the tables, nobody fails."""
    code = "import sys; from evenhand.service.settings import Settings; Settings(home=sys.argv[1]).open().close()"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("EVENHAND_")}
    command = [sys.executable, "-c", code, str(tmp_path / "home")]
    opened = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) for _ in range(3)]
    for process in opened:
        _, words = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, words
    service = Settings(home=tmp_path / "home", database=None).open()
    assert small_run(service).state == "queued"
    service.close()
