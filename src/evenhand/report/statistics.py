"""What a file of findings says in numbers, read batch by batch so that its length does not matter."""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

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
from evenhand.search.recorder import PHASES, Findings
from evenhand.search.space import TableSpace

BATCH_ROWS = 65_536
EXAMPLES = 20
MOST_PEOPLE = 10  # examples that are rows of the data as they stand there
VALUES_PER_ATTRIBUTE = 3
FIGURES = ["label", "witness_label", "score", "witness_score", "seed_row", "phase", "step"]
DENSE = 65_536  # codes of a domain that are counted in an array


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
    indices = schema.protected_indices(protected)
    names = [schema.names[index] for index in indices]
    sample, witness = [f"sample_code.{name}" for name in schema.names], [f"witness_code.{name}" for name in names]
    keys = ["label", "witness_label", *(f"sample_code.{name}" for name in names), *witness]
    groups: Counter[tuple[Any, ...]] = Counter()
    values = _ValueCounter(data, [*indices, *(schema.index(name) for name in unread)])
    clearest = _Examples(indices)
    with pq.ParquetFile(path) as file:
        for rows in file.iter_batches(BATCH_ROWS, columns=[*sample, *witness, *FIGURES]):
            groups.update(counted_groups(rows, keys))
            batch = _findings(rows, sample, witness, schema)
            values.add(batch)
            clearest.add(batch)
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
    return Statistics(groups.total(), flips, order, values.result(), clearest.result())


def counted_groups(rows: pa.RecordBatch, keys: list[str]) -> dict[tuple[Any, ...], int]:
    """How many rows of a batch have the same values of some columns."""
    plain = [rows[name].cast("string") if hasattr(rows[name], "dictionary") else rows[name] for name in keys]
    groups = pa.table(plain, keys).group_by(keys).aggregate([([], "count_all")])
    return dict(
        zip(
            zip(*(groups[name].to_pylist() for name in keys), strict=True), groups["count_all"].to_pylist(), strict=True
        )
    )


def _findings(rows: pa.RecordBatch, sample: list[str], witness: list[str], schema: Schema) -> Findings:
    return Findings(
        _matrix(rows, sample),
        _matrix(rows, witness),
        _label_codes(rows["label"], schema),
        _label_codes(rows["witness_label"], schema),
        array(rows["score"]),
        array(rows["witness_score"]),
        array(pc.not_equal(rows["phase"].cast("string"), PHASES[0])).astype(np.int8),
        array(rows["seed_row"]),
        array(rows["step"]),
    )


def array(column: Any) -> NDArray[Any]:
    """A column as numbers."""
    numbers: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return numbers


def _matrix(rows: Any, columns: list[str]) -> NDArray[np.int32]:
    """(n, columns) some integer columns side by side."""
    return np.stack([array(rows[name]) for name in columns], axis=1)


def _label_codes(column: Any, schema: Schema) -> NDArray[np.int64]:
    """(n,) classes. A batch may come with a dictionary of its own, so its indices are not classes yet."""
    encoded = column if hasattr(column, "dictionary") else column.dictionary_encode()
    codes = np.array([schema.label.values.index(value) for value in encoded.dictionary.to_pylist()], dtype=np.int64)
    places: NDArray[np.int32] = array(encoded.indices)
    return codes[places]


class ValueCounts(NamedTuple):
    """How often values occur: only those that do, since a domain may have millions."""

    codes: NDArray[np.int64]  # (n,) rising
    counts: NDArray[np.int64]  # (n,)

    def of(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """(m,) the counts of rising codes among which are all that occur."""
        counts = np.zeros(len(codes), dtype=np.int64)
        counts[np.searchsorted(codes, self.codes)] = self.counts
        return counts


NOTHING = ValueCounts(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))


class _ValueCounter:
    """Counts the values of every attribute that is not protected and that the model reads."""

    def __init__(self, data: Dataset, without: list[int]) -> None:
        self._data = data
        kinds = [attribute.kind for attribute in data.schema.attributes]
        self._free = [index for index, kind in enumerate(kinds) if index not in without and kind != "pass"]
        self._counts = [NOTHING for _ in self._free]

    def add(self, batch: Findings) -> None:
        """Count a batch."""
        self._counts = [
            _together(counts, self._count(index, batch.sample))
            for index, counts in zip(self._free, self._counts, strict=True)
        ]

    def result(self) -> list[Spread]:
        """Every attribute against the people in the data, the farthest first."""
        if not self._counts or not len(self._counts[0].codes):
            return []
        people = [self._count(index, self._data.clipped) for index in self._free]
        spreads = [
            _spread(index, found, there) for index, found, there in zip(self._free, self._counts, people, strict=True)
        ]
        return sorted(spreads, key=lambda spread: -spread.distance)

    def _count(self, index: int, samples: NDArray[np.int32]) -> ValueCounts:
        attribute = self._data.schema.attributes[index]
        if attribute.size > DENSE:
            return ValueCounts(*np.unique(samples[:, index].astype(np.int64), return_counts=True))
        counts = np.bincount(samples[:, index] - attribute.domain[0], minlength=attribute.size)
        return ValueCounts(np.flatnonzero(counts) + attribute.domain[0], counts[counts > 0])


def _together(one: ValueCounts, other: ValueCounts) -> ValueCounts:
    """The sums of two counts."""
    codes = np.union1d(one.codes, other.codes)
    return ValueCounts(codes, one.of(codes) + other.of(codes))


def _spread(index: int, found: ValueCounts, there: ValueCounts) -> Spread:
    """Compare counts of findings with counts of people, value by value."""
    codes = np.union1d(found.codes, there.codes)
    findings, people = found.of(codes) / found.counts.sum(), there.of(codes) / there.counts.sum()
    excess = findings - people
    most = [int(place) for place in np.argsort(-excess, kind="stable")[:VALUES_PER_ATTRIBUTE] if excess[place] > 0]
    over = [ValueShare(int(codes[place]), float(findings[place]), float(people[place])) for place in most]
    return Spread(index, float(np.abs(excess).sum() / 2), over)


class _Examples:
    """Chooses the findings to show: the clearest, no seed twice."""

    def __init__(self, protected: list[int]) -> None:
        self._protected, self._clearest = protected, Clearest(EXAMPLES, lambda example: example.seed_row)

    def add(self, batch: Findings) -> None:
        """Look through a batch."""
        best = _one_per_seed(batch, np.arange(len(batch.label)))
        self._clearest.keep(example_at(batch, row, self._protected) for row in best)

    def result(self) -> list[Example]:
        """At most EXAMPLES pairs."""
        return self._clearest.kept


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


def _one_per_seed(batch: Findings, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """The clearest of some findings; of equal differences the earlier one."""
    order = rows[by_gap(batch.score[rows], batch.witness_score[rows])]
    _, first = np.unique(batch.seed[order], return_index=True)
    return order[np.sort(first)[:EXAMPLES]]


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
