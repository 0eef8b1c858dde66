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


def attributes_of(frame: pd.DataFrame, decisions: dict[str, Found | SetAside], notation: Notation) -> Attributes:
    """The attributes that columns make, after each has been looked at by itself."""
    groups = {column: group for group in find_groups(frame, decisions) for column in group.columns}
    alone = {
        column: decision
        for column, decision in decisions.items()
        if isinstance(decision, Found) and column not in groups
    }
    pairs = find_pairs(frame, alone, notation)
    attributes = Attributes()
    attributes.home.update({other.column: base for base, others in pairs.items() for other in others})
    for position, (column, decision) in enumerate(decisions.items(), 1):
        if isinstance(decision, SetAside):
            _pass(attributes, column if column.strip() else f"column {position}", decision)
        elif column in groups:
            group = groups[column]
            attributes.home[column] = group.name
            attributes.found.setdefault(group.name, group.found)
        elif column not in attributes.home:
            attributes.found[column] = decision
            attributes.home[column] = column
            for other in pairs.get(column, []):
                decision.entry.setdefault("along", {})[other.column] = other.values
                decision.notes.append(other.note)
    return attributes


def _pass(attributes: Attributes, column: str, decision: SetAside) -> None:
    if not decision.passes:
        attributes.set_aside[column] = decision.reason
        return
    reason = decision.reason[0].upper() + decision.reason[1:]
    attributes.passed[column] = decision.reason
    attributes.found[column] = Found({"kind": "pass"}, [f"{reason}. {PASSES}"])
    attributes.home[column] = column
