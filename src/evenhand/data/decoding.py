"""From codes back to the raw values that a model of the user's own reads: one value stands for each code."""

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from evenhand.data.attribute import ANY_OTHER, Attribute, as_list
from evenhand.data.notation import multiples, number_text
from evenhand.data.raw import Beyond, append_values, text_marks
from evenhand.data.schema import Schema
from evenhand.errors import EvenhandError

LARGEST_TABLE = 1_000_000  # values of a domain that are kept ready; beyond, they are computed each time
TRUE, FALSE = ("true", "1", "yes"), ("false", "0", "no")


class Decoder:
    """Turns (n, d) codes into a data frame with the columns and types of the table.

    With what lies `beyond` each domain, codes beyond it stand for the raw values of the table itself. With the table's
    `frame` columns come in its order, and its categorical ones are of the same type.
    """

    def __init__(
        self, schema: Schema, beyond: Sequence[Beyond | None] | None = None, frame: pd.DataFrame | None = None
    ) -> None:
        self.schema = schema
        behind = beyond or [None] * len(schema.attributes)
        types = [] if frame is None else zip(map(str, frame.columns), frame.dtypes, strict=True)
        kinds = {name: kind for name, kind in types if isinstance(kind, pd.CategoricalDtype) or _is_short(kind)}
        self._columns = [_Column(*pair, kinds) for pair in zip(schema.attributes, behind, strict=True)]
        self._order = [] if frame is None else list(map(str, frame.columns))

    def frame(self, codes: NDArray[np.int32]) -> pd.DataFrame:
        """(n, d) codes as raw values; a column that several attributes read has the first's.

        Codes outside the domain that stand for no value of the table are moved into it.
        """
        columns: dict[str, Any] = {}
        for column, values in zip(self._columns, codes.T, strict=True):
            for name, cells in column.cells(values).items():
                columns.setdefault(name, cells)
        ordered = {name: columns[name] for name in self._order if name in columns}
        return pd.DataFrame(ordered | columns, copy=False)

    def cells(self, index: int, codes: NDArray[np.int32]) -> dict[str, Any]:
        """(n,) codes of one attribute as raw values, by column."""
        return self._columns[index].cells(codes)


def values_of(attribute: Attribute) -> Any:
    """(codes of the domain,) the raw value that stands for each code of an attribute in one column."""
    return _Column(attribute, None, {}).cells(np.arange(attribute.domain[0], attribute.domain[1] + 1))[attribute.column]


def numbers_of(attribute: Attribute, codes: NDArray[Any]) -> NDArray[np.float64]:
    """The number that stands for each code of a number: the multiple of its step, or a bin's typical value.

    That of a bin by width is its middle, of whole numbers the lower middle; of a bin by edges the one that the schema
    gives, else the middle, and for the open bins at the ends the edge. A code above all bins is a missing value.
    """
    if attribute.missing is not None and attribute.missing.own:
        without = attribute.model_copy(update={"missing": None})
        present = np.minimum(codes, attribute.missing.code - 1)
        return np.where(codes == attribute.missing.code, np.nan, numbers_of(without, present))
    if attribute.step is not None:
        return multiples(codes, attribute.step)
    if attribute.edges:
        typical = attribute.typical or _middles(attribute)
        return np.asarray(np.append(typical, np.nan)[codes], dtype=np.float64)
    if float(attribute.width).is_integer():
        return multiples(codes, attribute.width) + (attribute.width - 1) // 2
    return multiples(2 * codes + 1, attribute.width / 2)


def check_within(attribute: Attribute) -> None:
    """A distance must reach from each value of the domain to the next, or some people are compared with nobody."""
    if attribute.within is None:
        return
    low, high = attribute.span
    values = np.unique(numbers_of(attribute, np.arange(low, high + 1)))
    gaps = np.diff(values)
    if len(gaps) and attribute.within < gaps.max() * (1 - 1e-9):
        widest = int(gaps.argmax())
        raise EvenhandError(
            f"'{attribute.name}' is compared within {number_text(attribute.within)}, but its values are up to "
            f"{number_text(float(gaps.max()))} apart ({number_text(float(values[widest]))} and "
            f"{number_text(float(values[widest + 1]))}), so some people would be compared with nobody. Give a within "
            "of at least that, or the attribute a smaller step or narrower bins in the schema."
        )


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


