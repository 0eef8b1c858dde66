"""Numbers, rates and lists of names as sentences have them."""

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any

MOST_NAMES = 15  # of attributes in a sentence


def percent(share: float, digits: int = 1) -> str:
    """A share in words; what is there at all is never rounded to nothing, nor nearly all to all."""
    smallest = 10.0 ** -(digits + 2)
    if 0 < share < smallest / 2:
        return f"<{smallest:.{digits}%}"
    if 1 - smallest / 2 < share < 1:
        return f">{1 - smallest:.{digits}%}"
    return f"{share:.{digits}%}"


def interval_text(interval: Sequence[float], digits: int = 2) -> str:
    """An interval with so many digits, or as many more as it takes to see how wide it is: 0.0000% to 0.0075%."""
    low, high = interval
    if 0 < high - low < 1:
        digits = max(digits, math.ceil(-math.log10(high - low)) - 1)
    return f"{low:.{digits}%} to {high:.{digits}%}"


def rate_text(rate: dict[str, Any]) -> str:
    """A rate with its counts and interval."""
    return f"{rate['discriminatory']:,} of {rate['samples']:,} ({share_text(rate)})"


def share_text(rate: dict[str, Any]) -> str:
    """The share of a rate with its interval, and by which weights it is one."""
    weighted = f" weighted by {rate['weighing']['by']}" if "weighing" in rate else ""
    return f"{percent(rate['rate'], 2)}{weighted}; {rate['confidence']:.0%} interval {interval_text(rate['interval'])}"


def counted(count: int, noun: str) -> str:
    """A number with its noun: 1 finding, 2 findings."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def joined(names: list[str]) -> str:
    """Names as a sentence has them: age, race and sex."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def some_of(names: list[str]) -> list[str]:
    """Names for a sentence: of very many the first, and how many more there are."""
    return names if len(names) <= MOST_NAMES else [*names[: MOST_NAMES - 1], f"{len(names) - MOST_NAMES + 1:,} more"]


def duration(seconds: float) -> str:
    """Seconds for people: 8 s, 2 min 5 s, 1 h 3 min."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def moment(started: str) -> str:
    """15 November 2026, 19:01 UTC."""
    at = datetime.fromisoformat(started)
    return f"{at.day} {at:%B %Y, %H:%M} {at.tzname() or ''}".strip()
