"""Genetic search: a population of samples bred for large gaps of scores, then random steps around what it found."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from evenhand.errors import EvenhandError
from evenhand.search.check import Checked
from evenhand.search.checkpoint import Place
from evenhand.search.draws import BLOCK_STEPS, Draws
from evenhand.search.method import Method, Needs
from evenhand.search.search import Search
from evenhand.search.space import TableSpace


@dataclass(frozen=True, kw_only=True)
class Genetic(Method):
    """In the manner of ExpGA (Fan et al., "Explanation-Guided Fairness Testing through Genetic Algorithm") and GRFT.

    One population that begins as the seeds and is bred as a whole. Its slots keep the fitter of what they hold and
    their child, as in differential evolution: the programs differ here, and this forgets no finding. Each slot's first
    finding starts one local walk, so that the work is bounded by seeds × steps as for every other method. ExpGA's
    choice of seeds by explanations of the model is left out: the seeds are those of every other method.
    """

    name: ClassVar[str] = "genetic"
    needs: ClassVar[Needs] = "scores"
    resumable: ClassVar[bool] = True  # in the local phase
    tournament: int = 3  # contenders for each place as a parent
    crossover: float = 0.5  # the share of non-protected attributes that come from the second parent
    mutation: float = 0.2  # the share of non-protected attributes that take a random step
    furthest: int = 3  # codes by which a mutation moves an attribute at most

    def __post_init__(self) -> None:
        if self.tournament < 1 or self.furthest < 1:
            raise EvenhandError("tournament and furthest are whole numbers of at least 1.")
        for name in ("crossover", "mutation"):
            if not 0 <= getattr(self, name) <= 1:
                raise EvenhandError(f"{name} is a share of the attributes, from 0 to 1; {getattr(self, name)} is not.")

    def search(self, search: Search, x: Tensor, ids: Tensor) -> None:
        """Breed, then walk around each slot's first finding."""
        first, place = 0, search.place
        if place is None:
            starts, slots, origin = self.global_phase(search, x, ids)
        else:
            starts, first = place.checked("starts"), place.numbers["block"]
            slots, origin = place.tensors["slots"], place.tensors["origin"]
        blocks = torch.split(torch.arange(len(slots), device=ids.device), search.space.block_walks)
        for block, places in enumerate(blocks[first:], start=first):
            known = Place({"block": block}, {"slots": slots, "origin": origin})
            search.background = known.with_checked("starts", starts)
            self.local_phase(search, starts.take(places), slots[places], ids[origin[places]])

    def global_phase(self, search: Search, x: Tensor, ids: Tensor) -> tuple[Checked, Tensor, Tensor]:
        """The first finding of each slot, with the slot's number and that of the seed which it descends from."""
        slots = torch.arange(len(x), device=x.device)
        draws = search.draws(slots, "global", 2 * self.tournament + 3 * x.shape[1], block_steps=1)
        population = child = search.look(x, "global", 0, ids)
        origin = child_origin = slots
        found = torch.zeros_like(child.hit)
        firsts: list[tuple[Checked, Tensor, Tensor]] = []
        for generation in range(1, search.limits.iterations + 1):
            search.report("global", len(x), generation, search.limits.iterations)
            first = child.hit & ~found
            firsts.append((child.take(first), slots[first], child_origin[first]))
            found |= first
            if generation == search.limits.iterations or search.should_stop():
                break
            children, parent = self.breed(search.space, population.x, fitness(population), draws, generation)
            child_origin = origin[parent]
            child = search.look(children, "global", generation, ids[child_origin])
            population, origin = fitter(population, origin, child, child_origin)
        checked, numbers, origins = zip(*firsts, strict=True)
        return Checked.joined(checked), torch.cat(numbers), torch.cat(origins)

    def breed(self, space: TableSpace, x: Tensor, fit: Tensor, draws: Draws, generation: int) -> tuple[Tensor, Tensor]:
        """(n, d) one child for each slot, and (n,) the parent that it descends from: the first one."""
        numbers = [draws.step(generation, which) for which in range(2 * self.tournament + 3 * x.shape[1])]
        contenders = torch.stack(numbers[: 2 * self.tournament]).view(2, self.tournament, -1)
        mixing, striking, stepping = torch.stack(numbers[2 * self.tournament :], dim=1).view(len(x), 3, -1).unbind(1)
        first, second = (winners(fit, numbers) for numbers in contenders)
        mixed = torch.where((mixing < self.crossover) & (space.free > 0), x[second], x[first])
        steps = torch.floor(stepping * 2 * self.furthest) - self.furthest  # -furthest to furthest - 1
        steps += steps >= 0
        return space.move(mixed, torch.where(striking < self.mutation, steps, 0)), first

    def local_phase(self, search: Search, starts: Checked, slots: Tensor, ids: Tensor) -> None:
        """From each start one random attribute up or down by one code; walks go on from findings only."""
        walk = search.walk(starts, slots, "local", BLOCK_STEPS)  # descendants of one seed must not step alike
        for step in range(walk.step, search.limits.steps):
            if not len(slots) or search.should_stop(walk.place):
                return
            attribute = walk.choose(torch.ones_like(walk.x), which=0)
            moved = search.space.nudge(walk.x, attribute, walk.coin(which=1))
            checked = search.look_near(moved, walk.own, walk.pair, "local", step, ids)
            walk.move(checked, checked.hit)
            search.report("local", len(slots), step + 1, search.limits.steps)


def fitness(checked: Checked) -> Tensor:
    """(n,) |O_y(x') - O_y(x)| for the variant x' that differs most, among the witnesses where there are some."""
    return (checked.pair_score - checked.score).abs()


def winners(fit: Tensor, numbers: Tensor) -> Tensor:
    """(n,) the fittest of the contenders drawn by (contenders, n) random numbers; the first of equals."""
    contenders = (numbers * len(fit)).long().clamp_max(len(fit) - 1)
    best = contenders[0]
    for contender in contenders[1:]:
        best = torch.where(fit[contender] > fit[best], contender, best)
    return best


def fitter(old: Checked, old_origin: Tensor, new: Checked, new_origin: Tensor) -> tuple[Checked, Tensor]:
    """What each slot holds on to, with the seed that it descends from: of equals the new one."""
    better = fitness(new) >= fitness(old)
    x = torch.where(better[:, None], new.x, old.x)
    fields = [torch.where(better, after, before) for before, after in zip(old[1:], new[1:], strict=True)]
    return Checked(x, *fields), torch.where(better, new_origin, old_origin)
