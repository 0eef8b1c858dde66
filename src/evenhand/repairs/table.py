"""The repairs of networks for tables, and what trained ones minimise so that the variants of a person are alike."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from evenhand.choices import Vote
from evenhand.errors import EvenhandError
from evenhand.models.averaged import AveragedModel, population_weights
from evenhand.models.bounds import feed_forward_margins, worst_logits
from evenhand.models.classifier import Classifier
from evenhand.models.network import FeedForward
from evenhand.repairs.table_training import CrossEntropy, Material, Objective, Scaled, blind_network, fit
from evenhand.repairs.votes import own_votes, pair_votes
from evenhand.search.recorder import Findings
from evenhand.search.space import TableSpace

FEWEST_ANYWHERE = 256  # uniform samples in a batch; more where it has more rows
RAMP = 0.5  # the share of training after which a certified box has its full size
TRAINED = ("augment", "certified", "pairing", "blind")
REPAIRS = (*TRAINED, "average")
STRENGTHS = {"certified": (0.1, 1.0), "pairing": (0.1, 1.0, 3.0)}  # what a sweep tries
DEFAULT_STRENGTH = {"certified": 1.0, "pairing": 3.0}
OnStep = Callable[[str, float], None]  # what is trained, and the share of it that is done


def usual_codes(space: TableSpace, x: Tensor) -> Tensor:
    """(protected,) the commonest code of each protected attribute among samples (n, d)."""
    return torch.stack([x[:, column].mode().values for column in space.protected])


def _anywhere(space: TableSpace, rows: int, draws: torch.Generator) -> Tensor:
    """As many samples as rows, or more, uniform over the domain."""
    return space.uniform(torch.rand((max(rows, FEWEST_ANYWHERE), len(space.sizes)), generator=draws))


@dataclass(frozen=True)
class BlindObjective:
    """Protected attributes are held at one value, in training as later in use."""

    space: TableSpace
    codes: Tensor  # (protected,)

    def loss(self, network: Scaled, x: Tensor, y: Tensor, done: float, draws: torch.Generator) -> Tensor:  # noqa: ARG002 - an objective
        """Cross-entropy of the blinded rows."""
        x = x.clone()
        x[:, self.space.protected] = self.codes
        return functional.cross_entropy(network(x), y)


@dataclass(frozen=True)
class PairingObjective:
    """Counterfactual logit pairing: the log-odds of a sample and of a random variant should not differ.

    Some pairs are people of the batch; the others are uniform over the domain, where a search may go, too.
    """

    space: TableSpace
    strength: float = 1.0

    def loss(self, network: Scaled, x: Tensor, y: Tensor, done: float, draws: torch.Generator) -> Tensor:  # noqa: ARG002 - an objective
        """Cross-entropy, plus the strength times the mean absolute difference of the pairs' log-probabilities."""
        anywhere = _anywhere(self.space, len(x), draws)
        samples = torch.cat([x, anywhere])
        number = torch.randint(self.space.variant_count, (len(samples),), generator=draws)
        logits = network(torch.cat([samples, self.space.with_combination(samples, number)]))
        own, other = torch.split(functional.log_softmax(logits, dim=1), len(samples))
        penalty: Tensor = (own - other).abs().mean()
        return functional.cross_entropy(logits[: len(x)], y) + self.strength * penalty


@dataclass(frozen=True)
class CertifiedObjective:
    """Interval bound propagation: the worst that any protected value could do, bounded from above, is trained on.

    The box of protected values grows from the sample's own values to the whole domain in the first half of training.
    Samples that are uniform over the domain take part; having no label, their bounds should be narrow.
    """

    space: TableSpace
    strength: float = 1.0

    def loss(self, network: Scaled, x: Tensor, y: Tensor, done: float, draws: torch.Generator) -> Tensor:
        """Cross-entropy, plus the strength times the bound of the cross-entropy and the mean width of the bounds."""
        share = min(1.0, done / RAMP)
        anywhere = _anywhere(self.space, len(x), draws)
        low, high = self._box(torch.cat([x, anywhere]), share)
        margins = feed_forward_margins(network.network, network.scale(low), network.scale(high))
        worst = functional.cross_entropy(worst_logits(margins[: len(x)], y), y)
        width = -(margins + margins.transpose(1, 2)).mean()  # least of i above j plus least of j above i, turned round
        plain = functional.cross_entropy(network(x), y)
        return plain + self.strength * share * (worst + width)

    def _box(self, x: Tensor, share: float) -> tuple[Tensor, Tensor]:
        protected = self.space.kept == 0
        low = torch.where(protected, x + share * (self.space.lower - x), x)
        high = torch.where(protected, x + share * (self.space.upper - x), x)
        return low, high


@dataclass(frozen=True)
class RepairedNetworks:
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

    def retrained(self) -> RepairedNetworks:
        """Networks trained again in the same way without any repair: what the training alone brings."""
        return RepairedNetworks("retrained", list(self._trained("retrained", CrossEntropy())))

    def blind(self) -> RepairedNetworks:
        """Protected attributes held at their commonest value, in training and in use."""
        space = self.material.space
        codes = usual_codes(space, self.material.rows(self.material.split[0])[0])
        networks = self._trained("blind", BlindObjective(space, codes))
        return RepairedNetworks("blind", [blind_network(network, space.protected, codes) for network in networks])

    def pairing(self, strength: float) -> RepairedNetworks:
        """A penalty on the difference of scores between variants."""
        networks = self._trained("pairing", PairingObjective(self.material.space, strength))
        return RepairedNetworks("pairing", list(networks), {"strength": strength})

    def certified(self, strength: float) -> RepairedNetworks:
        """Training on bounds of what any protected value could do."""
        networks = self._trained("certified", CertifiedObjective(self.material.space, strength))
        return RepairedNetworks("certified", list(networks), {"strength": strength})

    def average(self) -> RepairedNetworks:
        """The mean score over all protected values, weighted as they are among the training rows; no training."""
        space, data = self.material.space, self.material.data
        people = torch.tensor(data.clipped[data.train], dtype=torch.float32)
        each = None if data.weights is None else torch.tensor(data.weights[data.train])
        weights = population_weights(space.combination(people), space.variant_count, each)
        kept = weights > 0
        model = AveragedModel(
            self.original.module, space.protected, space.combinations[kept], weights[kept], self.original.output
        )
        return RepairedNetworks("average", [model.eval()])

    def augment(self, findings: Findings, share: float, vote: Vote, voters: list[nn.Module]) -> RepairedNetworks:
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
            label = pair_votes(judges, x, pair) if judges else own_votes(space, self.original, x)
            extra = torch.cat([x, pair]), label.repeat(2)
            networks.append(self._fit("augment", CrossEntropy(), seed, extra))
        return RepairedNetworks("augment", list(networks), {"share": share, "vote": vote}, used)

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
