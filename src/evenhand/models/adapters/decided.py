"""A model whose own decision is not the class with the highest score: a tuned threshold, a rule of its own."""

import torch
from torch import Tensor, nn

from evenhand.models.adapters.base import AHEAD, Adapter, beside
from evenhand.models.classifier import as_logits, probabilities

ROUNDING = 1e-6  # scores that are nearer to a threshold may lie on its other side in float32


class Decided(Adapter):
    """The same model, asked for its labels too; its scores are moved to the side that they say.

    With two classes that is the side of a threshold, with more the label's score is put on top.
    """

    def __init__(self, inner: Adapter, output: str, threshold: float | None) -> None:
        super().__init__()
        self.inner, self.inner_output, self.threshold = inner, output, threshold
        self.about, self.no_gradients, self.output = inner.about, inner.no_gradients, "probabilities"
        self.smallest_call, self.chunk_rows = inner.smallest_call, inner.chunk_rows
        self.thread_safe, self.own_classes, self.people_rows = inner.thread_safe, inner.own_classes, inner.people_rows
        self.reading, self.reads = inner.reading, inner.reads

    def forward(self, x: Tensor) -> Tensor:
        """(n, d) codes to (n, classes) probabilities."""
        scores = probabilities(as_logits(self.inner(x).float(), self.inner_output))
        if x.requires_grad and torch.is_grad_enabled():
            return scores
        labels = self.own_labels(x)
        assert labels is not None
        if self.threshold is not None:
            return beside(scores, labels == 1, self.threshold)
        top = scores.max(dim=1).values
        ahead = top + AHEAD * top.clamp_min(AHEAD)
        own = scores.gather(1, labels[:, None])[:, 0]
        behind = scores.argmax(dim=1) != labels
        return scores.scatter(1, labels[:, None], torch.where(behind, ahead, own)[:, None])

    def own_labels(self, x: Tensor) -> Tensor | None:
        """(n,) the classes that the model itself decides for."""
        return self.inner.own_labels(x)

    def forget(self) -> None:
        """Drop answers that are kept."""
        self.inner.forget()


def decided_alike(module: nn.Module, by: nn.Module) -> nn.Module:
    """A model that was opened again, with the decisions that it was found to have when it was first opened."""
    if isinstance(by, Decided):
        assert isinstance(module, Adapter)
        return Decided(module, by.inner_output, by.threshold)
    if isinstance(module, Adapter) and isinstance(by, Adapter):
        module.threshold = by.threshold
    return module


def threshold_between(scores: Tensor, labels: Tensor, stated: float | None = None) -> float:
    """A cut of the second class's scores (n,) that comes nearest to labels (n,): between those of both classes.

    One that the model states is taken as it is, where the labels bear it out.
    """
    if stated is not None:
        clear = (scores.double() - stated).abs() > ROUNDING
        if torch.equal((scores.double() >= stated)[clear], (labels == 1)[clear]):
            return stated
    ordered, order = scores.double().sort()
    second = labels[order].double()
    # Of all places between two scores the one with the fewest labels on the wrong side.
    wrong = torch.cat([torch.zeros(1, dtype=torch.float64), second.cumsum(0)])
    wrong = wrong + (1 - second).sum() - torch.cat([torch.zeros(1, dtype=torch.float64), (1 - second).cumsum(0)])
    place = int(wrong.argmin())
    low = float(ordered[place - 1]) if place else 0.0
    high = float(ordered[place]) if place < len(ordered) else 1.0
    return min(max((low + high) / 2, 1e-6), 1 - 1e-6)
