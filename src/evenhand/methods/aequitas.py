"""AEQUITAS: random samples, then local search that learns which attributes and directions pay."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor

from evenhand.errors import EvenhandError
from evenhand.methods.themis import not_a_row, uniform_samples
from evenhand.search.check import Checked
from evenhand.search.checkpoint import Place
from evenhand.search.draws import BLOCK_STEPS
from evenhand.search.method import Method, Needs
from evenhand.search.search import Search
from evenhand.search.space import TableSpace
from evenhand.search.walk import ACCEPTANCE_DRAW, Walk

Variant = Literal["random", "semi", "full"]
# What one sample says for moving its attribute down again and for choosing it again: went up and missed, up and hit,
# down and missed, down and hit.
GAINS = torch.tensor([[1, -1], [-1, 1], [-1, -1], [1, 1]], dtype=torch.float64)


@dataclass
class Preferences:
    """What the walks of one search have learnt together; float64, so that many small changes add up exactly enough."""

    attribute: Tensor  # (d,) probability that an attribute is chosen, 0 for protected ones
    down: Tensor  # (d,) probability that it then moves down

    @staticmethod
    def none(space: TableSpace) -> "Preferences":
        """Every non-protected attribute and both directions are equally likely."""
        free = space.free.double()
        return Preferences(free / free.sum(), torch.full_like(free, 0.5))

    def place(self) -> Place:
        """What was learnt, for a checkpoint."""
        return Place({}, {"attribute": self.attribute, "down": self.down})

    def learn(self, attribute: Tensor, went_down: Tensor, hit: Tensor, change: float, attributes_too: bool) -> None:
        """One update from the steps (n,) of all walks.

        The published program updates after each sample. Here all walks of one step chose by the same probabilities,
        and their updates are added up per attribute before they are clamped and normalised once.
        """
        outcome = (attribute * 2 + went_down) * 2 + hit
        count = torch.bincount(outcome, minlength=4 * len(self.down)).view(-1, 4)  # whole numbers know no order
        for_down, for_attribute = (count.double() @ GAINS.to(count.device)).unbind(dim=1)  # (d,) each
        self.down = (self.down + change * for_down).clamp(0, 1)
        if attributes_too:
            moved = (self.attribute + change * for_attribute).clamp_min(0)
            total = moved.sum()
            # Many failures at once can bring all to zero, which single updates cannot; then they stay as they are.
            self.attribute = torch.where(total > 0, moved / total, self.attribute)


@dataclass(frozen=True, kw_only=True)
class Aequitas(Method):
    """Udeshi, Arora and Chattopadhyay, "Automated Directed Fairness Testing".

    The variants of the local search: `random` learns nothing, `semi` (semi-directed) learns which way to move an
    attribute, `full` (fully-directed) also which attribute to move. `accept_failed` is the probability that a walk goes
    on from a neighbour that is no finding: e^-1 is the published program's (basin hopping at temperature 1).
    """

    name: ClassVar[str] = "aequitas"
    needs: ClassVar[Needs] = "labels"
    resumable: ClassVar[bool] = True  # in the local phase
    variant: Variant = "full"
    change: float = 0.001  # of a probability, by one sample
    accept_failed: float = math.exp(-1)

    def __post_init__(self) -> None:
        if self.variant not in get_args(Variant):
            raise EvenhandError(f"AEQUITAS has the variants random, semi and full; '{self.variant}' is none of them.")
        if not 0 < self.change < 1:
            raise EvenhandError(f"change is that of a probability, between 0 and 1; {self.change} is not.")
        if not 0 <= self.accept_failed <= 1:
            raise EvenhandError(f"accept_failed is a probability, from 0 to 1; {self.accept_failed} is not.")

    def search(self, search: Search, x: Tensor, ids: Tensor) -> None:  # noqa: ARG002 - as many starts, but random ones
        """As many random samples as there are seeds, then the local phase from every discriminatory one."""
        preferences, first, place = Preferences.none(search.space), 0, search.place
        if place is None:
            numbers = torch.split(torch.arange(len(x), device=x.device), search.space.block_walks)
            found = [self.global_phase(search, block) for block in numbers]
            starts = Checked.joined([checked for checked, _ in found])
            start_ids = torch.cat([block_ids for _, block_ids in found])
        else:
            starts, start_ids, first = place.checked("starts"), place.tensors["start ids"], place.numbers["block"]
            preferences = Preferences(place.tensors["attribute"], place.tensors["down"])
        blocks = torch.split(torch.arange(len(start_ids), device=x.device), search.space.block_walks)
        for block, places in enumerate(blocks[first:], start=first):
            search.background = Place({"block": block}, {"start ids": start_ids}).with_checked("starts", starts)
            self.local_phase(search, starts.take(places), start_ids[places], preferences)

    def global_phase(self, search: Search, numbers: Tensor) -> tuple[Checked, Tensor]:
        """One look at each of some random samples; those that are discriminatory."""
        ids = not_a_row(numbers)
        checked = search.look(uniform_samples(search, numbers), "global", 0, ids)
        search.report("global", len(numbers), 1, 1)
        starts = checked.take(checked.hit)
        return starts, ids[checked.hit]

    def local_phase(self, search: Search, starts: Checked, ids: Tensor, preferences: Preferences | None = None) -> None:
        """From all starts at once: look at a neighbour, step there or stay, learn."""
        if not len(starts):
            return
        preferences = preferences or Preferences.none(search.space)
        walk = search.walk(starts, ids, "local", BLOCK_STEPS)
        for step in range(walk.step, search.limits.steps):
            if search.should_stop(lambda: walk.place().joined(preferences.place())):
                return
            attribute = walk.choose(preferences.attribute.expand_as(walk.x), which=0)
            went_down = goes_down(walk, attribute, preferences.down)
            neighbour = search.space.nudge(walk.x, attribute, 1 - 2 * went_down.to(walk.x.dtype))
            checked = search.look_near(neighbour, walk.own, walk.pair, "local", step, ids)
            walk.move(checked, checked.hit | (walk.uniform(ACCEPTANCE_DRAW) < self.accept_failed))
            if self.variant != "random":
                preferences.learn(attribute, went_down, checked.hit, self.change, self.variant == "full")
            search.report("local", len(starts), step + 1, search.limits.steps)


def goes_down(walk: Walk, attribute: Tensor, down: Tensor) -> Tensor:
    """(n,) whether each walk moves its attribute down: as learnt (d,), but by a fair coin at the domain's border."""
    value = walk.x.gather(1, attribute[:, None]).squeeze(1)
    at_border = (value == walk.space.lower[attribute]) | (value == walk.space.upper[attribute])
    return walk.uniform(1) < torch.where(at_border, 0.5, down[attribute])
