"""Rates with honest intervals: how often a population holds discriminatory samples."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special
from torch import Tensor

from evenhand.data.dataset import Dataset
from evenhand.errors import EvenhandError
from evenhand.models.adapters.base import Adapter
from evenhand.models.classifier import Classifier, ModelGone
from evenhand.search.check import check
from evenhand.search.space import TableSpace

ROWS_AT_A_TIME = 1_000_000
FEWEST_PEOPLE = 1000
PARTS = 10  # at least so many batches where rows have a price, so that an end on the way leaves something
MOST_ROWS = 25_000_000  # model rows; where a check of all people would take more, a random part of them is checked

Part = Literal["all", "train", "held_out"]
PART_WORDS = {"all": "", "train": "training ", "held_out": "held-out "}


@dataclass(frozen=True)
class Rate:
    """A share in a stated population, with its exact (Clopper-Pearson) interval.

    `error` is how often this interval may miss. It is less than 1 - confidence where several intervals were made and
    any of them could have been reported: what they may miss together is then 1 - confidence.
    """

    population: str
    discriminatory: int
    samples: int
    confidence: float = 0.95
    error: float | None = None  # None: 1 - confidence

    @property
    def share(self) -> float:
        """The share that was seen."""
        return self.discriminatory / self.samples

    @property
    def interval(self) -> tuple[float, float]:
        """Where the population's own share lies, at the stated confidence, if the samples were drawn at random."""
        own = self.confidence if self.error is None else 1 - self.error
        return clopper_pearson(self.discriminatory, self.samples, own)

    @property
    def half_width(self) -> float:
        """Half the length of the interval, whose middle need not be the share."""
        low, high = self.interval
        return (high - low) / 2

    def as_dict(self) -> dict[str, Any]:
        """The rate for a summary file."""
        fields = {name: value for name, value in asdict(self).items() if value is not None}
        return fields | {"rate": self.share, "interval": list(self.interval)}


def clopper_pearson(hits: float, samples: int, confidence: float) -> tuple[float, float]:
    """The exact interval of a binomial proportion; it covers the truth at least as often as it says."""
    tail = (1 - confidence) / 2
    low = 0.0 if hits == 0 else float(special.betaincinv(hits, samples - hits + 1, tail))
    high = 1.0 if hits == samples else float(special.betaincinv(hits + 1, samples - hits, 1 - tail))
    return low, high


def discriminatory_rows(
    model: Classifier,
    space: TableSpace,
    data: Dataset,
    *,
    seed: int = 0,
    interrupted: Callable[[], bool] = lambda: False,
    on_done: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Rows of the data, clipped into the domain and otherwise unchanged, and which of them have a witness.

    All rows that the schema calls possible, in a random order; where they have too many variants, or when interrupted,
    the first of these, which are a random part; and so where the model fails on the way. There is at least one batch.
    """
    rows, hits = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=bool)]
    try:
        for batch, x in row_batches(
            space, data, seed=seed, most_rows=rows_for_people(model), interrupted=interrupted, on_done=on_done
        ):
            hits.append(check(model, space, x).hit.cpu().numpy())
            rows.append(batch)
    except ModelGone:
        if len(hits) == 1:
            raise
    return np.concatenate(rows), np.concatenate(hits)


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
) -> Iterator[tuple[NDArray[np.int64], Tensor]]:
    """Batches of rows to check: their numbers, and the samples that they are in the domain. At least one batch."""
    order = rows_to_check(space, data, seed, most_rows)
    size = max(1, min(ROWS_AT_A_TIME, most_rows // PARTS) // space.variant_count)
    for start in range(0, len(order), size):
        rows = order[start : start + size]
        yield rows, space.samples(data.clipped[rows])
        on_done(min(start + size, len(order)), len(order))
        if interrupted():
            return


def rows_to_check(space: TableSpace, data: Dataset, seed: int, most_rows: int = MOST_ROWS) -> NDArray[np.int64]:
    """All possible rows in a random order; where they have too many variants, the first of these."""
    most = max(FEWEST_PEOPLE if most_rows == MOST_ROWS else 1, most_rows // space.variant_count)
    order = np.random.default_rng(seed).permutation(len(data.codes))
    possible = order[data.possible[order]]
    if not len(possible):
        raise EvenhandError(f"No row of {data.name} is possible by its schema: see [[impossible]] there.")
    return possible[:most]


def data_rates(
    data: Dataset,
    rows: NDArray[np.int64],
    hit: NDArray[np.bool_],
    parts: Sequence[Part] = ("all", "held_out"),
    confidence: float = 0.95,
) -> dict[str, Rate]:
    """How many people of the data itself are treated differently, by part; a part without rows is left out."""
    which = "" if len(rows) == data.possible.sum() else "a random part of the "
    possible = "" if data.possible.all() else " that its rules call possible"
    rates: dict[str, Rate] = {}
    for part in parts:
        there = part_of(data, rows, part)
        words = f"{which or ('all ' if part == 'all' else '')}{PART_WORDS[part]}rows of {data.name}{possible}"
        if there.any():
            rates[part] = Rate(words, int(hit[there].sum()), int(there.sum()), confidence)
    return rates


def part_of(data: Dataset, rows: NDArray[np.int64], part: str) -> NDArray[np.bool_]:
    """(n,) which of the rows belong to a part of the data."""
    if part == "all":
        return np.ones(len(rows), dtype=bool)
    return data.train[rows] if part == "train" else ~data.train[rows]
