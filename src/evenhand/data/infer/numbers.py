"""How a CSV file writes numbers, and how numbers become codes: in steps of their own unit, or in bins."""

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from evenhand.data.attribute import LARGEST_CODE
from evenhand.data.infer.facts import OTHER_MARKERS, Facts
from evenhand.data.notation import PANDAS_MISSING, USUAL, Notation, number_text
from evenhand.data.tables import text_column
from evenhand.errors import EvenhandError

FINE_CODES = 1000  # whole numbers, or decimals as the table writes them, are kept apart up to so many codes
CODES = 500  # else a round step gives at most so many, and at least two fifths of it
MOST_CODES = 20_000  # where a few values lie so far out that there would be more, they are moved in
FAR = 2.0  # beyond the 99.9th percentile by so many times the range up to there
BINS_AT_NEED = 100
SMALLEST_STEP = 1e-100
POINT = re.compile(r"[+-]?\d+(?:\.\d+)?")
COMMA = re.compile(r"[+-]?(?:\d+|\d{1,3}(?:\.\d{3})+)(?:,\d+)?")  # 40676,54 and 40.676,54
GROUPED = re.compile(r"[+-]?(?:\d+|[1-9]\d{0,2}(?:,\d{3})+)(?:\.\d+)?")  # 40,676.54
MONEY = re.compile(
    r"[+-]?\s*(?:(?:[$€£¥₹]|EUR|USD|GBP|CHF)\s*[+-]?[\d.,' ]*\d|\d[\d.,' ]*\s*(?:[$€£¥₹]|EUR|USD|GBP|CHF))"
)
PERCENT = re.compile(r"[+-]?\d+(?:[.,]\d+)?\s*%")
FEWEST_NUMBERS = 10  # different ones, for text in a notation of its own to be no category


@dataclass(frozen=True)
class Wish:
    """How the user wants a column to be coded: a number by one of the first three, or as seems best."""

    step: float | None = None
    width: float | None = None
    bins: int | None = None
    every: bool = False  # each category by itself, since all of them are compared: it is protected


def number_entry(facts: Facts, wish: Wish) -> tuple[dict[str, Any], list[str]]:
    """The fields of an attribute of numbers, and what to say about them."""
    numbers = numbers_in(facts)
    low, high = float(numbers[0]), float(numbers[-1])
    entry: dict[str, Any] = {"kind": "number", "type": facts.type}
    notes = _outliers(facts)
    _check_wish(facts, wish)
    if wish.bins is not None and len(set(numbers)) > wish.bins:
        entry |= _quantile_bins(facts, wish.bins)
    elif wish.width is not None:
        entry |= {"width": wish.width, "domain": [code(low, width=wish.width), code(high, width=wish.width)]}
    elif wish.step is not None:
        entry |= {"step": wish.step, "domain": [code(low, step=wish.step), code(high, step=wish.step)]}
    else:
        steps, more_notes = _own_steps(facts)
        entry |= steps
        notes += more_notes
    about = f"From {compact(low)} to {compact(high)}, median {compact(quantile(facts, 0.5))}{_counted(entry)}."
    return entry, [about, *notes]


def _counted(entry: dict[str, Any]) -> str:
    """What the codes of the domain count, where they are not the numbers themselves."""
    size = entry.get("step", entry.get("width", 1))
    if size == 1:
        return ""
    low, high = (f"{end} x {compact(size)}" for end in entry["domain"])
    if "step" in entry:
        return f"; the domain counts steps: {low} to {high}"
    return f"; the domain counts bins: the first starts at {low}, the last at {high}"


def _own_steps(facts: Facts) -> tuple[dict[str, Any], list[str]]:
    """Steps of the number's own resolution; bins where that cannot be."""
    step = own_step(facts)
    if step is None or max(abs(end) for end in _ends(facts, step)) / step >= LARGEST_CODE:
        notes = ["The values are too close together, or too far apart, for steps: bins of equal shares."]
        return _quantile_bins(facts, BINS_AT_NEED), notes
    low, high = _ends(facts, step)
    domain = [code(low, step=step), code(high, step=step)]
    if (low, high) == (numbers_in(facts)[0], numbers_in(facts)[-1]):
        return {"step": step, "domain": domain}, []
    return {"step": step, "domain": domain, "clip": domain}, ["What lies beyond the domain is read as its end (clip)."]


def _ends(facts: Facts, step: float) -> tuple[float, float]:
    """The range of the domain: that of the values, but for a few so far out that most codes would be for nobody."""
    numbers = numbers_in(facts)
    low, high = float(numbers[0]), float(numbers[-1])
    if (high - low) / step > MOST_CODES:
        for end, _, _, bulk in _far(facts):
            low, high = (low, bulk) if end == "largest" else (bulk, high)
    return low, high


def numbers_in(facts: Facts) -> NDArray[np.float64]:
    """The distinct numbers of a column, in rising order."""
    if facts.numbers is None:
        raise EvenhandError(f"The column '{facts.name}' does not hold numbers.")
    return facts.numbers


