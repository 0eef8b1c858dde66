"""What can be seen in one column of a table before anything is decided about it."""

import re
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from evenhand.data.notation import BOOLEANS, PANDAS_MISSING, USUAL, Notation
from evenhand.data.tables import text_column

Type = Literal["text", "category", "integer", "float", "boolean", "date"]
# What else people write for it, which counts only where all other values are numbers.
OTHER_MARKERS = frozenset(
    ["?", "-", "--", ".", "..", "*", "na", "n.a.", "n/a", "nan", "null", "none", "nil", "missing", "unknown", "inf",
     "-inf", "infinity", "-infinity", "#div/0!", "#value!"]
)  # fmt: skip
LARGEST_INTEGER = 2**63 - 1
MOST_CATEGORIES = 40
DATE = re.compile(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?:[T ]\d{1,2}:\d{2}.*)?"  # 2024-01-31, also with a time
    r"|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}(?: \d{1,2}:\d{2}.*)?"  # 31.1.2024 or 1/31/24
)


@dataclass(frozen=True)
class Facts:
    """The distinct values of a column, how often each occurs, and what is missing."""

    name: str
    rows: int
    values: list[str]  # stripped; in rising order where they are numbers, else by the alphabet
    counts: NDArray[np.int64]  # (values,)
    written: dict[str, list[str]]  # by value: how the table writes it, the commonest way first
    numbers: NDArray[np.float64] | None  # (values,) where all values are numbers
    type: Type
    missing: int  # rows without a value
    markers: list[str]  # how the table writes that, other than by nothing
    order: list[str] | None = None  # the categories of a pandas categorical
    ordered: bool = False
    decimal: str = "."

    @property
    def present(self) -> int:
        """Rows with a value."""
        return self.rows - self.missing

    @property
    def whole(self) -> bool:
        """Whether all values are whole numbers."""
        return self.numbers is not None and bool((self.numbers == np.floor(self.numbers)).all())


def facts_of(column: pd.Series, *, from_csv: bool, markers: bool = True, notation: Notation = USUAL) -> Facts:
    """The facts of a column; one of a CSV file is text that pandas would find types in."""
    text = text_column(column)
    written = text.value_counts(sort=False)
    found = _Values(str(column.name), len(text), written, notation, from_csv=from_csv, markers=markers)
    arrow = _arrow_type(column)
    if isinstance(column.dtype, pd.CategoricalDtype) and _is_text(arrow):
        return found.text("category", [str(value) for value in column.cat.categories], ordered=bool(column.cat.ordered))
    if pa.types.is_temporal(arrow) or found.all_dates():
        return found.text("date")
    if pa.types.is_boolean(arrow) or (from_csv and found.all_booleans()):
        return found.text("boolean")
    numbers = found.numbers(markers=markers)
    if numbers is None or (_is_text(arrow) and not from_csv):  # text in memory stays text, also 01067
        return found.text("text")
    if pa.types.is_floating(arrow) or pa.types.is_decimal(arrow):
        return found.numeric(*numbers, kind="float")
    return found.numeric(*numbers, kind=None)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _arrow_type(column: pd.Series) -> pa.DataType:
    try:
        found = pa.array(column, from_pandas=True).type
    except (pa.ArrowException, OverflowError):
        return pa.string()
    return found.value_type if pa.types.is_dictionary(found) else found


class _Values:
    """The distinct values of a column, told apart from what stands for a missing one."""

    def __init__(
        self, name: str, rows: int, written: pd.Series, notation: Notation, *, from_csv: bool, markers: bool
    ) -> None:
        self.name, self.rows, self.notation = name, rows, notation
        self.counts: dict[str, int] = {}
        self.written: dict[str, list[str]] = {}
        self.markers: list[str] = []
        for raw, count in sorted(written.items(), key=lambda entry: -entry[1]):
            value = str(raw).strip()
            if from_csv and markers and value in PANDAS_MISSING:
                self.markers.append(value)
            elif value or not from_csv:
                self.counts[value] = self.counts.get(value, 0) + int(count)
                self.written.setdefault(value, []).append(str(raw))

    def all_booleans(self) -> bool:
        return bool(self.counts) and {value.lower() for value in self.counts} <= BOOLEANS

    def all_dates(self) -> bool:
        return bool(self.counts) and all(DATE.fullmatch(value) for value in self.counts)

    def numbers(self, *, markers: bool) -> tuple[list[str], pd.Series] | None:
        """The values that are numbers, and those numbers, if the others merely stand for a missing value."""
        values = list(self.counts)
        parsed = pd.to_numeric(self.notation.plain(pd.Series(values, dtype="object")), errors="coerce")
        wrong = ~np.isfinite(parsed.to_numpy(dtype=np.float64))
        others = {value for value, is_wrong in zip(values, wrong, strict=True) if is_wrong}
        if wrong.all() or (others and not (markers and {value.lower() for value in others} <= OTHER_MARKERS)):
            return None
        return [value for value in values if value not in others], parsed[~wrong]

    def numeric(self, values: list[str], numbers: pd.Series, kind: Type | None) -> Facts:
        """The facts of a column of numbers; `kind` is None where pandas decides between integers and floats."""
        known = set(values)
        others = [value for value in self.counts if value not in known]
        floats = numbers.to_numpy(dtype=np.float64)
        rising = np.argsort(floats, kind="stable")
        counts = np.array([self.counts[values[i]] for i in rising], dtype=np.int64)
        missing = self.rows - int(counts.sum())
        if kind is None:
            whole = pd.to_numeric(self.notation.plain(pd.Series(values))).dtype.kind in "iu"
            kind = "integer" if whole and not missing and np.abs(floats).max() < LARGEST_INTEGER else "float"
        ordered = [values[i] for i in rising]
        return Facts(
            self.name, self.rows, ordered, counts, self.written, floats[rising], kind, missing, self.markers + others,
            decimal=self.notation.decimal,
        )  # fmt: skip

    def text(self, kind: Type, order: list[str] | None = None, *, ordered: bool = False) -> Facts:
        """The facts of a column of anything else."""
        values = sorted(self.counts)
        counts = np.array([self.counts[value] for value in values], dtype=np.int64)
        missing = self.rows - int(counts.sum())
        return Facts(
            self.name, self.rows, values, counts, self.written, None, kind, missing, self.markers, order, ordered
        )
