"""What a file of findings says in numbers, read batch by batch so that its length does not matter."""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from evenhand.data.dataset import Dataset
from evenhand.data.schema import Schema
from evenhand.measures.direction import label_order
from evenhand.measures.people import PeopleFound
from evenhand.search.check import Checked
from evenhand.search.recorder import PHASES, Findings
from evenhand.search.space import TableSpace

BATCH_ROWS = 65_536
EXAMPLES = 20
MOST_PEOPLE = 10  # examples that are rows of the data as they stand there
VALUES_PER_ATTRIBUTE = 3
DENSE = 65_536  # codes of a domain that are counted in an array

Codes = tuple[int, ...]  # one code per protected attribute, in the order of the schema


@dataclass(frozen=True)
class Flip:
    """Findings in which `favoured` got the favourable label and `disfavoured` did not."""

    favoured: Codes
    disfavoured: Codes
    findings: int


@dataclass(frozen=True)
class LabelFlips:
    """Findings in which one member got a label and the other another one: who got the first, most frequent first."""

    label: int
    instead_of: int
    pairs: list[Flip]

    @property
    def findings(self) -> int:
        """How many there are."""
        return sum(flip.findings for flip in self.pairs)


@dataclass(frozen=True)
class Flips:
    """Which protected values flip which way, the most frequent first."""

    pairs: list[Flip]
    neither: int  # findings in which no member got the favourable label: three classes or more
    changed: list[tuple[tuple[str, ...], int]]  # names of the attributes that differ, and findings
    by_labels: list[LabelFlips] = field(default_factory=list)  # each pair of labels; empty with two classes


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
    """Everything that the report says about findings."""

    findings: int
    flips: Flips
    spreads: list[Spread]  # the farthest first
    examples: list[Example]  # the clearest first, one per seed


def statistics_of(summary: dict[str, Any], findings: Path, data: Dataset) -> Statistics:
    """The statistics of an audit's findings; what its model does not read is left out."""
    unread = [name for name in summary["model"].get("unread", ()) if name not in summary["protected"]]
    return read_statistics(findings, data, summary["protected"], unread)


def read_statistics(path: Path, data: Dataset, protected: list[str], unread: Collection[str] = ()) -> Statistics:
    """The statistics of a file of findings; attributes that the model does not read are left out."""
    indices = data.schema.protected_indices(protected)
    total, flips, values, clearest = (
        0,
        _FlipCounter(data.schema, indices),
        _ValueCounter(data, [*indices, *(data.schema.index(name) for name in unread)]),
        _Examples(indices),
    )
    for batch in _batches(path, data.schema, indices):
        total += len(batch.label)
        flips.add(batch)
        values.add(batch)
        clearest.add(batch)
    return Statistics(total, flips.result(), values.result(), clearest.result())


def _batches(path: Path, schema: Schema, protected: list[int]) -> Iterator[Findings]:
    sample = [f"sample_code.{name}" for name in schema.names]
    witness = [f"witness_code.{schema.names[index]}" for index in protected]
    rest = ["label", "witness_label", "score", "witness_score", "seed_row", "phase", "step"]
    with pq.ParquetFile(path) as file:
        for rows in file.iter_batches(BATCH_ROWS, columns=[*sample, *witness, *rest]):
            in_local_phase = pc.not_equal(rows["phase"].cast("string"), PHASES[0])
            yield Findings(
                _matrix(rows, sample),
                _matrix(rows, witness),
                _label_codes(rows["label"], schema),
                _label_codes(rows["witness_label"], schema),
                _array(rows["score"]),
                _array(rows["witness_score"]),
                _array(in_local_phase).astype(np.int8),
                _array(rows["seed_row"]),
                _array(rows["step"]),
            )


def _array(column: Any) -> NDArray[Any]:
    array: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return array


def _matrix(rows: Any, columns: list[str]) -> NDArray[np.int32]:
    """(n, columns) some integer columns side by side."""
    return np.stack([_array(rows[name]) for name in columns], axis=1)


