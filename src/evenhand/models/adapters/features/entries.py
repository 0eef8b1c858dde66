"""How a network reads each attribute: as its code, a value, one column per code, scaled, or by a table."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from evenhand.data.attribute import Attribute, Finite
from evenhand.data.dataset import Dataset
from evenhand.data.decoding import numbers_of
from evenhand.errors import EvenhandError, unknown_name

Reading = Literal["code", "value", "raw", "onehot", "standard", "minmax", "table"]
WAYS = ("codes", "values", "raw", "onehot", "standard")
LARGEST_ONEHOT = 100_000  # columns of one attribute
SETTINGS = {"standard": ("mean", "scale"), "minmax": ("low", "high"), "onehot": ("drop_first",), "table": ("table",)}


class FeatureEntry(BaseModel):
    """How one attribute becomes one or more columns of a network's input.

    The value of an attribute that stands in several columns is those columns.

    `standard` is (value − mean) / scale and `minmax` (value − low) / (high − low); what is left out is taken from the
    training rows. `table` gives a number, or a list of them, for each code of the domain.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    attribute: str
    as_: Annotated[Reading, Field(alias="as")]
    mean: Finite | None = None
    scale: Annotated[Finite, Field(gt=0)] | None = None
    low: Finite | None = None
    high: Finite | None = None
    missing: Finite | None = None  # the value that the network reads where there is none, before it is scaled
    drop_first: bool = False
    table: list[Finite | list[Finite]] = []

    @model_validator(mode="after")
    def _consistent(self) -> "FeatureEntry":
        for reading, settings in SETTINGS.items():
            idle = [name for name in settings if name in self.model_fields_set]
            if idle and self.as_ != reading:
                raise ValueError(f"{idle[0]} is for as = '{reading}', but '{self.attribute}' has as = '{self.as_}'")
        if self.as_ == "table" and not self.table:
            raise ValueError(f"as = 'table' of '{self.attribute}' needs a table: one entry for each code of its domain")
        if len({len(entry) if isinstance(entry, list) else 0 for entry in self.table}) > 1 or [] in self.table:
            raise ValueError(f"the entries of the table of '{self.attribute}' must all have the same length")
        if self.low is not None and self.high is not None and self.low >= self.high:
            raise ValueError(f"low must be below high for '{self.attribute}'")
        return self


Inputs = str | list[FeatureEntry] | None


@dataclass(frozen=True)
class Affine:
    """A column that is slope × code + offset; codes beyond the domain count as its ends."""

    attribute: int
    slope: float
    offset: float
    low: float = -np.inf
    high: float = np.inf
    width: int = 1

    def scaled(self, shift: float, scale: float) -> "Affine":
        """The same minus shift, over scale."""
        return Affine(self.attribute, self.slope / scale, (self.offset - shift) / scale, self.low, self.high)

    def values(self, codes: NDArray[Any]) -> NDArray[np.float64]:
        """(n, 1) the column for codes of its attribute."""
        column = np.clip(codes, self.low, self.high) * self.slope + self.offset
        return np.asarray(column, dtype=np.float64)[:, None]


@dataclass(frozen=True)
class CodeTable:
    """Columns that are looked up: row i of `entries` (codes, width) is for the code first + i."""

    attribute: int
    first: int
    entries: NDArray[np.float64]

    @property
    def width(self) -> int:
        """How many columns it fills."""
        return int(self.entries.shape[1])

    @property
    def low(self) -> int:
        """The smallest code that is looked up."""
        return self.first

    @property
    def high(self) -> int:
        """The largest one."""
        return self.first + len(self.entries) - 1

    def scaled(self, shift: float, scale: float) -> "CodeTable":
        """The same minus shift, over scale."""
        return CodeTable(self.attribute, self.first, (self.entries - shift) / scale)

    def values(self, codes: NDArray[Any]) -> NDArray[np.float64]:
        """(n, width) the columns for codes of its attribute."""
        return np.asarray(self.entries[np.clip(codes - self.first, 0, len(self.entries) - 1)])


@dataclass(frozen=True)
class OneHot:
    """One column for each of `codes` codes from `first` on, or for all but the first; outside the domain: its ends."""

    attribute: int
    first: int
    codes: int
    dropped: bool
    low: int
    high: int

    @property
    def width(self) -> int:
        """How many columns it fills."""
        return self.codes - self.dropped

    def rows(self, codes: NDArray[np.int32]) -> NDArray[np.float64]:
        """(n, width) the columns for codes, also outside the domain; one that has no column has 0 in all of them."""
        places = codes - self.first
        there = (places >= 0) & (places < self.codes)
        columns = np.eye(self.codes)[np.where(there, places, 0)] * there[:, None]
        return np.asarray(columns[:, int(self.dropped) :])


