"""Which protected values flip which way: counts of findings by who got which decision, and rows of a report's tables.

A value is what the two members of a pair differ in: the codes of a table's protected attributes, or a word's value.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

MOST_PAIRS = 20
MOST_VALUES = 20

Codes = tuple[int, ...]  # one code per protected attribute, in the order of the schema
ValueT = TypeVar("ValueT", Codes, str)


@dataclass(frozen=True)
class Flip(Generic[ValueT]):
    """Findings in which the member with the value `favoured` got the decision asked about and `disfavoured` did not."""

    favoured: ValueT
    disfavoured: ValueT
    findings: int


@dataclass(frozen=True)
class LabelFlips(Generic[ValueT]):
    """Findings in which one member got a label and the other another one: who got the first, most frequent first."""

    label: str
    instead_of: str
    pairs: list[Flip[ValueT]]

    @property
    def findings(self) -> int:
        """How many there are."""
        return sum(flip.findings for flip in self.pairs)


@dataclass(frozen=True)
class ValueSides(Generic[ValueT]):
    """How often a value stood on either side."""

    value: ValueT
    got: int
    did_not: int


@dataclass(frozen=True)
class Flips(Generic[ValueT]):
    """Which protected values flip which way, the most frequent first; equal ones in their own order."""

    pairs: list[Flip[ValueT]]
    neither: int  # findings in which no member got the decision asked about: three classes or more
    by_labels: list[LabelFlips[ValueT]] = field(default_factory=list)  # each pair of labels; empty with two classes

    @property
    def total(self) -> int:
        """Findings that have a direction."""
        return sum(flip.findings for flip in self.pairs)

    @property
    def values(self) -> list[ValueSides[ValueT]]:
        """Every value that occurs, those that went without the decision most often first."""
        got: Counter[ValueT] = Counter()
        did_not: Counter[ValueT] = Counter()
        for flip in self.pairs:
            got[flip.favoured] += flip.findings
            did_not[flip.disfavoured] += flip.findings
        counts = [ValueSides(value, got[value], did_not[value]) for value in got | did_not]
        return sorted(counts, key=lambda count: (-count.did_not, -count.got, count.value))


def flips_of(
    groups: Mapping[tuple[str, str, ValueT, ValueT], int], classes: list[str], favourable: str | None
) -> Flips[ValueT]:
    """Flips from findings counted by both labels and both values, the sample's first.

    The decision asked about is the favourable class, or the last one where none is named. Of a pair of labels that is
    the first, too; where neither is it, the one that comes later.
    """
    goal = asked_class(classes, favourable)
    pairs, neither = Counter[tuple[ValueT, ValueT]](), 0
    by_labels: dict[tuple[str, str], Counter[tuple[ValueT, ValueT]]] = {}
    for (label, witness_label, value, witness_value), count in groups.items():
        first, second = sorted((label, witness_label), key=lambda one: (one != goal, -classes.index(one)))
        members = (value, witness_value) if first == label else (witness_value, value)
        by_labels.setdefault((first, second), Counter())[members] += count
        if first == goal:
            pairs[members] += count
        else:
            neither += count
    of_labels = [LabelFlips(*labels, _ordered(counts)) for labels, counts in by_labels.items()]
    of_labels.sort(key=lambda of: (-of.findings, -classes.index(of.label), -classes.index(of.instead_of)))
    return Flips(_ordered(pairs), neither, of_labels if len(classes) > 2 else [])


def asked_class(classes: list[str], favourable: str | None) -> str:
    """The class that pairs are ordered by: the favourable one, or the last where none is named."""
    return classes[-1] if favourable is None else favourable


def _ordered(counts: Counter[tuple[ValueT, ValueT]]) -> list[Flip[ValueT]]:
    order = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [Flip(*values, count) for values, count in order]


@dataclass(frozen=True)
class FlipMatrix:
    """Findings by the favoured value (rows) and the disfavoured one (columns)."""

    names: list[str]
    cells: list[list[int]]

    @property
    def total(self) -> int:
        """All findings that have a direction."""
        return sum(map(sum, self.cells))

    @property
    def column_totals(self) -> list[int]:
        """How often each value was disfavoured."""
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
    pairs: int  # of values, shown or not
    rows: list[PairRow]


def flip_matrix(
    flips: Flips[ValueT], values: list[ValueT], most: int, words: Callable[[ValueT], str] = str
) -> FlipMatrix | None:
    """All values against each other; those that occur, if all are too many; None if these are too."""
    occur = {value.value for value in flips.values}
    shown = values if len(values) <= most else [value for value in values if value in occur]
    if not flips.pairs or len(shown) > most:
        return None
    count = {(flip.favoured, flip.disfavoured): flip.findings for flip in flips.pairs}
    return FlipMatrix(list(map(words, shown)), [[count.get((row, column), 0) for column in shown] for row in shown])


def pair_rows(pairs: list[Flip[ValueT]], words: Callable[[ValueT], str] = str) -> list[PairRow]:
    """The most frequent pairs in words; shares are of all findings of the pairs."""
    total = sum(flip.findings for flip in pairs)
    return [
        PairRow(words(flip.favoured), words(flip.disfavoured), flip.findings, flip.findings / total)
        for flip in pairs[:MOST_PAIRS]
    ]


def flip_parts(
    flips: Flips[ValueT],
    matrix: FlipMatrix | None,
    words: Callable[[ValueT], str] = str,
    label_words: Callable[[str], str] = str,
) -> dict[str, Any]:
    """What a report says about flips, in words."""
    rows, values = pair_rows(flips.pairs, words), flips.values
    return {
        "flips": flips,
        "matrix": matrix,
        "pairs": rows,
        "pairs_share": sum(row.share for row in rows),
        "by_labels": [
            LabelRows(
                label_words(of.label),
                label_words(of.instead_of),
                of.findings,
                len(of.pairs),
                pair_rows(of.pairs, words),
            )
            for of in flips.by_labels
        ],
        "values": [(words(value.value), value.did_not, value.got) for value in values[:MOST_VALUES]],
        "most_values": max((max(value.got, value.did_not) for value in values), default=1),
    }
