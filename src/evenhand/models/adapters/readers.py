"""From codes to what a model reads: raw columns by name, categories as a booster knows them, or a matrix of numbers."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from evenhand.data.attribute import Attribute
from evenhand.data.dataset import Dataset
from evenhand.data.decoding import Decoder
from evenhand.data.schema import Schema
from evenhand.errors import EvenhandError
from evenhand.models.adapters.feature_entries import Inputs
from evenhand.models.adapters.feature_matrix import Features

Codes = NDArray[np.int32]
NUMERIC = ("integer", "float", "boolean")


class Columns:
    """The raw columns that a model names, in its order."""

    def __init__(
        self, data: Dataset, names: Sequence[str], whose: str, known: Mapping[str, Sequence[Any] | None] | None = None
    ) -> None:
        """`known`: names that are read as categories, with the categories that the model knows (None: the schema's)."""
        places = attributes_named(data.schema, names, whose)
        own = {name: data.schema.attributes[place] for name, place in zip(names, places, strict=True)}
        self._names, self._places = list(names), places
        self._categories = {name: _Categories(data.schema, own[name], values) for name, values in (known or {}).items()}
        plain = [position for position, name in enumerate(names) if name not in self._categories]
        self._plain = [places[position] for position in plain]
        self._decoder = _decoder(data.schema, [(names[position], own[names[position]]) for position in plain])

    def __call__(self, codes: Codes) -> pd.DataFrame:
        """(n, d) codes as a data frame."""
        frame = self._decoder.frame(codes[:, self._plain])
        if not self._categories:
            return frame
        columns: dict[str, Any] = {}
        for name, place in zip(self._names, self._places, strict=True):
            category = self._categories.get(name)
            columns[name] = frame[name] if category is None else category.values(codes[:, place])
        return pd.DataFrame(columns, index=range(len(codes)), copy=False)

    def unknown(self, *, all_of_them: bool) -> dict[str, list[Any]]:
        """Values of the domain that are none of the model's categories, by name; or only where all are unknown."""
        return {
            name: category.unknown
            for name, category in self._categories.items()
            if category.unknown and not (all_of_them and category.some_known)
        }


class _Categories:
    """One attribute as a categorical column."""

    def __init__(self, schema: Schema, attribute: Attribute, known: Sequence[Any] | None) -> None:
        self._low, self._high = attribute.domain
        domain = np.arange(self._low, self._high + 1, dtype=np.int32)
        raw = _decoder(schema, [("raw", attribute)]).frame(domain[:, None])["raw"].tolist()
        present = [value for value in raw if not pd.isna(value)]
        self._known = list(dict.fromkeys(present)) if known is None else list(known)
        code_of = {value: code for code, value in enumerate(self._known)}
        self.unknown = [value for value in present if value not in code_of]
        self.some_known = len(self.unknown) < len(present)
        codes = [-1 if pd.isna(value) else code_of.get(value, -1) for value in raw]
        self._table = pd.Categorical.from_codes(np.array(codes), categories=pd.Index(self._known))

    def values(self, codes: Codes) -> Any:
        """(n,) the category of each code."""
        return self._table.take(np.clip(codes, self._low, self._high) - self._low)


class RawMatrix:
    """A column for each attribute: numbers, and categories of a numeric type, as they are; others as their code."""

    def __init__(self, data: Dataset) -> None:
        attributes = data.schema.attributes
        self._low, self._high = data.schema.lower, data.schema.upper
        self._numeric = [place for place, each in enumerate(attributes) if is_numeric(each)]
        self._decoder = _decoder(data.schema, [(str(place), attributes[place]) for place in self._numeric])

    def __call__(self, codes: Codes) -> NDArray[np.float64]:
        """(n, d) codes as numbers."""
        matrix = np.clip(codes, self._low, self._high).astype(np.float64)
        frame = self._decoder.frame(codes[:, self._numeric])
        for place in self._numeric:
            matrix[:, place] = frame[str(place)].to_numpy()
        return matrix


class Matrix:
    """The matrix that `inputs` says; for a model that names its columns, a frame with these names.

    Codes and values are found by name. A list of features is taken in its own order.
    """

    def __init__(self, data: Dataset, inputs: Inputs, names: Sequence[str] | None, whose: str) -> None:
        self._features = Features(data, inputs, torch.float64)
        self._names = names
        if names is None:
            return
        if inputs in ("codes", "values"):
            self._places = attributes_named(data.schema, names, whose)
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
    columns = [attribute.column for attribute in schema.attributes]
    absent = [str(name) for name in names if name not in columns and name not in schema.names]
    if absent:
        raise EvenhandError(
            f"{whose} reads {_columns_in_words(absent)}, which the schema {schema.name} does not have. It has: "
            f"{', '.join(dict.fromkeys(columns))}. Add the missing ones to the schema, or wrap the model in a function "
            "of a data frame that makes them."
        )
    return [columns.index(name) if name in columns else schema.names.index(name) for name in names]


def check_width(data: Dataset, width: int, whose: str) -> None:
    """A model that was fitted on a matrix without names must read one column per attribute."""
    names = data.schema.names
    if width != len(names):
        raise EvenhandError(
            f"{whose} reads {width} columns without names, but the schema {data.name} has {len(names)} attributes: "
            f"{', '.join(names)}. Fit it on a data frame, so that it knows its columns' names, or say how it reads "
            "people: inputs = codes, values, onehot or standard."
        )


def is_numeric(attribute: Attribute) -> bool:
    """Whether the raw values are numbers."""
    return attribute.kind == "number" or attribute.type in NUMERIC


def _decoder(schema: Schema, named: Sequence[tuple[str, Attribute]]) -> Decoder:
    """A decoder of these attributes only, whose columns have these names."""
    attributes = [attribute.model_copy(update={"column": name}) for name, attribute in named]
    return Decoder(schema.model_copy(update={"attributes": attributes}))


def _columns_in_words(names: Sequence[str]) -> str:
    return f"the column{'s' if len(names) > 1 else ''} {', '.join(map(repr, names))}"
