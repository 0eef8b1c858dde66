"""EIDIG: ADF's two phases with momentum, and with gradients that are computed less often."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from evenhand.errors import EvenhandError
from evenhand.methods.adf import agreeing_signs, local_weights
from evenhand.search.method import Needs
from evenhand.search.two_phase import TwoPhase
from evenhand.search.walk import Walk

MOMENTUM = "momentum"


@dataclass(frozen=True, kw_only=True)
class EIDIG(TwoPhase):
    """Zhang, Zhang and Zhang, "Efficient White-Box Fairness Testing through Gradient Search".

    The gradient is that of the score O_y of the sample's own label and not of the loss. `accept_failed` is ADF's, so
    that the two differ in what the paper proposes and in nothing else.
    """

    name: ClassVar[str] = "eidig"
    needs: ClassVar[Needs] = "gradients"
    decay: float = 0.5  # what the global phase keeps of its earlier gradients
    refresh_every: int = 5  # local steps that share one gradient
    global_step: int = 1
    local_step: int = 1
    accept_failed: float = math.exp(-1)

    def __post_init__(self) -> None:
        if self.global_step < 1 or self.local_step < 1:
            raise EvenhandError(f"The steps of {self.name} are whole numbers of at least 1, since codes are whole.")
        if not 0 <= self.decay <= 1:
            raise EvenhandError(f"decay is the share of a gradient that is kept, from 0 to 1; {self.decay} is not.")
        if self.refresh_every < 1:
            raise EvenhandError(f"refresh_every is a number of steps of at least 1, not {self.refresh_every}.")
        if not 0 <= self.accept_failed <= 1:
            raise EvenhandError(f"accept_failed is a probability, from 0 to 1; {self.accept_failed} is not.")

    def score_slopes(self, walk: Walk, refresh: bool) -> tuple[Tensor, Tensor]:
        """(n, d) each: the gradients of O_y at x and at its pair; without `refresh` those of earlier steps."""
        return walk.gradients(of="score", refresh=refresh)

    def global_move(self, walk: Walk) -> Tensor:
        """Move every attribute whose two accumulated signs agree towards a lower score of the own label."""
        momentum = torch.stack(self.score_slopes(walk, refresh=True), dim=1)  # (n, 2, d)
        if MOMENTUM in walk.memory:
            # Where a sample's label has changed, earlier gradients are of another score; they are kept all the same.
            momentum += self.decay * walk.memory[MOMENTUM]
        walk.memory[MOMENTUM] = momentum
        return walk.space.move(walk.x, agreeing_signs(walk, -momentum[:, 0], -momentum[:, 1]) * self.global_step)

    def local_move(self, walk: Walk) -> Tensor:
        """ADF's Algorithms 8 and 9 on gradients of the score that are up to `refresh_every` steps old."""
        g, g_pair = self.score_slopes(walk, refresh=walk.step % self.refresh_every == 0)
        attribute = walk.choose(local_weights(g, g_pair), which=0)
        return walk.space.nudge(walk.x, attribute, walk.coin(which=1) * self.local_step)
