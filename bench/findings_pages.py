"""How long a page of findings takes in a large file, at any depth, filtered and sorted.

    python -m bench.findings_pages [--rows 10000000]
    python -m bench.findings_pages --texts [--rows 1000000]

Every page counts what its filters let through, as the first one with new filters does. Warm: what a page needs has been
read before. Cold: the index is opened anew and the system was asked to forget it, so that it comes from the disk. The
file is made up once and kept for the next time.
"""

import argparse
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from evenhand.data.dataset import load_dataset
from evenhand.files import replacing
from evenhand.runs.findings import ROW_GROUP, FindingsWriter, RowGroups, findings_file
from evenhand.search.recorder import Findings
from evenhand.search.space import TableSpace
from evenhand.service.findings import Filters, FindingsIndex
from evenhand.service.findings_index import Sort, index_path, write_index

REPEATS, COLD_REPEATS = 7, 3  # at each depth
DEPTHS = (0.0, 0.25, 0.5, 0.9, 0.9999)
TARGET = 100  # milliseconds
VALUES = ("Nigerian", "French", "Papua New Guinean", "Korean", "British")  # that made-up texts name


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


def made_up_texts(rows: int, seed: int) -> pa.Table:
    """Findings in texts of about forty random words each, some of which were replaced."""
    draw = np.random.default_rng(seed)
    vocabulary = np.array([f"{'word' if number % 3 else 'thing'}{number}" for number in range(500)])
    words = vocabulary[draw.integers(0, len(vocabulary), (rows, 40))]
    value = draw.integers(0, len(VALUES), rows)
    other = (value + draw.integers(1, len(VALUES), rows)) % len(VALUES)
    changed = draw.integers(0, 12, rows)
    texts = [" ".join(row) for row in words]
    originals = [" ".join([*vocabulary[:count], *row[count:]]) for row, count in zip(words, changed, strict=True)]
    score = draw.random(rows, dtype=np.float32)
    similarity = np.where(draw.random(rows) < 0.9, draw.random(rows).round(3), np.nan)
    return pa.table(
        {
            "phase": _chosen(("global", "local"), (draw.random(rows) > 0.01).astype(np.int8)),
            "seed_row": draw.integers(0, 30_000, rows),
            "step": draw.integers(0, 1000, rows).astype(np.int32),
            "label": _chosen(("fine", "toxic"), label := draw.integers(0, 2, rows)),
            "witness_label": _chosen(("fine", "toxic"), 1 - label),
            "score": score,
            "witness_score": score * draw.random(rows, dtype=np.float32),
            "original": pa.array(originals, pa.string()),
            "text": pa.array([f"{VALUES[one]} {text}" for one, text in zip(value, texts, strict=True)], pa.string()),
            "witness": pa.array([f"{VALUES[one]} {text}" for one, text in zip(other, texts, strict=True)], pa.string()),
            "value": _chosen(VALUES, value),
            "witness_value": _chosen(VALUES, other),
            "l0": changed,
            "l2": draw.random(rows),
            "jaccard": draw.random(rows),
            "bleu": draw.random(rows),
            "similarity": pa.array(similarity, pa.float32(), from_pandas=True),
        }
    )


def _chosen(values: Sequence[str], places: NDArray[np.integer]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(places.astype(np.int32)), pa.array(values))


def write_findings(path: Path, rows: int, protected: list[str]) -> None:
    """A file of made-up findings about census people."""
    import torch

    space = TableSpace(load_dataset("census").schema, protected, torch.device("cpu"))
    with findings_file(path, lambda temporary: FindingsWriter(temporary, space)) as writer:
        for start in range(0, rows, ROW_GROUP):
            writer.write(made_up(space, min(ROW_GROUP, rows - start), start))


def write_texts(path: Path, rows: int) -> None:
    """A file of made-up findings in texts."""
    with replacing(path) as temporary:
        file = RowGroups(temporary, made_up_texts(0, 0).schema)
        for start in range(0, rows, ROW_GROUP):
            file.add(made_up_texts(min(ROW_GROUP, rows - start), start))
        file.close(complete=True)


def kept_findings(kept: Path, rows: int, protected: list[str]) -> Path:
    """A file of made-up findings with its index, kept for the next time; of texts where no attribute is protected."""
    path = kept / f"{rows}-{'-'.join(protected) or 'texts'}" / "findings.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        if protected:
            write_findings(path, rows, protected)
        else:
            write_texts(path, rows)
    FindingsIndex.open(path)
    return path


def forget(path: Path) -> None:
    """Let the system drop what it has in memory of a file, as far as it does so when it is asked."""
    if hasattr(os, "posix_fadvise"):
        with path.open("rb") as stream:
            os.fsync(stream.fileno())
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def seconds_of(path: Path, filters: Filters, sort: Sort, after: int, *, cold: bool) -> float:
    """What one page takes, with the counting of all that the filters let through; cold, with opening too."""
    if cold:
        forget(index_path(path))
        index_path(path).touch()  # a file that was changed is opened anew
    else:
        FindingsIndex.open(path).totals.clear()
    start = time.perf_counter()
    FindingsIndex.open(path).page(filters, sort=sort, after=after)
    return time.perf_counter() - start


def cases_of(index: FindingsIndex) -> dict[str, Filters]:
    """Every filter that the pages offer, alone and together, and those of the API on other attributes."""
    if index.texts:
        return {
            "none": Filters(),
            "a protected value": Filters(text_value=VALUES[1]),
            "two of them": Filters(text_value=VALUES[1], witness_value=VALUES[2]),
            "label": Filters(label="toxic"),
            "few words": Filters(most_words=2),
            "all of these": Filters((), "toxic", "local", 0.3, VALUES[1], VALUES[2], 5),
            "contains": Filters(contains="Word17 thing3"),
        }
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
    parser.add_argument("--texts", action="store_true", help="Findings in texts.")
    parser.add_argument("--rows", type=int, help="Default: 10 million, of texts one million.")
    parser.add_argument("--kept", type=Path, default=Path(tempfile.gettempdir()) / "evenhand-bench")
    options = parser.parse_args()
    options.rows = options.rows or (1_000_000 if options.texts else 10_000_000)
    path = kept_findings(options.kept, options.rows, [] if options.texts else ["sex", "race"])
    start = time.perf_counter()
    write_index(path)
    seconds = time.perf_counter() - start
    sizes = [file.stat().st_size / 2**20 for file in (path, index_path(path))]
    print(f"{options.rows:,} rows: findings {sizes[0]:.0f} MiB; index {sizes[1]:.0f} MiB, written in {seconds:.1f} s")
    sys.exit(0 if run(path, options.rows) else 1)


def run(path: Path, rows: int) -> bool:
    """Time pages and print; returns whether all were fast enough."""
    index = FindingsIndex.open(path)
    cases, sorts = cases_of(index), index.sorts
    del index
    print(f"{'milliseconds':35} {'warm: median':>13} {'p95':>6} {'longest':>8} {'cold: median':>13} {'longest':>8}")
    every: dict[bool, list[float]] = {True: [], False: []}
    for (name, filters), sort in itertools.product(cases.items(), sorts):
        took = {
            cold: [
                1000 * seconds_of(path, filters, sort, int(rows * share) - 1, cold=cold)
                for share in DEPTHS
                for _ in range(COLD_REPEATS if cold else REPEATS)
            ]
            for cold in (True, False)
        }
        print(f"{name:20} {'by ' + sort:14} {_row(took)}")
        for cold in every:
            every[cold] += took[cold]
    print(f"{'all':35} {_row(every)}")
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
