"""The parts that columns play: the label and its favourable value, who is protected, which rows train."""

import re
from typing import Any

import pandas as pd

from evenhand.data.infer.columns import short_quote
from evenhand.data.infer.facts import Facts, facts_of
from evenhand.data.infer.schema_file import TomlSuggestion, TomlTable, suggested_words, value_text
from evenhand.data.infer.words import (
    BAD,
    BAD_NAMES,
    FAMILIES,
    GOOD,
    ILL_NAMES,
    PROTECTED_NAMES,
    YES,
    is_about,
    simplified,
    words_of,
)
from evenhand.data.tables import text_column
from evenhand.errors import EvenhandError, unknown_name

MOST_LABELS = 20
NUMBER = re.compile(r"[+-]?\d+")
NAMES = frozenset(["split", "set", "subset", "partition", "dataset", "fold", "part"])
TRAIN = frozenset(["train", "training", "trn"])
HELD_OUT = frozenset(
    ["test", "testing", "tst", "valid", "validation", "val", "dev", "holdout", "hold-out", "hold_out", "heldout",
     "held-out", "held_out", "eval", "evaluation"]
)  # fmt: skip


def infer_label(column: pd.Series, favourable: str | None) -> tuple[dict[str, Any], list[str]]:
    """The label's table in a schema, and what to say about it."""
    facts = facts_of(column, from_csv=False, markers=False)
    if facts.missing:
        row = int(column.isna().to_numpy().argmax()) + 1 if column.isna().any() else None
        first = f", first row {row}" if row else ""
        raise EvenhandError(
            f"The decision '{column.name}' has no value in {facts.missing:,} of {facts.rows:,} rows{first}. "
            "Remove those rows from the table, or fill the value."
        )
    values = facts.values
    if len(values) < 2:
        raise EvenhandError(
            f"The decision '{column.name}' is {short_quote(values[0])} in every row; there must be at least two values "
            "to tell apart. Choose another column."
        )
    if len(values) > MOST_LABELS:
        raise EvenhandError(
            f"The decision '{column.name}' has {len(values):,} different values, more than {MOST_LABELS}. A classifier "
            "decides between a few; choose another column, or make classes of it."
        )
    chosen, reason = _favourable(facts, favourable)
    counts = ", ".join(f"{short_quote(value)} {count:,}" for value, count in zip(values, facts.counts, strict=True))
    label: dict[str, Any] = {"column": str(column.name), "values": values}
    if all(NUMBER.fullmatch(value) for value in values):
        label["words"] = suggested_words(len(values))
    return label | {"favourable": chosen}, [f"Rows: {counts}.", reason]


def _favourable(facts: Facts, wanted: str | None) -> tuple[str | TomlSuggestion, str]:
    if wanted is not None:
        if wanted not in facts.values:
            raise unknown_name(f"value of the decision '{facts.name}' called", wanted, facts.values)
        return wanted, "The favourable value is as given."
    check = "is a guess: please check"
    words = words_of(facts.name)
    if words & BAD_NAMES and (good := [value for value in facts.values if simplified(value) in BAD]):
        why = f"That {short_quote(good[0])} is favourable {check} (the column's name sounds like a bad outcome)."
        return good[0], why
    known = GOOD - YES if words & (BAD_NAMES | ILL_NAMES) else GOOD
    if good := [value for value in facts.values if simplified(value) in known]:
        return good[0], f"That {short_quote(good[0])} is favourable {check}."
    hint = "Take away the # and name the value that people hope for:"
    reason = "Which value is favourable is not known: please write it into the schema."
    return TomlSuggestion(value_text(facts.values[-1]), hint), reason


def infer_protected(columns: dict[str, list[str]]) -> list[str]:
    """The columns whose names say that they are about who a person is: by a word such as age, or as `female` does.

    They come with the categories of one-hot groups, which may say it too.
    """
    return [column for column, categories in columns.items() if _is_protected(column, categories)]


def _is_protected(name: str, categories: list[str]) -> bool:
    if words_of(name) & PROTECTED_NAMES:
        return True
    kinds = FAMILIES.values()
    together = categories and any(all(is_about(each, kind | {"other"}) for each in categories) for kind in kinds)
    return bool(together) or any(is_about(name, kind) for kind in kinds)


def find_split(frame: pd.DataFrame, taken: list[str]) -> tuple[str, TomlTable] | None:
    """The column of the table's own split, if there is one, and the split's table in a schema."""
    for column in map(str, frame.columns):
        if column in taken or not words_of(column) & NAMES:
            continue
        values = list(text_column(frame[column]).fillna("").str.strip().unique())
        train = [value for value in values if simplified(value) in TRAIN]
        if train and len(values) > len(train) and {simplified(value) for value in values} <= TRAIN | HELD_OUT:
            note = f"The table's own split: rows whose column is {' or '.join(map(short_quote, train))} train."
            return column, TomlTable({"column": column, "train": train[0] if len(train) == 1 else train}, [note])
    return None
