"""How long a page of findings takes in a large file, at any depth, filtered and sorted.

    python -m bench.findings_pages [--rows 10000000]

Warm: what a page needs has been read before. Cold: the system was asked to forget the index, so that it comes from the
disk. The file is made up once and kept for the next time.
"""

import argparse
import itertools
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from evenhand.data.dataset import load_dataset
from evenhand.runs.findings import ROW_GROUP, FindingsWriter, findings_file
from evenhand.search.recorder import Findings
from evenhand.search.space import TableSpace
from evenhand.service.findings import Filters, FindingsIndex, Sort
from evenhand.service.findings_index import index_path, write_index

REPEATS, COLD_REPEATS = 7, 3  # at each depth
DEPTHS = (0.0, 0.25, 0.5, 0.9, 0.9999)
TARGET = 100  # milliseconds


def made_up(space: TableSpace, rows: int, seed: int) -> Findings:
    """Findings with random values: what they say does not matter, only how they are stored."""
    draw = np.random.default_rng(seed)
    low, high = space.schema.lower, space.schema.upper
    score = draw.random(rows, dtype=np.float32)
    return Findings(
        sample=draw.integers(low, high + 1, (rows, len(low))).astype(np.int32),
        witness=draw.integers(low[space.protected], high[space.protected] + 1, (rows, len(space.protected))).astype(
            np.int32
        ),
        label=(label := draw.integers(0, 2, rows)),
        witness_label=1 - label,
        score=score,
        witness_score=score * draw.random(rows, dtype=np.float32),
        phase=(draw.random(rows) > 0.001).astype(np.int8),
        seed=draw.integers(0, 30_000, rows),
        step=draw.integers(0, 1000, rows).astype(np.int32),
    )


def write_findings(path: Path, rows: int, protected: list[str]) -> None:
    """A file of made-up findings about census people."""
    import torch

    space = TableSpace(load_dataset("census").schema, protected, torch.device("cpu"))
    with findings_file(path, lambda temporary: FindingsWriter(temporary, space)) as writer:
        for start in range(0, rows, ROW_GROUP):
            writer.write(made_up(space, min(ROW_GROUP, rows - start), start))


def kept_findings(kept: Path, rows: int, protected: list[str]) -> Path:
    """A file of made-up findings with its index, made once and kept for the next time."""
    path = kept / f"{rows}-{'-'.join(protected)}" / "findings.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        write_findings(path, rows, protected)
    FindingsIndex.open(path)
    return path


def forget(path: Path) -> None:
    """Let the system drop what it has in memory of a file, as far as it does so when it is asked."""
    if hasattr(os, "posix_fadvise"):
        with path.open("rb") as stream:
            os.fsync(stream.fileno())
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def seconds_of(path: Path, filters: Filters, sort: Sort, after: int, *, cold: bool) -> float:
    """What one page takes, opening included."""
    if cold:
        forget(index_path(path))
    start = time.perf_counter()
    FindingsIndex.open(path).page(filters, sort=sort, after=after)
    return time.perf_counter() - start


def cases_of(index: FindingsIndex) -> dict[str, Filters]:
    """Every filter that the pages offer, alone and together, and those of the API on other attributes."""
    sex, race = (index.words(f"sample.{name}")[1] for name in ("sex", "race"))
    label, country, age = (index.words(name)[0] for name in ("label", "sample.native-country", "sample.age"))
    return {
        "none": Filters(),
        "a protected value": Filters((("race", race),)),
        "two of them": Filters((("sex", sex), ("race", race))),
        "label": Filters(label=label),
        "phase, rare": Filters(phase="global"),
        "least gap": Filters(least_gap=0.5),
        "all of these": Filters((("sex", sex), ("race", race)), label, "local", 0.3),
        "other attributes": Filters((("native-country", country), ("age", age))),
    }


def main() -> None:
    """Write a file, its index, and time pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--kept", type=Path, default=Path(tempfile.gettempdir()) / "evenhand-bench")
    options = parser.parse_args()
    path = kept_findings(options.kept, options.rows, ["sex", "race"])
    start = time.perf_counter()
    write_index(path)
    seconds = time.perf_counter() - start
    sizes = [file.stat().st_size / 2**20 for file in (path, index_path(path))]
    print(f"{options.rows:,} rows: findings {sizes[0]:.0f} MiB; index {sizes[1]:.0f} MiB, written in {seconds:.1f} s")
    sys.exit(0 if run(path, options.rows) else 1)


def run(path: Path, rows: int) -> bool:
    """Time pages and print; returns whether all were fast enough."""
    index = FindingsIndex.open(path)
    cases, sorts = cases_of(index), ("order", "gap")
    del index  # what is mapped stays in memory
    print(f"{'milliseconds':33} {'warm: median':>13} {'p95':>6} {'longest':>8} {'cold: median':>13} {'longest':>8}")
    every: dict[bool, list[float]] = {True: [], False: []}
    for (name, filters), sort in itertools.product(cases.items(), sorts):
        took = {
            cold: [
                1000 * seconds_of(path, filters, "gap" if sort == "gap" else "order", int(rows * share) - 1, cold=cold)
                for share in DEPTHS
                for _ in range(COLD_REPEATS if cold else REPEATS)
            ]
            for cold in (True, False)
        }
        print(f"{name:20} {'by ' + sort:12} {_row(took)}")
        for cold in every:
            every[cold] += took[cold]
    print(f"{'all':33} {_row(every)}")
    met = max(every[False]) < TARGET
    print(f"Target: every page within {TARGET} ms: {'met' if met else 'MISSED'}; {_cold_words(every[True])}")
    return met


def _row(took: dict[bool, list[float]]) -> str:
    median, p95 = np.percentile(took[False], [50, 95])
    cold = f"{np.median(took[True]):13.1f} {max(took[True]):8.1f}"
    return f"{median:13.1f} {p95:6.1f} {max(took[False]):8.1f} {cold}"


def _cold_words(cold: list[float]) -> str:
    late = sum(one >= TARGET for one in cold)
    return f"of {len(cold)} pages that came from the disk {late or 'none'} took longer"


if __name__ == "__main__":
    main()
