"""What trained repairs minimise: cross-entropy, and something that makes the variants of a person alike."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from evenhand.models.bounds import feed_forward_margins, worst_logits
from evenhand.repairs.table_training import Scaled
from evenhand.search.space import TableSpace

FEWEST_ANYWHERE = 256  # uniform samples in a batch; more where it has more rows
RAMP = 0.5  # the share of training after which a certified box has its full size


def usual_codes(space: TableSpace, x: Tensor) -> Tensor:
    """(protected,) the commonest code of each protected attribute among samples (n, d)."""
    return torch.stack([x[:, column].mode().values for column in space.protected])


def _anywhere(space: TableSpace, rows: int, draws: torch.Generator) -> Tensor:
    """As many samples as rows, or more, uniform over the domain."""
    return space.uniform(torch.rand((max(rows, FEWEST_ANYWHERE), len(space.sizes)), generator=draws))


@dataclass(frozen=True)
class Blind:
    """Protected attributes are held at one value, in training as later in use."""

    space: TableSpace
    codes: Tensor  # (protected,)

    def loss(self, network: Scaled, x: Tensor, y: Tensor, done: float, draws: torch.Generator) -> Tensor:  # noqa: ARG002 - an objective
        """Cross-entropy of the blinded rows."""
        x = x.clone()
        x[:, self.space.protected] = self.codes
        return functional.cross_entropy(network(x), y)


@dataclass(frozen=True)
class Pairing:
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
class Certified:
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
