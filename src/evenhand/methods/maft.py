"""MAFT: EIDIG without gradients, for any model that gives scores."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from evenhand.errors import EvenhandError
from evenhand.methods.eidig import EIDIG
from evenhand.models.classifier import Classifier
from evenhand.search.method import Needs
from evenhand.search.space import TableSpace
from evenhand.search.walk import Walk


@dataclass(frozen=True, kw_only=True)
class MAFT(EIDIG):
    """Wang et al., "MAFT: Efficient Model-Agnostic Fairness Testing … via Zero-Order Gradient Search".

    Both phases are EIDIG's, with its restarts: a local walk goes on from findings only, and otherwise is back at its
    first finding with the slopes of there. The slope of the score O_y along an attribute is its change over
    `difference` codes. Each estimate costs one row per attribute, so local walks keep theirs for `refresh_every` steps.
    """

    name: ClassVar[str] = "maft"
    needs: ClassVar[Needs] = "scores"
    difference: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.difference < 1:
            raise EvenhandError(f"difference is a whole number of codes of at least 1, not {self.difference}.")

    def score_slopes(self, walk: Walk, x: Tensor, label: Tensor, score: Tensor) -> Tensor:
        """(n, d) the estimates in place of gradients."""
        return slopes(walk.model, walk.space, x, label, score, self.difference)


def slopes(model: Classifier, space: TableSpace, x: Tensor, label: Tensor, score: Tensor, difference: int) -> Tensor:
    """(n, d) finite differences of O_label, zero for protected attributes; `score` (n,) is O_label at the samples."""
    size = max(1, model.chunk_rows // x.shape[1])  # samples whose neighbours the model takes at a time
    parts = zip(torch.split(x, size), torch.split(label, size), torch.split(score, size), strict=True)
    return torch.cat([_slopes(model, space, some, labels, known, difference) for some, labels, known in parts])


def _slopes(model: Classifier, space: TableSpace, x: Tensor, label: Tensor, score: Tensor, difference: int) -> Tensor:
    free = space.free.nonzero().squeeze(1)  # (f,)
    # Upwards, or downwards where the domain ends sooner above; where it is narrow, as far as it reaches.
    up, down = (space.upper - x).clamp_max(difference), (x - space.lower).clamp_max(difference)
    step = torch.where(up >= down, up, -down)[:, free]  # (n, f)
    neighbours = x[:, None].repeat(1, len(free), 1)  # (n, f, d)
    neighbours[:, torch.arange(len(free), device=x.device), free] += step
    scores = model.outputs(neighbours.view(-1, x.shape[1])).scores
    after = scores.gather(1, label.repeat_interleave(len(free))[:, None]).view_as(step)
    return torch.zeros_like(x).index_copy(1, free, (after - score[:, None]) / torch.where(step == 0, 1, step))
