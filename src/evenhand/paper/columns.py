"""Tables as data: what stands in each column, ours with the paper's figure in brackets, and what remarks say."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any, Generic, TypeVar

from evenhand.report.tables import Table

Item = TypeVar("Item")


@dataclass(frozen=True)
class Column(Generic[Item]):
    """A column of a table: our figure of an item, and the paper's where it has one.

    A figure may be a number, several of them, words, or None where it was not measured. The paper's is computed, or
    named, and then read from the item's `paper`.
    """

    title: str
    ours: Callable[[Item], Any]
    style: str = "{}"  # of numbers
    paper: str | Callable[[Item], Any] = ""
    paper_style: str = ""  # where it is not the style of ours

    def cell(self, item: Item) -> str:
        """What stands in an item's line."""
        ours = show(self.ours(item), self.style)
        paper = self.papers(item)
        return ours if paper is None else f"{ours} ({show(paper, self.paper_style or self.style)})"

    def papers(self, item: Item) -> Any:
        """The paper's figure; None where it has none."""
        if callable(self.paper):
            return self.paper(item)
        return getattr(item, "paper", {}).get(self.paper)

    def average(self, items: Sequence[Item], style: str) -> str:
        """The means over items, ours and the paper's."""
        ours, paper = (mean_known(map(figures, items)) for figures in (self.ours, self.papers))
        return show(ours, style) + ("" if paper is None else f" ({show(paper, style)})")


def show(figure: Any, style: str) -> str:
    """A figure in words; a dash where there is none."""
    if figure is None:
        return "–"
    if isinstance(figure, str):
        return figure
    return style.format(*figure) if isinstance(figure, tuple) else style.format(figure)


def table(
    title: str, items: Iterable[Item], columns: Sequence[Column[Item]], remarks: Sequence[str] = (), figure: str = ""
) -> Table:
    """A table with a line for each item."""
    lines = [[column.cell(item) for column in columns] for item in items]
    return Table(title, [column.title for column in columns], lines, list(remarks), figure)


def verdict(missed: Sequence[str], noun: str) -> str:
    """Whether an aim is met, or else where it is not."""
    return f"missed on {', '.join(missed)}" if missed else f"met on every {noun}"


def order(title: str, holds: dict[str, bool]) -> str:
    """On how many rows an order holds; the fewer of those where it does and of those where it does not are named."""
    yes, no = ([name for name, held in holds.items() if held is wanted] for wanted in (True, False))
    if not no or not yes:
        return f"{title} holds on {'every row' if yes else 'no row'}."
    named = f"not on {', '.join(no)}" if len(no) <= len(yes) else f"only on {', '.join(yes)}"
    return f"{title} holds on {len(yes)} of {len(holds)} rows: {named}."


def mean_known(values: Iterable[float | None]) -> float | None:
    """The mean of those that were measured; None where none was."""
    known = [value for value in values if value is not None]
    return mean(known) if known else None
