"""Which notation a CSV file writes numbers in, and numbers in text that no notation reads."""

import re

import pandas as pd

from evenhand.data.facts import OTHER_MARKERS, PANDAS_MISSING
from evenhand.data.notation import USUAL, Notation
from evenhand.data.tables import text_column

POINT = re.compile(r"[+-]?\d+(?:\.\d+)?")
COMMA = re.compile(r"[+-]?(?:\d+|\d{1,3}(?:\.\d{3})+)(?:,\d+)?")  # 40676,54 and 40.676,54
GROUPED = re.compile(r"[+-]?(?:\d+|[1-9]\d{0,2}(?:,\d{3})+)(?:\.\d+)?")  # 40,676.54
MONEY = re.compile(
    r"[+-]?\s*(?:(?:[$€£¥₹]|EUR|USD|GBP|CHF)\s*[+-]?[\d.,' ]*\d|\d[\d.,' ]*\s*(?:[$€£¥₹]|EUR|USD|GBP|CHF))"
)
PERCENT = re.compile(r"[+-]?\d+(?:[.,]\d+)?\s*%")
FEWEST_NUMBERS = 10  # different ones, for text in a notation of its own to be no category


def find_notation(frame: pd.DataFrame, separator: str) -> Notation:
    """The notation of a CSV file, as far as all its columns can be read with it; else the usual one."""
    columns = [values for name in frame.columns if (values := _numbers_like(frame[name]))]
    with_commas = [values for values in columns if any("," in value for value in values)]
    comma = [values for values in with_commas if _all(COMMA, values)]
    grouped = [values for values in with_commas if _all(GROUPED, values)]
    only_comma = any(values not in grouped for values in comma)
    only_grouped = any(values not in comma for values in grouped)
    if not (comma or grouped) or (only_comma and only_grouped):
        return USUAL
    if only_grouped or (separator != ";" and not only_comma):
        return Notation(thousands=",")
    if any(_all(POINT, values) and not _all(COMMA, values) for values in columns):
        return USUAL  # the other columns have decimal points
    dots = any("." in value for values in columns for value in values if _all(COMMA, values))
    return Notation(",", "." if dots else "")


def _numbers_like(column: pd.Series) -> list[str]:
    """The different values of a column, but for what stands for a missing one, if all of them have digits."""
    values = [value for value in text_column(column).dropna().str.strip().unique() if value]
    values = [value for value in values if value not in PANDAS_MISSING and value.lower() not in OTHER_MARKERS]
    return values if _all(COMMA, values) or _all(GROUPED, values) else []


def _all(pattern: re.Pattern[str], values: list[str]) -> bool:
    return all(pattern.fullmatch(value) for value in values)


def odd_numbers(values: list[str]) -> str | None:
    """Why text that is numbers to people cannot be read as numbers, and how to mend it."""
    values = [value for value in values if value.lower() not in OTHER_MARKERS]
    if not values:
        return None
    if _all(MONEY, values):
        return f"its numbers have a currency sign, such as '{values[0]}'; take the sign out of the table to use them"
    if _all(PERCENT, values):
        return f"its numbers have a percent sign, such as '{values[0]}'; take the sign out of the table to use them"
    commas = [value for value in values if "," in value]
    if commas and len(values) > FEWEST_NUMBERS and all(map(_is_number, values)):
        return f"its numbers are written in several ways, such as '{commas[0]}'; write all of the table in one way"
    return None


def _is_number(value: str) -> bool:
    return any(pattern.fullmatch(value) for pattern in (POINT, COMMA, GROUPED))