FeatureColumns = Affine | CodeTable | OneHot


def entries_of(data: Dataset, inputs: Inputs) -> list[FeatureEntry]:
    """What a way of reading means for each attribute of the schema."""
    if isinstance(inputs, list):
        return inputs
    way = inputs or "codes"
    if way not in WAYS:
        raise unknown_name("way to read people called", way, WAYS)
    number: Reading = {"codes": "code", "standard": "standard"}.get(way, "value")  # type: ignore[assignment]
    other: Reading = "onehot" if way in ("onehot", "standard") else "code"
    attributes = [attribute for attribute in data.schema.attributes if attribute.kind != "pass"]
    if way == "raw":
        return [FeatureEntry(attribute=a.name, as_=_raw_reading(a)) for a in attributes]
    return [
        FeatureEntry(
            attribute=a.name, as_=number if a.kind == "number" else "value" if a.columns and way != "codes" else other
        )
        for a in attributes
    ]


def read_beyond(data: Dataset, entry: FeatureEntry) -> NDArray[np.float64] | None:
    """(values beyond the domain, width) what a network reads there; None where it reads what the schema's code says."""
    index = data.schema.index(entry.attribute)
    attribute = data.schema.attributes[index]
    beyond = data.beyond[index]
    if beyond is None or entry.as_ == "code":
        return None
    if entry.as_ == "onehot":
        return _one_hot(attribute, index, entry.drop_first).rows(beyond.codes)
    if entry.as_ == "table":
        _check_entries(attribute, beyond.codes)
        return None
    value = _value(attribute, index, entry.missing)
    values = beyond_values(data, entry, value)
    if entry.as_ in ("value", "raw"):
        return values
    shift, scale = _scaling(data, entry, value)
    return (values - shift) / scale


def _raw_reading(attribute: Attribute) -> Reading:
    """The numbers of the table themselves, also of categories that are numbers; other categories as their code."""
    if attribute.kind == "number" or attribute.columns:
        return "value"
    return "raw" if attribute.type in ("integer", "float", "boolean") else "code"


def columns_of(data: Dataset, entries: Sequence[FeatureEntry]) -> list[FeatureColumns]:
    """The columns of a network's input, in order."""
    if not entries:
        raise EvenhandError("The network is given no feature. Name at least one attribute.")
    return [_columns(data, entry, data.schema.index(entry.attribute)) for entry in entries]


def _columns(data: Dataset, entry: FeatureEntry, index: int) -> FeatureColumns:
    attribute = data.schema.attributes[index]
    match entry.as_:
        case "code":
            return Affine(index, 1.0, 0.0)
        case "onehot":
            return _one_hot(attribute, index, entry.drop_first)
        case "table":
            return _table(attribute, index, entry)
        case "raw":
            return _raw_numbers(data, entry, index)
    value = _value(attribute, index, entry.missing)
    if entry.as_ == "value":
        return value
    shift, scale = _scaling(data, entry, value)
    return value.scaled(shift, scale)


def _raw_numbers(data: Dataset, entry: FeatureEntry, index: int) -> CodeTable:
    """The number that each category is in the table."""
    attribute = data.schema.attributes[index]
    if attribute.type not in ("integer", "float", "boolean"):
        raise EvenhandError(f"'{attribute.name}' holds no numbers: as = 'raw' is for categories that are. Use code.")
    low, high = attribute.domain
    cells = data.decoder.cells(index, np.arange(low, high + 1, dtype=np.int32))[attribute.column]
    return CodeTable(index, low, fill_missing(attribute, _as_numbers(cells), entry.missing)[:, None])


def _as_numbers(cells: Any) -> NDArray[np.float64]:
    return pd.to_numeric(pd.Series(cells)).to_numpy(dtype=np.float64, na_value=np.nan)


def _value(attribute: Attribute, index: int, missing: float | None) -> Affine | CodeTable:
    """A number's value, directly where it is a multiple of the code; a category's code; columns of 0 and 1."""
    low, high = attribute.domain
    if attribute.columns:
        return CodeTable(index, low, np.eye(attribute.size, len(attribute.columns)))
    if attribute.kind != "number":
        return Affine(index, 1.0, 0.0, low, high)
    own = attribute.missing is not None and attribute.missing.own
    if attribute.edges or own:
        codes = np.arange(low, high + 1 if own else min(high, len(attribute.edges)) + 1)
        return CodeTable(index, low, fill_missing(attribute, numbers_of(attribute, codes), missing)[:, None])
    offset = float(numbers_of(attribute, np.zeros(1))[0])
    return Affine(index, attribute.width if attribute.step is None else attribute.step, offset, low, high)


