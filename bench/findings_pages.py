"""How long a page of findings takes in a large file, at any depth, filtered and sorted.

Run: python -m bench.findings_pages [--rows 10000000] [--folder DIR]
"""

import argparse
import itertools
import tempfile
import time
from pathlib import Path

import numpy as np

from evenhand.data.dataset import load_dataset
from evenhand.runs.findings import ROW_GROUP, FindingsWriter, findings_file
from evenhand.search.recorder import Findings
from evenhand.search.space import TableSpace
from evenhand.service.findings import Filters, FindingsIndex, Sort, index_path, write_index

REPEATS = 20


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


def timed(path: Path, filters: Filters, sort: Sort, after: int) -> tuple[int, str]:
    """How many findings match, and the median and longest time of a page in milliseconds, opening included."""
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        page = FindingsIndex.open(path).page(filters, sort=sort, after=after)
        seconds.append(time.perf_counter() - start)
    return page.total, f"median {1000 * float(np.median(seconds)):5.1f} ms, longest {1000 * max(seconds):5.1f} ms"


def main() -> None:
    """Write a file, its index, and time pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--folder", type=Path, default=None)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        run(options.folder or Path(temporary), options.rows)


def run(folder: Path, rows: int) -> None:
    """Time pages of a file with so many rows."""
    path = folder / "findings.parquet"
    if not path.exists():
        write_findings(path, rows, ["sex", "race"])
    start = time.perf_counter()
    write_index(path)
    seconds = time.perf_counter() - start
    sizes = [file.stat().st_size / 2**20 for file in (path, index_path(path))]
    print(f"{rows:,} rows: findings {sizes[0]:.0f} MiB; index {sizes[1]:.0f} MiB, written in {seconds:.1f} s")
    words = FindingsIndex.open(path)
    value = words.words("sample.native-country")[3]
    cases = {
        "all": Filters(),
        "sex": Filters((("sex", words.words("sample.sex")[0]),), label=words.words("label")[0]),
        "rare": Filters((("native-country", value), ("age", words.words("sample.age")[2])), phase="global"),
        "gap": Filters(least_gap=0.9),
    }
    sorts: tuple[Sort, Sort] = ("order", "gap")
    for (name, filters), sort, share in itertools.product(cases.items(), sorts, (0.0, 0.5, 0.999)):
        total, took = timed(path, filters, sort, int(rows * share) - 1)
        print(f"{name:5} {total:>10,} match, by {sort:5} after {share:5.1%}: {took}")


if __name__ == "__main__":
    main()
