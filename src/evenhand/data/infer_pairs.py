"""Columns that say the same as another in other words: age and age_cat, a code and its name."""

from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from evenhand.data.attribute import Attribute
from evenhand.data.decoding import values_of
from evenhand.data.facts import MOST_CATEGORIES
from evenhand.data.infer_columns import Found
from evenhand.data.known_names import words_of
from evenhand.data.notation import Notation
from evenhand.data.raw import cells_of
from evenhand.data.schema_text import Suggested

FEWEST_BREAKS = 10  # rows that would not fit if the other column were shuffled; fewer may be chance
FIRST_LOOK = 2_000  # rows that are compared before all are
MOST_VALUES = 1_000  # codes of an attribute for which the other column's value is written down
NO_SUBJECT = frozenset(["is", "has", "was", "the", "of", "in", "at", "no", "not", "num", "code", "id", "type", "cat"])

UNKNOWN = object()


@dataclass(frozen=True)
class Companion:
    """A column that another one decides, with its value for each code of that one's domain."""

    column: str
    values: list[Any]
    note: str


@dataclass(frozen=True)
class _Column:
    """A column whose values are numbered, by the attribute that it is and as pandas reads it."""

    attribute: Attribute
    place: NDArray[np.int64]  # (rows,) where `cells` and `read` have what the table writes in each row
    cells: pd.Series
    numbers: NDArray[np.int64]  # (rows,) which of the values each row has
    distinct: int
    read: pd.Series
    read_numbers: NDArray[np.int64]
    read_distinct: int

    @property
    def name(self) -> str:
        return self.attribute.column

    @property
    def is_text(self) -> bool:
        return self.attribute.kind != "number" and self.attribute.type in (None, "text", "category")


def find_pairs(frame: pd.DataFrame, found: dict[str, Found], notation: Notation) -> dict[str, list[Companion]]:
    """By column: those that it decides, which become part of its attribute.

    The column that decides has more values, or is text where both have as many, or comes first.
    """
    columns = [
        _numbered(column, frame, decision, notation)
        for column, decision in found.items()
        if "columns" not in decision.entry and decision.entry["kind"] != "pass"
    ]
    columns.sort(key=lambda column: (-column.distinct, not column.is_text))
    companions: dict[str, list[Companion]] = {}
    taken: set[str] = set()
    for place, base in enumerate(columns):
        for other in columns[place + 1 :] if base.name not in taken else []:
            if other.name not in taken and _goes_along(base, other) and (pair := _pair(base, other)) is not None:
                companions.setdefault(base.name, []).append(pair)
                taken.add(other.name)
    return companions


def _numbered(column: str, frame: pd.DataFrame, decision: Found, notation: Notation) -> _Column:
    plain = {key: value for key, value in decision.entry.items() if not isinstance(value, Suggested)}
    attribute = Attribute.model_validate({"name": column} | plain)
    passing = Attribute.model_validate({"name": column, "kind": "pass"})
    place, _ = pd.factorize(frame[column], use_na_sentinel=False)
    distinct = frame[[column]].iloc[pd.Series(place).drop_duplicates().index]  # each value is read once
    cells, read = (cells_of(each, distinct, notation)[column] for each in (attribute, passing))
    numbers, values = pd.factorize(cells, use_na_sentinel=False)
    read_numbers, read_values = pd.factorize(read, use_na_sentinel=False)
    return _Column(
        attribute, place, cells, numbers[place].astype(np.int64), len(values),
        read, read_numbers[place].astype(np.int64), len(read_values),
    )  # fmt: skip


def _goes_along(base: _Column, other: _Column) -> bool:
    """Whether a column decides another on all rows, by more than chance, and it is plausible that it should."""
    one_to_one = base.distinct == other.read_distinct
    about_the_same = bool(_subjects(base.name) & _subjects(other.name))
    code_and_name = one_to_one and base.is_text != other.is_text
    most = MOST_VALUES if one_to_one and about_the_same else MOST_CATEGORIES
    if not (code_and_name or about_the_same) or other.read_distinct > most:
        return False
    if _breaks(base.numbers[:FIRST_LOOK], other.read_numbers[:FIRST_LOOK]) or _breaks(base.numbers, other.read_numbers):
        return False
    return _breaks(base.numbers, np.random.default_rng(0).permutation(other.read_numbers)) >= FEWEST_BREAKS


def _breaks(base: NDArray[np.int64], other: NDArray[np.int64]) -> int:
    """How many rows have another value than most rows that have the same base."""
    width = int(other.max(initial=0)) + 1
    pairs, counts = np.unique(base * width + other, return_counts=True)
    most = np.zeros(int(base.max(initial=0)) + 1, dtype=np.int64)
    np.maximum.at(most, pairs // width, counts)
    return int(len(base) - most.sum())


def _subjects(name: str) -> set[str]:
    return {word for word in words_of(name) if len(word) > 1} - NO_SUBJECT


def _pair(base: _Column, other: _Column) -> Companion | None:
    """The companion with its value for each code; None where one cannot be known."""
    attribute = base.attribute
    if attribute.size > MOST_VALUES:
        return None
    grid = pd.Series(values_of(attribute))
    first = pd.Series(base.numbers).drop_duplicates().index
    own, theirs = base.cells.iloc[base.place[first]], other.read.iloc[other.place[first]]
    known = dict(zip(_keys(own), map(_plain, theirs), strict=True))
    values = [known.get(key, UNKNOWN) for key in _keys(grid)]
    unknown = [place for place, value in enumerate(values) if value is UNKNOWN]
    if unknown and attribute.kind != "number":
        return None
    rising = sorted(number for number in known if number is not None)
    for place in unknown:
        below = bisect_right(rising, float(grid.iloc[place]))
        values[place] = known[rising[max(below - 1, 0)]]
    note = f"'{other.name}' goes along: it follows from this column in every row."
    if unknown:
        note += f" For {len(unknown):,} values that no row has it is that of the next lower one: please check."
    return Companion(other.name, values, note)


def _keys(values: pd.Series) -> list[Any]:
    """Values that can be looked up: text without blanks around it, and None for a missing one."""
    return [None if pd.isna(value) else value.strip() if isinstance(value, str) else value for value in values]


def _plain(value: Any) -> Any:
    """A cell as a schema file writes it."""
    if pd.isna(value):
        return float("nan")
    return value.item() if isinstance(value, np.generic) else value
