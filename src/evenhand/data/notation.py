"""How numbers are written: 1234.5, 1234,5 or 1,234.5 in a table; 1,234.5 with a true minus for people."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


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
