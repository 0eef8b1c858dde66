"""From codes back to the raw values that a model of the user's own reads: one value stands for each code."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from evenhand.data.attribute import ANY_OTHER, Attribute, as_list, multiples
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
    gives, else the middle, and for the open bins at the ends the edge. A code above all bins is a missing value.
    """
    if attribute.step is not None:
        return multiples(codes, attribute.step)
    if attribute.edges:
        typical = attribute.typical or _middles(attribute)
        return np.asarray(np.append(typical, np.nan)[codes], dtype=np.float64)
    if float(attribute.width).is_integer():
        return multiples(codes, attribute.width) + (attribute.width - 1) // 2
    return multiples(2 * codes + 1, attribute.width / 2)


def _middles(attribute: Attribute) -> NDArray[np.float64]:
    """(bins,) a value within each bin between edges; an edge belongs to the bin above it."""
    edges = np.array(attribute.edges)
    middles = (edges[:-1] + edges[1:]) / 2
    middles = np.where(middles < edges[1:], middles, edges[:-1])  # between neighbours among floats it is rounded up
    if attribute.type == "integer":
        middles = np.maximum(np.floor(middles), np.ceil(edges[:-1]))
        return np.concatenate([[np.ceil(edges[0]) - 1], middles, [np.ceil(edges[-1])]])
    below = np.nextafter(edges[0], -np.inf)
    if edges[0] == np.floor(edges[0]):
        below = min(edges[0] - 1, below)
    return np.concatenate([[below], middles, edges[-1:]])


def _names_for_others() -> Iterator[str]:
    yield "other"
    yield from (f"other {number}" for number in count(2))


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
        if np.isnan(numbers).any():  # a missing value, which only floats can hold
            return numbers
        whole = kind == "integer" or (kind is None and bool((numbers == np.floor(numbers)).all()))
        return numbers.round().astype(np.int64) if whole else numbers

    def _categories(self, codes: NDArray[Any]) -> Any:
        attribute = self._attribute
        raw = [None if attribute.is_missing(int(code)) else self._category(int(code)) for code in codes]
        if attribute.type == "boolean":
            return np.array(
                [np.nan if value is None else self._boolean(value) for value in raw],  # as pandas reads a CSV
                dtype=object if None in raw else bool,
            )
        if attribute.type == "integer" and None not in raw:
            return np.array([self._whole(value) for value in raw if value is not None], dtype=np.int64)
        if attribute.type in ("integer", "float"):
            return np.array([np.nan if value is None else self._number(value) for value in raw])
        if attribute.type == "category":
            known = [value for value in dict.fromkeys(raw) if value is not None]
            return pd.Categorical(raw, categories=known, ordered=attribute.kind == "ordered")
        return pd.array(raw, dtype="str")

    def _category(self, code: int) -> str:
        """The first raw value of a category; one that is in no category where it stands for all others."""
        named = [value for value in as_list(self._attribute.categories[code]) if value != ANY_OTHER]
        if named:
            return named[0]
        if self._attribute.type not in (None, "text", "category"):
            raise EvenhandError(
                f"The attribute '{self._attribute.name}' has the type {self._attribute.type}, so its category '*' "
                "needs a value that stands for all others: write ['VALUE', '*'] in the schema."
            )
        known = {value for group in self._attribute.categories for value in as_list(group)}
        return next(name for name in _names_for_others() if name not in known)

    def _boolean(self, value: str) -> bool:
        if value.strip().lower() not in TRUE + FALSE:
            raise self._wrong(value)
        return value.strip().lower() in TRUE

    def _whole(self, value: str) -> int:
        try:
            return int(value)  # not through a float, which rounds long ones
        except ValueError:
            if not self._number(value).is_integer():
                raise self._wrong(value) from None
            return int(self._number(value))

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
