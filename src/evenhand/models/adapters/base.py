"""What every adapter offers: a model of any framework as a module that reads codes and returns scores."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from evenhand.data.decoding import Decoder
from evenhand.data.schema import Label, Schema
from evenhand.errors import EvenhandError
from evenhand.models.classifier import OutputForm

AHEAD = 1e-6  # share of a score by which a tie is broken; its logarithm in float32 still tells


class Adapter(nn.Module):
    """A model seen as a module: (n, d) float32 codes to (n, classes) scores, or (n,) scores of the second class.

    It is asked and never changed, so a copy of it is itself. One that gives no gradients says why.
    """

    about: str = ""  # how reports name the model
    no_gradients: str | None = None  # why the scores cannot be differentiated by the codes; None: they can
    output: OutputForm = "auto"
    smallest_call: int = 1  # rows; a network's matrix products need more, see `Classifier`
    chunk_rows: int | None = None  # rows that it prefers at a time
    own_classes: list[str] | None = None  # as the model itself names them, in its own order; None where it does not
    people_rows: int | None = None  # rows that looking at the people of the data may take, where each has a price
    thread_safe: bool = False  # whether several threads may ask it at once

    def __deepcopy__(self, memo: dict[int, Any]) -> "Adapter":
        return self

    def forget(self) -> None:
        """Drop answers that are kept, so that the model itself is asked again: is it a function of a row?"""

    def facts(self) -> dict[str, Any]:
        """What a summary should say about asking it, such as requests and their cost."""
        return {}


class FrameAdapter(Adapter):
    """Asks a function of a data frame that has the columns and types of the raw table. It gives no gradients."""

    def __init__(
        self,
        schema: Schema,
        ask: Callable[[Any], Any],
        *,
        about: str,
        classes: Sequence[Any] | None = None,
        no_gradients: str = "it is asked through a data frame",
        read: Callable[[NDArray[np.int32]], Any] | None = None,
    ) -> None:
        """`classes`: which class each column of the answer is, where that is not the schema's own order.

        `read` turns codes into what the model reads, where that is not the whole raw table.
        """
        super().__init__()
        self.about, self.no_gradients = about, no_gradients
        self._read, self._ask, self._label = read or Decoder(schema).frame, ask, schema.label
        order = None if classes is None else class_order(classes, schema.label)
        self._order = None if order == sorted(order or []) else order
        self.own_classes = None if classes is None else named_classes(classes, schema.label)

    def forward(self, x: Tensor) -> Tensor:
        """(n, d) codes to scores."""
        frame = self._read(x.cpu().numpy().astype(np.int32))
        return scores_of(self._ask(frame), len(frame), self._label, self._order).to(x.device)


def class_order(classes: Sequence[Any], label: Label) -> list[int]:
    """Where each class of the schema stands among a model's own classes; they are compared as text.

    Classes that are merely counted, 0, 1, … or false and true, are the schema's in its order.
    """
    own = named_classes(classes, label)
    if own is None:
        return list(range(len(label.values)))
    for value in label.values:
        if value not in own:
            raise EvenhandError(
                f"The model's classes are {', '.join(own)}, but the label '{label.column}' has the values "
                f"{', '.join(label.values)}. Correct label.values in the schema."
            )
    if len(own) != len(label.values):
        raise EvenhandError(
            f"The model has {len(own)} classes, but label.values in the schema has {len(label.values)}."
        )
    return [own.index(value) for value in label.values]


def named_classes(classes: Sequence[Any], label: Label) -> list[str] | None:
    """A model's classes as text; None where they are merely counted."""
    own = _class_texts(classes, label)
    return None if own in _counts(label) else own


def _counts(label: Label) -> list[list[str]]:
    """The ways to count the classes that cannot be taken for the schema's own names."""
    ways = [[str(place) for place in range(len(label.values))], ["false", "true"]]
    return [way for way in ways if len(way) == len(label.values) and not set(way) & set(label.values)]


def _class_texts(classes: Iterable[Any], label: Label) -> list[str]:
    """Classes as the schema writes them; false and true are 0 and 1 where that is what the schema has."""
    texts = [_class_text(value) for value in classes]
    numbers = {"false": "0", "true": "1"} if set(label.values) == {"0", "1"} else {}
    return [numbers.get(text, text) for text in texts]


def _class_text(value: Any) -> str:
    """A class as a schema writes it: true, 1 also for 1.0."""
    if isinstance(value, bool | np.bool_):
        return str(bool(value)).lower()
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def scores_of(answer: Any, rows: int, label: Label, order: list[int] | None = None) -> Tensor:
    """What a model of the user's own returned, as scores: of all classes, of the second one, or labels as 0 and 1."""
    if isinstance(answer, Tensor):
        answer = answer.detach().cpu().numpy()
    values = np.asarray(answer)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim not in (1, 2) or len(values) != rows:
        raise EvenhandError(
            f"The model answered with the shape {values.shape} to {rows:,} rows. It must answer each row with the "
            "scores of all classes, with one score for the second class, or with a label."
        )
    if values.ndim == 2:
        return _scores_of_classes(values, order)
    if np.issubdtype(values.dtype, np.floating):
        return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))
    return _from_labels(values, label)


def _scores_of_classes(values: NDArray[Any], order: list[int] | None) -> Tensor:
    """(n, classes) scores in the schema's order, with the model's own label on top.

    Votes are often tied. The model takes the first of its own classes then, which need not be the schema's first, or
    the one that is ahead by less than float32 can tell.
    """
    scores = np.ascontiguousarray(values if order is None else values[:, order], dtype=np.float32)
    own = values.argmax(axis=1)
    label = own if order is None else np.argsort(order)[own]
    rows = np.flatnonzero(scores.argmax(axis=1) != label)
    if len(rows):
        top = scores[rows].max(axis=1)
        scores[rows, label[rows]] = top + AHEAD * np.maximum(np.abs(top), AHEAD)
    return torch.from_numpy(scores)


def _from_labels(values: Any, label: Label) -> Tensor:
    """(n, classes) 1 for the label that was given, 0 for the others."""
    if values.dtype == object:
        values = np.array([_class_text(value) for value in values])
    distinct, places = np.unique(values, return_inverse=True)
    texts = _class_texts(distinct, label)
    names = next((way for way in _counts(label) if set(texts) <= set(way)), label.values)
    for text in texts:
        if text not in names:
            raise EvenhandError(
                f"The model answered with the label '{text}', which is none of {', '.join(label.values)}. "
                "Let it return scores, or correct label.values in the schema."
            )
    codes = torch.tensor([names.index(text) for text in texts])[torch.from_numpy(places)]
    return nn.functional.one_hot(codes, len(label.values)).float()


def two_columns(scores: NDArray[Any], total: int) -> NDArray[Any]:
    """(n, 2) scores of both of a model's classes where there is one for the second of them.

    They are probabilities where the total is 1, logits where it is 0.
    """
    return np.column_stack([total * (1 - scores), scores]) if scores.ndim == 1 else scores
