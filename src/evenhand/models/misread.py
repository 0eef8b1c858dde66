"""Whether a model knows the labels of the data, and what is wrong where it does not.

Its classes may stand in another order, its columns may be swapped, or it may have learned from scaled numbers.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn

from evenhand.data.dataset import Dataset
from evenhand.errors import EvenhandError
from evenhand.models.adapters.base import Adapter, people_codes
from evenhand.models.adapters.features.matrix import Features
from evenhand.models.classifier import Classifier
from evenhand.models.evidence import Right, answers_on, better_than_chance, clearly_better, commonest, evidence_rows

Labels = NDArray[np.int64]
MOST_COLUMNS = 24  # beyond, there are too many pairs to try
FIRST_ROWS = 400  # that all swaps are tried on; the best of them is judged on more
SCALED_BY = 5000  # training rows that means, spreads and ends are taken from
SCALES = {
    "standardised (mean 0, spread 1)": ("standard", True),
    "standardised (mean 0, spread 1), columns of two values left as they are": ("standard", False),
    "scaled to lie between 0 and 1": ("minmax", True),
}
Rows = Any  # what a model reads: a frame, a matrix of numpy, or a tensor
Change = Callable[[Rows], Rows]


def complaint(data: Dataset, rows: NDArray[np.int64], given: Labels, named: bool) -> str:
    """Why the labels that a model gives to rows cannot be trusted; empty where they can.

    `named`: whether the model itself says which class is which, so that they cannot stand in another order.
    """
    labels, names = data.labels[rows], data.schema.label.values
    most = commonest(labels)
    right, always = given == labels, labels == most
    if always.all():
        return f"All rows have the same decision, ‘{names[most]}’, so nothing shows whether the model knows decisions."
    poor = not better_than_chance(right, always)
    order = None if named and not poor else _better_order(labels, given, len(names))
    if not poor and order is None:
        return ""
    shares = (
        f"The accuracy of the model on the data is {right.mean():.1%} ({len(rows):,} rows); always saying "
        f"‘{names[most]}’ would reach {always.mean():.1%}"
        + (", and so small a difference may be chance. " if poor and right.mean() > always.mean() else ". ")
    )
    return shares + _reason(labels, given, names, order)


def _reason(labels: Labels, given: Labels, names: Sequence[str], order: tuple[int, ...] | None) -> str:
    """What is the likely cause."""
    if order is not None:
        meant = [names[place] for place in order]
        share = (np.array(order)[given] == labels).mean()
        return (
            f"Its classes seem to be in another order: as {', '.join(meant)} it would reach {share:.1%}. "
            "Correct label.values in the schema, or say classes in a description (.toml)."
        )
    distinct = np.unique(given)
    if len(distinct) == 1:
        return (
            f"It says ‘{names[int(distinct[0])]}’ to all of them, so it may not read what it was trained on: are its "
            "columns in the right order, and scaled as in training (--inputs)?"
        )
    return "Are its columns in the right order, scaled as in training (--inputs), and is this the data it is for?"


def _better_order(labels: Labels, given: Labels, classes: int) -> tuple[int, ...] | None:
    """The order of classes in which a model agrees clearly better than in its own, and than always saying one."""
    met = np.zeros((classes, classes), dtype=np.int64)  # how often each class was given to each label
    np.add.at(met, (given, labels), 1)
    _, best = linear_sum_assignment(met, maximize=True)
    right = best[given] == labels
    clear = clearly_better(right, given == labels) and clearly_better(right, labels == commonest(labels))
    return tuple(int(place) for place in best) if clear else None


def better_swap(classifier: Classifier, data: Dataset) -> str:
    """What to say where two columns of a matrix seem to stand in each other's place; empty where none do."""
    bare = not isinstance(classifier.module, Adapter)  # it is given a code for each attribute, whatever its kind
    names = [attribute.name for attribute in data.schema.attributes if bare or attribute.kind != "pass"]
    if not 2 <= len(names) <= MOST_COLUMNS or any(attribute.columns for attribute in data.schema.attributes):
        return ""
    rows = evidence_rows(data)
    pairs = list(combinations(range(len(names)), 2))
    if classifier.affordable is not None and classifier.affordable < 2 * len(pairs) * FIRST_ROWS:
        return ""
    if isinstance(_given(classifier, data), pd.DataFrame):
        return ""  # it knows its columns by their names
    shares = [_right(classifier, data, rows[:FIRST_ROWS], partial(_swapped, pair)).mean() for pair in pairs]
    best = pairs[int(np.argmax(shares))]
    own, swapped = _right(classifier, data, rows), _right(classifier, data, rows, partial(_swapped, best))
    if not clearly_better(swapped, own, among=len(pairs)):
        return ""
    one, other = (names[place] for place in best)
    return (
        f"The model's columns seem to be in another order: with {one} and {other} swapped its accuracy on "
        f"{len(rows):,} rows would be {swapped.mean():.1%}, and not {own.mean():.1%}. List its columns in the right "
        "order in a description (.toml), or fit it on a data frame, so that it knows their names."
    )


