"""ONNX graphs with one input for each raw column, as skl2onnx writes whole pipelines."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from evenhand.data.attribute import Attribute, as_list
from evenhand.data.schema import Schema
from evenhand.errors import EvenhandError

KINDS: dict[int, Any] = {1: np.float32, 11: np.float64, 6: np.int32, 7: np.int64, 9: np.bool_, 8: str}  # ONNX's types
Maker = Callable[[pd.DataFrame], NDArray[Any]]


def column_inputs(schema: Schema, sources: list[Any], path: Path) -> dict[str, Maker]:
    """For each input of a graph, how to make it from a data frame of raw values."""
    attributes = {column: attribute for attribute in schema.attributes for column in attribute.raw_columns}
    plain = {_plain(column): column for column in attributes}
    makers: dict[str, Maker] = {}
    for source in sources:
        column = source.name if source.name in attributes else plain.get(_plain(source.name))
        if column is None:
            raise EvenhandError(
                f"{path} reads an input '{source.name}', but the table has no such column. It has: "
                f"{', '.join(attributes)}. Export the model with one input for each column, or with one matrix."
            )
        kind = source.type.tensor_type.elem_type
        if kind not in KINDS:
            raise EvenhandError(f"{path}: its input '{source.name}' is neither text nor numbers nor yes and no.")
        flat = len(source.type.tensor_type.shape.dim) == 1
        makers[source.name] = partial(_column, attributes[column], column, KINDS[kind], flat)
    return makers


def columns_read(schema: Schema, sources: list[Any]) -> list[str]:
    """The attributes that the inputs of a graph are."""
    named = {_plain(source.name) for source in sources}
    return [attribute.name for attribute in schema.attributes if named & set(map(_plain, attribute.raw_columns))]


def _plain(name: str) -> str:
    """Exporters write marital-status as marital_status."""
    return re.sub(r"\W", "_", name).lower()


def _column(attribute: Attribute, column: str, kind: Any, flat: bool, frame: pd.DataFrame) -> NDArray[Any]:
    values = frame[column]
    if kind is str:
        absent = "" if attribute.missing is None else as_list(attribute.missing.value)[0]
        array: NDArray[Any] = values.astype("str").fillna(absent).to_numpy(dtype=object)
    else:
        array = _numbers(column, values, kind)
    return array if flat else array[:, None]


def _numbers(column: str, values: pd.Series, kind: Any) -> NDArray[Any]:
    try:
        numbers = pd.to_numeric(values).to_numpy()
        if np.issubdtype(kind, np.floating):
            return numbers.astype(kind)
        if numbers.dtype.kind == "f" and np.isnan(numbers).any():
            raise EvenhandError(
                f"The model reads '{column}' as whole numbers, which cannot say that a value is missing. "
                "Export it with numbers or text for this column, or leave the missing value out of the domain."
            )
        return numbers.astype(kind)
    except (ValueError, TypeError) as error:
        raise EvenhandError(
            f"The model reads '{column}' as a number, but it holds '{values.iloc[0]}'. Give the attribute "
            "its type in the schema."
        ) from error
