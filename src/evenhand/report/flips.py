"""Which protected values flip which way, and where findings sit, as rows of a report's tables."""

import math
from dataclasses import dataclass
from itertools import product

from evenhand.data.schema import Schema
from evenhand.report.statistics import Codes, Flips, LabelFlips, Spread

MOST_MATRIX_ROWS = 12
MOST_PAIRS = 20


@dataclass(frozen=True)
class Matrix:
    """Findings by the favoured combination (rows) and the disfavoured one (columns)."""

    names: list[str]
    cells: list[list[int]]

    @property
    def total(self) -> int:
        """All findings that have a direction."""
        return sum(map(sum, self.cells))

    @property
    def column_totals(self) -> list[int]:
        """How often each combination was disfavoured."""
        return [sum(column) for column in zip(*self.cells, strict=True)]

    @property
    def most(self) -> int:
        """The largest cell, which has the full shade."""
        return max(map(max, self.cells))


@dataclass(frozen=True)
class PairRow:
    """One of the most frequent pairs."""

    favoured: str
    disfavoured: str
    findings: int
    share: float


@dataclass(frozen=True)
class LabelRows:
    """The most frequent pairs of those in which one member got a label and the other another one."""

    label: str
    instead_of: str
    findings: int
    pairs: int  # of combinations, shown or not
    rows: list[PairRow]


@dataclass(frozen=True)
class SpreadRows:
    """An attribute's distance and its over-represented values: words, share of findings, share of people."""

    title: str
    distance: float
    over: list[tuple[str, float, float]]


def flip_matrix(flips: Flips, schema: Schema, protected: list[int]) -> Matrix | None:
    """All combinations against each other; those that occur, if all are too many; None if these are too."""
    shown = _shown_combinations(flips, schema, protected)
    if not flips.pairs or len(shown) > MOST_MATRIX_ROWS:
        return None
    count = {(flip.favoured, flip.disfavoured): flip.findings for flip in flips.pairs}
    cells = [[count.get((row, column), 0) for column in shown] for row in shown]
    return Matrix([_combination_text(codes, schema, protected) for codes in shown], cells)


def _shown_combinations(flips: Flips, schema: Schema, protected: list[int]) -> list[Codes]:
    domains = [schema.attributes[index].domain for index in protected]
    if math.prod(high - low + 1 for low, high in domains) <= MOST_MATRIX_ROWS:
        return list(product(*(range(low, high + 1) for low, high in domains)))
    return sorted({codes for flip in flips.pairs for codes in (flip.favoured, flip.disfavoured)})


def label_rows(flips: Flips, schema: Schema, protected: list[int]) -> list[LabelRows]:
    """Who got which label instead of which, for each pair of labels."""
    text = schema.label.text
    return [
        LabelRows(text(of.label), text(of.instead_of), of.findings, len(of.pairs), pair_rows(of, schema, protected))
        for of in flips.by_labels
    ]


def pair_rows(flips: Flips | LabelFlips, schema: Schema, protected: list[int]) -> list[PairRow]:
    """The most frequent pairs of combinations in words; shares are of the findings that have a direction."""
    total = sum(flip.findings for flip in flips.pairs)
    return [
        PairRow(
            _combination_text(flip.favoured, schema, protected),
            _combination_text(flip.disfavoured, schema, protected),
            flip.findings,
            flip.findings / total,
        )
        for flip in flips.pairs[:MOST_PAIRS]
    ]


def _combination_text(codes: Codes, schema: Schema, protected: list[int]) -> str:
    pairs = zip(protected, codes, strict=True)
    return ", ".join(schema.attributes[index].sentence(code) for index, code in pairs)


def spread_rows(spread: Spread, schema: Schema) -> SpreadRows:
    """An attribute's values in words."""
    attribute = schema.attributes[spread.attribute]
    values = [(attribute.text(value.code), value.findings, value.people) for value in spread.over]
    return SpreadRows(attribute.title, spread.distance, values)