def better_scaled(classifier: Classifier, data: Dataset) -> str:
    """What to say where a model seems to have learned from scaled numbers and is given others; empty where not."""
    rows = evidence_rows(data)[: classifier.part(100)]
    given = _given(classifier, data)
    if given is None:
        return ""
    own, labels = _right(classifier, data, rows), data.labels[rows]
    for words, (kind, two_values_too) in SCALES.items():
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):  # it may not like such numbers
                warnings.simplefilter("ignore")
                scaled = _right(classifier, data, rows, _scaling(given, kind, two_values_too))
        except EvenhandError:  # it cannot be asked so
            continue
        if clearly_better(scaled, own, among=len(SCALES)) and clearly_better(scaled, labels == commonest(labels)):
            return (
                f"The model seems to have learned from scaled numbers: with its numbers {words} its accuracy on "
                f"{len(rows):,} rows would be {scaled.mean():.1%}, and not {own.mean():.1%}. Make the scaling part of "
                "the model (a Pipeline with the scaler, a function of a data frame), or say it in "
                'a description (.toml) with as = "standard" or "minmax".'
            )
    return ""


def _right(classifier: Classifier, data: Dataset, rows: NDArray[np.int64], change: Change | None = None) -> Right:
    with _changed(classifier, change):
        given = answers_on(classifier, data, rows).labels.numpy()
    return np.asarray(given == data.labels[rows])


@contextmanager
def _changed(classifier: Classifier, change: Change | None) -> Iterator[None]:
    """The model with a change of what it reads."""
    place = _reader_of(classifier)
    if change is None or place is None:
        yield
        return
    owner, name = place
    given = getattr(owner, name)
    try:
        module = isinstance(given, nn.Module)
        setattr(owner, name, _Changed(given, change) if module else lambda codes: change(given(codes)))
        yield
    finally:
        setattr(owner, name, given)


def _reader_of(classifier: Classifier) -> tuple[Any, str] | None:
    """Who makes, or reads, the rows that a model is given: the owner, and the attribute that is called."""
    module: Any = classifier.module
    if not isinstance(module, Adapter):
        return classifier, "module"
    while hasattr(module, "inner"):
        module = module.inner
    module = getattr(module, "_runtime", module)
    return next(((module, name) for name in ("features", "_read") if hasattr(module, name)), None)


def _given(classifier: Classifier, data: Dataset) -> Rows | None:
    """Training rows as the model reads them."""
    place = _reader_of(classifier)
    if place is None:
        return None
    rows = np.flatnonzero(data.train)[:SCALED_BY]
    codes = people_codes(data, classifier.module)[rows]
    reader = getattr(*place)
    x = torch.tensor(codes, dtype=torch.float32, device=classifier.device)
    if isinstance(reader, nn.Module):
        with torch.no_grad():
            return reader(x) if isinstance(reader, Features) else x
    return reader(codes)


class _Changed(nn.Module):
    """A network's features with a change; or a module that is given its codes so."""

    def __init__(self, given: nn.Module, change: Change) -> None:
        super().__init__()
        self.given, self.change = given, change

    def forward(self, x: Tensor) -> Tensor:
        """What is given, or what it makes, changed."""
        made: Tensor = self.change(self.given(x)) if isinstance(self.given, Features) else self.given(self.change(x))
        return made


def _swapped(pair: tuple[int, int], matrix: Rows) -> Rows:
    one, other = pair
    order = list(range(matrix.shape[1]))
    order[one], order[other] = other, one
    return matrix[:, order]


def _scaling(rows: Rows, kind: str, two_values_too: bool) -> Change:
    """What scales the numbers of rows, by how these rows are spread."""
    if isinstance(rows, pd.DataFrame):
        names = [name for name in rows if pd.api.types.is_numeric_dtype(rows[name])]
        shift, size = _shift_and_size(rows[names].to_numpy(dtype=np.float64, na_value=np.nan), kind, two_values_too)
        return partial(_scaled_frame, dict(zip(names, zip(shift, size, strict=True), strict=True)))
    numbers = rows.cpu().numpy() if isinstance(rows, Tensor) else np.asarray(rows)
    shift, size = _shift_and_size(numbers.astype(np.float64), kind, two_values_too)
    if isinstance(rows, Tensor):
        by, to = (torch.tensor(each, dtype=rows.dtype) for each in (shift, size))
        return lambda x: (x - by.to(x.device)) / to.to(x.device)
    return lambda matrix: (matrix - shift) / size


def _shift_and_size(
    numbers: NDArray[np.float64], kind: str, two_values_too: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(k,) what is taken off the columns (n, k), and what they are divided by."""
    shift, size = np.zeros(numbers.shape[1]), np.ones(numbers.shape[1])
    for place, column in enumerate(numbers.T):
        values = column[np.isfinite(column)]
        distinct = len(np.unique(values))
        if distinct < 2 or (distinct == 2 and not two_values_too):
            continue
        ends = (values.min(), values.max())
        shift[place], size[place] = (
            (values.mean(), values.std()) if kind == "standard" else (ends[0], ends[1] - ends[0])
        )
    return shift, size


def _scaled_frame(scales: dict[Any, tuple[float, float]], frame: pd.DataFrame) -> pd.DataFrame:
    columns = {
        name: (pd.Series(frame[name].to_numpy(dtype=np.float64, na_value=np.nan), index=frame.index) - shift) / size
        for name, (shift, size) in scales.items()
    }
    return frame.assign(**columns)
