"""Columns of 0 and 1 that say one thing together: Race_Black, Race_White and the like are one attribute."""

import re
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from evenhand.data.infer_columns import Found, SetAside
from evenhand.data.tables import text_column

SEPARATORS = re.compile(r"[\s_=.:|/\-]+")
FEWEST_MEETINGS = 10  # rows that would have two 1s if the columns had nothing to do with each other
TOLERATED = 0.005  # of the rows may have several 1s, or none; more with none are a category of their own


@dataclass(frozen=True)
class Group:
    """Columns that share the start of their names, of which a row has a 1 in one."""

    name: str
    columns: list[str]
    found: Found


def find_groups(frame: pd.DataFrame, decisions: dict[str, Found | SetAside]) -> list[Group]:
    """The groups among the columns that were found to have two values; larger ones first."""
    flags = {
        column: flag
        for column, decision in decisions.items()
        if isinstance(decision, Found) and (flag := _flag(frame[column], decision)) is not None
    }
    groups: list[Group] = []
    taken: set[str] = set()
    for start, columns in _by_start(list(flags)):
        kinds = {decisions[column].entry["type"] for column in columns}  # type: ignore[union-attr]
        if taken & set(columns) or len(kinds) > 1 or _repeats(frame, start, [flags[column] for column in columns]):
            continue
        if found := _group(start, columns, np.stack([flags[column] for column in columns], axis=1), kinds.pop()):
            groups.append(Group(start, columns, found))
            taken |= set(columns)
    return groups


def _repeats(frame: pd.DataFrame, start: str, flags: list[NDArray[np.bool_]]) -> bool:
    """Whether a column that has the name itself says all that these columns do, so that they go along with it."""
    for named in [column for column in map(str, frame.columns) if column.lower() == start.lower()]:
        numbers, values = pd.factorize(text_column(frame[named]), use_na_sentinel=False)
        if all(len(np.unique(2 * numbers + flag)) == len(values) for flag in flags):
            return True
    return False


def _flag(column: pd.Series, decision: Found) -> NDArray[np.bool_] | None:
    """(rows,) where a column says 1, if it says nothing but 0 and 1."""
    entry = decision.entry
    if entry["kind"] != "category" or entry["type"] not in ("integer", "float", "boolean") or "missing" in entry:
        return None
    if len(entry["categories"]) != 2:
        return None
    texts = text_column(column).str.strip().str.lower()
    numbers = pd.to_numeric(texts.replace({"false": "0", "true": "1"}), errors="coerce").to_numpy(dtype=np.float64)
    return np.asarray(numbers == 1) if np.isin(numbers, (0, 1)).all() else None


def _by_start(columns: list[str]) -> list[tuple[str, list[str]]]:
    """The columns that start with the same words: more columns first, and of equal ones those that share more."""
    starting: dict[str, list[str]] = defaultdict(list)
    for column in columns:
        for separator in SEPARATORS.finditer(column):
            if column[: separator.start()].strip() and column[separator.end() :].strip():
                starting[column[: separator.start()]].append(column)
    several = [(start, names) for start, names in starting.items() if len(names) > 1]
    return sorted(several, key=lambda entry: (-len(entry[1]), -len(entry[0])))


def _group(start: str, columns: list[str], ones: NDArray[np.bool_], kind: str) -> Found | None:
    """The attribute that columns (rows, columns) of 0 and 1 are together; None where they are not one."""
    counts = ones.sum(axis=1)
    several, none = int((counts > 1).sum()), int((counts == 0).sum())
    if several > TOLERATED * len(counts) or several > 0.05 * _meetings(ones):
        return None
    if none > TOLERATED * len(counts) and _meetings(ones) < FEWEST_MEETINGS:
        return None  # rare facts about people that happen not to meet
    categories = _ends_of(start, columns)
    notes = [f"The {len(columns)} columns of 0 and 1 are one attribute: they change together."]
    if none > TOLERATED * len(counts):
        categories.append("none" if "none" not in categories else "none of these")
        notes.append(f"{none:,} of {len(counts):,} rows have 0 in all of them: the last category.")
    elif none:
        notes.append(f"{none:,} rows have 0 in all of them. They are looked at as they are; no sample is made so.")
    if several:
        notes.append(f"{several:,} rows have several 1s. They are looked at as they are; no sample is made so.")
    return Found({"columns": columns, "kind": "category", "type": kind, "categories": categories}, notes)


def _meetings(ones: NDArray[np.bool_]) -> float:
    """How many rows would have two 1s if the columns had nothing to do with each other."""
    shares = ones.mean(axis=0)
    return float(len(ones) * (shares.sum() ** 2 - (shares**2).sum()) / 2)


def _ends_of(start: str, columns: list[str]) -> list[str]:
    """What the names say beyond their common start; the whole names where that is not enough to tell them apart."""
    ends = [SEPARATORS.sub("", column[len(start) :], count=1).strip() for column in columns]
    return ends if len(set(ends)) == len(ends) and all(ends) else list(columns)
