"""Rates with honest intervals: how often a population holds discriminatory samples."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special

from evenhand.data.dataset import Dataset
from evenhand.errors import EvenhandError
from evenhand.measures.as_they_are import check_people
from evenhand.models.adapters.base import Adapter
from evenhand.models.classifier import Classifier, ModelGone
from evenhand.search.check import Checked
from evenhand.search.space import TableSpace

ROWS_AT_A_TIME = 1_000_000
MOST_KEPT = 10_000  # discriminatory people whose pairs are kept, to choose examples from
FEWEST_PEOPLE = 1000
FIRST_ROWS = 1024  # model rows of the first batch
PARTS = 10  # at least so many batches where rows have a price, so that an end on the way leaves something
MOST_ROWS = 25_000_000  # model rows; where a check of all people would take more, a random part of them is checked
RANDOM_PART = "a random part of the "  # how a population begins where not all of it was checked

Part = Literal["all", "train", "held_out"]
PART_WORDS = {"all": "", "train": "training ", "held_out": "held-out "}


@dataclass(frozen=True)
class Weighing:
    """What sampling weights make of a share: each row counts as often as its weight says."""

    by: str  # the column of the weights
    share: float
    effective_samples: float  # rows of equal weight that would say as much (Kish): (sum of w)^2 / sum of w^2


@dataclass(frozen=True)
class Rate:
    """A share in a stated population, with its exact (Clopper-Pearson) interval.

    Where rows have weights the share is weighted, and the interval is that of as many rows as the weights are worth.

    `error` is how often this interval may miss. It is less than 1 - confidence where several intervals were made and
    any of them could have been reported: what they may miss together is then 1 - confidence.
    """

    population: str
    discriminatory: int
    samples: int
    confidence: float = 0.95
    error: float | None = None  # None: 1 - confidence
    weighing: Weighing | None = None  # None: all count alike

    @property
    def share(self) -> float:
        """The share that was seen."""
        return self.discriminatory / self.samples if self.weighing is None else self.weighing.share

    @property
    def interval(self) -> tuple[float, float]:
        """Where the population's own share lies, at the stated confidence, if the samples were drawn at random."""
        own = self.confidence if self.error is None else 1 - self.error
        if self.weighing is None:
            return clopper_pearson(self.discriminatory, self.samples, own)
        effective = self.weighing.effective_samples
        return clopper_pearson(self.share * effective, effective, own)

    @property
    def half_width(self) -> float:
        """Half the length of the interval, whose middle need not be the share."""
        low, high = self.interval
        return (high - low) / 2

    def as_dict(self) -> dict[str, Any]:
        """The rate for a summary file."""
        fields = {name: value for name, value in asdict(self).items() if value is not None}
        counted = {} if self.weighing is None else {"unweighted_rate": self.discriminatory / self.samples}
        return fields | {"rate": self.share, "interval": list(self.interval)} | counted


def clopper_pearson(hits: float, samples: float, confidence: float) -> tuple[float, float]:
    """The exact interval of a binomial proportion; it covers the truth at least as often as it says."""
    tail = (1 - confidence) / 2
    low = 0.0 if hits == 0 else float(special.betaincinv(hits, samples - hits + 1, tail))
    high = 1.0 if hits == samples else float(special.betaincinv(hits + 1, samples - hits, 1 - tail))
    return low, high


@dataclass(frozen=True)
class PeopleFound:
    """Rows of the data that were checked, which of them are discriminatory, and a part of these with their pairs."""

    rows: NDArray[np.int64]
    hit: NDArray[np.bool_]  # (rows,)
    anywhere: NDArray[np.bool_]  # (rows,) the same if all values are compared, however far from their own
    some: Checked | None  # the first of the discriminatory rows, which are a random part
    some_rows: NDArray[np.int64]  # (some,)


def discriminatory_rows(
    model: Classifier,
    space: TableSpace,
    data: Dataset,
    *,
    seed: int = 0,
    interrupted: Callable[[], bool] = lambda: False,
    on_done: Callable[[int, int], None] = lambda done, total: None,
) -> PeopleFound:
    """Rows of the data as they stand in the table, and which of them have a witness.

    All rows that the schema calls possible, in a random order; where they have too many variants, or when interrupted,
    the first of these, which are a random part; and so where the model fails on the way. There is at least one batch.
    """
    rows, hits = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=bool)]
    anywhere = [np.zeros(0, dtype=bool)]
    some: list[Checked] = []
    kept = [np.zeros(0, dtype=np.int64)]
    try:
        for batch in row_batches(
            space, data, seed=seed, most_rows=rows_for_people(model), interrupted=interrupted, on_done=on_done
        ):
            looked = check_people(model, space, data, batch)
            found = looked.found
            anywhere.append(looked.anywhere.cpu().numpy())
            hits.append(found.hit.cpu().numpy())
            rows.append(batch)
            if sum(map(len, some)) < MOST_KEPT and hits[-1].any():
                some.append(found.take(found.hit))
                kept.append(batch[hits[-1]])
    except ModelGone:
        if len(hits) == 1:
            raise
    joined = Checked.joined(some) if some else None
    return PeopleFound(
        np.concatenate(rows), np.concatenate(hits), np.concatenate(anywhere), joined, np.concatenate(kept)
    )


