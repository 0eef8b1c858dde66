"""What a file of findings says in numbers, read batch by batch so that its length does not matter."""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from evenhand.data.dataset import Dataset
from evenhand.data.schema import Schema
from evenhand.measures.people import PeopleFound
from evenhand.report.flips import Codes, Flips, flips_of
from evenhand.search.check import Checked
from evenhand.search.recorder import Findings
from evenhand.search.space import TableSpace

BATCH_ROWS = 65_536
EXAMPLES = 20
MOST_PEOPLE = 10  # examples that are rows of the data as they stand there
VALUES_PER_ATTRIBUTE = 3
FIGURES = ["label", "witness_label", "score", "witness_score", "seed_row"]


@dataclass(frozen=True)
class ValueShare:
    """How often a value occurs among findings and among the people in the data."""

    code: int
    findings: float
    people: float


@dataclass(frozen=True)
class Spread:
    """How far an attribute's values among findings are from those of the people in the data."""

    attribute: int
    distance: float  # total variation: 0 for the same shares, 1 for no common value
    over: list[ValueShare]  # the most over-represented values


@dataclass(frozen=True)
class Example:
    """One finding as a pair of full samples, or a person of the data with their witness.

    A person's codes are those that the model was given: of the schema, or exact ones that stand for raw values.
    """

    seed_row: int
    sample: tuple[int, ...]
    witness: tuple[int, ...]
    label: int
    witness_label: int
    score: float  # of the sample's label, for the sample
    witness_score: float  # of the sample's label, for the witness
    person: Literal["", "codes", "exact"] = ""  # which codes a person of the data has; empty for a sample of the domain

    @property
    def gap(self) -> float:
        """How far the scores are apart: how clear the example is."""
        return abs(self.score - self.witness_score)


@dataclass(frozen=True)
class Statistics:
    """Everything that the report says about the findings in a table."""

    findings: int
    flips: Flips[Codes]
    changed: list[tuple[tuple[str, ...], int]]  # names of the protected attributes that differ, and findings
    spreads: list[Spread]  # the farthest first
    examples: list[Example]  # the clearest first, one per seed


def statistics_of(summary: dict[str, Any], findings: Path, data: Dataset) -> Statistics:
    """The statistics of an audit's findings; what its model does not read is left out."""
    unread = [name for name in summary["model"].get("unread", ()) if name not in summary["protected"]]
    return read_statistics(findings, data, summary["protected"], unread)


def read_statistics(path: Path, data: Dataset, protected: list[str], unread: Collection[str] = ()) -> Statistics:
    """The statistics of a file of findings; attributes that the model does not read are left out."""
    schema = data.schema
    names = [schema.names[index] for index in schema.protected_indices(protected)]
    sample, witness = [f"sample_code.{name}" for name in schema.names], [f"witness_code.{name}" for name in names]
    keys = ["label", "witness_label", *(f"sample_code.{name}" for name in names), *witness]
    groups: Counter[tuple[Any, ...]] = Counter()
    left_out = {*names, *unread}
    free = [a.name for a in schema.attributes if a.name not in left_out and a.kind != "pass"]
    values: dict[str, Counter[int]] = {name: Counter() for name in free}
    clearest = Clearest(EXAMPLES, lambda example: example.seed_row)
    with pq.ParquetFile(path) as file:
        for rows in file.iter_batches(BATCH_ROWS, columns=[*sample, *witness, *FIGURES]):
            groups.update(counted_groups(rows, keys))
            for name, counts in values.items():
                counts.update(_counted_values(rows[f"sample_code.{name}"]))
            clearest.keep(_examples_in(rows, schema))
    own, other = slice(2, 2 + len(names)), slice(2 + len(names), None)
    flips = flips_of(
        {(*key[:2], key[own], key[other]): count for key, count in groups.items()},
        schema.label.values,
        schema.label.favourable,
    )
    changed: Counter[tuple[str, ...]] = Counter()
    for key, count in groups.items():
        changed[tuple(name for name, a, b in zip(names, key[own], key[other], strict=True) if a != b)] += count
    order = sorted(changed.items(), key=lambda item: (-item[1], [name in item[0] for name in names]))
    spreads = [_spread(schema.index(name), counts, data) for name, counts in values.items() if counts]
    spreads.sort(key=lambda spread: -spread.distance)
    return Statistics(groups.total(), flips, order, spreads, clearest.kept)


def counted_groups(rows: pa.RecordBatch, keys: list[str]) -> dict[tuple[Any, ...], int]:
    """How many rows of a batch have the same values of some columns."""
    plain = [rows[name].cast("string") if hasattr(rows[name], "dictionary") else rows[name] for name in keys]
    groups = pa.table(plain, keys).group_by(keys).aggregate([([], "count_all")])
    *columns, counts = (groups[name].to_pylist() for name in (*keys, "count_all"))
    return dict(zip(zip(*columns, strict=True), counts, strict=True))


