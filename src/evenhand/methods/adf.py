"""ADF: gradient-guided search, global then local."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from evenhand.errors import EvenhandError
from evenhand.search.method import Needs
from evenhand.search.two_phase import TwoPhase
from evenhand.search.walk import SMALLEST_SALIENCY, Walk


@dataclass(frozen=True, kw_only=True)
class ADF(TwoPhase):
    """Zhang et al., "Automatic Fairness Testing of Neural Classifiers through Adversarial Sampling".

    `accept_failed` is the probability that the local walk goes on from a neighbour that is no finding: 1 is the
    paper's Algorithm 7, e^-1 the published program (a Metropolis walk), which made the paper's figures and is the
    default here.
    """

    name: ClassVar[str] = "adf"
    needs: ClassVar[Needs] = "gradients"
    global_step: int = 1  # s_g
    local_step: int = 1  # s_l
    accept_failed: float = math.exp(-1)

    def __post_init__(self) -> None:
        if self.global_step < 1 or self.local_step < 1:
            raise EvenhandError("The steps of ADF are whole numbers of at least 1, since codes are whole numbers.")
        if not 0 <= self.accept_failed <= 1:
            raise EvenhandError(f"accept_failed is a probability, from 0 to 1; {self.accept_failed} is not.")

    def global_move(self, walk: Walk) -> Tensor:
        """Algorithm 3: move every attribute whose two gradient signs agree, in that sign."""
        return walk.space.move(walk.x, agreeing_signs(walk, *walk.gradients()) * self.global_step)

    def local_move(self, walk: Walk) -> Tensor:
        """Algorithms 8 and 9: an attribute with probability ∝ 1 / (|g| + |g'|), one step up or down."""
        g, g_pair = walk.gradients()
        attribute = walk.choose(local_weights(g, g_pair), which=0)
        return walk.space.nudge(walk.x, attribute, walk.coin(which=1) * self.local_step)


def agreeing_signs(walk: Walk, g: Tensor, g_pair: Tensor) -> Tensor:
    """(n, d) the sign where both gradients have the same one, 0 elsewhere and for protected attributes.

    The paper is silent on samples where no sign agrees or all gradients vanish: one random attribute goes up or down.
    """
    sign = g.sign() * walk.space.free
    direction = torch.where(sign == g_pair.sign(), sign, 0)
    stuck = ~direction.any(dim=1)
    attribute = walk.choose(torch.ones_like(g), which=0)
    random = torch.zeros_like(g).scatter(1, attribute[:, None], walk.coin(which=1)[:, None])
    return torch.where(stuck[:, None], random, direction)


def local_weights(g: Tensor, g_pair: Tensor) -> Tensor:
    """(n, d) the reciprocal saliency of the paper's Algorithm 8, before protected attributes are struck out."""
    return (g.abs() + g_pair.abs()).clamp_min_(SMALLEST_SALIENCY).reciprocal_()
