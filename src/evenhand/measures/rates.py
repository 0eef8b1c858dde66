"""Rates with honest intervals: how often a population holds discriminatory samples."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special


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
