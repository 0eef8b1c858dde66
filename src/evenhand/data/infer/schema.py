"""A schema from a table: what its columns seem to mean, written so that a person can correct it."""

import os
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from evenhand.data.csv_files import find_separator, header_note, is_csv, is_nameless
from evenhand.data.dataset import Dataset, encode, sampling_weights
from evenhand.data.infer.attributes import Attributes, attributes_of, remarks_on
from evenhand.data.infer.columns import AttributeDraft, Exclusion, decide
from evenhand.data.infer.facts import facts_of
from evenhand.data.infer.numbers import Wish, find_notation
from evenhand.data.infer.roles import find_split, infer_label, infer_protected
from evenhand.data.infer.schema_file import TomlTable, schema_toml
from evenhand.data.notation import USUAL, Notation
from evenhand.data.schema import Schema
from evenhand.data.tables import as_frame, check_unique, read_table, saved_split
from evenhand.errors import EvenhandError, unknown_name

MANY_VALUES = 100
SHOWN_NAMES = 20  # of columns that are left out
IN_MEMORY = "a table in memory"
IMPOSSIBLE = """\
Values that cannot go together may be named; searches and reports then keep to such rules. For example:

[[impossible]]
relationship = "Husband"
sex = "Female"

[[impossible]]
age = { below = 18 }
married = "yes"
"""


@dataclass(frozen=True)
class Inferred:
    """A schema that was read off a table, with what was decided about each column and why."""

    toml: str
    rows: int
    label_notes: list[str]
    notes: dict[str, list[str]]  # by attribute
    passed: dict[str, str]  # by column: why no search moves in it; a model that reads it is given it as it stands
    set_aside: dict[str, str]  # by column: why it is no attribute
    protected_guessed: bool  # by their names, since none were given
    remarks: list[str] = field(default_factory=list)  # about columns that may belong together

    @cached_property
    def schema(self) -> Schema:
        """The schema that the text says."""
        return Schema.parse(tomllib.loads(self.toml), "inferred from the table", self.toml)


@dataclass(frozen=True)
class InferenceRequest:
    """What the user says about a table."""

    label: str
    protected: Sequence[str] | None = None
    favourable: str | None = None
    bins: int | None = None  # bins of equal shares for numbers with more values
    widths: dict[str, float] = field(default_factory=dict)
    steps: dict[str, float] = field(default_factory=dict)
    columns: Sequence[str] | None = None  # only these, and the label
    drop: Sequence[str] = ()  # not these
    weight: str | None = None

    def for_columns(self, columns: list[str]) -> "InferenceRequest":
        """The same, with the columns that the names mean; a name that means none is an error.

        Protected names are left as they are: they may mean several columns together.
        """
        return replace(
            self,
            label=column_called(self.label, columns),
            weight=None if self.weight is None else column_called(self.weight, columns),
            widths={column_called(name, columns): width for name, width in self.widths.items()},
            steps={column_called(name, columns): step for name, step in self.steps.items()},
            columns=self.columns and [column_called(name, columns) for name in self.columns],
            drop=[column_called(name, columns) for name in self.drop],
        )

    def kept(self, columns: list[str]) -> list[str]:
        """Those of a table's columns that the schema is about."""
        weight = [] if self.weight is None else [self.weight]
        only = columns if self.columns is None else [self.label, *weight, *self.columns]
        kept = [column for column in columns if column in only and column not in self.drop]
        wanted = [column for column in self.protected or [] if column in columns]  # others mean several columns
        for column in [self.label, *weight, *wanted, *self.widths, *self.steps]:
            if column not in kept:
                raise EvenhandError(
                    f"The column '{column}' is left out, but also asked for: as the decision, as protected, or with a "
                    "step or width. Name it among the columns, or do not drop it."
                )
        return kept

    def wish(self, column: str) -> Wish:
        """How a column should be coded."""
        step, width = self.steps.get(column), self.widths.get(column)
        by_name = Wish(None if step is None else float(step), None if width is None else float(width))
        wish = Wish(bins=self.bins) if by_name == Wish() else by_name
        return replace(wish, every=column in (self.protected or ()))


def infer_schema(
    frame: Any,
    label: str,
    protected: Sequence[str] | None = None,
    *,
    favourable: str | None = None,
    bins: int | None = None,
    widths: dict[str, float] | None = None,
    steps: dict[str, float] | None = None,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    weight: str | None = None,
    name: str = "table",
    file: str = IN_MEMORY,
) -> Inferred:
    """A schema for a table in memory: of pandas, polars or Arrow, or a Hugging Face Dataset.

    Numbers keep their own resolution up to 1,000 values and have a round step beyond, unless `steps` or `widths` say
    otherwise for a column, or `bins` asks for bins that hold equally many rows. Where no protected columns are named,
    they are guessed by their names. `columns` are the only ones to look at beside the label; those of `drop` are not.
    `weight` names a column of sampling weights.
    """
    request = InferenceRequest(label, protected, favourable, bins, widths or {}, steps or {}, columns, drop, weight)
    return _infer(as_frame(frame), request, {"name": name, "file": file})


