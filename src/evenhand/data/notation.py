"""How tables write numbers and missing values, and how numbers are written for people: 1,234.5 with a true minus."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

# What pandas.read_csv takes for a missing value, so that a model that was trained on the file never saw the text.
PANDAS_MISSING = frozenset(
    ["#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
     "NULL", "NaN", "None", "n/a", "nan", "null"]
)  # fmt: skip
BOOLEANS = frozenset(["true", "false"])


@dataclass(frozen=True)
class Notation:
    """The signs that a CSV file writes numbers with."""

    decimal: str = "."
    thousands: str = ""

    def plain(self, values: "pd.Series") -> "pd.Series":
        """Numbers as programs write them; None for what is no number in this notation."""
        if self == USUAL:
            return values
        texts, pattern = values.astype("object"), self._pattern()
        good = texts.map(lambda text: pattern.fullmatch(text) is not None).astype(bool)
        changed = texts.map(lambda text: text.replace(self.thousands, "").replace(self.decimal, "."))
        return changed.where(good, None)

    def __str__(self) -> str:
        groups = f" and '{self.thousands}' between thousands" if self.thousands else ""
        return f"Numbers are read with the decimal sign '{self.decimal}'{groups}"

    def _pattern(self) -> re.Pattern[str]:
        point = re.escape(self.decimal)
        grouped = rf"|\d{{1,3}}(?:{re.escape(self.thousands)}\d{{3}})+" if self.thousands else ""
        return re.compile(rf"[+-]?(?:(?:\d+{grouped})(?:{point}\d*)?|{point}\d+)(?:[eE][+-]?\d+)?")


USUAL = Notation()


def number_text(value: float, digits: int = 10) -> str:
    """A number for people."""
    whole = float(value).is_integer() and abs(value) < 1e15
    text = f"{value + 0.0:,.0f}" if whole else f"{value:,.{digits}g}"
    return text.replace("-", "−")


def is_number(text: str) -> bool:
    """Whether a program reads a text as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def multiples(codes: NDArray[Any] | int, step: float) -> NDArray[np.float64]:
    """Codes times the step as a table writes them: 3 steps of 0.1 are 0.3 and not 0.30000000000000004."""
    parts = 1 / step
    if step < 1 and abs(parts - round(parts)) < 1e-9 * parts:
        return np.asarray(np.asarray(codes) / round(parts), dtype=np.float64)
    digits = 12 - int(np.floor(np.log10(step)))
    return np.asarray(np.round(np.asarray(codes) * step, min(digits, 300)), dtype=np.float64)


def numbers_in_text(texts: "pd.Series", notation: Notation) -> NDArray[np.float64]:
    """Text as numbers; not a number where it is none."""
    import pandas as pd

    parsed = pd.to_numeric(notation.plain(texts), errors="coerce")
    return np.asarray(parsed.to_numpy(dtype=np.float64, na_value=np.nan))
