"""From codes to what a model reads: raw columns by name, categories as a booster knows them, or a matrix of numbers."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from evenhand.data.attribute import Attribute
from evenhand.data.dataset import Dataset
from evenhand.data.schema import Schema
from evenhand.errors import EvenhandError, UnfitMatrixError
from evenhand.models.adapters.features.entries import Inputs
from evenhand.models.adapters.features.matrix import Features

Codes = NDArray[np.int32]
NUMERIC = ("integer", "float", "boolean")


class Columns:
    """The raw columns that a model names, in its order."""

    def __init__(
        self, data: Dataset, names: Sequence[str], whose: str, known: Mapping[str, Sequence[Any] | None] | None = None
    ) -> None:
        """`known`: names that are read as categories, with the categories that the model knows (None: the schema's)."""
        self._decoder, self._names = data.decoder, list(names)
        self.names = [str(name) for name in names]
        places = attributes_named(data.schema, names, whose)
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


class Matrix:
    """The matrix that `inputs` says; for a model that names its columns, a frame with these names.

    Codes and values are found by name. A list of features is taken in its own order.
    """

    def __init__(self, data: Dataset, inputs: Inputs, names: Sequence[str] | None, whose: str) -> None:
        self._features = Features(data, inputs, torch.float64)
        self._names, self.width = names, self._features.width
        if names is None:
            return
        if inputs in ("codes", "values"):
            known = {name: at for at, name in enumerate(self._features.names)}
            places = attributes_named(data.schema, names, whose)
            self._places = [
                known.get(name, known.get(data.schema.names[place], -1))
                for name, place in zip(names, places, strict=True)
            ]
            if -1 in self._places:
                absent = names[self._places.index(-1)]
                raise EvenhandError(
                    f"{whose} reads the column '{absent}', which inputs = {inputs} gives no number for."
                )
        elif isinstance(inputs, list) and self._features.width == len(names):
            self._places = list(range(len(names)))
        else:
            raise EvenhandError(
                f"{whose} names the {len(names)} columns that it reads, and is given {self._features.words}. Leave "
                "inputs out, use codes or values, or list each feature in the order of these columns."
            )

    def __call__(self, codes: Codes) -> Any:
        """(n, d) codes as numbers."""
        matrix = self._features(torch.from_numpy(codes).float()).numpy()
        return matrix if self._names is None else pd.DataFrame(matrix[:, self._places], columns=list(self._names))


def attributes_named(schema: Schema, names: Sequence[str], whose: str) -> list[int]:
    """Positions of the attributes whose columns, or which themselves, have these names."""
    places = {
        column: place for place, each in reversed(list(enumerate(schema.attributes))) for column in each.raw_columns
    }
    places = {name: place for place, name in enumerate(schema.names)} | places
    absent = [str(name) for name in names if name not in places]
    if absent:
        raise EvenhandError(
            f"{whose} reads {_columns_in_words(absent)}, which the schema {schema.name} does not have. It has: "
            f"{', '.join(dict.fromkeys(column for each in schema.attributes for column in each.raw_columns))}. Add the "
            "missing ones to the schema (with kind = 'pass' if a search shall not touch them), or wrap the model in a "
            "function of a data frame that makes them."
        )
    return [places[name] for name in names]


def check_width(data: Dataset, width: int, whose: str) -> None:
    """A model that was fitted on a matrix without names must read one column for each of the table."""
    names = [column for _, column in matrix_columns(data)]
    if width != len(names):
        raise UnfitMatrixError(
            f"{whose} reads {width} columns without names, but the schema {data.name} has {len(names)}: "
            f"{', '.join(names)}. Fit it on a data frame, so that it knows its columns' names, or say how it reads "
            "people: inputs = codes, values, raw, onehot or standard."
        )


def is_numeric(attribute: Attribute) -> bool:
    """Whether the raw values are numbers."""
    return attribute.kind == "number" or attribute.type in NUMERIC or bool(attribute.columns)


def _columns_in_words(names: Sequence[str]) -> str:
    return f"the column{'s' if len(names) > 1 else ''} {', '.join(map(repr, names))}"
