"""Our own search for models that give scores and no gradients: trees, pipelines, functions, endpoints."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from evenhand.errors import EvenhandError
from evenhand.methods.bridging import Bridging
from evenhand.methods.label_only import LAST, amounts, hope_of, learn, numbers_of_a_step
from evenhand.methods.margin import choose
from evenhand.search.check import Checked
from evenhand.search.method import Needs
from evenhand.search.walk import Walk


@dataclass(frozen=True, kw_only=True)
class Probe(Bridging):
    """Asks for the scores of a few random moves and takes the one nearest to the boundary; then explores around it.

    Near to the boundary means that the log-odds of the pair, the sample and its most different variant, are zero on
    average: then the two lie on both sides of it. A local move is an attribute, a direction and a length; each walk
    prefers attributes and directions that gave it findings before, and goes on from findings only.
    """

    name: ClassVar[str] = "probe"
    needs: ClassVar[Needs] = "scores"
    tries: int = 8  # moves whose scores are asked for at each global iteration
    furthest: int = 10  # codes by which a global move changes an attribute at most
    longest_step: int = 3  # codes of a local move at most

    def __post_init__(self) -> None:
        if min(self.tries, self.furthest, self.longest_step) < 1:
            raise EvenhandError("tries, furthest and longest_step are whole numbers of at least 1.")

    def global_move(self, walk: Walk) -> Tensor:
        """Of some random moves the one whose pair has mean log-odds nearest to zero."""
        n, d = walk.x.shape
        numbers = numbers_of_a_step(walk, 2 * d * self.tries).view(self.tries, 2, d, n).transpose(2, 3)
        moved = torch.stack([self._moved(walk, chance, length) for chance, length in numbers])  # (tries, n, d)
        both = torch.cat(
            [moved.view(-1, d), walk.space.with_combination(moved.view(-1, d), walk.pair.repeat(self.tries))]
        )
        scores = walk.model.outputs(both).scores.view(2, self.tries, n, -1)
        labels = walk.label.expand(2, self.tries, n)
        odds = walk.model.margin(scores.gather(3, labels[..., None]).squeeze(3), labels).mean(dim=0)
        best = odds.abs().argmin(dim=0)
        return moved[best, torch.arange(n, device=best.device)]

    def _moved(self, walk: Walk, chance: Tensor, length: Tensor) -> Tensor:
        """(n, d) samples with about two attributes changed, at least one, each by 1 to `furthest` codes up or down."""
        chance = torch.where(walk.space.free > 0, chance, 2.0)
        few = 2 / walk.space.free.sum()
        chosen = (chance < few) | (chance == chance.min(dim=1, keepdim=True).values)
        return walk.space.move(walk.x, amounts(length, self.furthest) * chosen)

    def local_move(self, walk: Walk) -> Tensor:
        """One attribute, up or down, by 1 to `longest_step` codes."""
        space, d = walk.space, walk.x.shape[1]
        room = torch.cat([space.upper - walk.x, walk.x - space.lower], dim=1) * space.free.repeat(2)
        choice = choose(hope_of(walk) * (room > 0), walk.uniform(0))
        length = 1 + torch.floor(walk.uniform(1) * self.longest_step)
        length = torch.minimum(length, room.gather(1, choice[:, None]).squeeze(1))
        walk.memory[LAST] = choice
        return space.nudge(walk.x, choice % d, torch.where(choice < d, length, -length))

    def accepts(self, walk: Walk, checked: Checked) -> Tensor:
        """Findings only; also where a walk learns."""
        learn(walk, checked.hit)
        return checked.hit
