"""Models that are asked through a data frame of raw values, or through a matrix made of it. They give no gradients."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController
from torch import Tensor

from evenhand.data.attribute import Attribute
from evenhand.data.dataset import Dataset
from evenhand.data.schema import Schema
from evenhand.errors import EvenhandError, UnfitMatrixError
from evenhand.models.adapters.base import Adapter, class_order, moved_to_side, named_classes, scores_of
from evenhand.models.adapters.features.entries import Inputs
from evenhand.models.adapters.features.matrix import Features

Codes = NDArray[np.int32]
NUMERIC = ("integer", "float", "boolean")


class FrameAdapter(Adapter):
    """Asks a function of a data frame that has the columns and types of the raw table. It gives no gradients."""

    def __init__(
        self,
        data: Dataset,
        ask: Callable[[Any], Any],
        *,
        about: str,
        classes: Sequence[Any] | None = None,
        no_gradients: str = "it is asked through a data frame",
        read: Callable[[NDArray[np.int32]], Any] | None = None,
        decide: Callable[[Any], Any] | None = None,
    ) -> None:
        """`classes`: which class each column of the answer is, where that is not the schema's own order.

        `read` turns codes into what the model reads, where that is not the whole raw table. `decide` answers with the
        model's own labels.
        """
        super().__init__()
        self.about, self.no_gradients = about, no_gradients
        label = data.schema.label
        self._read, self._ask, self._label = read or data.decoder.frame, ask, label
        self._decide = decide
        order = None if classes is None else class_order(classes, label)
        self._order = None if order == sorted(order or []) else order
        self.own_classes = None if classes is None else named_classes(classes, label)

    @property
    def columns(self) -> list[str] | None:
        """The raw columns that it asks for by name; None where it is given all of them, or a matrix."""
        return getattr(self._read, "names", None)

    def forward(self, x: Tensor) -> Tensor:
        """(n, d) codes to scores."""
        frame = self._read(x.cpu().numpy().astype(np.int32))
        answer = self._ask(frame)
        scores = scores_of(answer, len(frame), self._label, self._order)
        if self.threshold is not None and self.output != "logits":
            scores = _keep_side(scores, np.asarray(answer), self._order, self.threshold)
        return scores.to(x.device)

    def own_labels(self, x: Tensor) -> Tensor | None:
        """(n,) the classes that the model itself decides for."""
        if self._decide is None:
            return None
        frame = self._read(x.cpu().numpy().astype(np.int32))
        said = np.asarray(self._decide(frame)).ravel().astype(object)
        return scores_of(said, len(frame), self._label).argmax(dim=1).to(x.device)


def _keep_side(scores: Tensor, answer: NDArray[Any], order: list[int] | None, threshold: float) -> Tensor:
    """Scores whose float32 lies on the side of the threshold on which the model's own number does."""
    if not np.issubdtype(answer.dtype, np.floating):
        return scores
    own = answer.ravel() if scores.ndim == 1 else answer[:, -1 if order is None else order[-1]]
    return moved_to_side(scores, torch.from_numpy(own >= threshold), threshold)


def wrap_function(data: Dataset, function: Callable[[pd.DataFrame], Any], inputs: Inputs) -> Adapter:
    """A function of the raw data frame, or of the matrix that `inputs` names (codes, values, onehot, standard).

    It returns the probabilities or logits of all classes in the schema's order (a frame may name them), one score for
    the second class, or a label for each row.
    """
    name = getattr(function, "__name__", type(function).__name__)
    label = data.schema.label

    def ask(rows: Any) -> Any:
        answer = function(rows)
        if isinstance(answer, pd.DataFrame) and set(map(str, answer.columns)) == set(label.values):
            return answer.rename(columns=str)[label.values].to_numpy()
        if answer is None:
            raise EvenhandError(f"The function {name} returned nothing. Let it return scores or labels.")
        return answer

    read = None if inputs is None else FeatureMatrix(data, inputs, None, name)
    adapter = FrameAdapter(data, ask, about=name, no_gradients="it is a function of a data frame", read=read)
    if read is not None:
        adapter.note_inputs(inputs)
    return adapter