def code(value: float, *, step: float | None = None, width: float | None = None) -> int:
    """The code that `Attribute.encode` gives a number."""
    return math.floor(value / step + 0.5) if step is not None else math.floor(value / (width or 1) + 1e-9)


def own_step(facts: Facts) -> float | None:
    """The step in which a number is searched: its own resolution, or a round one that gives a few hundred codes."""
    numbers = numbers_in(facts)
    low, high = float(numbers[0]), float(numbers[-1])
    decimals = _decimals(facts)
    step = None
    if decimals is not None and (high - low) * 10.0**decimals <= FINE_CODES:
        step = float(f"1e-{decimals}")
    elif math.isfinite(high - low):
        bulk = quantile(facts, 0.999) - quantile(facts, 0.001)
        spread = bulk if bulk > 0 and _far(facts) else high - low
        step = max(round_up(spread / CODES), 1.0 if facts.whole else 0.0)
    return step if step is not None and SMALLEST_STEP <= step <= 1 / SMALLEST_STEP else None


def _decimals(facts: Facts) -> int | None:
    """How many decimals the table writes at most; None where it is more than anybody means."""
    if facts.whole:
        return 0
    if any("e" in value.lower() for value in facts.values):
        return None
    most = max(len(value.partition(facts.decimal)[2]) for value in facts.values)
    return most if most <= 6 else None


def round_up(value: float) -> float:
    """The next of 1, 2 or 5 times a power of ten."""
    if value < SMALLEST_STEP:
        return 0.0
    power = math.floor(math.log10(value))
    for factor, exponent in ((1, power), (2, power), (5, power), (1, power + 1)):
        candidate = float(f"{factor}e{exponent}")
        if candidate >= value:
            return candidate
    return float(f"2e{power + 1}")


def quantile(facts: Facts, share: float) -> float:
    """The value below or at which a share of the rows lies; always one that occurs."""
    numbers, up_to = numbers_in(facts), np.cumsum(facts.counts)
    return float(numbers[min(int(np.searchsorted(up_to, share * up_to[-1])), len(numbers) - 1)])


def _quantile_bins(facts: Facts, bins: int) -> dict[str, Any]:
    """Bins that hold about equally many rows; the median of each stands for it."""
    numbers = numbers_in(facts)
    up_to = np.cumsum(facts.counts)
    positions = np.searchsorted(up_to, up_to[-1] * np.arange(1, bins) / bins, side="right")
    edges = [float(edge) for edge in np.unique(numbers[positions]) if edge > numbers[0]]
    if not edges:  # nearly all rows have the smallest value
        edges = [float(np.unique(numbers)[1])]
    codes = np.searchsorted(edges, numbers, side="right")
    typical = []
    for bin_code in range(len(edges) + 1):
        inside = codes == bin_code
        rows = np.cumsum(facts.counts[inside])
        typical.append(float(numbers[inside][np.searchsorted(rows, rows[-1] / 2)]))
    return {"edges": edges, "typical": typical}


def _far(facts: Facts) -> list[tuple[str, float, str, float]]:
    """The ends of the range that lie far beyond the bulk: which one, its value, which percentile, its value."""
    low, high = quantile(facts, 0.001), quantile(facts, 0.999)
    numbers = numbers_in(facts)
    reach = FAR * (high - low)
    found = []
    if numbers[-1] - high > reach:
        found.append(("largest", float(numbers[-1]), "99.9th", high))
    if low - numbers[0] > reach:
        found.append(("smallest", float(numbers[0]), "0.1th", low))
    return found


def _outliers(facts: Facts) -> list[str]:
    return [
        f"The {end} value, {compact(value)}, is far beyond the {percentile} percentile, {compact(bulk)}: narrow the "
        "domain if no such person is meant."
        for end, value, percentile, bulk in _far(facts)
    ]


def _check_wish(facts: Facts, wish: Wish) -> None:
    for field, size in (("step", wish.step), ("width", wish.width)):
        if size is None:
            continue
        if not math.isfinite(size) or size <= 0:
            raise EvenhandError(f"The {field} of '{facts.name}' must be a number above 0 and not {compact(size)}.")
        if facts.type == "integer" and not size.is_integer():
            raise EvenhandError(
                f"'{facts.name}' holds whole numbers, so its {field} must be one too, not {compact(size)}."
            )
        largest = max(abs(numbers_in(facts)[0]), abs(numbers_in(facts)[-1]))
        if largest / size >= LARGEST_CODE:
            least = round_up(max(largest / (LARGEST_CODE - 1), 1.0 if facts.type == "integer" else 0.0))
            raise EvenhandError(
                f"The {field} {compact(size)} is too small for '{facts.name}': there would be too many codes. Use "
                f"{compact(least)} or more."
            )


def compact(number: float) -> str:
    """A number for a comment."""
    return number_text(number, 6 if abs(number) < 1e6 else 10)


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