def fill_missing(attribute: Attribute, numbers: NDArray[np.float64], missing: float | None) -> NDArray[np.float64]:
    """Numbers that a network reads, with what stands for a missing one: it cannot read that there is none."""
    gaps = np.isnan(numbers)
    if not gaps.any():
        return numbers
    declared = attribute.missing
    if missing is None and declared is not None and not attribute.is_missing(declared.code):
        missing = float(numbers_of(attribute, np.array([declared.code]))[0])
    if missing is None:
        raise EvenhandError(
            f"'{attribute.name}' is missing in some rows, and a network reads numbers only. Say what it reads there: "
            "missing = … for this feature in a description (.toml), or wrap the model in a function of a data frame."
        )
    return np.where(gaps, missing, numbers)


def _one_hot(attribute: Attribute, index: int, dropped: bool) -> OneHot:
    """One column for each category, also those outside the domain: a network was trained on all of them."""
    low, high = attribute.domain
    first = 0 if attribute.categories or attribute.edges else low
    last = max(high, len(attribute.categories) - 1, len(attribute.edges) if attribute.edges else high)
    codes = last - first + 1
    if codes > LARGEST_ONEHOT:
        raise EvenhandError(
            f"'{attribute.name}' has {codes:,} values, too many for one column each. Let the network read its value."
        )
    if codes == 1 and dropped:
        raise EvenhandError(f"'{attribute.name}' has a single value, so drop_first leaves no column of it.")
    return OneHot(index, first, codes, dropped, low, high)


def _table(attribute: Attribute, index: int, entry: FeatureEntry) -> CodeTable:
    if len(entry.table) != attribute.size:
        low, high = attribute.domain
        raise EvenhandError(
            f"The table of '{attribute.name}' has {len(entry.table):,} entries, but its domain has {attribute.size:,} "
            f"codes, {low} to {high}. Give one entry for each, in this order."
        )
    entries = np.array(entry.table, dtype=np.float64).reshape(attribute.size, -1)
    return CodeTable(index, attribute.domain[0], entries)


def _check_entries(attribute: Attribute, codes: NDArray[np.int32]) -> None:
    """People outside the domain have no entry in a table."""
    low, high = attribute.domain
    outside = (codes < low) | (codes > high)
    if outside.any():
        raise EvenhandError(
            f"Some rows have a value of '{attribute.name}' outside its domain ("
            f"{attribute.text(int(codes[outside][0]))}), and the table of this feature has no entry for it. Widen the "
            "domain in the schema and give an entry."
        )


def _scaling(data: Dataset, entry: FeatureEntry, value: Affine | CodeTable) -> tuple[float, float]:
    """What is taken away and what is divided by: as given, else from the training rows; never by zero."""
    values = raw_values(data, entry, value, data.exact[data.train, value.attribute])[:, 0]
    if entry.as_ == "standard":
        mean = float(values.mean()) if entry.mean is None else entry.mean
        scale = float(values.std()) if entry.scale is None else entry.scale
        return mean, scale or 1.0
    low = float(values.min()) if entry.low is None else entry.low
    high = float(values.max()) if entry.high is None else entry.high
    return low, (high - low) or 1.0


def raw_values(
    data: Dataset, entry: FeatureEntry, value: Affine | CodeTable, codes: NDArray[Any]
) -> NDArray[np.float64]:
    """(n, width) the values behind exact codes, those beyond the domain too, before they are scaled."""
    beyond = data.beyond[value.attribute]
    values = value.values(codes)
    if beyond is None:
        return values
    outside = codes >= beyond.first
    values[outside] = beyond_values(data, entry, value)[codes[outside] - beyond.first]
    return values


def beyond_values(data: Dataset, entry: FeatureEntry, value: Affine | CodeTable) -> NDArray[np.float64]:
    """(values beyond the domain, width) what a network reads there, before it is scaled."""
    attribute, beyond = data.schema.attributes[value.attribute], data.beyond[value.attribute]
    assert beyond is not None
    if entry.as_ == "raw":
        return fill_missing(attribute, _as_numbers(beyond.cells[attribute.column]), entry.missing)[:, None]
    if attribute.columns:
        return np.stack([beyond.cells[name].to_numpy(dtype=np.float64) for name in attribute.columns], axis=1)
    if attribute.kind != "number":
        return beyond.codes.astype(np.float64)[:, None]
    return fill_missing(attribute, _as_numbers(beyond.cells[attribute.column]), entry.missing)[:, None]


def describe(entries: Sequence[FeatureEntry], columns: Sequence[FeatureColumns]) -> str:
    """Features in words, with how many columns each has: age (value), job (onehot, 5)."""
    pairs = zip(entries, columns, strict=True)
    return ", ".join(f"{e.attribute} ({e.as_}{f', {c.width} columns' if c.width > 1 else ''})" for e, c in pairs)
