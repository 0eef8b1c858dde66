"""What the labels in the data say about a model: how often it gives them, and whether one way of asking is better."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import stats

from evenhand.data.dataset import Dataset
from evenhand.models.adapters.base import people_codes
from evenhand.models.classifier import Classifier, Outputs

LEVEL = 1e-3  # how often chance alone may look like a clear difference
USUAL_LEVEL = 0.05
MOST_ROWS = 4000  # that readings are tried on
FEWEST_HELD_OUT = 200
DOMAIN_SAMPLES = 1000  # beside rows, so that readings that agree on them by chance are not taken for the same

Right = NDArray[np.bool_]


def evidence_rows(data: Dataset, seed: int = 0) -> NDArray[np.int64]:
    """A random part of the rows; held-out ones where there are enough."""
    held_out = np.flatnonzero(~data.train)
    rows = held_out if len(held_out) >= FEWEST_HELD_OUT else np.arange(len(data.codes))
    return np.random.default_rng(seed).permutation(rows)[:MOST_ROWS]


def answers_on(classifier: Classifier, data: Dataset, rows: NDArray[np.int64]) -> Outputs:
    """What a model says about rows of the table, each cell as it stands there."""
    x = torch.tensor(people_codes(data, classifier.module)[rows], dtype=torch.float32)
    return Outputs(*(part.cpu() for part in classifier.outputs(x.to(classifier.device))))


def domain_samples(data: Dataset, samples: int = DOMAIN_SAMPLES, seed: int = 0) -> torch.Tensor:
    """(samples, d) codes that are uniform over the domain."""
    low, high = data.schema.lower, data.schema.upper
    codes = np.random.default_rng(seed).integers(low, high + 1, (samples, len(low)))
    return torch.tensor(codes, dtype=torch.float32)


def clearly_better(better: Right, worse: Right, among: int = 1) -> bool:
    """Whether one of two ways is right more often on the same rows, so that chance is no explanation.

    `among`: of how many ways the better one was picked.
    """
    return _by_chance(better, worse) < LEVEL / among


def better_than_chance(better: Right, worse: Right) -> bool:
    """Whether one of two ways is right more often on the same rows, at the usual level of 5 %."""
    return _by_chance(better, worse) < USUAL_LEVEL


def _by_chance(better: Right, worse: Right) -> float:
    """How likely so many more right answers are if both ways were equally good (McNemar's exact test)."""
    wins, losses = int((better & ~worse).sum()), int((worse & ~better).sum())
    return float(stats.binomtest(wins, wins + losses, alternative="greater").pvalue) if wins > losses else 1.0


def commonest(labels: NDArray[np.int64]) -> int:
    """The label that most rows have."""
    return int(np.bincount(labels).argmax())


def agreement_of(labels: NDArray[np.int64], given: NDArray[np.int64], names: list[str]) -> dict[str, Any]:
    """The accuracy of a model on rows, beside that of always saying the commonest label."""
    most = commonest(labels)
    return {
        "rows": len(labels),
        "share": float((given == labels).mean()),
        "commonest_label": names[most],
        "commonest_share": float((labels == most).mean()),
    }
