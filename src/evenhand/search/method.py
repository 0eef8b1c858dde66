"""What a search method decides; everything else (batches, checks, counters, files) is shared."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Generic, Literal

from torch import Tensor

from evenhand.search.space import ModelT, SpaceT

if TYPE_CHECKING:
    from evenhand.search.search import Search

Needs = Literal["gradients", "scores", "labels"]


class Method(ABC, Generic[SpaceT, ModelT]):
    """A way to look for findings. It sees the model only through the search that it is given."""

    name: ClassVar[str]
    needs: ClassVar[Needs]  # what it asks of a model beyond labels
    resumable: ClassVar[bool] = False  # whether it can go on from a checkpoint; else it starts from the beginning

    @abstractmethod
    def search(self, search: Search[SpaceT, ModelT], x: Tensor, ids: Tensor) -> None:
        """Look for findings from seeds (n, d), rows `ids` (n,) of the data, until done or told to stop."""
