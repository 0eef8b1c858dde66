"""What a search method decides; everything else (batches, checks, counters, files) is shared."""

from abc import ABC, abstractmethod
from typing import ClassVar

from torch import Tensor

from evenhand.search.check import Checked
from evenhand.search.walk import ACCEPTANCE_DRAW, Walk


class Method(ABC):
    """A two-phase search: how to move towards a first finding, how to move around one, whether to stay there."""

    name: ClassVar[str]
    accept_failed: float = 1.0

    @abstractmethod
    def global_move(self, walk: Walk) -> Tensor:
        """(n, d) where each walk that has found nothing yet goes next."""

    @abstractmethod
    def local_move(self, walk: Walk) -> Tensor:
        """(n, d) the next neighbour of each walk to look at."""

    def accepts(self, walk: Walk, checked: Checked) -> Tensor:
        """(n,) whether the local walk goes on from the neighbour: always from a finding, else with `accept_failed`."""
        return checked.hit | (walk.uniform(ACCEPTANCE_DRAW) < self.accept_failed)
