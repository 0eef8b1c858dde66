"""From columns to attributes: columns that belong together become one; of those that may, a person is told."""

from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from evenhand.data.infer.columns import AttributeDraft, Exclusion
from evenhand.data.infer.groups import exclusive_columns, find_groups
from evenhand.data.infer.pairs import ColumnReading, find_pairs, is_decided, reading_of
from evenhand.data.infer.schema_file import PASSES, quoted
from evenhand.data.notation import Notation
from evenhand.data.tables import text_column

NEARLY = 0.01  # of the rows may be otherwise
FEWEST_CHANGES = 10  # in the order of a number, if the other column were shuffled
YES, NO = frozenset(["1", "y", "yes", "t", "true"]), frozenset(["0", "n", "no", "f", "false"])
NUMERIC = ("integer", "float", "boolean")


@dataclass(frozen=True)
class Attributes:
    """The attributes of a table by key: a column, or the start of the names of several."""

    found: dict[str, AttributeDraft] = field(default_factory=dict)  # in the order of the table, those that pass too
    passed: dict[str, str] = field(default_factory=dict)  # by column: why no search moves in it
    set_aside: dict[str, str] = field(default_factory=dict)  # by column: why it is no attribute
    home: dict[str, str] = field(default_factory=dict)  # by column: the key of the attribute that it is part of

    @property
    def searched(self) -> list[str]:
        """The keys of the attributes that a search may move in, or compare."""
        return [key for key in self.found if key not in self.passed]

    def categories_together(self, key: str) -> list[str]:
        """The categories of an attribute that stands in columns of 0 and 1; none of another."""
        entry = self.found[key].entry
        return list(entry["categories"][: len(entry["columns"])]) if "columns" in entry else []


def attributes_of(
    frame: pd.DataFrame, decisions: dict[str, AttributeDraft | Exclusion], notation: Notation | None
) -> Attributes:
    """The attributes that columns make, after each has been looked at by itself."""
    groups = {column: group for group in find_groups(frame, decisions) for column in group.columns}
    founds = {
        groups[column].name if column in groups else column: groups[column].found if column in groups else decision
        for column, decision in decisions.items()
        if isinstance(decision, AttributeDraft)
    }
    pairs = find_pairs(frame, founds, notation)
    base_of = {other.name: base for base, others in pairs.items() for other in others}
    attributes = Attributes()
    for position, (column, decision) in enumerate(decisions.items(), 1):
        if isinstance(decision, Exclusion):
            _pass(attributes, column if column.strip() else f"column {position}", decision)
            continue
        key = groups[column].name if column in groups else column
        attributes.home[column] = base_of.get(key, key)
        if key not in base_of:
            attributes.found.setdefault(key, founds[key])
    for key, others in pairs.items():
        for other in others:
            founds[key].entry.setdefault("along", {}).update(other.values)
            founds[key].notes.append(other.note)
    return attributes


def _pass(attributes: Attributes, column: str, decision: Exclusion) -> None:
    if not decision.passes:
        attributes.set_aside[column] = decision.reason
        return
    reason = decision.reason[0].upper() + decision.reason[1:]
    attributes.passed[column] = decision.reason
    attributes.found[column] = AttributeDraft({"kind": "pass"}, [f"{reason}. {PASSES}"])
    attributes.home[column] = column


def remarks_on(
    frame: pd.DataFrame, attributes: Attributes, protected: list[str], notation: Notation | None
) -> list[str]:
    """What a protected attribute decides without taking it along, and protected columns of which a row has one."""
    return _flags(frame, attributes, protected) + _decided(frame, attributes, protected, notation)


def _decided(frame: pd.DataFrame, attributes: Attributes, protected: list[str], notation: Notation | None) -> list[str]:
    if not protected:
        return []
    each = {key: reading_of(key, frame, attributes.found[key], notation) for key in attributes.searched}
    remarks = []
    for key in protected:
        others = [name for name, other in each.items() if name != key and _follows(each[key], other)]
        if others:
            names = " and ".join(f"'{name}'" for name in others)
            follow, are, them = ("follow", "are", "them") if len(others) > 1 else ("follows", "is", "it")
            remarks.append(
                f"{names} {follow} from '{key}' in all or nearly all rows, but {are} not part of that attribute, so a "
                f"sample may contradict itself. If a model reads {them}, put {them} into `along` of '{key}'; else "
                f"leave {them} out (--drop)."
            )
    return remarks


def _follows(base: ColumnReading, other: ColumnReading) -> bool:
    """Whether one decides the other: by its values or, where nearly each row has its own, by their order."""
    if is_decided(base, other, NEARLY):
        return True
    rows = len(base.numbers)
    if base.attribute.kind != "number" or base.distinct < rows / 10:
        return False
    order = np.argsort(_ranks(base))
    ranks = _ranks(other)
    if other.attribute.kind == "number" and _is_monotone(ranks[order]):
        return True
    by_chance = _changes(np.random.default_rng(0).permutation(ranks))
    return by_chance >= FEWEST_CHANGES and _changes(ranks[order]) <= 0.05 * by_chance


def _ranks(other: ColumnReading) -> NDArray[np.float64]:
    """(rows,) the numbers of a number, else a number for each value."""
    if other.attribute.kind != "number":
        return other.read_numbers.astype(np.float64)
    return np.array([np.nan if value is None else float(value) for value in other.values])[other.numbers]


def _changes(values: NDArray[np.float64]) -> int:
    return int((values[1:] != values[:-1]).sum())


def _is_monotone(values: NDArray[np.float64]) -> bool:
    """Whether values rise, or fall, all along but for a few."""
    known = values[np.isfinite(values)]
    up, down = int((known[1:] > known[:-1]).sum()), int((known[1:] < known[:-1]).sum())
    return up + down >= FEWEST_CHANGES and min(up, down) <= NEARLY * (up + down)


def _flags(frame: pd.DataFrame, attributes: Attributes, protected: list[str]) -> list[str]:
    """Protected columns that say yes or no, of which no row has two: they may be one thing."""
    ones = {key: flag for key in protected if (flag := _yes(frame, attributes, key)) is not None}
    if len(ones) < 2:
        return []
    together = exclusive_columns(np.stack(list(ones.values()), axis=1))
    names = [list(ones)[place] for place in together]
    if len(names) < 2:
        return []
    columns = ", ".join(map(quoted, names))
    how = f'write one [[attribute]] with kind = "category" and columns = [{columns}] in place of these'
    if any(attributes.found[name].entry["type"] not in NUMERIC for name in names):
        how = f"write 0 and 1 for no and yes into the table; then {how}"
    return [
        f"No row says yes in two of the protected columns {columns}, which are tested one by one: samples may have "
        f"several. If they are one thing, {how}."
    ]


def _yes(frame: pd.DataFrame, attributes: Attributes, key: str) -> NDArray[np.bool_] | None:
    """(rows,) where a column says yes, if it is one that says yes or no."""
    entry = attributes.found[key].entry
    if key not in frame.columns or entry["kind"] == "number" or len(entry["categories"]) != 2:
        return None
    texts = text_column(frame[key]).str.strip().str.lower().fillna("")
    values = set(texts.unique()) - {""}
    numbers = {value.removesuffix(".0") for value in values}
    if not (numbers & YES and numbers & NO and numbers <= YES | NO):
        return None
    return np.asarray(texts.str.removesuffix(".0").isin(YES).to_numpy(dtype=bool))
