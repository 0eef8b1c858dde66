"""What a run through the service costs, against the same run from the command line.

    python -m bench.service_cost [--repeats 5] [--seeds 1000] [--cold]

Does the same audit in turn with `evenhand audit --out` and through a worker, and prints the seconds by the clock and of
the processor, and the ratio of the two ways. Both must give the same file of findings.

By the clock a run through the service counts from its creation until its worker is done with it, with everything that
the service adds: the wait for the claim, the events, the index of the findings, the disk. Its worker is idle before, so
a process waits that has imported what it needs; --cold takes that away, as for a worker that is always busy. Of the
processor a run counts with all that its own process used from its start on, imports included as on the command line,
and with what its worker used meanwhile. The process that then waits for the next run is the next run's cost.
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

from bench.timing import Cost, cost_of_processes, processor_seconds, processor_seconds_of
from evenhand.service.settings import Service, Settings
from evenhand.service.storage.projects import DEFAULT_PROJECT
from evenhand.service.worker import Worker

COMMAND = "from evenhand.cli.main import main; main()"
TARGET = 1.1
STILL_SECONDS = 1.0  # without any work of the process that waits: it is ready


class Measured(Worker):
    """A worker that says when it is done with a run."""

    def __init__(self, service: Service) -> None:
        super().__init__(service)
        self.done = threading.Event()
        self.waits = True  # with a process that is ready for the next run

    def run_once(self) -> str | None:
        """The same, and say so."""
        run = super().run_once()
        if run is not None:
            self.done.set()
        return run

    def _prepare(self) -> None:
        if self.waits:
            super()._prepare()

    def settle(self) -> None:
        """Wait until the process that waits is there and has nothing to do any more."""
        used, since = -1.0, time.monotonic()
        while time.monotonic() - since < STILL_SECONDS:
            time.sleep(0.1)
            now = processor_seconds_of(self._spare.pid) if self._spare is not None else 0.0 if not self.waits else -1.0
            if now != used or now < 0:
                used, since = now, time.monotonic()


def from_command_line(folder: Path, seeds: int, steps: int) -> Cost:
    """What `evenhand audit` takes."""
    options = ["census", "-p", "sex", "--seeds", str(seeds), "--steps", str(steps), "--out", str(folder), "--quiet"]
    return cost_of_processes(lambda: subprocess.run([sys.executable, "-c", COMMAND, "audit", *options], check=True))


def through_worker(service: Service, worker: Measured, seeds: int, steps: int) -> tuple[Cost, Path]:
    """What the same run takes through a worker that is idle, and its folder."""
    worker.done.clear()
    config = {"dataset": "census", "protected": ["sex"], "seeds": seeds, "steps": steps}
    start, before = time.perf_counter(), (processor_seconds(), processor_seconds(resource.RUSAGE_SELF))
    run = service.runs.create(DEFAULT_PROJECT, "audit", "cost", config)
    worker.done.wait()
    clock, own = time.perf_counter() - start, processor_seconds(resource.RUSAGE_SELF) - before[1]
    processor = processor_seconds() - before[0] + own  # its process has ended, the next one has not
    ended = service.runs.get(run.id)
    assert ended.state == "done", ended.error
    return Cost(clock, processor), service.home.run(run.id)


def measured(number: int, service: Service, worker: Measured, asked: argparse.Namespace) -> tuple[Cost, Cost]:
    """Both ways once, every other time the other way first; the findings must be the same."""
    alone = service.home.path / f"alone-{number}"
    worker.settle()
    if number % 2:
        theirs = from_command_line(alone, asked.seeds, asked.steps)
    ours, folder = through_worker(service, worker, asked.seeds, asked.steps)
    worker.settle()
    if not number % 2:
        theirs = from_command_line(alone, asked.seeds, asked.steps)
    same = (folder / "findings.parquet").read_bytes() == (alone / "findings.parquet").read_bytes()
    assert same, "the two ways gave different findings"
    words = (f"{way} {cost.clock:.2f} s ({cost.processor:.2f})" for way, cost in zip(WAYS, (ours, theirs), strict=True))
    print(f"{number + 1}: {', '.join(words)}", flush=True)
    return ours, theirs


WAYS = ("service", "command line")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What a run through the service costs.")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--cold", action="store_true", help="No process waits for the run.")
    asked = parser.parse_args()
    print("seconds by the clock (of the processor)")
    with tempfile.TemporaryDirectory(prefix="evenhand-cost-") as name:
        service = Settings(home=Path(name), database=None).open()
        worker = Measured(service)
        worker.waits = not asked.cold
        thread = threading.Thread(target=worker.run_forever)
        thread.start()
        try:
            pairs = [measured(number, service, worker, asked) for number in range(asked.repeats)]
        finally:
            worker.stop()
            thread.join()
            service.close()
    ratios = []
    for which, field in enumerate(Cost._fields):
        ours, theirs = (statistics.median(cost[which] for cost in side) for side in zip(*pairs, strict=True))
        ratios.append(ours / theirs)
        print(f"{field:9} service {ours:6.2f} s, command line {theirs:6.2f} s, ratio {ratios[-1]:.3f}")
    met = max(ratios) <= TARGET
    print(f"Target: at most {TARGET} by the clock and of the processor: {'met' if met else 'MISSED'}")
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