def in_one_thread(ask: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same function with the thread pools of the libraries loaded so far, and of joblib, held at one thread.

    A boosted ensemble meets at a barrier after each tree, so on a busy machine two threads take several times as long
    as one. A forest that adds up its trees in the order in which threads finish would also give other last digits
    each time. Someone who sets OMP_NUM_THREADS knows better and is left alone.
    """
    if "OMP_NUM_THREADS" in os.environ:
        return ask
    from joblib import parallel_config

    pools = ThreadpoolController()

    def alone(question: Any) -> Any:
        with pools.limit(limits=1), parallel_config(backend="sequential"):
            return ask(question)

    return alone


class NamedColumns:
    """The raw columns that a model names, in its order."""

    def __init__(
        self, data: Dataset, names: Sequence[str], owner: str, known: Mapping[str, Sequence[Any] | None] | None = None
    ) -> None:
        """`known`: names that are read as categories, with the categories that the model knows (None: the schema's)."""
        self._decoder, self._names = data.decoder, list(names)
        self.names = [str(name) for name in names]
        places = attributes_named(data.schema, names, owner)
        self._columns = [_column_of(data.schema.attributes[at], name) for name, at in zip(names, places, strict=True)]
        self._places = places
        self._categories = {
            name: _Categories(data, place, column, known[name])
            for name, place, column in zip(names, places, self._columns, strict=True)
            if known and name in known
        }

    def __call__(self, codes: Codes) -> pd.DataFrame:
        """(n, d) codes as a data frame."""
        cells = {place: self._decoder.cells(place, codes[:, place]) for place in dict.fromkeys(self._places)}
        columns: dict[str, Any] = {}
        for name, place, column in zip(self._names, self._places, self._columns, strict=True):
            category = self._categories.get(name)
            columns[name] = cells[place][column] if category is None else category.values(cells[place][column])
        return pd.DataFrame(columns, index=range(len(codes)), copy=False)

    def unknown(self, *, all_of_them: bool) -> dict[str, list[Any]]:
        """Values of the domain that are none of the model's categories, by name; or only where all are unknown."""
        return {
            name: category.unknown
            for name, category in self._categories.items()
            if category.unknown and not (all_of_them and category.some_known)
        }


def _column_of(attribute: Attribute, name: str) -> str:
    """The raw column that a model means: by its name, or the attribute's own."""
    return name if name in attribute.raw_columns else attribute.raw_columns[0]


class _Categories:
    """A column of the table as a categorical one."""

    def __init__(self, data: Dataset, place: int, column: str, known: Sequence[Any] | None) -> None:
        low, high = data.schema.attributes[place].domain
        domain = np.arange(low, high + 1, dtype=np.int32)
        present = [value for value in _listed(data.decoder.cells(place, domain)[column]) if not pd.isna(value)]
        self._known = pd.Index(list(dict.fromkeys(present)) if known is None else list(known))
        self.unknown = [value for value in present if value not in self._known]
        self.some_known = len(self.unknown) < len(present)

    def values(self, cells: Any) -> Any:
        """(n,) the category of each cell; one that the model does not know is missing for it."""
        numbers, distinct = pd.factorize(pd.Series(cells))
        codes = np.append(self._known.get_indexer(pd.Index(distinct.astype(object))), -1)  # a missing one is the last
        return pd.Categorical.from_codes(codes[numbers], categories=self._known)


def _listed(values: Any) -> list[Any]:
    return list(pd.Series(values).tolist())


class RawMatrix:
    """A column for each one of the table: numbers, and categories of a numeric type, as they are; others as their code.

    Where an attribute stands in several columns, they come in the order of the table, else in that of the schema.
    """

    def __init__(self, data: Dataset) -> None:
        self._decoder, self._data = data.decoder, data
        self._columns = matrix_columns(data)

    def __call__(self, codes: Codes) -> NDArray[np.float64]:
        """(n, d) codes as numbers."""
        cells = {place: self._decoder.cells(place, codes[:, place]) for place, _ in self._columns}
        matrix = np.empty((len(codes), len(self._columns)))
        for at, (place, column) in enumerate(self._columns):
            attribute = self._data.schema.attributes[place]
            raw = is_numeric(attribute) or column in attribute.along
            matrix[:, at] = cells[place][column] if raw else schema_codes(self._data, place, codes[:, place])
        return matrix


def matrix_columns(data: Dataset) -> list[tuple[int, str]]:
    """The columns of a matrix of people: the attribute of each, and its name in the table."""
    attributes = data.schema.attributes
    columns = [
        (place, column)
        for place, attribute in enumerate(attributes)
        if attribute.kind != "pass"
        for column in attribute.raw_columns
        if column not in attribute.along or all(isinstance(value, int | float) for value in attribute.along[column])
    ]
    if data.frame is not None and any(len(attribute.raw_columns) > 1 for attribute in attributes):
        order = list(map(str, data.frame.columns))
        columns.sort(key=lambda entry: order.index(entry[1]))
    return columns


def schema_codes(data: Dataset, place: int, codes: NDArray[Any]) -> NDArray[Any]:
    """(n,) exact codes of an attribute as the schema reads them; in the domain unless the table has them outside."""
    beyond, attribute = data.beyond[place], data.schema.attributes[place]
    inside = np.clip(codes, *attribute.domain)
    if beyond is None:
        return np.asarray(inside)
    outside = codes >= beyond.first
    inside[outside] = beyond.codes[codes[outside].astype(np.intp) - beyond.first]
    return np.asarray(inside)


class FeatureMatrix:
    """The matrix that `inputs` says; for a model that names its columns, a frame with these names.

    Codes and values are found by name. A list of features is taken in its own order.
    """

    def __init__(self, data: Dataset, inputs: Inputs, names: Sequence[str] | None, owner: str) -> None:
        self._features = Features(data, inputs, torch.float64)
        self._names, self.width = names, self._features.width
        if names is None:
            return
        if inputs in ("codes", "values"):
            known = {name: at for at, name in enumerate(self._features.names)}
            places = attributes_named(data.schema, names, owner)
            self._places = [
                known.get(name, known.get(data.schema.names[place], -1))
                for name, place in zip(names, places, strict=True)
            ]
            if -1 in self._places:
                absent = names[self._places.index(-1)]
                raise EvenhandError(
                    f"{owner} reads the column '{absent}', which inputs = {inputs} gives no number for."
                )
        elif isinstance(inputs, list) and self._features.width == len(names):
            self._places = list(range(len(names)))
        else:
            raise EvenhandError(
                f"{owner} names the {len(names)} columns that it reads, and is given {self._features.words}. Leave "
                "inputs out, use codes or values, or list each feature in the order of these columns."
            )

    def __call__(self, codes: Codes) -> Any:
        """(n, d) codes as numbers."""
        matrix = self._features(torch.from_numpy(codes).float()).numpy()
        return matrix if self._names is None else pd.DataFrame(matrix[:, self._places], columns=list(self._names))


def matrix_reader(
    data: Dataset, inputs: Inputs, names: Sequence[str] | None, width: int | None, owner: str
) -> "FeatureMatrix | RawMatrix | None":
    """What makes the matrix that a model reads; None where it reads raw columns: by its names, or all of them."""
    if inputs is not None and (inputs != "raw" or names is not None):
        matrix = FeatureMatrix(data, inputs, names, owner)
        if names is None and width not in (None, matrix.width):
            raise EvenhandError(
                f"{owner} reads {width} columns without names; with inputs = {inputs} there are {matrix.width}."
            )
        return matrix
    if names is not None or (width is None and inputs is None):
        return None
    if width is not None:
        check_width(data, width, owner)
    return RawMatrix(data)


def attributes_named(schema: Schema, names: Sequence[str], owner: str) -> list[int]:
    """Positions of the attributes whose columns, or which themselves, have these names."""
    places = {
        column: place for place, each in reversed(list(enumerate(schema.attributes))) for column in each.raw_columns
    }
    places = {name: place for place, name in enumerate(schema.names)} | places
    absent = [str(name) for name in names if name not in places]
    if absent:
        raise EvenhandError(
            f"{owner} reads {_columns_in_words(absent)}, which the schema {schema.name} does not have. It has: "
            f"{', '.join(dict.fromkeys(column for each in schema.attributes for column in each.raw_columns))}. Add the "
            "missing ones to the schema (with kind = 'pass' if a search shall not touch them), or wrap the model in a "
            "function of a data frame that makes them."
        )
    return [places[name] for name in names]


def check_width(data: Dataset, width: int, owner: str) -> None:
    """A model that was fitted on a matrix without names must read one column for each of the table."""
    names = [column for _, column in matrix_columns(data)]
    if width != len(names):
        raise UnfitMatrixError(
            f"{owner} reads {width} columns without names, but the schema {data.name} has {len(names)}: "
            f"{', '.join(names)}. Fit it on a data frame, so that it knows its columns' names, or say how it reads "
            "people: inputs = codes, values, raw, onehot or standard."
        )


def is_numeric(attribute: Attribute) -> bool:
    """Whether the raw values are numbers."""
    return attribute.kind == "number" or attribute.type in NUMERIC or bool(attribute.columns)


def _columns_in_words(names: Sequence[str]) -> str:
    return f"the column{'s' if len(names) > 1 else ''} {', '.join(map(repr, names))}"
