"""The two phases for a model that gives nothing but labels."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from evenhand.errors import EvenhandError
from evenhand.search.check import Checked
from evenhand.search.draws import Draws
from evenhand.search.method import Needs
from evenhand.search.two_phase import TwoPhase
from evenhand.search.walk import Walk

TRIED, WORKED, LAST = "tried", "worked", "last move"
DRAW = 2**24  # a walk's number is a multiple of 1 / DRAW


@dataclass(frozen=True, kw_only=True)
class LabelOnly(TwoPhase):
    """Random moves towards a first finding; around one, moves that stayed among findings before are preferred.

    A local move is an attribute and a direction. Each walk counts how often it tried a move and how often that gave
    another finding; it chooses with probability ∝ (worked + 1) / (tried + 2), the rule of succession.
    """

    name: ClassVar[str] = "labels"
    needs: ClassVar[Needs] = "labels"
    k: int = 4  # attributes that a global move changes
    furthest: int = 10  # codes by which a global move changes each of them at most
    local_step: int = 1
    accept_failed: float = 0.0

    def __post_init__(self) -> None:
        if min(self.k, self.furthest, self.local_step) < 1:
            raise EvenhandError("k, furthest and local_step are whole numbers of at least 1.")
        if not 0 <= self.accept_failed <= 1:
            raise EvenhandError(f"accept_failed is a probability, from 0 to 1; {self.accept_failed} is not.")

    def global_move(self, walk: Walk) -> Tensor:
        """`k` random attributes, each by 1 to `furthest` codes up or down."""
        n, d = walk.x.shape
        order, length = numbers_of_a_step(walk, 2 * d).view(2, d, n).transpose(1, 2)  # (n, d) each
        ranked = torch.where(walk.space.free > 0, order, -1).argsort(dim=1, descending=True, stable=True)
        chosen = torch.zeros_like(walk.x).scatter(1, ranked[:, : self.k], 1)
        return walk.space.move(walk.x, amounts(length, self.furthest) * chosen)

    def local_move(self, walk: Walk) -> Tensor:
        """One attribute, one step up or down, by the walk's experience."""
        n, d = walk.x.shape
        hope = hope_of(walk).view(n, d, 2)  # down, up
        attribute = walk.choose(hope.sum(dim=2), which=0)
        down, up = hope[torch.arange(n, device=attribute.device), attribute].unbind(dim=1)
        upwards = walk.uniform(1) * (down + up) < up
        walk.memory[LAST] = 2 * attribute + upwards
        return walk.space.nudge(walk.x, attribute, torch.where(upwards, 1.0, -1.0) * self.local_step)

    def accepts(self, walk: Walk, checked: Checked) -> Tensor:
        """Also where a walk learns. A move that was clipped away shows nothing new: it did not work."""
        learn(walk, checked.hit & (checked.x != walk.x).any(dim=1))
        return super().accepts(walk, checked)


def hope_of(walk: Walk) -> Tensor:
    """(n, 2 d) how likely each walk thinks each of its moves gives another finding: (worked + 1) / (tried + 2)."""
    n, d = walk.x.shape
    if TRIED not in walk.memory:
        walk.memory |= {TRIED: walk.x.new_zeros(n, 2 * d), WORKED: walk.x.new_zeros(n, 2 * d)}
    return (walk.memory[WORKED] + 1) / (walk.memory[TRIED] + 2)


def learn(walk: Walk, worked: Tensor) -> None:
    """Note whether (n,) the last move of each walk, LAST in its memory, gave another finding."""
    last = walk.memory[LAST][:, None]
    walk.memory[TRIED].scatter_add_(1, last, torch.ones_like(worked, dtype=torch.float32)[:, None])
    walk.memory[WORKED].scatter_add_(1, last, worked.float()[:, None])


def amounts(numbers: Tensor, furthest: int) -> Tensor:
    """Random numbers in [0, 1) to moves of 1 to `furthest` codes up or down, all equally likely."""
    amount = torch.floor(numbers * 2 * furthest) - furthest  # -furthest to furthest - 1
    return amount + (amount >= 0)


def numbers_of_a_step(walk: Walk, count: int) -> Tensor:
    """(count, n) random numbers: more than a walk has ready for a step, so two of those name a stream of its own."""
    first, second = ((walk.uniform(which) * DRAW).long() for which in (0, 1))
    draws = Draws(0, 0, first * DRAW + second, count, block_steps=1)
    return torch.stack([draws.step(0, which) for which in range(count)])
