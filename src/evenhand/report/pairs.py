"""Pairs in words, and the curve of their growth: what pages show of a search without reading its data."""

from dataclasses import dataclass
from typing import Any

from evenhand.report.charts import Point


@dataclass(frozen=True)
class Side:
    """One member of an example pair; each of its protected values comes with whether it differs."""

    role: str
    protected: list[tuple[str, bool]]
    label: str
    score: float


@dataclass(frozen=True)
class Card:
    """An example pair in words."""

    description: str
    sides: list[Side]
    score_of: str
    origin: str


def growth_points(summary: dict[str, Any]) -> list[Point]:
    """The points of the growth curve, the end of the search included."""
    search = summary["search"]
    end = (search["tried"], search["generated"]["total"], search["findings"]["total"])
    points = [(int(tried), int(generated), int(found)) for tried, generated, found in search["growth"]]
    return points if points and points[-1] == end else [*points, end]
