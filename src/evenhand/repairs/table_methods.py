"""The repairs of networks for tables, each as a function of what they may learn from."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from evenhand.choices import Vote
from evenhand.errors import EvenhandError
from evenhand.models.averaged import Averaged, population_weights
from evenhand.models.classifier import Classifier
from evenhand.models.network import FeedForward
from evenhand.repairs.objectives import Blind, Certified, Pairing, usual_codes
from evenhand.repairs.table_training import CrossEntropy, Material, Objective, blinded, fit
from evenhand.search.recorder import Findings

TRAINED = ("augment", "certified", "pairing", "blind")
REPAIRS = (*TRAINED, "average")
STRENGTHS = {"certified": (0.1, 1.0), "pairing": (0.1, 1.0, 3.0)}  # what a sweep tries
DEFAULT_STRENGTH = {"certified": 1.0, "pairing": 3.0}
OnStep = Callable[[str, float], None]  # what is trained, and the share of it that is done


@dataclass(frozen=True)
class Repaired:
    """A way to repair and the networks that came of it: one for each repeat, all made in the same way."""

    by: str  # a name of REPAIRS, or that of a reference
    networks: list[nn.Module]
    settings: dict[str, float | str] = field(default_factory=dict)
    used: int = 0  # findings that were learned from, on average

    @property
    def name(self) -> str:
        """The repair with its settings."""
        return " ".join([self.by, *(f"{key} {value}" for key, value in self.settings.items())])


@dataclass(frozen=True)
class Workshop:
    """Makes repairs of one model from one material."""

    material: Material
    original: Classifier
    repeats: int
    on_step: OnStep = lambda what, share: None

    @property
    def retrainable(self) -> bool:
        """Whether the model is a network of ours, with a score for each class, which can be trained again."""
        module, classes = self.original.module, len(self.material.data.schema.label.values)
        return isinstance(module, FeedForward) and module.widths[-1] == classes

    def retrained(self) -> Repaired:
        """Networks trained again in the same way without any repair: what the training alone brings."""
        return Repaired("retrained", list(self._trained("retrained", CrossEntropy())))

    def blind(self) -> Repaired:
        """Protected attributes held at their commonest value, in training and in use."""
        space = self.material.space
        codes = usual_codes(space, self.material.rows(self.material.split[0])[0])
        networks = self._trained("blind", Blind(space, codes))
        return Repaired("blind", [blinded(network, space.protected, codes) for network in networks])

    def pairing(self, strength: float) -> Repaired:
        """A penalty on the difference of scores between variants."""
        networks = self._trained("pairing", Pairing(self.material.space, strength))
        return Repaired("pairing", list(networks), {"strength": strength})

    def certified(self, strength: float) -> Repaired:
        """Training on bounds of what any protected value could do."""
        networks = self._trained("certified", Certified(self.material.space, strength))
        return Repaired("certified", list(networks), {"strength": strength})

    def average(self) -> Repaired:
        """The mean score over all protected values, weighted as they are among the training rows; no training."""
        space, data = self.material.space, self.material.data
        people = torch.tensor(data.clipped[data.train], dtype=torch.float32)
        each = None if data.weights is None else torch.tensor(data.weights[data.train])
        weights = population_weights(space.combination(people), space.variant_count, each)
        kept = weights > 0
        model = Averaged(
            self.original.module, space.protected, space.combinations[kept], weights[kept], self.original.output
        )
        return Repaired("average", [model.eval()])

    def augment(self, findings: Findings, share: float, vote: Vote, voters: list[nn.Module]) -> Repaired:
        """Retraining with a random share of the findings, both members of each pair with the label of a vote."""
        if not 0 < share <= 1:
            raise EvenhandError(f"The share of findings to learn from is above 0 and at most 1; {share} is not.")
        if not len(findings):
            raise EvenhandError("There are no findings to learn from: the search found none, so nothing is changed.")
        space, networks = self.material.space, []
        judges = [Classifier(voter) for voter in voters] if vote == "models" else []
        used = max(1, round(share * len(findings)))
        for seed in self._seeds():
            chosen = np.random.default_rng([seed, len(findings)]).permutation(len(findings))[:used]
            x = torch.tensor(findings.sample[chosen], dtype=torch.float32)
            pair = x.clone()
            pair[:, space.protected] = torch.tensor(findings.witness[chosen], dtype=torch.float32)
            label = pair_votes(judges, x, pair) if judges else own_votes(self.original, self.material, x)
            extra = torch.cat([x, pair]), label.repeat(2)
            networks.append(self._fit("augment", CrossEntropy(), seed, extra))
        return Repaired("augment", list(networks), {"share": share, "vote": vote}, used)

    def _seeds(self) -> Iterator[int]:
        first = self.material.recipe.seed
        yield from range(first, first + self.repeats)

    def _trained(self, what: str, objective: Objective) -> list[FeedForward]:
        return [self._fit(what, objective, seed) for seed in self._seeds()]

    def _fit(
        self, what: str, objective: Objective, seed: int, extra: tuple[Tensor, Tensor] | None = None
    ) -> FeedForward:
        before = seed - self.material.recipe.seed

        def on_epoch(done: int, total: int) -> None:
            self.on_step(what, (before + done / total) / self.repeats)

        return fit(self.material, objective, seed=seed, extra=extra, on_epoch=on_epoch).eval()


def pair_votes(judges: list[Classifier], x: Tensor, pair: Tensor) -> Tensor:
    """(n,) the label that most models give to most members of a pair; of equals the one with the higher mean score."""
    said = [judge.outputs(member) for judge in judges for member in (x, pair)]
    labels, scores = (torch.stack(parts, dim=1) for parts in zip(*said, strict=True))
    return most_votes(labels, scores)


def own_votes(model: Classifier, material: Material, x: Tensor) -> Tensor:
    """(n,) the label that the model itself gives to most variants; of equals the one with the higher mean score."""
    answers = material.space.answers(model, x)
    return most_votes(answers.labels, answers.scores)


def most_votes(labels: Tensor, scores: Tensor) -> Tensor:
    """(n,) of labels (n, votes) with scores (n, votes, classes): the one with most votes, then with the best mean."""
    count = functional.one_hot(labels, scores.shape[2]).sum(dim=1)
    return (count + scores.mean(dim=1) / 2).argmax(dim=1)
