"""What the pytest plugin costs a run that does not use it.

    python -m bench.plugin_cost --repeats 21

Collects one empty test, in turn with the plugin and without it, each time in a new process and without other plugins,
and prints the medians and the least of each, which a busy machine disturbs least; time of the processor stands beside
that of the clock for the same reason. Importing the plugin is timed by itself too.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.timing import Cost, cost_of_processes

PLUGIN = "evenhand.pytest_plugin"
IMPORT = f"import pytest, time; start = time.perf_counter(); import {PLUGIN}; print(time.perf_counter() - start)"

WAYS: dict[str, Callable[[list[float]], float]] = {"median": statistics.median, "least": min}


def collected(folder: Path, *arguments: str) -> Cost:
    """Milliseconds of a run that collects one test and does nothing."""
    command = [sys.executable, "-m", "pytest", "--co", "-q", "-p", "no:cacheprovider", *arguments, str(folder)]
    alone = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    run = partial(subprocess.run, command, cwd=folder, env=alone, check=True, capture_output=True)
    return Cost(*(1000 * seconds for seconds in cost_of_processes(run)))


def imported(folder: Path) -> float:
    """Milliseconds that importing the plugin takes where pytest is there already."""
    done = subprocess.run([sys.executable, "-c", IMPORT], cwd=folder, check=True, capture_output=True, text=True)
    return 1000 * float(done.stdout)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What the pytest plugin costs a run that does not use it.")
    parser.add_argument("--repeats", type=int, default=21)
    repeats = parser.parse_args().repeats
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "test_nothing.py").write_text("def test_nothing() -> None:\n    pass\n")
        collected(folder, "-p", PLUGIN)  # the first run writes compiled files
        pairs = [(collected(folder, "-p", PLUGIN), collected(folder)) for _ in range(repeats)]
        imports = [imported(folder) for _ in range(repeats)]
    for which, field in enumerate(Cost._fields):
        sides = [[costs[which] for costs in side] for side in zip(*pairs, strict=True)]
        for name, of in WAYS.items():
            with_plugin, without = map(of, sides)
            print(
                f"{field}, {name}: with the plugin {with_plugin:.1f} ms, without {without:.1f} ms, difference "
                f"{with_plugin - without:.1f} ms, ratio {with_plugin / without:.3f}"
            )
    print(f"importing the plugin: {statistics.median(imports):.1f} ms, least {min(imports):.1f} ms")


if __name__ == "__main__":
    main()