def rows_for_people(model: Classifier) -> int:
    """How many rows a model may be asked about to look at the people of the data: fewer where rows have a price."""
    return (model.module.people_rows if isinstance(model.module, Adapter) else None) or MOST_ROWS


def row_batches(
    space: TableSpace,
    data: Dataset,
    *,
    seed: int = 0,
    most_rows: int = MOST_ROWS,
    interrupted: Callable[[], bool] = lambda: False,
    on_done: Callable[[int, int], None] = lambda done, total: None,
) -> Iterator[NDArray[np.int64]]:
    """Batches of rows to check. At least one batch."""
    order = rows_to_check(space, data, seed, most_rows)
    most = max(1, min(ROWS_AT_A_TIME, most_rows // PARTS) // space.variant_count)
    for start, size in _batches(len(order), max(1, min(most, FIRST_ROWS // space.variant_count)), most):
        yield order[start : start + size]
        on_done(min(start + size, len(order)), len(order))
        if interrupted():
            return


def _batches(total: int, first: int, most: int) -> Iterator[tuple[int, int]]:
    """Where each batch starts, and its size: small at first, so that a slow model's limit of time is seen soon.

    None is larger than a quarter of what is done.
    """
    start, size = 0, first
    while start < total:
        yield start, size
        start, size = start + size, min(most, max(first, (start + size) // 4))


def rows_to_check(space: TableSpace, data: Dataset, seed: int, most_rows: int = MOST_ROWS) -> NDArray[np.int64]:
    """All possible rows in a random order; where they have too many variants, the first of these."""
    most = max(FEWEST_PEOPLE if most_rows == MOST_ROWS else 1, most_rows // space.variant_count)
    order = np.random.default_rng(seed).permutation(len(data.codes))
    possible = order[data.possible[order]]
    if not len(possible):
        raise EvenhandError(f"No row of {data.name} is possible by its schema: see [[impossible]] there.")
    return possible[:most]


def rates_found(space: TableSpace, data: Dataset, found: PeopleFound) -> dict[str, Rate]:
    """The rates of an audit; where protected numbers are compared within a distance, also against all values."""
    rates = data_rates(data, found.rows, found.hit, how=limit_words(space))
    if not space.nearness:
        return rates
    everywhere = data_rates(data, found.rows, found.anywhere, ("all",), how=all_words(space))
    return rates | ({"all_values": everywhere["all"]} if everywhere else {})


def limit_words(space: TableSpace) -> str:
    """With whom people are compared, where that is limited."""
    return f", compared {space.nearness.words}" if space.nearness else ""


def all_words(space: TableSpace) -> str:
    """The same without the limit."""
    return f", compared with all values of {' and '.join(space.nearness.titles)}"


def data_rates(
    data: Dataset,
    rows: NDArray[np.int64],
    hit: NDArray[np.bool_],
    parts: Sequence[Part] = ("all", "held_out"),
    confidence: float = 0.95,
    how: str = "",
) -> dict[str, Rate]:
    """How many people of the data itself are treated differently, by part; a part without rows is left out."""
    which = "" if len(rows) == data.possible.sum() else RANDOM_PART
    possible = "" if data.possible.all() else " that its rules call possible"
    rates: dict[str, Rate] = {}
    for part in parts:
        there = part_of(data, rows, part)
        words = f"{which or ('all ' if part == 'all' else '')}{PART_WORDS[part]}rows of {data.name}{possible}{how}"
        if there.any() and (rate := people_rate(words, data, rows[there], hit[there], confidence)) is not None:
            rates[part] = rate
    return rates


def people_rate(
    population: str, data: Dataset, rows: NDArray[np.int64], hit: NDArray[np.bool_], confidence: float = 0.95
) -> Rate | None:
    """The share of hits among rows of the data, weighted where these have weights; None if all of these are 0."""
    if data.weights is None:
        return Rate(population, int(hit.sum()), len(rows), confidence)
    weights = data.weights[rows]
    share = share_of(hit, weights)
    if share is None:
        return None
    by = str(data.schema.weight)
    weighing = Weighing(by, share, effective_samples(weights))
    return Rate(f"{population}, weighted by {by}", int(hit.sum()), len(rows), confidence, weighing=weighing)


def share_of(hit: NDArray[np.bool_], weights: NDArray[np.float64] | None) -> float | None:
    """The share of hits, each as much as its weight says where there are weights; None where nobody counts."""
    if not len(hit) or (weights is not None and not weights.any()):
        return None
    if weights is None or hit.all():
        return float(hit.mean())
    return min(1.0, float(weights[hit].sum()) / float(weights.sum()))


def effective_samples(weights: NDArray[np.float64]) -> float:
    """How many rows of equal weight would say as much (Kish)."""
    return float(weights.sum()) ** 2 / float((weights**2).sum())


def part_of(data: Dataset, rows: NDArray[np.int64], part: str) -> NDArray[np.bool_]:
    """(n,) which of the rows belong to a part of the data."""
    if part == "all":
        return np.ones(len(rows), dtype=bool)
    return data.train[rows] if part == "train" else ~data.train[rows]
