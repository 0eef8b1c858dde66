"""How fast the batched search is: against one sample at a time, by seeds, in memory, at start-up.

`make bench`, or `python -m bench.speed --help`.
"""

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import time
from typing import Any

import numpy as np
import torch

from bench.aequitas_reference import aequitas_ratio
from bench.reference import Reference
from bench.timing import timed_search
from evenhand.data.dataset import Dataset, load_dataset
from evenhand.methods.adf import ADF
from evenhand.methods.names import DEFAULT
from evenhand.methods.registry import make_method
from evenhand.models.classifier import Classifier
from evenhand.models.devices import choose_device, one_thread
from evenhand.models.loading import load_module
from evenhand.search.method import Method
from evenhand.search.search import Limits, SearchResult
from evenhand.search.seeds import choose_seeds


def batched(
    data: Dataset,
    protected: list[str],
    seeds: int,
    device: torch.device,
    limits: Limits | None = None,
    method: Method | None = None,
) -> tuple[SearchResult, Classifier, float]:
    """One search without files: its result, the model with its counters, and the seconds."""
    model = Classifier(load_module(data, None)[0], device=device)
    rows = choose_seeds(data, seeds, seed=0)
    result, seconds = timed_search(model, data, protected, rows, method or ADF(), limits or Limits())
    return result, model, seconds


def against_reference(data: Dataset, protected: list[str], seconds: float, device: torch.device) -> dict[str, Any]:
    """The paper's budget batched, and the plain implementation on as many of the same seeds as the time allows.

    Both do the same work seed by seed and find the same, so the ratio is that of seconds per seed. Findings a second
    of the plain one are also printed as seen; over few seeds they are higher than over all, since walks meet less.
    """
    batched(data, protected, 64, device, Limits(steps=50))  # warm-up: first calls load kernels
    result, model, batched_seconds = batched(data, protected, 1000, device)
    rows = choose_seeds(data, 1000, seed=0)
    plain = Classifier(load_module(data, None)[0], smallest_call=1)
    reference = Reference(plain, data.schema, protected, 0, math.exp(-1))
    with one_thread(torch.device("cpu")):
        start = time.perf_counter()
        done = 0
        while done < len(rows) and time.perf_counter() - start < seconds:
            reference.run(data.codes[rows[done : done + 1]].tolist(), rows[done : done + 1].tolist())
            done += 1
        plain_seconds = time.perf_counter() - start
    findings = result.counts.all_findings
    return {
        "protected": "+".join(protected),
        "findings": findings,
        "seconds": round(batched_seconds, 2),
        "findings_per_second": round(findings / batched_seconds),
        "share_in_network": round(model.seconds / batched_seconds, 3),
        "one_at_a_time_seeds": done,
        "one_at_a_time_seconds_per_seed": round(plain_seconds / done, 3),
        "one_at_a_time_findings_per_second_seen": round(len(reference.found) / plain_seconds),
        "ratio_for_equal_work": round((plain_seconds / done) / (batched_seconds / len(rows))),
        "ratio_of_findings_per_second_seen": round(findings / batched_seconds / (len(reference.found) / plain_seconds)),
    }


def by_seeds(data: Dataset, device: torch.device) -> list[dict[str, Any]]:
    """Twice the seeds, twice the time?"""
    batched(data, ["sex"], 64, device, Limits(steps=50))
    table = []
    for seeds in (1000, 2000, 4000, 8000):
        result, _, seconds = batched(data, ["sex"], seeds, device)
        findings = result.counts.all_findings
        table.append(
            {
                "seeds": seeds,
                "seconds": round(seconds, 2),
                "milliseconds_per_seed": round(1000 * seconds / seeds, 2),
                "findings": findings,
                "findings_per_second": round(findings / seconds),
            }
        )
    return table