def infer_file(
    path: Path, label: str, protected: Sequence[str] | None = None, *, beside: Path | None = None,
    separator: str | None = None, split: str | None = None, favourable: str | None = None, bins: int | None = None,
    widths: dict[str, float] | None = None, steps: dict[str, float] | None = None,
    columns: Sequence[str] | None = None, drop: Sequence[str] = (), weight: str | None = None, name: str | None = None,
) -> Inferred:  # fmt: skip
    """A schema for a table on disk, to be saved in the folder `beside` (that of the table if None)."""
    if path.is_dir():
        path = saved_split(path, split)
    elif split is not None:
        raise EvenhandError(f"--split is for a folder of a Hugging Face DatasetDict; {path} is none.")
    elif not path.exists():
        raise EvenhandError(f"There is no table {path}.")
    from_csv = is_csv(path)
    separator = separator or (find_separator(path) if from_csv else ",")
    frame = read_table(path, separator)
    where = os.path.relpath(path, beside) if beside is not None else path.name
    top = {"name": name or path.name.partition(".")[0] or "table", "file": Path(where).as_posix()}
    request = InferenceRequest(label, protected, favourable, bins, widths or {}, steps or {}, columns, drop, weight)
    note = header_note(path, separator) if from_csv else None
    return _infer(frame, request, top | ({"separator": separator} if from_csv else {}), note)


def dataset_from(frame: Any, label: str, protected: Sequence[str] | None = None, **options: Any) -> Dataset:
    """A table in memory as a data set, with the schema that `infer_schema` finds; the options are its own."""
    frame = as_frame(frame)
    return encode(infer_schema(frame, label, protected, **options).schema, frame)


def _infer(frame: pd.DataFrame, request: InferenceRequest, top: dict[str, str], note: str | None = None) -> Inferred:
    """What `infer_schema` gives; a CSV file has a separator and with it a notation. `note` is about its header."""
    request = _check(frame, request)
    kept = request.kept(list(map(str, frame.columns)))
    remarks = _remarks(note, [column for column in map(str, frame.columns) if column not in kept])
    frame = frame[kept]
    notation = find_notation(frame, top["separator"]) if "separator" in top else None
    top = top | {sign: text for sign, text in asdict(notation or USUAL).items() if text != getattr(USUAL, sign)}
    top |= {} if request.weight is None else {"weight": request.weight}
    if request.weight is not None:
        remedy = "choose another column of weights, or none"
        sampling_weights(frame, request.weight, notation or USUAL, remedy, of=top["name"])
    label, label_notes = infer_label(frame[request.label], request.favourable)
    split = find_split(frame, [request.label, request.weight or "", *(request.protected or [])])
    columns = [column for column in map(str, frame.columns) if column not in (request.label, request.weight)]
    if split is not None:
        columns.remove(split[0])
    decisions = {column: _decided(frame[column], request.wish(column), notation) for column in columns}
    attributes = attributes_of(frame, decisions, notation)
    _check_use(request, attributes)
    found = attributes.found
    protected = _protected(request, list(map(str, frame.columns)), attributes)
    for key in protected:
        found[key].entry["protected"] = True
        _note_many_values(found[key])
    guessed = not request.protected
    names = unique_names(list(found))
    about = _about(len(frame), guessed, [names[key] for key in protected], notation or USUAL)
    together = remarks_on(frame, attributes, protected, notation)
    text = schema_toml(
        TomlTable(top, [*about, *remarks, *together]),
        TomlTable(label, label_notes),
        None if split is None else split[1],
        [TomlTable(_named(names[key], key, decision), decision.notes) for key, decision in found.items()],
        IMPOSSIBLE,
        attributes.set_aside,
    )
    notes = {names[key]: decision.notes for key, decision in found.items()}
    return Inferred(text, len(frame), label_notes, notes, attributes.passed, attributes.set_aside, guessed, together)


def _remarks(note: str | None, left_out: list[str]) -> list[str]:
    """What the head of a schema says about the columns of its table."""
    remarks = [] if note is None else [f"In the table, {note}."]
    if left_out:
        more = f" and {len(left_out) - SHOWN_NAMES:,} more" if len(left_out) > SHOWN_NAMES else ""
        remarks.append(f"Left out, as asked: {', '.join(left_out[:SHOWN_NAMES])}{more}.")
    return remarks


def _check(frame: pd.DataFrame, request: InferenceRequest) -> InferenceRequest:
    """The request with the columns that it means, if they are there and the table has rows."""
    columns = [str(column) for column in frame.columns]
    check_unique(columns)
    if frame.empty:
        raise EvenhandError("The table has no rows.")
    request = request.for_columns(columns)
    if request.label == request.weight:
        raise EvenhandError(f"'{request.label}' is the decision, so it cannot be the weight as well.")
    if both := [column for column in request.widths if column in request.steps]:
        raise EvenhandError(f"'{both[0]}' is given a width and a step. Give it one of them.")
    if request.bins is not None and request.bins < 2:
        raise EvenhandError(f"There must be at least two bins, not {request.bins}.")
    return request


