"""Server, worker or a run's process are killed while real audits run: each ends once, as if nothing had happened."""

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import evenhand
from evenhand.service.settings import Service
from evenhand.service.storage.runs import OVER
from evenhand.service.storage.tables import Event, Run
from tests.worlds.quick_child import is_alive
from tests.worlds.soak import times
from tests.worlds.worker_checks import files, no_attempts_left
from tests.worlds.workers import children, kill, until

pytest_plugins = ["tests.worlds.service", "tests.worlds.worker_checks"]
MOMENTS = times(3, 50)
SEEDS = 3  # different audits
AUDIT: dict[str, Any] = {"seeds": 20, "steps": 200}
MOST_KILLS = 3  # of one run: it fails after five, since it might be its own fault
SERVER = (
    "import json, sys; from evenhand.service.settings import Settings; from evenhand.service.server import run_server;"
    "run_server(Settings(**json.loads(sys.argv[1])).open(), announce=lambda address: print(address, flush=True))"
)


class Server:
    """`evenhand serve` with a short lease, started again whenever it was killed."""

    def __init__(self, service: Service) -> None:
        settings = service.settings.model_copy(update={"port": 0, "workers": 1})
        self._command = [sys.executable, "-c", SERVER, settings.model_dump_json()]
        self.seen: set[int] = set()
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self._process.stdout is not None
        assert self._process.stdout.readline().startswith("http")

    def processes(self) -> dict[str, list[int]]:
        """The server, its worker, and the process of the run that it does."""
        workers = children(self._process.pid)
        found = {"server": [self._process.pid], "worker": workers, "run": [c for pid in workers for c in children(pid)]}
        self.seen.update(pid for pids in found.values() for pid in pids)
        return found

    def kill(self, which: str) -> None:
        for pid in self.processes()[which]:
            kill(pid)
        if which == "server":
            self.end(signal.SIGKILL)
            self.start()

    def end(self, number: int = signal.SIGTERM) -> None:
        self.processes()
        self._process.send_signal(number)
        self._process.communicate()


@pytest.fixture
def service(open_service: Callable[..., Service], monkeypatch: pytest.MonkeyPatch) -> Service:
    monkeypatch.setenv("EVENHAND_CHECKPOINT_SECONDS", "0.1")
    return open_service(lease_seconds=5.0)


@pytest.fixture
def server(service: Service) -> Iterator[Server]:
    server = Server(service)
    yield server
    server.end()
    until(lambda: not any(is_alive(pid) for pid in server.seen))


def asked(service: Service, number: int) -> Run:
    config = {"dataset": "census", "protected": ["sex"], "seed": number % SEEDS, **AUDIT}
    return service.runs.create("default", "audit", f"audit {number}", config)


class Watched:
    """Sees which run is being done, after the last kill and not before it: the database still says what was then."""

    def __init__(self, service: Service, runs: list[Run]) -> None:
        self._service, self._runs, self._last = service, runs, 0
        self._stale: dict[str, Any] = {}

    def killed(self) -> None:
        """What was said until now is of the past."""
        self._stale = {run.id: self._service.runs.get(run.id).progress for run in self._runs}
        self._last = max(self._service.runs.events(run.id, limit=10_000)[-1].id for run in self._runs)

    def begun(self) -> Run | None:
        """The run that was taken up last."""
        for run in self._service.runs.newest(state="running"):
            events = self._service.runs.events(run.id, after=self._last, limit=10_000)
            if any(event.kind == "started" for event in events):
                return run
        return None

    def at_work(self) -> bool:
        """Whether its process has said how far it is, or the run has just ended."""
        run = self.begun()
        return run is None or (bool(run.progress) and run.progress != self._stale.get(run.id))

    def has_saved(self) -> bool:
        """Whether there is a checkpoint of this attempt, or the run has just ended."""
        run = self.begun()
        return run is None or (self.at_work() and run.progress.get("saved", 0) > 0)


def often_killed(service: Service) -> bool:
    waiting = [run for state in ("running", "interrupted") for run in service.runs.newest(state=state)]
    return any(run.attempts >= MOST_KILLS for run in waiting)


def later(service: Service, run: Run, after: int) -> list[Event]:
    return service.runs.events(run.id, after=after, limit=10_000)


def check_went_on(service: Service, run: Run, after: int, saved: int) -> None:
    """Whatever was done to the run after a kill, it began with what had been reported as saved."""
    kinds = [event.kind for event in later(service, run, after)]
    if "started" in kinds and saved:  # else it was just over, or its worker lived on
        (first, *_) = (event.data for event in later(service, run, after) if event.kind == "resumed")
        assert first["findings"] >= saved


@pytest.mark.soak
def test_kills_at_random_moments_lose_nothing(service: Service, server: Server, tmp_path: Path) -> None:
    runs: list[Run] = []
    kills: list[tuple[Run, int, int]] = []
    watched = Watched(service, runs)

    def all_over() -> bool:
        return all(service.runs.get(run.id).state in OVER for run in runs)

    def ready() -> bool:
        """Whether there is a run to kill; a new one is asked for when the last has ended."""
        if all_over():
            runs.append(asked(service, len(runs)))
        return watched.begun() is not None and not often_killed(service)

    for number in range(MOMENTS):
        draw = random.Random(number)
        until(ready, seconds=600, every=0.1)
        until(draw.choice([lambda: True, watched.at_work, watched.has_saved]), seconds=600, every=0.1)
        time.sleep(draw.uniform(0.0, 1.0))
        run = watched.begun()
        if run is not None:
            kills.append((run, service.runs.events(run.id, limit=10_000)[-1].id, run.progress.get("saved", 0)))
        server.kill(("worker", "run", "server")[number % 3])
        watched.killed()
    until(all_over, seconds=1200, every=0.2)
    until(lambda: no_attempts_left(service))
    alone = [evenhand.audit("census", "sex", seed=seed, out=tmp_path / f"{seed}", **AUDIT) for seed in range(SEEDS)]
    for run in runs:
        over, folder = service.runs.get(run.id), service.home.run(run.id)
        assert over.state == "done", over.error
        assert [event.kind for event in service.runs.events(run.id)].count("done") == 1
        wanted = alone[run.config["seed"]].folder / "findings.parquet"
        assert (folder / "findings.parquet").read_bytes() == wanted.read_bytes()
        assert files(service, run) == {"findings.parquet", "findings.index", "report.html", "summary.json"}
        assert json.loads((folder / "summary.json").read_text())["search"]["stopped"] == "completed"
    for run, after, saved in kills:
        check_went_on(service, run, after, saved)
    assert {path.name for path in service.home.path.glob("runs/*")} == {run.id for run in runs}
    assert not [*service.home.uploads.iterdir(), *service.home.trash.iterdir()]
    resumed = sum(event.kind == "resumed" for run in runs for event in service.runs.events(run.id))
    print(f"{MOMENTS} kills, {len(kills)} of them of a run: {len(runs)} ended once, {resumed} times from a checkpoint")
