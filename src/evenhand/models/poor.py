"""What is wrong with a model that gives the labels of the data no more often than one that always says the same."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from evenhand.data.dataset import Dataset
from evenhand.models.evidence import better_than_chance, clearly_better, commonest

Labels = NDArray[np.int64]


def complaint(data: Dataset, rows: NDArray[np.int64], given: Labels, named: bool) -> str:
    """Why the labels that a model gives to rows cannot be trusted; empty where they can.

    `named`: whether the model itself says which class is which, so that they cannot stand in another order.
    """
    labels, names = data.labels[rows], data.schema.label.values
    most = commonest(labels)
    right, always = given == labels, labels == most
    if always.all():
        return f"All rows have the same label, ‘{names[most]}’, so nothing shows whether the model knows the labels."
    poor = not better_than_chance(right, always)
    order = None if named and not poor else _better_order(labels, given, len(names))
    if not poor and order is None:
        return ""
    shares = (
        f"The model gives the label of the data to {right.mean():.1%} of {len(rows):,} rows; always saying "
        f"‘{names[most]}’ would match {always.mean():.1%}"
        + (", and so small a difference may be chance. " if poor and right.mean() > always.mean() else ". ")
    )
    return shares + _reason(labels, given, names, order)


def _reason(labels: Labels, given: Labels, names: Sequence[str], order: tuple[int, ...] | None) -> str:
    """What is the likely cause."""
    if order is not None:
        meant = [names[place] for place in order]
        share = (np.array(order)[given] == labels).mean()
        return (
            f"Its classes seem to be in another order: as {', '.join(meant)} it would give that of {share:.1%}. "
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