def default_method(data: Dataset, device: torch.device) -> list[dict[str, Any]]:
    """The default method in the paper's budget, for the same attributes."""
    table = []
    for protected in ("sex", "age"):
        result, model, seconds = batched(data, [protected], 1000, device, method=make_method(DEFAULT))
        found = result.counts.all_findings
        table.append(
            {
                "protected": protected,
                "findings": found,
                "seconds": round(seconds, 2),
                "findings_per_second": round(found / seconds),
                "share_in_network": round(model.seconds / seconds, 3),
            }
        )
    return table


def peak_memory(seeds: int, steps: int) -> float:
    """MiB that a whole audit of its own process takes at its peak."""
    code = (
        "import evenhand, resource, sys\n"
        f"evenhand.audit('census', 'age', seeds={seeds}, steps={steps})\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return round(float(done.stdout))


def start_up(code: str) -> float:
    """The best of five: seconds that a fresh interpreter takes for a statement."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
        times.append(time.perf_counter() - start)
    return round(min(times), 3)


def main() -> None:
    """Run all benchmarks and print them for people, or as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--reference-seconds", type=float, default=45, help="for one sample at a time, per attribute")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or auto")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    device = choose_device(options.device)
    data = load_dataset("census")
    report = {
        "machine": {"cores": os.cpu_count(), "python": platform.python_version(), "torch": torch.__version__},
        "device": torch.cuda.get_device_name() if device.type == "cuda" else platform.machine(),
        "against_one_at_a_time": [
            against_reference(data, protected, options.reference_seconds, device) for protected in (["sex"], ["age"])
        ],
        "aequitas_against_one_at_a_time": aequitas_ratio(options.reference_seconds / 2),
        "default_method": default_method(data, device),
        "by_seeds": by_seeds(data, device),
        "peak_memory_mib": {
            "1,000 seeds × 1,000 steps": peak_memory(1000, 1000),
            "1,000 seeds × 4,000 steps": peak_memory(1000, 4000),
        },
        "start_up_seconds": {
            "import evenhand": start_up("import evenhand"),
            "evenhand --help": start_up(
                "import sys; sys.argv = ['evenhand', '--help']; from evenhand.cli.main import main; main()"
            ),
            "bare python": start_up("pass"),
        },
        "numpy": np.__version__,
    }
    print(json.dumps(report, indent=2, ensure_ascii=False) if options.json else as_text(report))


def as_text(report: dict[str, Any]) -> str:
    """The report for people."""
    lines = [f"machine: {report['machine']} {report['device']}", ""]
    for row in report["against_one_at_a_time"]:
        lines += [f"paper's budget, census, {row['protected']}"]
        lines += [f"  {name.replace('_', ' '):42} {value:>12,}" for name, value in row.items() if name != "protected"]
    aequitas = report["aequitas_against_one_at_a_time"]
    lines += ["", "AEQUITAS, batched against one at a time"]
    lines += [
        f"  {name.replace('_', ' '):20} {row['walks']:>6,} walks {row['microseconds_per_sample']:>9.2f} µs per sample"
        + (f"   ratio {row['ratio_for_equal_work']:,}" if "ratio_for_equal_work" in row else "")
        for name, row in aequitas.items()
    ]
    for row in report["default_method"]:
        lines += ["", f"default method, paper's budget, census, {row['protected']}"]
        lines += [f"  {name.replace('_', ' '):42} {value:>12,}" for name, value in row.items() if name != "protected"]
    lines += ["", "seeds   seconds   ms per seed   findings   findings/s"]
    for row in report["by_seeds"]:
        lines.append(
            f"{row['seeds']:5,} {row['seconds']:9.2f} {row['milliseconds_per_seed']:13.2f} {row['findings']:10,} "
            f"{row['findings_per_second']:12,}"
        )
    lines += ["", "peak memory, whole process"]
    lines += [f"  {name:42} {value:>8,.0f} MiB" for name, value in report["peak_memory_mib"].items()]
    lines += ["", "start-up, best of five"]
    lines += [f"  {name:42} {value:>8.3f} s" for name, value in report["start_up_seconds"].items()]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
