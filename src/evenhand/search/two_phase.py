"""The two phases that most methods share: from seeds to first findings, then around each of them."""

from abc import abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from evenhand.search.check import Checked
from evenhand.search.checkpoint import Place
from evenhand.search.draws import BLOCK_STEPS
from evenhand.search.method import Method
from evenhand.search.search import Search
from evenhand.search.space import ModelT, SpaceT
from evenhand.search.walk import ACCEPTANCE_DRAW, Walk


class TwoPhase(Method[SpaceT, ModelT]):
    """How to move towards a first finding, how to move around one, whether to stay there.

    Its checkpoints are of the local phase, where nearly all the time goes; before, it starts from the beginning.
    """

    resumable: ClassVar[bool] = True
    accept_failed: float = 1.0

    @abstractmethod
    def global_move(self, walk: Walk[SpaceT, ModelT]) -> Tensor:
        """(n, d) where each walk that has found nothing yet goes next."""

    @abstractmethod
    def local_move(self, walk: Walk[SpaceT, ModelT]) -> Tensor:
        """(n, d) the next neighbour of each walk to look at."""

    def accepts(self, walk: Walk[SpaceT, ModelT], checked: Checked) -> Tensor:
        """(n,) whether the local walk goes on from the neighbour: always from a finding, else with `accept_failed`."""
        return checked.hit | (walk.uniform(ACCEPTANCE_DRAW) < self.accept_failed)

    def settle(self, walk: Walk[SpaceT, ModelT], checked: Checked, starts: Checked) -> None:  # noqa: ARG002 - for methods that restart
        """Where local walks that began at `starts` go on from after they looked at a neighbour."""
        walk.move(checked, self.accepts(walk, checked))

    def search(self, search: Search[SpaceT, ModelT], x: Tensor, ids: Tensor) -> None:
        """The global phase for all seeds, then the local phase for all that it found."""
        if search.place is None:
            starts, start_ids, first = *self.first_findings(search, x, ids), 0
        else:
            place = search.place
            starts, start_ids, first = place.checked("starts"), place.tensors["start ids"], place.numbers["block"]
        blocks = torch.split(torch.arange(len(start_ids), device=ids.device), search.space.block_walks)
        for block, places in enumerate(blocks[first:], start=first):
            search.background = Place({"block": block}, {"start ids": start_ids}).with_checked("starts", starts)
            self.local_phase(search, starts.take(places), start_ids[places])

    def first_findings(self, search: Search[SpaceT, ModelT], x: Tensor, ids: Tensor) -> tuple[Checked, Tensor]:
        """The global phase for all seeds."""
        blocks = zip(torch.split(x, search.space.block_walks), torch.split(ids, search.space.block_walks), strict=True)
        found = [self.global_phase(search, *block) for block in blocks]
        return Checked.joined([checked for checked, _ in found]), torch.cat([block_ids for _, block_ids in found])

    def global_phase(
        self, search: Search[SpaceT, ModelT], x: Tensor, ids: Tensor, iterations: int | None = None
    ) -> tuple[Checked, Tensor]:
        """Algorithm 1 for all seeds at once: those that have found something leave the batch."""
        iterations = search.limits.iterations if iterations is None else iterations
        checked = search.look(x, "global", 0, ids)
        walk = search.walk(checked, ids, "global", block_steps=1)  # another set of walks at each iteration
        found, found_ids = [], []
        for iteration in range(1, iterations + 1):
            search.report("global", len(checked), iteration, iterations)
            found.append(checked.take(checked.hit))
            found_ids.append(ids[checked.hit])
            ids = ids[~checked.hit]
            walk.keep(~checked.hit)
            if not len(ids) or iteration == iterations or search.should_stop():
                break
            checked = search.look(self.global_move(walk), "global", iteration, ids)
            walk.move(checked)
        return Checked.joined(found), torch.cat(found_ids)

    def local_phase(self, search: Search[SpaceT, ModelT], starts: Checked, ids: Tensor) -> None:
        """Algorithm 7 for all first findings at once: look at a neighbour, step there or stay."""
        if not len(starts):
            return
        walk = search.walk(starts, ids, "local", BLOCK_STEPS, search.space.around(starts.x))
        for step in range(walk.step, search.limits.steps):
            if search.should_stop(walk.place):
                return
            checked = search.look_near(self.local_move(walk), walk.own, walk.pair, "local", step, ids)
            self.settle(walk, checked, starts)
            search.report("local", len(starts), step + 1, search.limits.steps)
