"""From codes back to the raw values that a model of the user's own reads: one value stands for each code."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from evenhand.data.attribute import ANY_OTHER, Attribute, as_list
from evenhand.data.schema import Schema
from evenhand.errors import EvenhandError

LARGEST_TABLE = 1_000_000  # values of a domain that are kept ready; beyond, they are computed each time
TRUE, FALSE = ("true", "1", "yes"), ("false", "0", "no")


class Decoder:
    """Turns (n, d) codes into a data frame with the columns and types of the table."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._columns = [_Column(attribute) for attribute in schema.attributes]

    def frame(self, codes: NDArray[np.int32]) -> pd.DataFrame:
        """(n, d) codes, moved into the domain, as raw values; a column that several attributes read has the first's."""
        columns: dict[str, Any] = {}
        for attribute, column, values in zip(self.schema.attributes, self._columns, codes.T, strict=True):
            if attribute.column not in columns:
                columns[attribute.column] = column.values(values)
        return pd.DataFrame(columns, copy=False)


def numbers_of(attribute: Attribute, codes: NDArray[Any]) -> NDArray[np.float64]:
    """The number that stands for each code of a number: the multiple of its step, or a bin's typical value.

    That of a bin by width is its middle, of whole numbers the lower middle; of a bin by edges the one that the schema
    gives, else the middle, and for the open bins at the ends the edge.
    """
    if attribute.step is not None:
        return _clean(codes * attribute.step)
    if not attribute.edges:
        width = attribute.width
        half = (width - 1) // 2 if float(width).is_integer() else width / 2
        return _clean(codes * width + half)
    if attribute.typical:
        return np.asarray(np.array(attribute.typical)[codes], dtype=np.float64)
    edges = np.array(attribute.edges)
    below = edges[0] - (
        1 if edges[0] == np.floor(edges[0]) else np.spacing(edges[0])
    )  # an edge belongs to the bin above
    middles = np.concatenate([[below], (edges[:-1] + edges[1:]) / 2, edges[-1:]])
    return np.asarray(middles[codes], dtype=np.float64)


def _clean(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """3 times 0.1 is 0.3, as it stands in a table, and not 0.30000000000000004."""
    return np.asarray(np.round(numbers, 12), dtype=np.float64)


class _Column:
    """The raw values of one attribute."""

    def __init__(self, attribute: Attribute) -> None:
        self._attribute = attribute
        self._low, self._high = attribute.domain
        self._table = self._raw(np.arange(self._low, self._high + 1)) if attribute.size <= LARGEST_TABLE else None

    def values(self, codes: NDArray[Any]) -> Any:
        """(n,) the raw value of each code."""
        codes = np.clip(codes, self._low, self._high).astype(np.intp)
        return self._raw(codes) if self._table is None else self._table.take(codes - self._low)

    def _raw(self, codes: NDArray[Any]) -> Any:
        return self._numbers(codes) if self._attribute.kind == "number" else self._categories(codes)

    def _numbers(self, codes: NDArray[Any]) -> Any:
        numbers = numbers_of(self._attribute, codes)
        kind = self._attribute.type
        if kind == "boolean":
            return numbers.astype(bool)
        whole = kind == "integer" or (kind is None and bool((numbers == np.floor(numbers)).all()))
        return numbers.round().astype(np.int64) if whole else numbers

    def _categories(self, codes: NDArray[Any]) -> Any:
        attribute = self._attribute
        raw = [None if attribute.is_missing(int(code)) else self._category(int(code)) for code in codes]
        if attribute.type == "boolean":
            return np.array(
                [None if value is None else self._boolean(value) for value in raw],
                dtype=object if None in raw else bool,
            )
        if attribute.type in ("integer", "float"):
            numbers = np.array([np.nan if value is None else self._number(value) for value in raw])
            return numbers.astype(np.int64) if attribute.type == "integer" and None not in raw else numbers
        if attribute.type == "category":
            return pd.Categorical(raw, categories=[value for value in dict.fromkeys(raw) if value is not None])
        return pd.array(raw, dtype="str")

    def _category(self, code: int) -> str:
        first = as_list(self._attribute.categories[code])[0]
        return "other" if first == ANY_OTHER else first

    def _boolean(self, value: str) -> bool:
        if value.lower() not in TRUE + FALSE:
            raise self._wrong(value)
        return value.lower() in TRUE

    def _number(self, value: str) -> float:
        try:
            return float(value)
        except ValueError as error:
            raise self._wrong(value) from error

    def _wrong(self, value: str) -> EvenhandError:
        return EvenhandError(
            f"The attribute '{self._attribute.name}' has the type {self._attribute.type}, but its category '{value}' "
            "is none. Correct its type in the schema, or leave it out for text."
        )
