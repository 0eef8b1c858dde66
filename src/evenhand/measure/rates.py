"""Rates with honest intervals: how often a population holds discriminatory samples."""

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

SAMPLES_AT_A_TIME = 65_536


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


def discriminatory_rows(model: Classifier, space: TableSpace, data: Dataset) -> NDArray[np.bool_]:
    """(rows,) which people of the data, clipped into the domain and otherwise unchanged, have a witness."""
    hits = [
        check(model, space, torch.tensor(part, dtype=torch.float32, device=model.device)).hit.cpu().numpy()
        for part in np.array_split(data.clipped, max(1, len(data.clipped) // SAMPLES_AT_A_TIME))
    ]
    return np.concatenate(hits)


def data_rates(model: Classifier, space: TableSpace, data: Dataset) -> dict[str, Rate]:
    """How many people of the data itself are treated differently: all rows, and the held-out ones."""
    hit = discriminatory_rows(model, space, data)
    rows = {"all": np.ones_like(data.train), "held_out": ~data.train}
    words = {"all": f"all rows of {data.name}", "held_out": f"held-out rows of {data.name}"}
    return {name: Rate(words[name], int(hit[mask].sum()), int(mask.sum())) for name, mask in rows.items() if mask.any()}
