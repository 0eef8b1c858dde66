"""Many people at once: how long the service's pages and answers take, alone and next to a running search.

    python -m bench.service_load [--people 50] [--seconds 60] [--rows 10000000] [--accounts] [--database …]

Starts `evenhand serve` with a fresh folder, gives it a finished audit with a large file of findings, and lets people
watch a run live (one open stream each) while they go from page to page with pauses. First nothing searches: the run
that they watch is one whose progress this program makes up. Then they watch a real audit, done by the service's own
worker on the same processors. Before each of the two somebody has seen every kind of page once. The load itself takes a
part of the machine too, which is printed.
"""

import argparse
import asyncio
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np

from bench.findings_pages import kept_findings
from bench.load_people import Person, Seen, World, use_all
from evenhand.service.api.identity import SESSION
from evenhand.service.findings_index import index_path
from evenhand.service.settings import Service, Settings
from evenhand.service.storage.database import upgrade
from evenhand.service.storage.projects import DEFAULT_PROJECT
from evenhand.service.storage.runs import Claim
from evenhand.service.storage.tables import Run

PASSWORD = "a long password for the load"
STILL_SECONDS = 2.0
TARGET = 0.2  # seconds, for 95 of 100 answers next to a running search
COMMAND = "from evenhand.cli.main import main; main()"
AUDIT = {"dataset": "census", "protected": ["sex", "race"], "seeds": 20, "steps": 50}
LONG = AUDIT | {"seeds": 30_000, "steps": 100_000}


@dataclass(frozen=True)
class Server:
    """A running `evenhand serve`."""

    process: "subprocess.Popen[str]"
    port: int

    def get(self, path: str, cookie: str | None) -> Any:
        """JSON from the API."""
        headers = {"Cookie": cookie} if cookie else {}
        with urllib.request.urlopen(
            urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", None, headers)
        ) as answer:
            return json.loads(answer.read())


@contextmanager
def serving(home: Path, database: str | None) -> Iterator[Server]:
    """A server of our own; it is ended in the end."""
    options = ["--port", "0", "--home", str(home), *(["--database", database] if database else [])]
    with (home.parent / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, "serve", *options], stdout=subprocess.PIPE, stderr=log, text=True
        )
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r":(\d+)", line)
        assert found is not None, f"{line}{(home.parent / 'log').read_text()}"
        try:
            yield Server(process, int(found[1]))
        finally:
            process.terminate()
            process.communicate()


def opened(home: Path, database: str | None) -> Service:
    """The storage, with its tables."""
    settings = Settings(home=home, database=database)
    storage = settings.storage()
    upgrade(storage.database)
    storage.close()
    return settings.open()


def cookies_for(service: Service, people: int) -> list[str]:
    """Accounts, all but the first of which may only look, and what their browsers send once they have signed in."""
    for number in range(people):
        service.accounts.add_user(f"person{number}", PASSWORD, admin=number == 0)
        if number:
            service.accounts.set_role(f"person{number}", DEFAULT_PROJECT, "viewer")
    return [
        f"{SESSION}={service.accounts.sign_in(f'person{number}', PASSWORD, '127.0.0.1')}" for number in range(people)
    ]


def finished_audit(service: Service, rows: int, kept: Path) -> str:
    """A small audit through the worker, to which the large file of findings is then given."""
    run = service.runs.create(DEFAULT_PROJECT, "audit", "an audit with many findings", AUDIT)
    while (state := service.runs.get(run.id).state) not in ("done", "failed", "cancelled"):
        time.sleep(0.1)
    assert state == "done", service.runs.get(run.id).error
    ours, large = service.home.run(run.id) / "findings.parquet", kept_findings(kept, rows, ["sex", "race"])
    for target, source in ((ours, large), (index_path(ours), index_path(large))):
        target.unlink(missing_ok=True)
        try:
            os.link(source, target)
        except OSError:  # on another disk
            shutil.copyfile(source, target)
    return run.id


@contextmanager
def quiet_run(service: Service) -> Iterator[str]:
    """A run that no worker does: this program holds it and says twice a second how far it is, as a search would."""
    with service.database.writing() as session:
        now = service.database.now(session)
        run = Run(
            id=os.urandom(16).hex(), project=DEFAULT_PROJECT, kind="audit", title="a quiet run", config=AUDIT,
            state="running", cancel=False, progress={}, attempts=1, created=now, started=now, lease=1,
            worker="nobody", lease_until=now + timedelta(hours=1), place="worker",
        )  # fmt: skip
        session.add(run)
    claim = Claim(run.id, "audit", DEFAULT_PROJECT, AUDIT, lease=1, attempt=1)
    ending = threading.Event()

    def tell() -> None:
        start, points = time.monotonic(), list[tuple[float, int]]()
        while not ending.wait(0.5):
            passed = round(time.monotonic() - start, 2)
            points = [*points, (passed, int(5000 * passed))][-60:]
            service.runs.beat(
                claim,
                {
                    "phase": "local", "done": len(points), "total": 1000, "findings": points[-1][1],
                    "seconds": passed, "left": 100.0, "growth": points,
                },
            )  # fmt: skip

    teller = threading.Thread(target=tell)
    teller.start()
    try:
        yield run.id
    finally:
        ending.set()
        teller.join()
        service.runs.finish(claim, "cancelled")


