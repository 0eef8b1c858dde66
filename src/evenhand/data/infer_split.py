"""Whether a column says which rows train and which do not."""

import pandas as pd

from evenhand.data.infer_columns import shown
from evenhand.data.known_names import plain, words_of
from evenhand.data.schema_text import Described
from evenhand.data.tables import text_column

NAMES = frozenset(["split", "set", "subset", "partition", "dataset", "fold", "part"])
TRAIN = frozenset(["train", "training", "trn"])
HELD_OUT = frozenset(
    ["test", "testing", "tst", "valid", "validation", "val", "dev", "holdout", "hold-out", "hold_out", "heldout",
     "held-out", "held_out", "eval", "evaluation"]
)  # fmt: skip


def find_split(frame: pd.DataFrame, taken: list[str]) -> tuple[str, Described] | None:
    """The column of the table's own split, if there is one, and the split's table in a schema."""
    for column in map(str, frame.columns):
        if column in taken or not words_of(column) & NAMES:
            continue
        values = list(text_column(frame[column]).fillna("").str.strip().unique())
        train = [value for value in values if plain(value) in TRAIN]
        if train and len(values) > len(train) and {plain(value) for value in values} <= TRAIN | HELD_OUT:
            note = f"The table's own split: rows whose column is {' or '.join(map(shown, train))} train."
            return column, Described({"column": column, "train": train[0] if len(train) == 1 else train}, [note])
    return None
