"""Rates with honest intervals: how often a population holds discriminatory samples."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import stats

from evenhand.data.dataset import Dataset
from evenhand.models.classifier import Classifier
from evenhand.search.check import check
from evenhand.search.space import TableSpace

ROWS_AT_A_TIME = 1_000_000
MOST_ROWS = 25_000_000  # model rows; where a check of all people would take more, a random part of them is checked


@dataclass(frozen=True)
class Rate:
    """A share in a stated population, with its exact (Clopper-Pearson) interval."""

    population: str
    discriminatory: int
    samples: int
    confidence: float = 0.95

    @property
    def share(self) -> float:
        """The share that was seen."""
        return self.discriminatory / self.samples

    @property
    def interval(self) -> tuple[float, float]:
        """Where the population's own share lies, at the stated confidence, if the samples were drawn at random."""
        return clopper_pearson(self.discriminatory, self.samples, self.confidence)

    def as_dict(self) -> dict[str, Any]:
        """The rate for a summary file."""
        return asdict(self) | {"rate": self.share, "interval": list(self.interval)}


def clopper_pearson(hits: int, samples: int, confidence: float) -> tuple[float, float]:
    """The exact interval of a binomial proportion; it covers the truth at least as often as it says."""
    tail = (1 - confidence) / 2
    low = 0.0 if hits == 0 else float(stats.beta.ppf(tail, hits, samples - hits + 1))
    high = 1.0 if hits == samples else float(stats.beta.ppf(1 - tail, hits + 1, samples - hits))
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

    All rows, in a random order; where they have too many variants, or when interrupted, the first of these, which are
    a random part. There is at least one batch.
    """
    order = np.random.default_rng(seed).permutation(len(data.codes))[: max(1000, MOST_ROWS // space.variant_count)]
    size = max(1, ROWS_AT_A_TIME // space.variant_count)
    hits: list[NDArray[np.bool_]] = []
    for start in range(0, len(order), size):
        x = torch.tensor(data.clipped[order[start : start + size]], dtype=torch.float32, device=model.device)
        hits.append(check(model, space, x).hit.cpu().numpy())
        on_done(min(start + size, len(order)), len(order))
        if interrupted():
            break
    found = np.concatenate(hits)
    return order[: len(found)], found


def data_rates(data: Dataset, rows: NDArray[np.int64], hit: NDArray[np.bool_]) -> dict[str, Rate]:
    """How many people of the data itself are treated differently: all rows, and the held-out ones."""
    which = "all" if len(rows) == len(data.codes) else "a random part of the"
    held_out = ~data.train[rows]
    rates = {"all": Rate(f"{which} rows of {data.name}", int(hit.sum()), len(rows))}
    if held_out.any():
        words = f"{'' if which == 'all' else f'{which} '}held-out rows of {data.name}"
        rates["held_out"] = Rate(words, int(hit[held_out].sum()), int(held_out.sum()))
    return rates
