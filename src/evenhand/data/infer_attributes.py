"""From columns to attributes: columns that belong together become one, and those that cannot be searched pass."""

from dataclasses import dataclass, field

import pandas as pd

from evenhand.data.infer_columns import Found, SetAside
from evenhand.data.infer_groups import find_groups
from evenhand.data.infer_pairs import find_pairs
from evenhand.data.notation import Notation
from evenhand.data.schema_text import PASSES


@dataclass(frozen=True)
class Attributes:
    """The attributes of a table by key: a column, or the start of the names of several."""

    found: dict[str, Found] = field(default_factory=dict)  # in the order of the table, those that pass too
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


def attributes_of(frame: pd.DataFrame, decisions: dict[str, Found | SetAside], notation: Notation | None) -> Attributes:
    """The attributes that columns make, after each has been looked at by itself."""
    groups = {column: group for group in find_groups(frame, decisions) for column in group.columns}
    founds = {
        groups[column].name if column in groups else column: groups[column].found if column in groups else decision
        for column, decision in decisions.items()
        if isinstance(decision, Found)
    }
    pairs = find_pairs(frame, founds, notation)
    base_of = {other.name: base for base, others in pairs.items() for other in others}
    attributes = Attributes()
    for position, (column, decision) in enumerate(decisions.items(), 1):
        if isinstance(decision, SetAside):
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


def _pass(attributes: Attributes, column: str, decision: SetAside) -> None:
    if not decision.passes:
        attributes.set_aside[column] = decision.reason
        return
    reason = decision.reason[0].upper() + decision.reason[1:]
    attributes.passed[column] = decision.reason
    attributes.found[column] = Found({"kind": "pass"}, [f"{reason}. {PASSES}"])
    attributes.home[column] = column
