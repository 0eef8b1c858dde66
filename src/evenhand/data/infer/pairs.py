"""Columns that say the same as another in other words: age and age_cat, a code and its name, a name and its flags."""

from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from evenhand.data.attribute import Attribute
from evenhand.data.decoding import values_of
from evenhand.data.infer.columns import AttributeDraft
from evenhand.data.infer.facts import MOST_CATEGORIES
from evenhand.data.infer.groups import TOLERATED, as_they_are_note, rows_have
from evenhand.data.infer.schema_file import TomlSuggestion
from evenhand.data.infer.words import words_of
from evenhand.data.notation import USUAL, Notation
from evenhand.data.raw import cells_of
from evenhand.data.tables import text_column

FEWEST_BREAKS = 10  # rows that would not fit if the other column were shuffled; fewer may be chance
FIRST_LOOK = 2_000  # rows that are compared before all are
MOST_VALUES = 1_000  # codes of an attribute for which the other column's value is written down
FEWEST_POINTS = 5  # on a line, for it to be one
NO_SUBJECT = frozenset(["is", "has", "was", "the", "of", "in", "at", "no", "not", "num", "code", "id", "type", "cat"])


@dataclass(frozen=True)
class Companion:
    """A column, or a group of them, that another one decides; values are for each code of that one's domain."""

    name: str
    values: dict[str, list[Any]]  # by column
    note: str


@dataclass(frozen=True)
class ColumnReading:
    """What a column, or a group of columns of 0 and 1, says in each row."""

    name: str
    attribute: Attribute
    numbers: NDArray[np.int64]  # (rows,) which of `values` each row has, by the attribute's own type
    values: list[Any]
    read: dict[str, pd.Series]  # by column: (rows,) as pandas reads it
    read_numbers: NDArray[np.int64]  # (rows,) rows that pandas reads alike have the same
    read_distinct: int  # without the missing one

    @property
    def distinct(self) -> int:
        """How many values there are, without the missing one."""
        return sum(value is not None for value in self.values)

    @property
    def is_text(self) -> bool:
        """Whether the values are words."""
        plain = self.attribute.kind != "number" and not self.attribute.columns
        return plain and self.attribute.type in (None, "text", "category")

    @property
    def grid(self) -> list[Any]:
        """The value of each code of the domain, as `values` has them."""
        if self.attribute.columns:
            return list(range(self.attribute.size))
        return _keys(pd.Series(values_of(self.attribute)))


def find_pairs(
    frame: pd.DataFrame, found: dict[str, AttributeDraft], notation: Notation | None
) -> dict[str, list[Companion]]:
    """By column or group: those that it decides, which become part of its attribute.

    The one that decides has more values, or is text where both have as many, or comes first. A table without a
    notation is not of a CSV file.
    """
    each = [reading_of(key, frame, decision, notation) for key, decision in found.items()]
    each.sort(key=lambda one: (-one.distinct, not one.is_text, bool(one.attribute.columns)))
    companions: dict[str, list[Companion]] = {}
    taken: set[str] = set()
    for place, base in enumerate(each):
        for other in each[place + 1 :] if base.name not in taken else []:
            if other.name in taken or not _plausible(base, other):
                continue
            if is_decided(base, other, TOLERATED) and (pair := _pair(base, other)) is not None:
                companions.setdefault(base.name, []).append(pair)
                taken.add(other.name)
    return companions


def reading_of(key: str, frame: pd.DataFrame, decision: AttributeDraft, notation: Notation | None) -> ColumnReading:
    """What the columns of a decision say."""
    plain = {
        name: value
        for name, value in decision.entry.items()
        if name != "along" and not isinstance(value, TomlSuggestion)
    }
    attribute = Attribute.model_validate({"name": key} | plain)
    if attribute.columns:
        codes = attribute.encode_columns([text_column(frame[name]) for name in attribute.columns])
        values, places = np.unique(codes, return_inverse=True)
        read = {name: _read(name, frame, attribute, notation)[1] for name in attribute.columns}
        numbers = places.astype(np.int64)
        return ColumnReading(key, attribute, numbers, values.tolist(), read, numbers, len(values))
    cells, read_cells = _read(key, frame, attribute, notation)
    which, own = pd.factorize(cells, use_na_sentinel=False)
    read_numbers, _ = pd.factorize(read_cells, use_na_sentinel=False)
    return ColumnReading(
        key, attribute, which.astype(np.int64), _keys(pd.Series(own)), {key: read_cells},
        read_numbers.astype(np.int64), read_cells.nunique(),
    )  # fmt: skip


def _read(column: str, frame: pd.DataFrame, attribute: Attribute, notation: Notation | None) -> list[pd.Series]:
    """(rows,) a column as the attribute's type has it, and as pandas reads it."""
    passing = Attribute.model_validate({"name": column, "kind": "pass"})
    place, _ = pd.factorize(frame[column], use_na_sentinel=False)
    distinct = frame[[column]].iloc[pd.Series(place).drop_duplicates().index]  # each value is read once
    single = attribute if not attribute.columns else passing
    return [
        cells_of(each, distinct, notation or USUAL, from_csv=notation is not None)[column]
        .iloc[place]
        .reset_index(drop=True)
        for each in (single, passing)
    ]