def _is_short(kind: Any) -> bool:
    """Whether a type of numpy has numbers of fewer than 64 bits."""
    return isinstance(kind, np.dtype) and kind.kind in "iuf" and kind.itemsize < 8


def _shortened(values: Any, kind: np.dtype[Any]) -> Any:
    """Numbers in a shorter type, where it can hold them."""
    numbers = np.asarray(values)
    if numbers.dtype.kind not in "iuf":
        return values
    if kind.kind == "f":
        return numbers.astype(kind)
    limits = np.iinfo(kind)
    fits = numbers.dtype.kind in "iu" and numbers.min(initial=0) >= limits.min and numbers.max(initial=0) <= limits.max
    return numbers.astype(kind) if fits else values


def _taken(tables: dict[str, Any], places: NDArray[np.intp]) -> dict[str, Any]:
    return {name: table.take(places) for name, table in tables.items()}


def _names_for_others() -> Iterator[str]:
    yield "other"
    yield from (f"other {number}" for number in count(2))


class _Column:
    """The raw values of one attribute, by column of the table."""

    def __init__(self, attribute: Attribute, beyond: Beyond | None, kinds: dict[str, Any]) -> None:
        self._attribute, self._beyond, self._kinds = attribute, beyond, kinds
        self._low, self._high = attribute.domain
        whole = attribute.size <= LARGEST_TABLE
        self._grid = self._of_domain(np.arange(self._low, self._high + 1)) if whole else None
        self._all = None
        if beyond is not None and self._grid is not None:
            self._all = {
                name: self._as_in_table(name, append_values(values, beyond.cells[name]))
                for name, values in self._grid.items()
            }

    def cells(self, codes: NDArray[Any]) -> dict[str, Any]:
        """(n,) the raw value of each code, by column."""
        inside = np.clip(codes, self._low, self._high).astype(np.intp)
        outside = None if self._beyond is None else np.asarray(codes) >= self._beyond.first
        if outside is None or not outside.any():
            return self._of_domain(inside) if self._grid is None else _taken(self._grid, inside - self._low)
        assert self._beyond is not None
        numbers = np.asarray(codes).astype(np.intp) - self._beyond.first
        if self._all is not None:
            places = np.where(outside, numbers + self._attribute.size, inside - self._low)
            return _taken(self._all, places)
        meant: dict[str, Any] = {}
        for name, values in self._of_domain(inside).items():
            own = self._beyond.cells[name].to_numpy()[numbers[outside]]
            meant[name] = np.array(values, dtype=np.result_type(np.asarray(values), own))
            meant[name][outside] = own
        return meant

    def _as_in_table(self, name: str, values: Any) -> Any:
        """Values with the type of the table: all categories of a categorical column in its order, short numbers."""
        kind = self._kinds.get(name)
        if kind is not None and not isinstance(kind, pd.CategoricalDtype):
            return _shortened(values, kind)
        if kind is None or not pd.Series(values).dropna().isin(kind.categories).all():
            return values
        return pd.Categorical(values, dtype=kind)

    def _of_domain(self, codes: NDArray[Any]) -> dict[str, Any]:
        """(n,) what codes of the domain mean, by column."""
        return {name: self._as_in_table(name, values) for name, values in self._meant(codes).items()}

    def _meant(self, codes: NDArray[Any]) -> dict[str, Any]:
        attribute, places = self._attribute, np.asarray(codes) - self._low
        if attribute.kind == "pass" and self._beyond is not None:  # the first value beyond stands for all of them
            return {name: cells.array.take(places) for name, cells in self._beyond.cells.items()}
        if attribute.columns:
            kind = {"boolean": bool, "float": np.float64}.get(attribute.type or "", np.int64)
            own = {name: (codes == place).astype(kind) for place, name in enumerate(attribute.columns)}
        else:
            own = {attribute.column: self._raw(codes)}
        return own | {name: pd.Series(values).array.take(places) for name, values in attribute.along.items()}

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
        none = next(iter(text_marks(attribute)), None) if attribute.type in (None, "text", "category") else None
        raw = [none if attribute.is_missing(int(code)) else self._category(int(code)) for code in codes]
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
        return next(name for name in _names_for_others() if name not in self._attribute.listed)

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