def _protected(request: InferenceRequest, columns: list[str], attributes: Attributes) -> list[str]:
    """The keys of the attributes to protect: named by a column, by what several columns share, or guessed."""
    if not request.protected:
        return infer_protected({key: attributes.categories_together(key) for key in attributes.searched})
    known = list(dict.fromkeys([*columns, *attributes.found]))
    keys: dict[str, None] = {}
    for name in request.protected:
        meant = name if name in attributes.found else column_called(name, known)
        for use, column in (("label", request.label), ("weight", request.weight)):
            if meant == column:
                raise EvenhandError(f"'{column}' is the {use}, so it cannot be protected as well.")
        key = attributes.home.get(meant, meant)
        if key in attributes.passed or key not in attributes.found:
            why = attributes.passed | attributes.set_aside
            raise _useless(key, why.get(key, "it says which rows train"), protected=True)
        keys[key] = None
    return list(keys)


def _check_use(request: InferenceRequest, attributes: Attributes) -> None:
    """Steps and widths are for numbers, and there must be something to search over."""
    unsearched = attributes.passed | attributes.set_aside
    for column in [*request.widths, *request.steps]:
        if column in unsearched:
            raise _useless(column, unsearched[column], protected=False)
        key = attributes.home.get(column, column)
        if key not in attributes.found or attributes.found[key].entry["kind"] != "number":
            raise EvenhandError(f"The column '{column}' does not hold numbers, so it has no step or width.")
    if len(attributes.searched) < 2:
        columns = f"only one column ({attributes.searched[0]})" if attributes.searched else "no column"
        why = "; ".join(f"{column}: {reason}" for column, reason in unsearched.items())
        rest = f"Set aside: {why}." if why else "No other column is left: check --columns and --drop."
        raise EvenhandError(f"The table has {columns} to search over, but two are needed. {rest}")


def _useless(column: str, reason: str, *, protected: bool) -> EvenhandError:
    """The error for a column that was asked for, but is set aside."""
    remedy = (
        "Choose another protected column; or leave this one out here and give it a kind in the schema file, "
        "in an [[attribute]] of its own."
        if protected
        else "Correct it in the table, or ask for no step or width of it."
    )
    return EvenhandError(f"The column '{column}' cannot be used: {reason}. {remedy}")


def _decided(column: pd.Series, wish: Wish, notation: Notation | None) -> AttributeDraft | Exclusion:
    if is_nameless(str(column.name)):
        return Exclusion("it has no name in the table", passes=False)
    if column.dtype.kind == "c":
        return Exclusion("it holds complex numbers", passes=False)
    try:
        facts = facts_of(column, from_csv=notation is not None, notation=notation or USUAL)
    except EvenhandError:
        return Exclusion("it holds lists, records or other values that are no text, number or boolean", passes=False)
    return decide(facts, wish)


def _note_many_values(decision: AttributeDraft) -> None:
    low, high = decision.entry.get("domain", (0, 0))
    if high - low >= MANY_VALUES:
        decision.notes.append(
            f"It is protected, so its {high - low + 1:,} values are all tried for each person: a larger step is faster."
        )


def _named(name: str, column: str, decision: AttributeDraft) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": name}
    if column != name and "columns" not in decision.entry:
        entry["column"] = column
        why = "; commas are left out, since they separate names" if "," in column else ""
        decision.notes.append(f"The column is called '{column}' in the table{why}.")
    if "_" in name:
        entry["title"] = name.replace("_", " ").strip() or name
    return entry | decision.entry


def _about(rows: int, guessed: bool, protected: list[str], notation: Notation) -> list[str]:
    """The first lines of the file."""
    notes = [
        f"Inferred by `evenhand schema infer` from {rows:,} rows. Read it and correct what is wrong; "
        "`evenhand schema check` then says whether it fits the table."
    ]
    if protected:
        how = "GUESSED BY THEIR NAMES: please check" if guessed else "as given"
        notes.append(f"Protected attributes ({how}): {', '.join(protected)}.")
    else:
        notes.append("No attribute is marked as protected: write protected = true where one should be.")
    return notes if notation == USUAL else [*notes, f"{notation}: please check."]


def unique_names(columns: list[str]) -> dict[str, str]:
    """The names of attributes by column: without commas."""
    names: dict[str, str] = {}
    for column in columns:
        name = wanted = " ".join(column.replace(",", " ").split()) or "column"
        number = 2
        while name in names.values():
            name, number = f"{wanted} {number}", number + 1
        names[column] = name
    return names


def column_called(wanted: str, columns: list[str]) -> str:
    """The column that is meant: its own name, or that of its attribute, which has no commas."""
    if wanted in columns:
        return wanted
    names = unique_names(columns)
    if meant := [column for column, name in names.items() if name == wanted]:
        return meant[0]
    for column, name in names.items():
        if wanted in [part.strip() for part in column.split(",")]:
            raise EvenhandError(
                f"There is no column '{wanted}'. Since commas separate names, write '{name}' for the column '{column}'."
            )
    raise unknown_name("column", wanted, columns)
