"""What a run through the service costs, against the same run from the command line.

    python -m bench.service_cost --repeats 3 --seeds 1000

Does the same audit in turn with `evenhand audit` and through a worker, each time in new processes, and prints the
seconds by the clock and of the processor, and the ratio of the two ways. Through the worker a run counts from its
creation to its end, with everything that the service adds: the claim, the events, the index of the findings, the disk.
The worker's own start is not a run's cost; --cold starts the run's process only when the run is there, as for a worker
that is always busy, while an idle worker has one waiting. Both ways must give the same file of findings.
"""

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

from evenhand.service.settings import Service, Settings
from evenhand.service.worker import Worker

COMMAND = "from evenhand.cli.main import main; main()"


class Cost(NamedTuple):
    """Seconds, of which those of the processor are the child processes' and this one's."""

    clock: float
    processor: float


def _used() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def from_command_line(folder: Path, seeds: int, steps: int) -> Cost:
    """What `evenhand audit` takes."""
    start, before = time.perf_counter(), _used()
    options = ["census", "-p", "sex", "--seeds", str(seeds), "--steps", str(steps), "--out", str(folder), "--quiet"]
    subprocess.run([sys.executable, "-c", COMMAND, "audit", *options], check=True)
    return Cost(time.perf_counter() - start, _used() - before)


def through_worker(service: Service, seeds: int, steps: int, cold: bool) -> tuple[Cost, Path]:
    """What the same run takes through a worker, and its folder."""
    worker = Worker(service)
    thread = threading.Thread(target=worker.run_forever)
    if not cold:
        thread.start()
        time.sleep(20)  # until the process that waits is ready
    start, before = time.perf_counter(), _used()
    config = {"dataset": "census", "protected": ["sex"], "seeds": seeds, "steps": steps}
    run = service.runs.create("default", "audit", "cost", config)
    if cold:
        thread.start()
    while (state := service.runs.get(run.id).state) not in ("done", "failed"):
        time.sleep(0.02)
    clock = time.perf_counter() - start
    worker.stop()
    thread.join()
    assert state == "done", service.runs.get(run.id).error
    return Cost(clock, _used() - before), service.home.run(run.id)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What a run through the service costs.")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--cold", action="store_true")
    asked = parser.parse_args()
    pairs = []
    for number in range(asked.repeats):
        with tempfile.TemporaryDirectory() as name:
            service = Settings(home=Path(name) / "home", database=None).open()
            alone = from_command_line(Path(name) / "alone", asked.seeds, asked.steps)
            served, folder = through_worker(service, asked.seeds, asked.steps, asked.cold)
            same = (folder / "findings.parquet").read_bytes() == (Path(name) / "alone/findings.parquet").read_bytes()
            service.close()
        assert same, "the two ways gave different findings"
        pairs.append((served, alone))
        print(f"{number + 1}: service {served.clock:.2f} s, command line {alone.clock:.2f} s", flush=True)
    for which, field in enumerate(Cost._fields):
        ours, theirs = (statistics.median(cost[which] for cost in side) for side in zip(*pairs, strict=True))
        print(f"{field}: service {ours:.2f} s, command line {theirs:.2f} s, ratio {ours / theirs:.3f}")


if __name__ == "__main__":
    main()
