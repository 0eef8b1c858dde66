"""How good a repaired network for a table is: on held-out people, on the whole domain, on findings made without it."""

from dataclasses import dataclass
from functools import cached_property
from statistics import mean, stdev
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from evenhand.data.dataset import Dataset
from evenhand.measure.populations import Uniform
from evenhand.measure.rates import Rate
from evenhand.measure.sampling import sample_population
from evenhand.models.averaged import Averaged
from evenhand.models.bounds import NO_LABEL, certified_labels
from evenhand.models.classifier import Classifier
from evenhand.models.network import FeedForward, first_layer
from evenhand.search.check import check
from evenhand.search.space import TableSpace

SELECTION_SAMPLES = 20_000
SELECTION_SEED = 77  # other samples than those that are reported


@dataclass(frozen=True)
class Verdict:
    """What was measured of one network."""

    accuracy: float | None  # on held-out rows; none where no rows are held out
    right: NDArray[np.bool_]  # (held-out rows,) which labels it gets right
    uniform: Rate  # discriminatory samples over the whole domain
    people: Rate | None  # discriminatory held-out people
    remaining: Rate | None  # independent findings that are findings still
    certified: Rate | None  # held-out people whose label no protected value can change, proved by bounds
    validation_accuracy: float
    validation_rate: float  # in a population that only the choice looks at
    validation_bound: float  # how high that rate may be: the end of its interval; 0 where it is zero by construction
    auc: float | None = None  # of texts: the area under the ROC curve on held-out ones

    @property
    def score(self) -> float:
        """What repeats are chosen by, never on held-out rows: validation error plus the rate over the domain."""
        return 1 - self.validation_accuracy + self.validation_rate


@dataclass(frozen=True)
class Judge:
    """Measures networks of one table in the same way."""

    data: Dataset
    space: TableSpace
    validation: NDArray[np.int64]  # training rows that no network is fitted on
    findings: NDArray[np.int32]  # (k, d) made from held-out rows against the original model
    half_width: float = 0.001
    confidence: float = 0.95
    seed: int = 0

    def verdict(self, network: nn.Module, output: Any = "logits") -> Verdict:
        """All figures of one network."""
        model = Classifier(network, output=output)
        uniform = sample_population(
            model,
            self.space,
            Uniform(self.space),
            half_width=self.half_width,
            confidence=self.confidence,
            seed=self.seed,
        ).rate
        right = self._right(model, np.flatnonzero(~self.data.train))
        selection = self._hits(model, self._selection, "samples that only the choice looks at")
        assert selection is not None
        return Verdict(
            float(right.mean()) if len(right) else None,
            right,
            uniform,
            self._hits(model, self.held_out, f"held-out rows of {self.data.name}"),
            self._hits(model, self.space.samples(self.findings), "findings made from held-out rows"),
            self._certified(network),
            float(self._right(model, self.validation).mean()),
            selection.share,
            0.0 if self._constructed(network) else selection.interval[1],
        )

    @cached_property
    def held_out(self) -> Tensor:
        """(n, d) held-out people, in the domain."""
        return self.space.samples(self.data.clipped[~self.data.train])

    @cached_property
    def _selection(self) -> Tensor:
        draws = torch.Generator().manual_seed(SELECTION_SEED + self.seed)
        return self.space.uniform(torch.rand((SELECTION_SAMPLES, len(self.space.sizes)), generator=draws))

    def _right(self, model: Classifier, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        if not len(rows):
            return np.zeros(0, dtype=bool)
        labels = model.outputs(torch.tensor(self.data.codes[rows], dtype=torch.float32)).labels
        right: NDArray[np.bool_] = labels.numpy() == self.data.labels[rows]
        return right

    def _hits(self, model: Classifier, x: Tensor, population: str) -> Rate | None:
        if not len(x):
            return None
        return Rate(population, int(check(model, self.space, x).hit.sum()), len(x), self.confidence)

    def _constructed(self, network: nn.Module) -> bool:
        """Whether a network never reads the protected columns."""
        if isinstance(network, Averaged):
            return set(self.space.protected) <= set(network.columns)
        return isinstance(network, FeedForward) and not bool(first_layer(network).weight[:, self.space.protected].any())

    def _certified(self, network: nn.Module) -> Rate | None:
        if not len(self.held_out) or not isinstance(network, FeedForward | Averaged):
            return None
        if isinstance(network, FeedForward) and network.widths[-1] == 1:  # bounds compare the scores of classes
            return None
        words = f"held-out rows of {self.data.name} whose label is proved"
        if self._constructed(network):
            return Rate(words, len(self.held_out), len(self.held_out), self.confidence)
        assert isinstance(network, FeedForward)
        protected = self.space.kept == 0
        low, high = (torch.where(protected, end, self.held_out) for end in (self.space.lower, self.space.upper))
        proved = int((certified_labels(network, low, high) != NO_LABEL).sum())
        return Rate(words, proved, len(self.held_out), self.confidence)


@dataclass(frozen=True)
class Judged:
    """The verdicts on all repeats of a repair; the one to keep has the best score."""

    name: str
    by: str
    settings: dict[str, float | str]
    used: int
    verdicts: list[Verdict]
    networks: list[Any]  # or models of text

    @property
    def best(self) -> int:
        """Which repeat is kept."""
        return min(range(len(self.verdicts)), key=lambda number: self.verdicts[number].score)

    @property
    def kept(self) -> Verdict:
        """The verdict on it."""
        return self.verdicts[self.best]

    @property
    def network(self) -> Any:
        """It."""
        return self.networks[self.best]

    def spread(self, figure: str) -> dict[str, float] | None:
        """Mean and standard deviation over the repeats of `accuracy`, or of a rate by its name."""
        values = [getattr(verdict, figure) for verdict in self.verdicts]
        numbers = [value.share if isinstance(value, Rate) else value for value in values if value is not None]
        if not numbers:
            return None
        return {"mean": mean(numbers), "spread": stdev(numbers) if len(numbers) > 1 else 0.0}

    def as_dict(self) -> dict[str, Any]:
        """For a summary file."""
        rates = ("uniform", "people", "remaining", "certified")
        kept = {name: None if (rate := getattr(self.kept, name)) is None else rate.as_dict() for name in rates}
        return {
            "name": self.name,
            "by": self.by,
            "settings": self.settings,
            "repeats": len(self.networks),
            "findings_used": self.used,
            "kept_repeat": self.best,
            "accuracy": self.kept.accuracy,
            "validation_accuracy": self.kept.validation_accuracy,
            "validation_rate": self.kept.validation_rate,
            "validation_bound": self.kept.validation_bound,
            "auc": self.kept.auc,
            **kept,
            "over_repeats": {name: self.spread(name) for name in ("accuracy", *rates)},
        }