def _label_codes(column: Any, schema: Schema) -> NDArray[np.int64]:
    """(n,) classes. A batch may come with a dictionary of its own, so its indices are not classes yet."""
    encoded = column if hasattr(column, "dictionary") else column.dictionary_encode()
    codes = np.array([schema.label.values.index(value) for value in encoded.dictionary.to_pylist()], dtype=np.int64)
    places: NDArray[np.int32] = _array(encoded.indices)
    return codes[places]


class _FlipCounter:
    """Counts pairs of protected combinations. Only pairs that occur are kept: of 10^6 combinations few do."""

    def __init__(self, schema: Schema, protected: list[int]) -> None:
        self._names = [schema.names[index] for index in protected]
        self._protected = protected
        self._lower = schema.lower[protected]
        self._sizes = [schema.attributes[index].size for index in protected]
        self._label, self._favourable = schema.label, schema.label.favourable_code
        self._pairs: Counter[tuple[int, int]] = Counter()
        self._by_labels: Counter[tuple[int, int, int, int]] = Counter()
        self._changed: Counter[tuple[bool, ...]] = Counter()
        self._neither = 0

    def add(self, batch: Findings) -> None:
        """Count a batch."""
        own = batch.sample[:, self._protected]
        sample, witness = self._numbers(own), self._numbers(batch.witness)
        won, lost = batch.label == self._favourable, batch.witness_label == self._favourable
        favoured, disfavoured = np.where(won, sample, witness), np.where(won, witness, sample)
        self._neither += int((~won & ~lost).sum())
        _count_rows(self._pairs, np.stack([favoured, disfavoured], axis=1)[won | lost])
        _count_rows(self._changed, own != batch.witness)
        if len(self._label.values) > 2:
            labels = np.stack([batch.label, batch.witness_label, sample, witness], axis=1)
            _count_rows(self._by_labels, labels)

    def result(self) -> Flips:
        """The counts, the most frequent first; equal ones in the order of their codes."""
        pairs = sorted(self._pairs.items(), key=lambda item: (-item[1], item[0]))
        changed = [
            (tuple(name for name, differs in zip(self._names, mask, strict=True) if differs), count)
            for mask, count in sorted(self._changed.items(), key=lambda item: (-item[1], item[0]))
        ]
        flips = [Flip(self._codes(a), self._codes(b), count) for (a, b), count in pairs]
        return Flips(flips, self._neither, changed, self._of_labels())

    def _of_labels(self) -> list[LabelFlips]:
        """For each pair of labels who got the better one, however the finding has its members."""
        found: dict[tuple[int, int], Counter[tuple[int, int]]] = {}
        for (label, other, sample, witness), count in self._by_labels.items():
            order = label_order(self._label, label, other)
            members = (sample, witness) if order[0] == label else (witness, sample)
            found.setdefault(order, Counter())[members] += count
        flips = []
        for (label, other), counts in found.items():
            pairs = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
            own = [Flip(self._codes(a), self._codes(b), count) for (a, b), count in pairs]
            flips.append(LabelFlips(label, other, own))
        return sorted(flips, key=lambda one: (-one.findings, -one.label, -one.instead_of))

    def _numbers(self, codes: NDArray[np.int32]) -> NDArray[np.int64]:
        """(n,) one number for each combination of protected values."""
        return np.asarray(np.ravel_multi_index(tuple((codes - self._lower).T), self._sizes), dtype=np.int64)

    def _codes(self, number: int) -> Codes:
        return tuple(int(code) for code in np.array(np.unravel_index(number, self._sizes)) + self._lower)


def _count_rows(counter: Counter[Any], rows: NDArray[Any]) -> None:
    """Add the rows of a matrix to a counter, one Python object per distinct row."""
    distinct, counts = np.unique(rows, axis=0, return_counts=True)
    counter.update(dict(zip(map(tuple, distinct.tolist()), counts.tolist(), strict=True)))


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
