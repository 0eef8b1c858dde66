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
from evenhand.measures.direction import label_variants
from evenhand.measures.people import MOST_ROWS, check_people, data_rates, people_rate, rows_to_check
from evenhand.measures.populations import Uniform
from evenhand.measures.rates import Rate, share_of
from evenhand.measures.sampling import sample_population
from evenhand.models.adapters.base import people_codes
from evenhand.models.averaged import AveragedModel
from evenhand.models.bounds import NO_LABEL, certified_labels
from evenhand.models.classifier import Classifier
from evenhand.models.network import FeedForward, first_layer
from evenhand.search.space import TableSpace

SELECTION_SAMPLES = 20_000
SELECTION_ROUNDS = 50  # of as many draws, where rules call most of them impossible
SELECTION_SEED = 77  # other samples than those that are reported


@dataclass(frozen=True)
class Verdict:
    """What was measured of one network."""

    accuracy: float | None  # on held-out rows, weighted where rows have weights; none where no rows are held out
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


def held_out_weights(data: Dataset) -> NDArray[np.float64] | None:
    """(held-out rows,) their weights; None where rows have none."""
    return None if data.weights is None else data.weights[~data.train]


@dataclass(frozen=True)
class Judge:
    """Measures models of one table in the same way, in the populations and by the counts of `evenhand measure`.

    What the schema calls impossible belongs to none of them.
    """

    data: Dataset
    space: TableSpace
    validation: NDArray[np.int64]  # training rows that no network is fitted on
    findings: NDArray[np.int32]  # (k, d) made from held-out rows against the original model
    half_width: float = 0.001
    confidence: float = 0.95
    seed: int = 0
    most_rows: int = MOST_ROWS  # that looking at people may take, by the price of the original model's rows

    def verdict(self, model: Classifier) -> Verdict:
        """All figures of one model."""
        uniform = sample_population(
            model,
            self.space,
            Uniform(self.space),
            half_width=self.half_width,
            confidence=self.confidence,
            seed=self.seed,
        ).rate
        right = self._right(model, np.flatnonzero(~self.data.train))
        rate, bound = 0.0, 0.0  # by construction, so that no more samples have to be asked about
        if not self._constructed(model.module):
            selection = self._rate(model, self._selection, "samples that only the choice looks at")
            assert selection is not None
            rate, bound = selection.share, selection.interval[1]
        return Verdict(
            share_of(right, held_out_weights(self.data)),
            right,
            uniform,
            self._people(model),
            self._rate(model, self.space.samples(self.findings), "findings made from held-out rows"),
            self._certified(model.module),
            self._validation_accuracy(model),
            rate,
            bound,
        )

    def _validation_accuracy(self, model: Classifier) -> float:
        """On the rows set aside; where none of these has any weight, all count alike."""
        right = self._right(model, self.validation)
        weights = None if self.data.weights is None else self.data.weights[self.validation]
        share = share_of(right, weights)
        return float(right.mean()) if share is None else share

    @cached_property
    def people(self) -> NDArray[np.int64]:
        """The held-out people whom `evenhand measure` looks at: possible ones, all unless that takes too many rows."""
        return self._looked_at[~self.data.train[self._looked_at]]

    @cached_property
    def _looked_at(self) -> NDArray[np.int64]:
        return rows_to_check(self.space, self.data, 0, self.most_rows)

    @cached_property
    def _selection(self) -> Tensor:
        """(n, d) possible samples, uniform over the domain: as many as are wanted, unless almost none is possible."""
        draws = torch.Generator().manual_seed(SELECTION_SEED + self.seed)
        found = torch.zeros(0, len(self.space.sizes))
        for _ in range(SELECTION_ROUNDS):
            x = self.space.uniform(torch.rand((SELECTION_SAMPLES, len(self.space.sizes)), generator=draws))
            possible = self.space.possible(x)
            found = torch.cat([found, x if possible is None else x[possible]])
            if len(found) >= SELECTION_SAMPLES:
                break
        return found[:SELECTION_SAMPLES]

    def _right(self, model: Classifier, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        if not len(rows):
            return np.zeros(0, dtype=bool)
        codes = people_codes(self.data, model.module)[rows]
        labels = model.outputs(torch.tensor(codes, dtype=torch.float32)).labels
        right: NDArray[np.bool_] = labels.numpy() == self.data.labels[rows]
        return right

    def _rate(self, model: Classifier, x: Tensor, population: str) -> Rate | None:
        """How many of the possible ones among samples are discriminatory, counted as `evenhand measure` does."""
        if not len(x):
            return None
        found = label_variants(model, self.space, x)
        return Rate(population, int(found.hit.sum()), int(found.possible.sum()), self.confidence)

    def _people(self, model: Classifier) -> Rate | None:
        hit = np.zeros(len(self._looked_at), dtype=bool)
        held_out = ~self.data.train[self._looked_at]
        if held_out.any():
            hit[held_out] = check_people(model, self.space, self.data, self.people).hit.numpy()
        return data_rates(self.data, self._looked_at, hit, ("held_out",), self.confidence).get("held_out")

    def _constructed(self, network: nn.Module) -> bool:
        """Whether a network never reads the protected columns."""
        if isinstance(network, AveragedModel):
            return set(self.space.protected) <= set(network.columns)
        return isinstance(network, FeedForward) and not bool(first_layer(network).weight[:, self.space.protected].any())

    def _certified(self, network: nn.Module) -> Rate | None:
        if not len(self.people) or not isinstance(network, FeedForward | AveragedModel):
            return None
        if isinstance(network, FeedForward) and network.widths[-1] == 1:  # bounds compare the scores of classes
            return None
        words = f"held-out rows of {self.data.name} whose decision is proved"
        if self._constructed(network):
            return people_rate(words, self.data, self.people, np.ones(len(self.people), dtype=bool), self.confidence)
        if getattr(network, "threshold", None) is not None:  # bounds are about the highest score
            return None
        assert isinstance(network, FeedForward)
        protected = self.space.kept == 0
        x = torch.tensor(people_codes(self.data, network)[self.people], dtype=torch.float32)
        low, high = (torch.where(protected, end, x) for end in (self.space.lower, self.space.upper))
        proved = (certified_labels(network, low, high) != NO_LABEL).numpy()
        return people_rate(words, self.data, self.people, proved, self.confidence)


@dataclass(frozen=True)
class JudgedRepair:
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
