"""What every adapter offers: a model of any framework as a module that reads codes and returns scores."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from evenhand.choices import OutputForm
from evenhand.data.dataset import Dataset
from evenhand.data.schema import Label
from evenhand.errors import EvenhandError
from evenhand.models.adapters.features.entries import WAYS, Inputs

AHEAD = 1e-6  # share of a score by which a tie is broken; its logarithm in float32 still tells
BY_NAME, DESCRIBED = "columns by name", "as described"


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
    reading: str = BY_NAME  # how it is given people, in a word
    unnamed: bool = False  # it reads a matrix of which neither the model nor the user says what its columns are
    ways: tuple[str, ...] = WAYS  # that such a matrix may be made in
    stated: bool = False  # whether a description says what the output is
    regression: str = ""  # why its numbers are no classifier's, unless somebody states that they are logits
    may_be_logit: bool = False  # whether a single score outside 0 to 1 may be a logit, if the labels bear it out
    threshold: float | None = None  # see `Classifier`
    own_threshold: float | None = None  # the score of the last class that its own labels begin at, where it names one
    reads: list[str] | None = None  # the attributes that it is declared to read; None where nothing says so

    def __deepcopy__(self, memo: dict[int, Any]) -> "Adapter":
        return self

    def forget(self) -> None:
        """Drop answers that are kept, so that the model itself is asked again: is it a function of a row?"""

    def note_inputs(self, inputs: Inputs) -> None:
        """Note how the matrix that it reads was said to be made; None: nobody has said it."""
        self.unnamed = inputs is None
        self.reading = DESCRIBED if isinstance(inputs, list) else inputs or ""
        self.reads = [entry.attribute for entry in inputs] if isinstance(inputs, list) else None

    def own_labels(self, x: Tensor) -> Tensor | None:  # noqa: ARG002 - most models say nothing but scores
        """(n,) the classes that the model itself decides for; None where it only gives scores."""
        return None

    def facts(self) -> dict[str, Any]:
        """What a summary should say about asking it, such as requests and their cost."""
        return {}


class OuterAdapter(Adapter):
    """An adapter that asks another one and changes what it says."""

    def __init__(self, inner: Adapter, *alike: str) -> None:
        """`alike`: what it has as the inner one has it, beside what it always has."""
        super().__init__()
        self.inner = inner
        always = "about no_gradients smallest_call chunk_rows thread_safe own_classes people_rows reading reads"
        for name in (*always.split(), *alike):
            setattr(self, name, getattr(inner, name))

    def own_labels(self, x: Tensor) -> Tensor | None:
        """(n,) the classes that the model itself decides for."""
        return self.inner.own_labels(x)

    def forget(self) -> None:
        """Drop answers that are kept."""
        self.inner.forget()


class ReorderedAdapter(OuterAdapter):
    """A model with its scores in the schema's order."""

    order: Tensor

    def __init__(self, inner: Adapter, order: list[int]) -> None:
        """`order`: where each class of the schema stands among the model's scores."""
        super().__init__(inner, "output", "unnamed", "ways", "stated", "regression", "may_be_logit", "own_threshold")
        self.register_buffer("order", torch.tensor(order))

    def forward(self, x: Tensor) -> Tensor:
        """(n, d) codes to (n, classes) scores."""
        scores: Tensor = self.inner(x)
        if scores.ndim != 2 or scores.shape[1] != len(self.order):
            raise EvenhandError(
                f"The model returns scores of the shape {tuple(scores.shape)}, so its {len(self.order)} classes cannot "
                "be put in order. It must return one score for each class."
            )
        return scores.index_select(1, self.order)


def in_order(adapter: Adapter, order: list[int] | None) -> Adapter:
    """The adapter with its classes in the schema's order; itself where they are."""
    return adapter if order is None or order == sorted(order) else ReorderedAdapter(adapter, order)


def reads_raw_values(module: nn.Module) -> bool:
    """Whether a module turns codes into raw values before it reads them, as all adapters do."""
    return any(isinstance(part, Adapter) for part in module.modules())


def person_reading(module: nn.Module) -> Literal["codes", "exact"]:
    """Which codes of a person a module is given."""
    return "exact" if reads_raw_values(module) else "codes"


def people_codes(data: Dataset, module: nn.Module) -> NDArray[np.int32]:
    """(rows, d) the rows of the table for this module: nothing rounded, filled in or moved into the domain.

    A network that reads codes is given those of the schema, also outside the domain; an adapter is given codes that
    stand for the raw values themselves.
    """
    return data.exact if reads_raw_values(module) else data.codes


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
    return str(value).strip()  # blanks around a label do not matter when a table is read


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
        return torch.from_numpy(np.array(values, dtype=np.float32))  # a copy: the model's own may be read-only
    return _from_labels(values, label)


def _scores_of_classes(values: NDArray[Any], order: list[int] | None) -> Tensor:
    """(n, classes) scores in the schema's order, with the model's own label on top.

    Votes are often tied. The model takes the first of its own classes then, which need not be the schema's first, or
    the one that is ahead by less than float32 can tell.
    """
    scores = np.array(values if order is None else values[:, order], dtype=np.float32, order="C")  # not the model's own
    own = values.argmax(axis=1)
    label = own if order is None else np.argsort(order)[own]
    rows = np.flatnonzero(scores.argmax(axis=1) != label)
    if len(rows):
        top = scores[rows].max(axis=1)
        scores[rows, label[rows]] = top + AHEAD * np.maximum(np.abs(top), AHEAD)
    return torch.from_numpy(scores)


def moved_to_side(scores: Tensor, second: Tensor, threshold: float) -> Tensor:
    """Probabilities of two classes, or of the second, moved to the side of a threshold that `second` (n,) says."""
    at = torch.tensor(threshold, dtype=scores.dtype, device=scores.device)
    upper = scores if scores.ndim == 1 else scores[:, 1]
    moved = torch.where(second, upper.clamp_min(at), upper.clamp_max(torch.nextafter(at, torch.zeros_like(at))))
    if scores.ndim == 1:
        return moved
    return torch.stack([torch.where(moved == upper, scores[:, 0], 1 - moved), moved], dim=1)


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
