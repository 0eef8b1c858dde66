"""What a file of findings says in numbers, read batch by batch so that its length does not matter."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from evenhand.data.dataset import Dataset
from evenhand.data.schema import Schema

BATCH_ROWS = 65_536
EXAMPLES = 20
MOST_PEOPLE = 10  # examples that are rows of the data as they are; the rest were changed by the search
VALUES_PER_ATTRIBUTE = 3

Codes = tuple[int, ...]  # one code per protected attribute, in the order of the schema


@dataclass(frozen=True)
class Flip:
    """Findings in which `favoured` got the favourable label and `disfavoured` did not."""

    favoured: Codes
    disfavoured: Codes
    findings: int


@dataclass(frozen=True)
class Flips:
    """Which protected values flip which way, the most frequent first."""

    pairs: list[Flip]
    neither: int  # findings in which no member got the favourable label: three classes or more
    changed: list[tuple[tuple[str, ...], int]]  # names of the attributes that differ, and findings


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
    """One finding as a pair of full samples."""

    seed_row: int
    sample: tuple[int, ...]
    witness: tuple[int, ...]
    label: int
    witness_label: int
    score: float  # of the sample's label, for the sample
    witness_score: float  # of the sample's label, for the witness

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
    examples: list[Example]  # people of the data first, then generated samples; the clearest first, one per seed


def read_statistics(path: Path, data: Dataset, protected: list[str]) -> Statistics:
    """The statistics of a file of findings."""
    indices = data.schema.protected_indices(protected)
    total, flips, values, clearest = (
        0,
        _FlipCounter(data.schema, indices),
        _ValueCounter(data, indices),
        _Examples(data),
    )
    for batch in _batches(path, data.schema, indices):
        total += len(batch.label)
        flips.add(batch)
        values.add(batch)
        clearest.add(batch, indices)
    return Statistics(total, flips.result(), values.result(), clearest.result())


class _Batch(NamedTuple):
    """Some findings, as arrays of one length."""

    sample: NDArray[np.int32]  # (n, d)
    witness: NDArray[np.int32]  # (n, protected)
    label: NDArray[np.int64]
    witness_label: NDArray[np.int64]
    score: NDArray[np.float32]
    witness_score: NDArray[np.float32]
    seed_row: NDArray[np.int64]
    unchanged: NDArray[np.bool_]  # looked at before the first move: the seed itself


def _batches(path: Path, schema: Schema, protected: list[int]) -> Iterator[_Batch]:
    sample = [f"sample_code.{name}" for name in schema.names]
    witness = [f"witness_code.{schema.names[index]}" for index in protected]
    rest = ["label", "witness_label", "score", "witness_score", "seed_row", "phase", "step"]
    with pq.ParquetFile(path) as file:
        for rows in file.iter_batches(BATCH_ROWS, columns=[*sample, *witness, *rest]):
            in_global_phase = pc.equal(rows["phase"].cast("string"), "global")
            yield _Batch(
                _matrix(rows, sample),
                _matrix(rows, witness),
                _label_codes(rows["label"], schema),
                _label_codes(rows["witness_label"], schema),
                _array(rows["score"]),
                _array(rows["witness_score"]),
                _array(rows["seed_row"]),
                _array(pc.and_(in_global_phase, pc.equal(rows["step"], 0))),
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
        self._favourable = schema.label.favourable_code
        self._pairs: Counter[tuple[int, int]] = Counter()
        self._changed: Counter[tuple[bool, ...]] = Counter()
        self._neither = 0

    def add(self, batch: _Batch) -> None:
        """Count a batch."""
        own = batch.sample[:, self._protected]
        sample, witness = self._numbers(own), self._numbers(batch.witness)
        won, lost = batch.label == self._favourable, batch.witness_label == self._favourable
        favoured, disfavoured = np.where(won, sample, witness), np.where(won, witness, sample)
        self._neither += int((~won & ~lost).sum())
        _count_rows(self._pairs, np.stack([favoured, disfavoured], axis=1)[won | lost])
        _count_rows(self._changed, own != batch.witness)

    def result(self) -> Flips:
        """The counts, the most frequent first; equal ones in the order of their codes."""
        pairs = sorted(self._pairs.items(), key=lambda item: (-item[1], item[0]))
        changed = [
            (tuple(name for name, differs in zip(self._names, mask, strict=True) if differs), count)
            for mask, count in sorted(self._changed.items(), key=lambda item: (-item[1], item[0]))
        ]
        return Flips([Flip(self._codes(a), self._codes(b), count) for (a, b), count in pairs], self._neither, changed)

    def _numbers(self, codes: NDArray[np.int32]) -> NDArray[np.int64]:
        """(n,) one number for each combination of protected values."""
        return np.asarray(np.ravel_multi_index(tuple((codes - self._lower).T), self._sizes), dtype=np.int64)

    def _codes(self, number: int) -> Codes:
        return tuple(int(code) for code in np.array(np.unravel_index(number, self._sizes)) + self._lower)


def _count_rows(counter: Counter[Any], rows: NDArray[Any]) -> None:
    """Add the rows of a matrix to a counter, one Python object per distinct row."""
    distinct, counts = np.unique(rows, axis=0, return_counts=True)
    counter.update(dict(zip(map(tuple, distinct.tolist()), counts.tolist(), strict=True)))


class _ValueCounter:
    """Counts the values of every attribute that is not protected."""

    def __init__(self, data: Dataset, protected: list[int]) -> None:
        self._data = data
        self._free = [index for index in range(len(data.schema.attributes)) if index not in protected]
        self._counts = [np.zeros(data.schema.attributes[index].size, dtype=np.int64) for index in self._free]

    def add(self, batch: _Batch) -> None:
        """Count a batch."""
        for index, counts in zip(self._free, self._counts, strict=True):
            counts += self._count(index, batch.sample)

    def result(self) -> list[Spread]:
        """Every attribute against the people in the data, the farthest first."""
        if not self._counts[0].any():
            return []
        people = [self._count(index, self._data.clipped) for index in self._free]
        lower = self._data.schema.lower
        spreads = [
            _spread(index, int(lower[index]), found, there)
            for index, found, there in zip(self._free, self._counts, people, strict=True)
        ]
        return sorted(spreads, key=lambda spread: -spread.distance)

    def _count(self, index: int, samples: NDArray[np.int32]) -> NDArray[np.int64]:
        attribute = self._data.schema.attributes[index]
        return np.bincount(samples[:, index] - attribute.domain[0], minlength=attribute.size)


def _spread(index: int, low: int, found: NDArray[np.int64], there: NDArray[np.int64]) -> Spread:
    """Compare counts of findings with counts of people, value by value."""
    findings, people = found / found.sum(), there / there.sum()
    excess = findings - people
    most = [int(place) for place in np.argsort(-excess, kind="stable")[:VALUES_PER_ATTRIBUTE] if excess[place] > 0]
    over = [ValueShare(low + place, float(findings[place]), float(people[place])) for place in most]
    return Spread(index, float(np.abs(excess).sum() / 2), over)


class _Examples:
    """Chooses the pairs to show: people of the data where they are discriminatory as they are, then generated ones.

    A row that was moved into the domain before it was looked at does not count as a person of the data.
    """

    def __init__(self, data: Dataset) -> None:
        self._as_they_are = (data.codes == data.clipped).all(axis=1)
        self._people, self._generated = _Clearest(), _Clearest()

    def add(self, batch: _Batch, protected: list[int]) -> None:
        """Look through a batch."""
        people = batch.unchanged & (batch.seed_row >= 0) & self._as_they_are[np.maximum(batch.seed_row, 0)]
        self._people.add(batch, np.flatnonzero(people), protected)
        self._generated.add(batch, np.flatnonzero(~people), protected)

    def result(self) -> list[Example]:
        """At most EXAMPLES pairs, no seed twice."""
        people = self._people.kept[:MOST_PEOPLE]
        seeds = {example.seed_row for example in people}
        generated = [example for example in self._generated.kept if example.seed_row not in seeds]
        return people + generated[: EXAMPLES - len(people)]


class _Clearest:
    """Keeps the findings with the largest difference of scores, one per seed.

    Keeping only as many as are shown is exact: a seed that belongs to the best in the end does so when it is met.
    """

    def __init__(self) -> None:
        self.kept: list[Example] = []

    def add(self, batch: _Batch, rows: NDArray[np.int64], protected: list[int]) -> None:
        """Look through some rows of a batch; of equal differences the earlier finding wins."""
        gap = np.abs(batch.score[rows].astype(np.float64) - batch.witness_score[rows])
        order = rows[np.argsort(-gap, kind="stable")]
        _, first = np.unique(batch.seed_row[order], return_index=True)
        best = order[np.sort(first)[:EXAMPLES]]
        candidates = [*self.kept, *(_example(batch, row, protected) for row in best)]
        one_per_seed: dict[int, Example] = {}
        for example in sorted(candidates, key=lambda example: -example.gap):
            one_per_seed.setdefault(example.seed_row, example)
        self.kept = list(one_per_seed.values())[:EXAMPLES]


def _example(batch: _Batch, row: int, protected: list[int]) -> Example:
    witness = batch.sample[row].copy()
    witness[protected] = batch.witness[row]
    return Example(
        int(batch.seed_row[row]),
        tuple(batch.sample[row].tolist()),
        tuple(witness.tolist()),
        int(batch.label[row]),
        int(batch.witness_label[row]),
        float(batch.score[row]),
        float(batch.witness_score[row]),
    )
