"""A model whose classes stand in another order than the schema's."""

import torch
from torch import Tensor

from evenhand.errors import EvenhandError
from evenhand.models.adapters.base import Adapter


class Ordered(Adapter):
    """The same model with its scores in the schema's order."""

    def __init__(self, inner: Adapter, order: list[int]) -> None:
        """`order`: where each class of the schema stands among the model's scores."""
        super().__init__()
        self.inner = inner
        self.about, self.no_gradients, self.output = inner.about, inner.no_gradients, inner.output
        self.smallest_call, self.chunk_rows = inner.smallest_call, inner.chunk_rows
        self.thread_safe, self.own_classes, self.people_rows = inner.thread_safe, inner.own_classes, inner.people_rows
        self.reading, self.unnamed, self.ways, self.reads = inner.reading, inner.unnamed, inner.ways, inner.reads
        self.stated, self.regression = inner.stated, inner.regression
        self.lone_logit, self.own_threshold = inner.lone_logit, inner.own_threshold
        self.register_buffer("order", torch.tensor(order))

    order: Tensor

    def forward(self, x: Tensor) -> Tensor:
        """(n, d) codes to (n, classes) scores."""
        scores: Tensor = self.inner(x)
        if scores.ndim != 2 or scores.shape[1] != len(self.order):
            raise EvenhandError(
                f"The model returns scores of the shape {tuple(scores.shape)}, so its {len(self.order)} classes cannot "
                "be put in order. It must return one score for each class."
            )
        return scores.index_select(1, self.order)

    def own_labels(self, x: Tensor) -> Tensor | None:
        """(n,) the classes that the model itself decides for; it names them."""
        return self.inner.own_labels(x)


def in_order(adapter: Adapter, order: list[int] | None) -> Adapter:
    """The adapter with its classes in the schema's order; itself where they are."""
    return adapter if order is None or order == sorted(order) else Ordered(adapter, order)
