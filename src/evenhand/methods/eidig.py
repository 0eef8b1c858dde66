"""EIDIG: ADF's two phases with momentum, and with gradients that are computed less often."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from evenhand.errors import EvenhandError
from evenhand.methods.adf import agreeing_signs, local_weights
from evenhand.search.check import Checked
from evenhand.search.method import Needs
from evenhand.search.two_phase import TwoPhase
from evenhand.search.walk import Walk

MOMENTUM = "momentum"
START_WEIGHTS, WEIGHTS, SINCE_START = "weights at the start", "weights", "steps since the start"


@dataclass(frozen=True, kw_only=True)
class EIDIG(TwoPhase):
    """Zhang, Zhang and Zhang, "Efficient White-Box Fairness Testing through Gradient Search".

    The gradient is that of the score O_y of the sample's own label and not of the loss. A local walk goes on from
    findings only and has its gradients computed again after each `refresh_every` of them in a row; where a neighbour is
    no finding, the walk restarts: it is back at its first finding, with the gradients of there and its count at 0.
    """

    name: ClassVar[str] = "eidig"
    needs: ClassVar[Needs] = "gradients"
    decay: float = 0.5  # what the global phase keeps of its earlier gradients
    refresh_every: int = 5  # local steps that share one gradient
    global_step: int = 1
    local_step: int = 1

    def __post_init__(self) -> None:
        if self.global_step < 1 or self.local_step < 1:
            raise EvenhandError(f"The steps of {self.name} are whole numbers of at least 1, since codes are whole.")
        if not 0 <= self.decay <= 1:
            raise EvenhandError(f"decay is the share of a gradient that is kept, from 0 to 1; {self.decay} is not.")
        if self.refresh_every < 1:
            raise EvenhandError(f"refresh_every is a number of steps of at least 1, not {self.refresh_every}.")

    def score_slopes(self, walk: Walk, x: Tensor, label: Tensor, score: Tensor) -> Tensor:  # noqa: ARG002 - for MAFT
        """(n, d) the gradients of O_label at samples of the walk's space; `score` (n,) is O_label there."""
        return walk.model.gradients(x, label, of="score")

    def pair_slopes(self, walk: Walk, walks: Tensor) -> Tensor:
        """(k, 2, d) the slopes at x and at its pair, both at x's label, of some of the walks (k,), by index."""
        fields = (walk.x, walk.label, walk.pair, walk.score, walk.pair_score)
        x, label, pair, score, pair_score = (field.index_select(0, walks) for field in fields)
        both = torch.stack([x, walk.space.with_combination(x, pair)], dim=1)
        scores = torch.stack([score, pair_score], dim=1)
        samples = (both.view(-1, x.shape[1]), label.repeat_interleave(2), scores.view(-1))
        return self.score_slopes(walk, *samples).view_as(both)

    def global_move(self, walk: Walk) -> Tensor:
        """Move every attribute whose two accumulated signs agree towards a lower score of the own label."""
        momentum = self.pair_slopes(walk, all_of(walk))  # (n, 2, d)
        if MOMENTUM in walk.memory:
            # Where a sample's label has changed, earlier gradients are of another score; they are kept all the same.
            momentum += self.decay * walk.memory[MOMENTUM]
        walk.memory[MOMENTUM] = momentum
        return walk.space.move(walk.x, agreeing_signs(walk, -momentum[:, 0], -momentum[:, 1]) * self.global_step)

    def settle(self, walk: Walk, checked: Checked, starts: Checked) -> None:
        """Step to findings, restart elsewhere."""
        step_or_restart(walk, checked, starts)

    def local_move(self, walk: Walk) -> Tensor:
        """ADF's Algorithms 8 and 9 on slopes of the score that are up to `refresh_every` steps old."""
        attribute = walk.choose(self.weights(walk), which=0)
        return walk.space.nudge(walk.x, attribute, walk.coin(which=1) * self.local_step)

    def weights(self, walk: Walk) -> Tensor:
        """(n, d) by which each local walk chooses, computed again for walks that are due and for no others."""
        memory = walk.memory
        if WEIGHTS not in memory:
            memory[START_WEIGHTS] = memory[WEIGHTS] = local_weights(*self.pair_slopes(walk, all_of(walk)).unbind(dim=1))
            memory[SINCE_START] = torch.zeros_like(walk.label)
        since = memory[SINCE_START]
        due = ((since > 0) & (since % self.refresh_every == 0)).nonzero().squeeze(1)
        if due.shape[0]:
            fresh = local_weights(*self.pair_slopes(walk, due).unbind(dim=1))
            memory[WEIGHTS] = memory[WEIGHTS].index_copy(0, due, fresh)
        return memory[WEIGHTS]


def all_of(walk: Walk) -> Tensor:
    """(n,) the index of every walk."""
    return torch.arange(len(walk.x), device=walk.x.device)


def step_or_restart(walk: Walk, checked: Checked, starts: Checked) -> None:
    """Go on from findings; from everything else back to the start, its weights and a count of 0."""
    hit, memory = checked.hit, walk.memory
    x = torch.where(hit[:, None], checked.x, starts.x)
    walk.move(Checked(x, *(torch.where(hit, new, old) for new, old in zip(checked[1:], starts[1:], strict=True))))
    memory[WEIGHTS] = torch.where(hit[:, None], memory[WEIGHTS], memory[START_WEIGHTS])
    memory[SINCE_START] = torch.where(hit, memory[SINCE_START] + 1, 0)
