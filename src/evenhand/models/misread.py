"""Whether a model that reads a matrix without names would know the labels better with two of its columns swapped."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from evenhand.data.dataset import Dataset
from evenhand.models.adapters.base import Adapter
from evenhand.models.adapters.feature_matrix import Features
from evenhand.models.classifier import Classifier
from evenhand.models.evidence import answers_on, clearly_better, evidence_rows

MOST_COLUMNS = 24  # beyond, there are too many pairs to try
FIRST_ROWS = 400  # that all swaps are tried on; the best of them is judged on more


def better_swap(classifier: Classifier, data: Dataset) -> str:
    """What to say where two columns seem to stand in each other's place; empty where none do."""
    names = [attribute.name for attribute in data.schema.attributes if attribute.kind != "pass"]
    if not 2 <= len(names) <= MOST_COLUMNS or any(attribute.columns for attribute in data.schema.attributes):
        return ""
    rows = evidence_rows(data)
    pairs = list(combinations(range(len(names)), 2))
    shares = [_right(classifier, data, rows[:FIRST_ROWS], pair).mean() for pair in pairs]
    best = pairs[int(np.argmax(shares))]
    own, swapped = _right(classifier, data, rows, None), _right(classifier, data, rows, best)
    if not clearly_better(swapped, own, among=len(pairs)):
        return ""
    one, other = (names[place] for place in best)
    return (
        f"The model's columns seem to be in another order: with {one} and {other} swapped it would give the label of "
        f"the data to {swapped.mean():.1%} of {len(rows):,} rows, and not to {own.mean():.1%}. List its columns in the "
        "right order in a description (.toml), or fit it on a data frame, so that it knows their names."
    )


def _right(
    classifier: Classifier, data: Dataset, rows: NDArray[np.int64], pair: tuple[int, int] | None
) -> NDArray[np.bool_]:
    with _swapped(classifier, pair):
        given = answers_on(classifier, data, rows).labels.numpy()
    return np.asarray(given == data.labels[rows])


@contextmanager
def _swapped(classifier: Classifier, pair: tuple[int, int] | None) -> Iterator[None]:
    """The model with two columns of its matrix exchanged."""
    if pair is None:
        yield
        return
    owner, name, given = _matrix_of(classifier)
    try:
        module = isinstance(given, nn.Module)
        setattr(owner, name, _Swapped(given, pair) if module else lambda rows: _exchanged(given(rows), pair))
        yield
    finally:
        setattr(owner, name, given)


def _matrix_of(classifier: Classifier) -> tuple[Any, str, Any]:
    """Who makes, or reads, the matrix: the owner, the attribute that is called, and what it is."""
    module: Any = classifier.module
    if not isinstance(module, Adapter):
        return classifier, "module", module
    while hasattr(module, "inner"):
        module = module.inner
    module = getattr(module, "_runtime", module)
    name = "features" if hasattr(module, "features") else "_read"
    return module, name, getattr(module, name)


class _Swapped(nn.Module):
    """A network's features with two columns exchanged; or a module that is given its codes so."""

    def __init__(self, given: nn.Module, pair: tuple[int, int]) -> None:
        super().__init__()
        self.given, self.pair = given, pair

    def forward(self, x: Tensor) -> Tensor:
        """What is given, or what it makes, with two columns exchanged."""
        if isinstance(self.given, Features):
            features: Tensor = _exchanged(self.given(x), self.pair)
            return features
        scores: Tensor = self.given(_exchanged(x, self.pair))
        return scores


def _exchanged(matrix: Any, pair: tuple[int, int]) -> Any:
    one, other = pair
    order = list(range(matrix.shape[1]))
    order[one], order[other] = other, one
    return matrix[:, order]