def _plausible(base: ColumnReading, other: ColumnReading) -> bool:
    """Whether it is likely by names and numbers of values that one says the other in other words."""
    one_to_one = base.distinct == other.read_distinct
    about_the_same = bool(_subjects(base.name) & _subjects(other.name))
    code_and_name = one_to_one and base.is_text != other.is_text
    most = MOST_VALUES if one_to_one and about_the_same else MOST_CATEGORIES
    return (code_and_name or about_the_same) and (other.read_distinct <= most or bool(other.attribute.columns))


def is_decided(base: ColumnReading, other: ColumnReading, tolerated: float) -> bool:
    """Whether one decides the other but for a share of the rows that have a value, by more than chance."""
    rows = len(base.numbers)
    if count_breaks(base.numbers[:FIRST_LOOK], other.read_numbers[:FIRST_LOOK]) > tolerated * rows:
        return False
    wrong = count_breaks(base.numbers, other.read_numbers)
    absent = int((base.numbers == base.values.index(None)).sum()) if None in base.values else 0
    if wrong > tolerated * (rows - absent):
        return False
    by_chance = count_breaks(base.numbers, np.random.default_rng(0).permutation(other.read_numbers))
    return by_chance >= FEWEST_BREAKS and wrong <= 0.05 * by_chance


def count_breaks(base: NDArray[np.int64], other: NDArray[np.int64]) -> int:
    """How many rows have another value than most rows that have the same base."""
    return len(base) - int(_commonest(base, other)[1].sum())


def _commonest(base: NDArray[np.int64], other: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(bases,) a row that has the other value which most rows of a base have, and how many these are."""
    width = int(other.max(initial=0)) + 1
    pairs, rows, counts = np.unique(base * width + other, return_index=True, return_counts=True)
    order = np.lexsort((rows, -counts, pairs // width))  # by base, the commonest first
    _, first = np.unique(pairs[order] // width, return_index=True)
    return rows[order][first], counts[order][first]


def _subjects(name: str) -> set[str]:
    return {word for word in words_of(name) if len(word) > 1} - NO_SUBJECT


def _pair(base: ColumnReading, other: ColumnReading) -> Companion | None:
    """The companion with its value for each code; None where one cannot be known."""
    attribute = base.attribute
    if attribute.size > MOST_VALUES:
        return None
    rows, counts = _commonest(base.numbers, other.read_numbers)
    own = [base.values[number] for number in base.numbers[rows]]
    grid, seen = base.grid, set(own)
    unknown = [place for place, value in enumerate(grid) if value not in seen]
    if unknown and attribute.kind != "number":
        return None
    rising = sorted(number for number in seen if number is not None)
    near = [value if value in seen else rising[max(bisect_right(rising, value) - 1, 0)] for value in grid]
    values, guessed = {}, 0
    for column, cells in other.read.items():
        known = dict(zip(own, map(_plain, cells.iloc[rows]), strict=True))
        values[column] = [known[value] for value in near]
        line = _line(known) if unknown else None
        for place in unknown if line is not None else []:
            values[column][place] = _on(line, grid[place], like=values[column][place])
        guessed = max(guessed, len(unknown) if line is None else 0)
    return Companion(other.name, values, _note(other, len(base.numbers) - int(counts.sum()), guessed))


def _note(other: ColumnReading, wrong: int, guessed: int) -> str:
    verb, it = ("go", "they follow") if len(other.read) > 1 else ("goes", "it follows")
    columns = " and ".join(f"'{column}'" for column in other.read)
    if len(other.read) > 3:
        columns = f"The {len(other.read)} columns of '{other.name}'"
    note = f"{columns} {verb} along: {it} from this column in {'nearly every row' if wrong else 'every row'}."
    if wrong:
        note += f" {rows_have(wrong)} something else there. {as_they_are_note(wrong)}"
    if guessed:
        which = "1 value" if guessed == 1 else f"{guessed:,} values"
        note += f" For {which} that no row has it is that of the next lower one: please check."
    return note


def _line(known: dict[Any, Any]) -> tuple[float, float] | None:
    """(factor, added) where the other values are a multiple of the base plus a number, above all its copy."""
    points = {x: y for x, y in known.items() if _is_number(x) and _is_number(y)}
    if len(points) < len({x for x in known if x is not None}) or len(set(points.values())) < len(points):
        return None
    if points and all(x == y for x, y in points.items()):
        return 1.0, 0.0
    if len(points) < FEWEST_POINTS:
        return None
    low, high = min(points), max(points)
    factor = (points[high] - points[low]) / (high - low)
    added = points[low] - factor * low
    exact = all(abs(factor * x + added - y) <= 1e-9 * max(1.0, abs(y)) for x, y in points.items())
    return (factor, added) if exact else None


def _on(line: tuple[float, float] | None, base: float, like: Any) -> Any:
    """The value on a line for a number that no row has, whole where the others are."""
    factor, added = line or (1.0, 0.0)
    return round(factor * float(base) + added) if isinstance(like, int) else factor * float(base) + added


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool) and np.isfinite(value)


def _keys(values: pd.Series) -> list[Any]:
    """Values that can be looked up: text without blanks around it, and None for a missing one."""
    return [None if pd.isna(value) else value.strip() if isinstance(value, str) else value for value in values]


def _plain(value: Any) -> Any:
    """A cell as a schema file writes it."""
    if pd.isna(value):
        return float("nan")
    return value.item() if isinstance(value, np.generic) else value
