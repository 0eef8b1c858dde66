"""A table with its schema: raw values, codes, labels, and which rows are held out."""

from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from evenhand.data.attribute import repeated
from evenhand.data.notation import USUAL
from evenhand.data.schema import Schema
from evenhand.errors import EvenhandError, nearest, unknown_name

if TYPE_CHECKING:  # schemas alone are read by processes that never open a table
    import pandas as pd

BUILTIN = Path(str(resources.files("evenhand.data") / "builtin"))


@dataclass(frozen=True)
class Dataset:
    """Rows about people, as a network reads them and as people read them."""

    schema: Schema
    codes: NDArray[np.int32]  # (rows, d), out-of-domain values included
    labels: NDArray[np.int64]  # (rows,)
    train: NDArray[np.bool_]  # (rows,) false for held-out rows
    read_otherwise: NDArray[np.bool_] | None = (
        None  # (rows,) true where a number was rounded or filled in; None: nowhere
    )

    @property
    def name(self) -> str:
        """The data set's short name."""
        return self.schema.name

    @cached_property
    def clipped(self) -> NDArray[np.int32]:
        """(rows, d) the codes moved into the domain, where the search lives."""
        return np.clip(self.codes, self.schema.lower, self.schema.upper).astype(np.int32)

    @cached_property
    def as_they_are(self) -> NDArray[np.bool_]:
        """(rows,) whether the codes say just what the table says: in the domain, nothing rounded, nothing filled in."""
        inside: NDArray[np.bool_] = (self.codes == self.clipped).all(axis=1)
        return inside if self.read_otherwise is None else inside & ~self.read_otherwise

    @cached_property
    def possible(self) -> NDArray[np.bool_]:
        """(rows,) false for rows that a rule of the schema calls impossible."""
        possible = np.ones(len(self.codes), dtype=bool)
        for rule in self.schema.rules:
            possible &= ~rule.applies_to(self.clipped, self.schema.lower)
        return possible

    def describe(self, codes: NDArray[np.int32]) -> str:
        """One person in words."""
        pairs = zip(self.schema.attributes, codes, strict=True)
        return ", ".join(attribute.sentence(int(code)) for attribute, code in pairs)


def builtin_names() -> list[str]:
    """The data sets that come with the package."""
    return sorted(path.stem for path in BUILTIN.glob("*.toml"))


def schema_path(name_or_path: str) -> Path:
    """A built-in data set's schema by name, or a schema file of the user's own."""
    if name_or_path in builtin_names():
        return BUILTIN / f"{name_or_path}.toml"
    path = Path(name_or_path)
    if path.suffix == ".toml":
        return path
    raise unknown_name("data set", name_or_path, [*builtin_names(), "PATH/TO/SCHEMA.toml"])


def load_schema(name_or_path: str) -> Schema:
    """The schema of a built-in data set or of a schema file, without reading the rows."""
    return Schema.load(schema_path(name_or_path))


def load_dataset(name_or_path: str) -> Dataset:
    """A built-in data set by name, or the table that a schema file names."""
    from evenhand.data.tables import read_table

    path = schema_path(name_or_path)
    schema = Schema.load(path)
    frame = read_table(path.parent / schema.file, schema.separator)
    return encode(schema, frame)


def encode(schema: Schema, frame: "pd.DataFrame") -> Dataset:
    """Codes and labels of a raw table."""
    from evenhand.data.tables import is_text, text_column

    wanted = [attribute.column for attribute in schema.attributes] + [schema.label.column]
    _check_columns(schema, wanted, list(map(str, frame.columns)))
    if frame.empty:
        raise EvenhandError(f"The table of {schema.name} has no rows.")
    train = schema.split.train_mask(len(frame))
    if not train.any():
        raise EvenhandError(
            f"The split of {schema.name} leaves no row to train on: the table has {len(frame)} in all. "
            "Lower split.held_out, give split.train_rows, or add rows to the table."
        )
    columns = {column: text_column(frame[column]) for column in wanted}
    codes = np.empty((len(frame), len(schema.attributes)), dtype=np.int32)
    otherwise = np.zeros(len(frame), dtype=bool)
    for index, attribute in enumerate(schema.attributes):
        text = columns[attribute.column]
        notation = schema.notation if is_text(frame[attribute.column]) else USUAL  # typed numbers have none
        codes[:, index] = attribute.encode(text, notation)
        otherwise |= attribute.read_otherwise(text, codes[:, index], notation)
    return Dataset(schema, codes, _labels(schema, columns[schema.label.column]), train, otherwise)


def _check_columns(schema: Schema, wanted: list[str], present: list[str]) -> None:
    absent = [column for column in wanted if column not in present]
    if absent:
        free = [column for column in present if column not in wanted]
        meant = [f"'{close}' for '{column}'" for column in absent if (close := nearest(column, free))]
        hint = f" Did you mean {', '.join(meant)}?" if meant else ""
        raise EvenhandError(
            f"The table of {schema.name} has no column {', '.join(map(repr, absent))}.{hint} "
            f"It has: {', '.join(present)}."
        )
    twice = [column for column in repeated(present) if column in wanted]
    if twice:
        raise EvenhandError(
            f"The table of {schema.name} has several columns called {', '.join(map(repr, twice))}. "
            "Rename all but one of them."
        )


def _labels(schema: Schema, column: "pd.Series") -> NDArray[np.int64]:
    values = column.astype("string").str.strip()
    codes = values.map({value: code for code, value in enumerate(schema.label.values)})
    if codes.isna().any():
        row = int(np.argmax(codes.isna()))
        raise EvenhandError(
            f"Row {row + 1}, column '{schema.label.column}': '{values.iloc[row]}' is not a label of {schema.name}. "
            f"Known: {', '.join(schema.label.values)}."
        )
    return codes.to_numpy().astype(np.int64)
