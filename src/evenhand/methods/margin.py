"""Margin: our own method. It predicts from gradients which moves keep a pair on both sides of the boundary.

With two classes a pair is discriminatory while the log-odds of x's label are above zero for x and below for its
witness. Both change along a move by about the gradient times the step, so most moves that would lose the pair can be
told beforehand, and the model is asked about the others only. With more classes, where a label can win below even odds,
the prediction is a rule of thumb; what is a finding is decided by the check all the same.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from evenhand.errors import EvenhandError
from evenhand.methods.bridging import Bridging
from evenhand.search.check import Checked
from evenhand.search.method import Needs
from evenhand.search.walk import Walk

UNLIKELY = 1e-9  # the weight of a move that is predicted to lose the pair, or that goes straight back


@dataclass(frozen=True, kw_only=True)
class Margin(Bridging):
    """Newton steps to the boundary, bridges to known findings for seeds that are left, then walks inside the margin."""

    name: ClassVar[str] = "margin"
    needs: ClassVar[Needs] = "gradients"
    longest_step: int = 2  # local moves go 1 to this many codes
    caution: float = 0.3  # a move is taken to keep the pair if this share of its slack is left

    def __post_init__(self) -> None:
        if self.longest_step < 1:
            raise EvenhandError("longest_step is a whole number of at least 1.")
        if not 0 <= self.caution < 1:
            raise EvenhandError(f"caution is a share from 0 to below 1; {self.caution} is not.")

    def global_move(self, walk: Walk) -> Tensor:
        """Move a random half of the attributes so far that the pair's mean log-odds are predicted to be zero."""
        g, g_pair = walk.gradients(of="odds")
        slope = (g + g_pair) / 2 * walk.space.free
        odds, odds_pair = walk.odds()
        mean = (odds + odds_pair)[:, None] / 2
        direction = -slope.sign() * mean.sign()
        room = torch.where(direction > 0, walk.space.upper - walk.x, walk.x - walk.space.lower)
        room = room * (walk.uniform_elements() < 0.5)
        gain = (slope.abs() * room).sum(dim=1, keepdim=True)  # what moving them all the way would bring
        share = (mean.abs() / gain.clamp_min(UNLIKELY)).clamp_max(1)
        move = direction * torch.ceil(share * room)
        random = walk.space.nudge(walk.x, walk.choose(torch.ones_like(g), which=0), walk.coin(which=1))
        return torch.where(move.any(dim=1, keepdim=True), walk.space.move(walk.x, move), random)

    def local_move(self, walk: Walk) -> Tensor:
        """One random attribute by 1 to `longest_step` codes, among the moves that are predicted to keep the pair."""
        g, g_pair = walk.gradients(of="odds")
        odds, odds_pair = (odds[:, None] for odds in walk.odds())
        length = 1 + torch.floor(walk.uniform(which=2) * self.longest_step)[:, None]
        up = torch.minimum(length, walk.space.upper - walk.x)  # (n, d)
        down = torch.maximum(-length, walk.space.lower - walk.x)
        step = torch.cat([up, down], dim=1)  # (n, 2 d) all moves; one that the domain cuts to nothing is never made
        slack = torch.minimum(odds + step * torch.cat([g, g], 1), -odds_pair - step * torch.cat([g_pair, g_pair], 1))
        keeps = slack > self.caution * torch.minimum(odds, -odds_pair)
        weight = torch.where(keeps, 1.0, UNLIKELY)
        if "back" in walk.memory:
            weight.scatter_(1, walk.memory["back"][:, None], UNLIKELY)
        weight = weight * (step * walk.space.free.repeat(2) != 0)
        choice = choose(weight, walk.uniform(which=0))
        walk.memory["choice"] = choice
        attribute = choice % walk.x.shape[1]
        return walk.space.nudge(walk.x, attribute, step.gather(1, choice[:, None]).squeeze(1))

    def accepts(self, walk: Walk, checked: Checked) -> Tensor:
        """Findings only; the next move does not go straight back."""
        choice, width = walk.memory["choice"], walk.x.shape[1]
        back = walk.memory.get("back", choice)
        walk.memory["back"] = torch.where(checked.hit, (choice + width) % (2 * width), back)
        return checked.hit


def choose(weight: Tensor, number: Tensor) -> Tensor:
    """(n,) a column for each row of weights (n, k), with probability proportional to its weight."""
    reach = weight.cumsum(dim=1)
    mark = number[:, None] * reach[:, -1:]
    return torch.searchsorted(reach, mark, right=True).squeeze(1).clamp_max_(weight.shape[1] - 1)
