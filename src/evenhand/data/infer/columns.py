"""What a column is: a category, an order, a number, or nothing that a search can move in."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from evenhand.data.attribute import ANY_OTHER
from evenhand.data.infer.facts import LARGEST_INTEGER, MOST_CATEGORIES, Facts
from evenhand.data.infer.numbers import Wish, compact, number_entry, numbers_in, odd_numbers
from evenhand.data.infer.schema_file import suggested_words
from evenhand.data.infer.words import CATEGORY_NAMES, CODE_NAMES, ID_NAMES, PROTECTED_NAMES, in_known_order, words_of
from evenhand.data.notation import PANDAS_MISSING

MOST_PROTECTED = 1000  # categories of a protected column, all of which are compared
LEAST_COVER = 0.5  # of the rows, by the categories that are kept apart
FEWEST_ROWS = 20  # below, nothing is called an identifier
IDENTIFIER_SHARE = 0.95  # distinct values per row
MORE_THAN_AGES = 150  # rows from which on whole numbers without a gap, each once, only count
FEWEST_DAYS = 3  # different ones, all of them dates
EARLIEST, LATEST = 19000101, 21001231
FEW_CODES = 20
LONG_NUMBER = 10**8  # from here on, nearly all different and equally long: telephone numbers and the like
UNKNOWN_CODES = (9, 99, 999, -9, -99, -999, 77, 88)  # what surveys write for no answer
MOST_WORDS = 12  # for which a line is suggested
SHORT_CODE = 100  # longer ones, such as postcodes, say something by themselves
INFINITE = ("inf", "infinity")


@dataclass(frozen=True)
class AttributeDraft:
    """A column that becomes an attribute: the fields that a schema gives it, and why."""

    entry: dict[str, Any]
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Exclusion:
    """A column that a search cannot move in, and why; a model may still read it if it `passes`."""

    reason: str
    passes: bool = True


def decide(facts: Facts, wish: Wish) -> AttributeDraft | Exclusion:
    """What to make of a column."""
    if reason := _no_information(facts):
        return Exclusion(reason)
    if facts.numbers is not None:
        return _decide_numbers(facts, wish)
    if facts.type == "text" and (reason := odd_numbers(facts.values) or _no_category(facts)):
        return Exclusion(reason)
    return _categories(facts, [], wish)


def _no_information(facts: Facts) -> str | None:
    if not facts.values:
        return "it has no value at all"
    if len(facts.values) == 1 and not facts.missing:
        return f"it has the same value in every row, {short_quote(facts.values[0])}"
    if facts.type == "date":
        return "it holds dates; make a number of it (an age, a year) to use it"
    return None


def _decide_numbers(facts: Facts, wish: Wish) -> AttributeDraft | Exclusion:
    numbers = numbers_in(facts)
    if facts.whole and np.abs(numbers).max() >= LARGEST_INTEGER:
        return Exclusion("its numbers are too large to count with; they look like identifiers")
    if wish.step is None and wish.width is None:
        if reason := _dates(facts) or _identifier(facts):
            return Exclusion(reason)
        if reason := _code_reason(facts):
            return _categories(facts, [reason], wish)
    entry, notes = number_entry(facts, wish)
    if facts.missing:
        entry["missing"] = {"value": missing_values(facts)}
        notes.append(f"{_missing_text(facts)} That is a value of its own: a model is given a missing number.")
    return AttributeDraft(entry, notes)


def _identifier(facts: Facts) -> str | None:
    """Numbers that only tell rows apart."""
    if not facts.whole or facts.rows < FEWEST_ROWS or len(facts.values) < IDENTIFIER_SHARE * facts.present:
        return None
    numbers = numbers_in(facts)
    long = numbers[0] >= LONG_NUMBER and len(compact(numbers[0])) == len(compact(numbers[-1]))
    if long or words_of(facts.name) & ID_NAMES:
        return f"it is an identifier: {len(facts.values):,} different values in {facts.present:,} rows"
    without_gap = len(facts.values) == facts.rows and numbers[-1] - numbers[0] == facts.rows - 1
    no_age = facts.rows >= MORE_THAN_AGES and not words_of(facts.name) & PROTECTED_NAMES
    return "it counts the rows" if without_gap and (numbers[0] in (0, 1) or no_age) else None


def _dates(facts: Facts) -> str | None:
    """Whole numbers that are all days: 20240131."""
    numbers = numbers_in(facts)
    if not facts.whole or len(numbers) < FEWEST_DAYS or not EARLIEST <= numbers[0] <= numbers[-1] <= LATEST:
        return None
    days = pd.to_datetime(pd.Series(numbers.astype(np.int64).astype(str)), format="%Y%m%d", errors="coerce")
    written = f"written as {int(numbers[0])}"
    return None if days.isna().any() else f"it holds dates, {written}; make a number of it (an age, a year) to use it"


def _code_reason(facts: Facts) -> str | None:
    """Why whole numbers are really codes: their name, that they say yes or no, or the gaps between them."""
    numbers = numbers_in(facts)
    distinct = len(np.unique(numbers))
    if distinct == 1:
        return "One value or none."
    if not facts.whole:
        return None
    if distinct == 2 and tuple(numbers[[0, -1]]) in ((0, 1), (1, 2), (-1, 1)):
        return "Two values, so a category."
    if words_of(facts.name) & CODE_NAMES:
        return "Whole numbers, but the name says that they are codes: their order means nothing."
    if distinct <= MOST_CATEGORIES and words_of(facts.name) & CATEGORY_NAMES:
        return "Whole numbers, but the name says that they are codes of a category: each is tried, and nothing between."
    differences = np.diff(np.unique(numbers))
    spacing = np.gcd.reduce(differences.astype(np.int64)) if differences.max() < LARGEST_INTEGER else 1
    places = (numbers[-1] - numbers[0]) / spacing + 1
    wide = places > 5 * distinct or _with_unknown(np.unique(numbers))
    if distinct <= FEW_CODES and facts.present >= 10 * distinct and wide:
        return (
            f"Whole numbers that look like codes: only {distinct} different ones between {compact(numbers[0])} and "
            f"{compact(numbers[-1])}. If they are amounts, use kind = 'number' with a step."
        )
    return None


def _with_unknown(numbers: NDArray[np.float64]) -> bool:
    """Whether numbers count from 0 or 1 without a gap, but for one such as 9 that stands for no answer."""
    known = numbers[~np.isin(numbers, UNKNOWN_CODES)]
    if not 2 <= len(known) == len(numbers) - 1 or known[0] not in (0, 1) or known[-1] - known[0] != len(known) - 1:
        return False
    unknown = numbers[0] if numbers[0] < known[0] else numbers[-1]
    return bool(unknown < 0 or unknown - known[-1] > 2)


def _no_category(facts: Facts) -> str | None:
    """Why text is nothing that categories can be made of."""
    distinct = len(facts.values)
    if distinct <= MOST_CATEGORIES and (distinct < facts.present or facts.rows < FEWEST_ROWS):
        return None
    words = sum(len(value.split()) * count for value, count in zip(facts.values, facts.counts, strict=True))
    if words > 4 * facts.present and distinct > MOST_CATEGORIES // 2:
        return f"it is free text: {distinct:,} different values of {words / facts.present:.0f} words on average"
    if distinct >= IDENTIFIER_SHARE * facts.present or (words_of(facts.name) & ID_NAMES and distinct > MOST_CATEGORIES):
        return f"it is an identifier: {distinct:,} different values in {facts.present:,} rows"
    return None


def _categories(facts: Facts, notes: list[str], wish: Wish) -> AttributeDraft | Exclusion:
    groups = _spelled(facts)
    count = {value: sum(facts.counts[i] for i in rows) for value, rows in groups.items()}
    order, kind, reason = _order(facts, list(groups))
    notes = notes + ([reason] if reason else [])
    most = MOST_PROTECTED if wish.every else MOST_CATEGORIES
    listed, rest = _kept(order, count, most)
    cover = sum(count[value] for value in listed) / max(facts.present, 1)
    if len(order) > most and cover < LEAST_COVER:
        return Exclusion(
            f"it has {len(order):,} different values, and the {len(listed)} commonest cover {cover:.0%} of the rows"
        )
    categories: list[str | list[str]] = [_one_or_all(_spellings(facts, value, groups[value])) for value in listed]
    if rest:
        first = max(rest, key=lambda value: count[value])  # of equally common ones the first
        categories.append(ANY_OTHER if first == ANY_OTHER else [_spellings(facts, first, groups[first])[0], ANY_OTHER])
        notes.append(f"The {len(rest):,} rarest values are one category; {short_quote(first)} stands for it.")
    entry: dict[str, Any] = {"kind": kind, "type": _category_type(facts), "categories": categories}
    if facts.numbers is not None and len(categories) <= MOST_WORDS and np.abs(facts.numbers).min() < SHORT_CODE:
        entry["words"] = suggested_words(len(categories))
    if facts.missing:
        entry["missing"] = {"value": missing_values(facts), "code": len(categories)}
        entry["domain"] = [0, len(categories)]
        notes.append(f"{_missing_text(facts)} That is a category of its own.")
    return AttributeDraft(entry, notes)


def _spelled(facts: Facts) -> dict[str, list[int]]:
    """By value, as the type writes it: the positions among the column's distinct values. 7 is written 07 too."""
    groups: dict[str, list[int]] = {value: [] for value in map(str.strip, facts.order or []) if value}
    for position, value in enumerate(facts.values):
        if facts.type == "boolean":
            value = value.lower()
        elif facts.numbers is not None and facts.type != "text":
            value = _number_text(value, float(facts.numbers[position]))
        groups.setdefault(value, []).append(position)
    return groups