def _counted_values(column: pa.Array) -> dict[int, int]:
    """How often values occur: only those that do, since a domain may have millions."""
    counted = pc.value_counts(column)
    return dict(zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True))


def _spread(index: int, found: Counter[int], data: Dataset) -> Spread:
    """Compare counts of findings with counts of people, value by value."""
    people = Counter(_counted_values(pa.array(data.clipped[:, index])))
    codes = np.array(sorted(found | people))
    shares = [np.array([counts[code] for code in codes.tolist()]) / counts.total() for counts in (found, people)]
    excess = shares[0] - shares[1]
    most = [place for place in np.argsort(-excess, kind="stable")[:VALUES_PER_ATTRIBUTE].tolist() if excess[place] > 0]
    over = [ValueShare(int(codes[place]), float(shares[0][place]), float(shares[1][place])) for place in most]
    return Spread(index, float(np.abs(excess).sum() / 2), over)


def _examples_in(rows: pa.RecordBatch, schema: Schema) -> list[Example]:
    """The clearest findings of a batch, one of each seed; of equal differences the earlier one."""
    order = by_gap(array(rows["score"]), array(rows["witness_score"]))
    _, first = np.unique(array(rows["seed_row"])[order], return_index=True)
    best = order[np.sort(first)[:EXAMPLES]]
    classes, examples = schema.label.values, []
    for row in rows.take(pa.array(best)).to_pylist():
        sample = {name: row[f"sample_code.{name}"] for name in schema.names}
        witness = {name: row.get(f"witness_code.{name}", code) for name, code in sample.items()}
        labels = (classes.index(row["label"]), classes.index(row["witness_label"]))
        pair = (tuple(sample.values()), tuple(witness.values()))
        examples.append(Example(row["seed_row"], *pair, *labels, row["score"], row["witness_score"]))
    return examples


def array(column: Any) -> NDArray[Any]:
    """A column as numbers."""
    numbers: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return numbers


def people_examples(found: PeopleFound, space: TableSpace, reading: Literal["codes", "exact"]) -> list[Example]:
    """The clearest discriminatory people of the data, of some that were met."""
    if found.some is None:
        return []
    gap = (found.some.score - found.some.pair_score).abs()
    best = gap.argsort(descending=True, stable=True)[:MOST_PEOPLE]
    return examples_of(found.some.take(best), space, found.some_rows[best.cpu().numpy()], reading)


def examples_of(
    checked: Checked, space: TableSpace, rows: NDArray[np.int64], person: Literal["", "codes", "exact"] = ""
) -> list[Example]:
    """Checked samples with their pairs; `rows` (n,) of the data that they started from."""
    samples, witnesses = (
        x.round().int().tolist() for x in (checked.x, space.with_combination(checked.x, checked.pair))
    )
    columns = [column.tolist() for column in (checked.label, checked.pair_label, checked.score, checked.pair_score)]
    return [
        Example(row, tuple(sample), tuple(witness), label, pair_label, score, pair_score, person)
        for row, sample, witness, label, pair_label, score, pair_score in zip(
            rows.tolist(), samples, witnesses, *columns, strict=True
        )
    ]


def by_gap(score: NDArray[np.float32], witness_score: NDArray[np.float32]) -> NDArray[np.int64]:
    """The order of pairs by the difference of their scores, the largest first; equal ones stay in their order."""
    return np.argsort(-np.abs(score.astype(np.float64) - witness_score), kind="stable")


def example_at(findings: Findings, row: int, protected: list[int]) -> Example:
    """One of many findings as a pair of full samples."""
    witness = findings.sample[row].copy()
    witness[protected] = findings.witness[row]
    return Example(
        int(findings.seed[row]),
        tuple(findings.sample[row].tolist()),
        tuple(witness.tolist()),
        int(findings.label[row]),
        int(findings.witness_label[row]),
        float(findings.score[row]),
        float(findings.witness_score[row]),
    )


class Clearest:
    """Keeps the examples with the largest difference of scores, one of each kind.

    Keeping only as many as are shown is exact: a kind that belongs to the best in the end does so when it is met.
    """

    def __init__(self, most: int, kind: Callable[[Example], Hashable]) -> None:
        self._most, self._kind = most, kind
        self.kept: list[Example] = []

    def keep(self, examples: Iterable[Example]) -> None:
        """Take in some more; of equal differences the earlier example wins."""
        unique: dict[Hashable, Example] = {}
        for example in sorted([*self.kept, *examples], key=lambda example: -example.gap):
            unique.setdefault(self._kind(example), example)
        self.kept = list(unique.values())[: self._most]
