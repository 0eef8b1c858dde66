"""Choosing among repairs: which are not beaten in both accuracy and rate, and which one keeps to a condition."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from evenhand.errors import EvenhandError

FIGURES = ("accuracy_loss", "rate")
_CONDITION = re.compile(r"\s*(\w+)\s*(<=|<)\s*([0-9.eE+-]+)\s*")


class Trade(NamedTuple):
    """What a repair gives and takes: its accuracy, and its rate of discriminatory samples."""

    accuracy: float
    rate: float


class Condition(NamedTuple):
    """A figure that may not be above a limit, or must be below it."""

    figure: str
    strict: bool
    limit: float

    def holds(self, trade: Trade, before: Trade) -> bool:
        """Whether a repair keeps to it; accuracy is lost against the model before."""
        value = trade.rate if self.figure == "rate" else before.accuracy - trade.accuracy
        return value < self.limit if self.strict else value <= self.limit


def parse_conditions(text: str) -> list[Condition]:
    """`accuracy_loss<=0.005`, `rate<=0.001`, or both with "and" between them."""
    conditions = []
    for part in re.split(r"\band\b|,", text):
        match = _CONDITION.fullmatch(part)
        try:
            figure, sign, limit = match.groups() if match else ("", "", "")
            conditions.append(Condition(figure, sign == "<", float(limit)))
        except ValueError:
            figure = ""
        if figure not in FIGURES:
            raise EvenhandError(
                f"'{text}' is not a condition to choose by. Write accuracy_loss<=0.005, rate<=0.001, or both joined by "
                "'and'; they are shares, so 0.005 is half a percentage point."
            )
    return conditions


def front(trades: Sequence[Trade]) -> list[bool]:
    """Which trades are not beaten: no other is at least as good in both figures and better in one."""

    def beaten(one: Trade) -> bool:
        return any(other.accuracy >= one.accuracy and other.rate <= one.rate and other != one for other in trades)

    return [not beaten(trade) for trade in trades]


def choose(trades: Sequence[Trade], before: Trade, conditions: Sequence[Condition]) -> int | None:
    """The trade with the lowest rate, then the highest accuracy, among those that keep to all conditions; or None.

    Where only the rate is limited, the highest accuracy comes first.
    """
    allowed = [n for n, trade in enumerate(trades) if all(condition.holds(trade, before) for condition in conditions)]
    accuracy_first = bool(conditions) and all(condition.figure == "rate" for condition in conditions)

    def rank(number: int) -> tuple[float, float]:
        accuracy, rate = trades[number]
        return (-accuracy, rate) if accuracy_first else (rate, -accuracy)

    return min(allowed, key=rank, default=None)