def _number_text(text: str, number: float) -> str:
    if not number.is_integer():
        return repr(number)
    try:
        return str(int(text))
    except ValueError:
        return str(int(number))


def _spellings(facts: Facts, value: str, positions: list[int]) -> list[str]:
    """The ways in which the table writes a value; first the one that a model is given."""
    common_first = sorted(positions, key=lambda position: -facts.counts[position])
    written = [raw for position in common_first for raw in facts.written[facts.values[position]]]
    if facts.type in ("text", "category"):
        return written[:1] or [value]  # blanks around it do not matter when a table is read
    different = [raw.strip() for raw in written]
    as_code = [raw for raw in different[:1] if facts.numbers is not None and raw.isdecimal()]  # 01067
    return list(dict.fromkeys([*as_code, value, *different]))


def _order(facts: Facts, values: list[str]) -> tuple[list[str], str, str]:
    """The values in the order of their codes, whether that order means something, and why."""
    if facts.order is not None:
        return values, "ordered" if facts.ordered else "category", ""
    if facts.numbers is None and (order := in_known_order(values)):
        return order, "ordered", "The order is guessed from the words."
    return values, "category", ""


def _kept(order: list[str], count: dict[str, int], most: int) -> tuple[list[str], list[str]]:
    """The values that are categories of their own, and the rest; a literal * would read as all others anyway."""
    if len(order) <= most:
        listed = {value for value in order if value != ANY_OTHER}
    else:
        common = sorted((value for value in order if value != ANY_OTHER), key=lambda value: -count[value])
        listed = set(common[: most - 1])
    return [value for value in order if value in listed], [value for value in order if value not in listed]


def _category_type(facts: Facts) -> str:
    return "text" if facts.type == "date" else facts.type


def _one_or_all(values: list[str]) -> str | list[str]:
    return values[0] if len(values) == 1 else values


def missing_values(facts: Facts) -> str | list[str]:
    """How a schema says the ways in which missing values are written."""
    return _one_or_all(sorted(facts.markers) or [""])


def _missing_text(facts: Facts) -> str:
    written = ", ".join(short_quote(marker) for marker in sorted(facts.markers)[:4])
    text = f"Missing in {facts.missing:,} of {facts.rows:,} rows{f' (written {written})' if written else ''}."
    if facts.numbers is None:
        return text
    infinite = {marker for marker in facts.markers if marker.lower().lstrip("+-") in INFINITE}
    if infinite:
        text += " pandas reads an infinite number as such, so a model may have seen it."
    if not (PANDAS_MISSING | infinite).issuperset(facts.markers):
        text += " pandas reads such a column as text unless it is told na_values."
    return text


def short_quote(value: str) -> str:
    """A value in a sentence, short."""
    clean = " ".join(value.split())
    return f"'{clean}'" if len(clean) <= 40 else f"'{clean[:37]}…'"
