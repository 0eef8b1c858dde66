"""Columns of 0 and 1 that say one thing together: Race_Black, Race_White and the like are one attribute."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from evenhand.data.infer.columns import MOST_WORDS, AttributeDraft, Exclusion
from evenhand.data.infer.schema_file import suggested_words
from evenhand.data.infer.words import FAMILIES, FILLERS, is_about, words_of
from evenhand.data.notation import PANDAS_MISSING
from evenhand.data.tables import text_column

CODE = re.compile(r"\d+(?:\.0)?")
SEPARATORS = re.compile(r"[\s_=.:|/\-]+|(?<=[a-z0-9])(?=[A-Z])")  # also between raceBlack's words
FEWEST_MEETINGS = 10  # rows that would have two 1s if the columns had nothing to do with each other
TOLERATED = 0.005  # of the rows may have several 1s, or none; more with none are a category of their own
AVOIDED = 0.5  # of the rows that would have a 1 in both of two columns have one
MOST_GAPS = 0.5  # of the rows may lack a value
MOST_SEARCHED = 200  # columns that share a word, among which those that exclude each other are looked for


@dataclass(frozen=True)
class ColumnGroup:
    """Columns that share a part of their names, of which a row has a 1 in one."""

    name: str
    columns: list[str]
    found: AttributeDraft


@dataclass(frozen=True)
class Flag:
    """A column that says 0, 1 or nothing."""

    ones: NDArray[np.bool_]  # (rows,)
    gaps: NDArray[np.bool_]  # (rows,) where it says nothing
    kind: str


@dataclass(frozen=True)
class _Candidate:
    """Columns whose names share a part, and what each name says beside it."""

    how: str  # they start alike, end alike, or are of one family
    shared: str
    columns: list[str] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)

    def only(self, places: list[int]) -> "_Candidate":
        """Some of the columns; those that start alike may share more of their start than all did."""
        columns = [self.columns[place] for place in places]
        if self.how == "start" and columns:
            longest = max(_common(_starts(column) for column in columns), key=len)
            return _Candidate(self.how, longest, columns, [_starts(column)[longest] for column in columns])
        return _Candidate(self.how, self.shared, columns, [self.ends[place] for place in places])

    @property
    def categories(self) -> list[str]:
        """What the names say beside what they share; whole names where that is not enough to tell them apart."""
        return list(self.ends) if len(set(self.ends)) == len(self.ends) else list(self.columns)

    @property
    def name(self) -> str:
        """What the names share; where that says nothing, as `is` does, what they say beside it."""
        if self.how != "family" and words_of(self.shared) - FILLERS:
            return self.shared
        return " or ".join(self.ends[:4]) + (" or others" if len(self.ends) > 4 else "")


_Part = tuple[_Candidate, AttributeDraft]


def find_groups(frame: pd.DataFrame, decisions: dict[str, AttributeDraft | Exclusion]) -> list[ColumnGroup]:
    """The groups among the columns that were found to have two values; larger ones first.

    First all columns that share a part of their names are tried together, then those among them that exclude each
    other: race_self_reported does not keep race_black and race_white apart.
    """
    flags = find_flags(frame, decisions)
    groups: list[ColumnGroup] = []
    taken: set[str] = set()
    for parts in (_as_a_whole, _apart):
        for candidate in _candidates(list(flags)):
            for part, found in parts(candidate, flags, taken):
                used = {*map(str, frame.columns), *(group.name for group in groups)}
                name = part.name if part.name not in used else f"{part.name} columns"
                groups.append(ColumnGroup(name, part.columns, found))
                taken |= set(part.columns)
    return groups


def find_flags(frame: pd.DataFrame, decisions: dict[str, AttributeDraft | Exclusion]) -> dict[str, Flag]:
    """The columns that say nothing but 0 and 1, by name."""
    flags = {}
    for column, decision in decisions.items():
        if isinstance(decision, AttributeDraft) and (flag := _flag(frame[column], decision)) is not None:
            flags[column] = flag
    return flags


def _flag(column: pd.Series, decision: AttributeDraft) -> Flag | None:
    entry = decision.entry
    if entry["kind"] != "category" or entry["type"] not in ("integer", "float", "boolean"):
        return None
    if len(entry["categories"]) != 2:
        return None
    texts = text_column(column).str.strip()
    gaps = (texts.isna() | texts.isin(["", *PANDAS_MISSING])).to_numpy(dtype=bool)
    plain = texts.str.lower().replace({"false": "0", "true": "1"})
    numbers = pd.to_numeric(plain, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    return Flag(np.asarray(numbers == 1), gaps, entry["type"]) if np.isin(numbers[~gaps], (0, 1)).all() else None


def _candidates(columns: list[str]) -> list[_Candidate]:
    """The columns whose names share words at their start or end, or are of one family of words.

    More columns come first, and of equal ones those that share more.
    """
    sharing: dict[tuple[str, str], _Candidate] = {}
    for column in columns:
        parts = [("start", *part) for part in _starts(column).items()]
        parts += [("end", own, shared) for shared, own in _starts(column).items()]
        families = [family for family, members in FAMILIES.items() if is_about(column, members)]
        parts += [("family", family, _without_fillers(column)) for family in families]
        for how, shared, own in parts:
            found = sharing.setdefault((how, shared), _Candidate(how, shared))
            if column not in found.columns[-1:]:
                found.columns.append(column)
                found.ends.append(own)
    several = [candidate for candidate in sharing.values() if len(candidate.columns) > 1]
    return sorted(several, key=lambda each: (-len(each.columns), each.how != "start", -len(each.shared)))


def _starts(column: str) -> dict[str, str]:
    """What a name may share with others at its start, and the rest of it."""
    parts = {column[: found.start()]: column[found.end() :].strip() for found in SEPARATORS.finditer(column)}
    return {start: rest for start, rest in parts.items() if start.strip() and rest}


def _without_fillers(column: str) -> str:
    return " ".join(word for word in SEPARATORS.split(column) if word.lower() not in FILLERS)


def _common(names: Iterable[Iterable[str]]) -> set[str]:
    return set.intersection(*map(set, names))


def _as_a_whole(candidate: _Candidate, flags: dict[str, Flag], taken: set[str]) -> Iterator[_Part]:
    if not taken & set(candidate.columns):
        found = _group(candidate, [flags[column] for column in candidate.columns])
        yield from [] if found is None else [(candidate, found)]


def _apart(candidate: _Candidate, flags: dict[str, Flag], taken: set[str]) -> Iterator[_Part]:
    """The largest parts of a candidate whose columns exclude each other, by good evidence."""
    candidate = candidate.only([i for i, column in enumerate(candidate.columns) if column not in taken])
    while 2 <= len(candidate.columns) <= MOST_SEARCHED:
        ones = np.stack([flags[column].ones for column in candidate.columns], axis=1)
        places = _largest_part(ones)
        if len(places) < 2:
            return
        part = candidate.only(places)
        found = _group(part, [flags[column] for column in part.columns])
        if found is not None and _is_sure(ones[:, places], np.delete(ones, places, axis=1)):
            yield part, found
        candidate = candidate.only([i for i in range(len(candidate.columns)) if i not in places])


def _largest_part(ones: NDArray[np.bool_]) -> list[int]:
    """The columns of (rows, columns) that exclude each other: from each column on, those that fit all before."""
    numbers = ones.astype(np.float64)
    counts = numbers.sum(axis=0)
    apart = numbers.T @ numbers <= 0.05 * np.outer(counts, counts) / len(ones)
    largest: list[int] = []
    for first in range(ones.shape[1]):
        part, fitting = [first], apart[first].copy()
        while (more := np.flatnonzero(fitting)).size:
            part.append(int(more[0]))
            fitting &= apart[more[0]]
            fitting[part] = False
        largest = max(largest, part, key=len)
    return sorted(largest)


def exclusive_columns(ones: NDArray[np.bool_]) -> list[int]:
    """The columns of (rows, columns) that exclude each other, by good evidence; none where there are not two."""
    places = _largest_part(ones)
    return places if len(places) > 1 and _is_sure(ones[:, places], ones[:, :0]) else []


def _is_sure(ones: NDArray[np.bool_], others: NDArray[np.bool_]) -> bool:
    """Whether columns that were picked are surely one thing, and all of it; `others` share a part of their names.

    Each row has a 1 in one of them, or two of them would meet others by chance, and none of the other columns avoids
    one of them: that one might belong to them, too.
    """
    one_each = (ones.sum(axis=1) == 1).mean()
    if one_each == 1:
        return True
    shares = ones.mean(axis=0)
    if int((len(ones) * shares * (shares.sum() - shares) >= FEWEST_MEETINGS).sum()) < 2:
        return False
    by_chance = len(ones) * np.outer(shares, others.mean(axis=0))  # (columns, others)
    avoided = (by_chance >= FEWEST_MEETINGS) & (ones.T.astype(np.float64) @ others < AVOIDED * by_chance)
    return bool(one_each >= 1 - TOLERATED or not avoided.any())


def _group(candidate: _Candidate, flags: list[Flag]) -> AttributeDraft | None:
    """The attribute that columns of 0 and 1 are together; None where they are not one."""
    kinds = {flag.kind for flag in flags}
    if len(kinds) > 1 and "boolean" in kinds:
        return None
    gaps = np.any([flag.gaps for flag in flags], axis=0)
    ones = np.stack([flag.ones for flag in flags], axis=1)[~gaps]
    rows, counts = len(ones), ones.sum(axis=1)
    several, none = int((counts > 1).sum()), int((counts == 0).sum())
    if gaps.mean() > MOST_GAPS or several > TOLERATED * rows or several > 0.05 * _meetings(ones):
        return None
    if none > TOLERATED * rows and _meetings(ones) < FEWEST_MEETINGS:
        return None  # rare facts about people that happen not to meet
    categories = candidate.categories
    notes = [f"The {len(flags)} columns of 0 and 1 are one attribute: they change together."]
    if none > TOLERATED * rows:
        categories.append("none" if "none" not in categories else "none of these")
        notes.append(f"{none:,} of {len(gaps):,} rows have 0 in all of them: the last category.")
        none = 0
    odd = ((none, "0 in all of them"), (several, "several 1s"), (int(gaps.sum()), "no value in some of them"))
    notes += [f"{rows_have(count)} {what}. {as_they_are_note(count)}" for count, what in odd if count]
    kind = "float" if "float" in kinds else kinds.pop()
    entry: dict[str, Any] = {"columns": candidate.columns, "kind": "category", "type": kind, "categories": categories}
    if all(map(CODE.fullmatch, candidate.ends)) and len(categories) <= MOST_WORDS:
        entry["words"] = suggested_words(len(categories))
    return AttributeDraft(entry, notes)


def rows_have(count: int) -> str:
    """`1 row has`, `2 rows have`."""
    return "1 row has" if count == 1 else f"{count:,} rows have"


def as_they_are_note(count: int) -> str:
    """What becomes of rows that no code of the domain stands for."""
    they_are = "It is looked at as it is" if count == 1 else "They are looked at as they are"
    return f"{they_are}; no generated sample looks like this."


def _meetings(ones: NDArray[np.bool_]) -> float:
    """How many rows would have two 1s if the columns had nothing to do with each other."""
    shares = ones.mean(axis=0)
    return float(len(ones) * (shares.sum() ** 2 - (shares**2).sum()) / 2)