@contextmanager
def searching_run(service: Service) -> Iterator[str]:
    """A real audit in the worker, which has begun to find."""
    run = service.runs.create(DEFAULT_PROJECT, "audit", "a long audit", LONG)
    while not service.runs.get(run.id).progress.get("findings"):
        time.sleep(0.1)
    yield run.id
    assert service.runs.get(run.id).state == "running", "the search was over too soon"
    service.runs.cancel(run.id)
    while service.runs.get(run.id).state not in ("done", "failed", "cancelled"):
        time.sleep(0.1)


def processor_seconds(pid: int) -> dict[int, float]:
    """Seconds of the processor by process, for a process and all that it started."""
    used, parents = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            used[int(path.parent.name)] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            parents[int(path.parent.name)] = int(fields[1])
    family = {pid}
    while more := {child for child, parent in parents.items() if parent in family} - family:
        family |= more
    return {member: used[member] for member in family if member in used}


def settle(server: Server) -> None:
    """Wait until the worker has nothing to do: after a run it makes a process ready for the next one."""
    used, since = -1.0, time.monotonic()
    while time.monotonic() - since < STILL_SECONDS:
        time.sleep(0.2)
        now = sum(used for pid, used in processor_seconds(server.process.pid).items() if pid != server.process.pid)
        if now - used > 0.1:
            used, since = now, time.monotonic()


@dataclass(frozen=True)
class Phase:
    """What was seen in one phase."""

    name: str
    seen: Seen
    seconds: float
    shares: dict[str, float]  # of one processor

    @property
    def all(self) -> list[float]:
        """Seconds of all answers."""
        return [seconds for kind in self.seen.seconds.values() for seconds in kind]

    def show(self) -> None:
        """A table."""
        counts = f"{len(self.all)} answers, {len(self.all) / self.seconds:.1f} a second, {len(self.seen.errors)} errors"
        print(f"\n{self.name}: {counts}")
        print(f"  {'milliseconds':18} {'number':>7} {'p50':>7} {'p95':>7} {'p99':>7} {'longest':>8}")
        for kind, seconds in [*sorted(self.seen.seconds.items()), ("all", self.all)]:
            p50, p95, p99 = 1000 * np.percentile(seconds, [50, 95, 99])
            print(f"  {kind:18} {len(seconds):7} {p50:7.1f} {p95:7.1f} {p99:7.1f} {1000 * max(seconds):8.1f}")
        if self.seen.silences:
            longest = max(self.seen.silences)
            print(f"  live: {self.seen.told} events came by themselves, {longest:.1f} s apart at most")
        print(f"  of one processor: {', '.join(f'{name} {share:.0%}' for name, share in self.shares.items())}")
        for error in self.seen.errors[:5]:
            print(f"  error: {error}")


def phase(name: str, server: Server, world: World, cookies: list[str | None], seconds: float, pause: float) -> Phase:
    """Let people use the service for a while."""
    seen = Seen()
    crowd = [
        Person(("127.0.0.1", server.port), world, seen, random.Random(number), pause, cookie)
        for number, cookie in enumerate(cookies)
    ]
    before, start = (processor_seconds(server.process.pid), time.process_time()), time.perf_counter()
    asyncio.run(use_all(crowd, seconds))
    passed, after = time.perf_counter() - start, processor_seconds(server.process.pid)
    ours = time.process_time() - before[1]
    grown = {pid: used - before[0].get(pid, 0.0) for pid, used in after.items()}
    serving_share = grown.pop(server.process.pid) / passed
    shares = {"server": serving_share, "worker and search": sum(grown.values()) / passed, "this load": ours / passed}
    return Phase(name, seen, passed, shares)


def measured(options: argparse.Namespace, folder: Path) -> list[Phase]:
    """Both phases."""
    service = opened(folder / "home", options.database)
    cookies: list[str | None] = [None] * options.people
    if options.accounts:
        cookies = [*cookies_for(service, options.people)]
    with serving(folder / "home", options.database) as server:
        done = finished_audit(service, options.rows, options.kept)
        values = server.get(f"/api/v1/runs/{done}/findings/values", cookies[0])
        phases: list[Phase] = []
        for name, run in (("no search", quiet_run(service)), ("next to a search", searching_run(service))):
            with run as live:
                world = World(live, done, options.rows, values)
                asyncio.run(Person(("127.0.0.1", server.port), world, Seen(), random.Random(), 0, cookies[0]).see_all())
                if not phases:
                    settle(server)
                phases.append(phase(name, server, world, cookies, options.seconds, options.pause))
                phases[-1].show()
    service.close()
    return phases


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="How long the service's answers take when many people use it.")
    parser.add_argument("--people", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60.0, help="Of each of the two phases.")
    parser.add_argument("--pause", type=float, default=2.0, help="Seconds between two looks of a person, on average.")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--database", default=None, help="An empty one; none: SQLite.")
    parser.add_argument("--accounts", action="store_true", help="People have signed in.")
    parser.add_argument("--kept", type=Path, default=Path(tempfile.gettempdir()) / "evenhand-bench")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="evenhand-load-", dir=options.kept.parent) as folder:
        idle, busy = measured(options, Path(folder))
    slow, fast = (float(np.percentile(one.all, 95)) for one in (busy, idle))
    errors = len(idle.seen.errors) + len(busy.seen.errors)
    met = slow < TARGET and not errors
    print(
        f"\n{options.people} people, {options.rows:,} findings: 95 of 100 answers within {1000 * slow:.0f} ms next to "
        f"a search, {slow / fast:.2f} times those without; {errors} errors. Target {1000 * TARGET:.0f} ms: "
        f"{'met' if met else 'MISSED'}"
    )
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
