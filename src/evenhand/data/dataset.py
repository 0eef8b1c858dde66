"""A table with its schema: raw values, codes, labels, and which rows are held out."""

from dataclasses import dataclass, replace
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from evenhand.data.attribute import ANY_OTHER, Attribute, as_list, repeated, such_values
from evenhand.data.notation import Notation, numbers_in_text
from evenhand.data.schema import Schema
from evenhand.errors import EvenhandError, nearest, unknown_name

if TYPE_CHECKING:  # schemas alone are read by processes that never open a table
    import pandas as pd

    from evenhand.data.decoding import Decoder
    from evenhand.data.raw import Beyond

BUILTIN = Path(str(resources.files("evenhand.data") / "builtin"))


@dataclass(frozen=True)
class Dataset:
    """Rows about people, as a network reads them and as people read them."""

    schema: Schema
    codes: NDArray[np.int32]  # (rows, d), out-of-domain values included
    labels: NDArray[np.int64]  # (rows,)
    train: NDArray[np.bool_]  # (rows,) false for held-out rows
    frame: "pd.DataFrame | None" = None  # the table as it was read, with columns that are no attributes too
    weights: NDArray[np.float64] | None = None  # (rows,) how many people each row stands for; None: each for one
    from_csv: bool = False  # the frame has text in which a program that reads the file finds types and missing values

    @property
    def name(self) -> str:
        """The data set's short name."""
        return self.schema.name

    @cached_property
    def clipped(self) -> NDArray[np.int32]:
        """(rows, d) the codes moved into the domain, where the search lives."""
        return np.clip(self.codes, self.schema.lower, self.schema.upper).astype(np.int32)

    @cached_property
    def exact(self) -> NDArray[np.int32]:
        """(rows, d) codes that stand for the raw values themselves, beyond the domain where it has none for them."""
        return self._exactly[0]

    @cached_property
    def beyond(self) -> "list[Beyond | None]":
        """By attribute, the raw values that its domain has no code for."""
        return self._exactly[1]

    @cached_property
    def decoder(self) -> "Decoder":
        """What turns codes, exact ones too, into rows of the table."""
        from evenhand.data.decoding import Decoder

        return Decoder(self.schema, self.beyond, self.frame)

    @cached_property
    def _exactly(self) -> "tuple[NDArray[np.int32], list[Beyond | None]]":
        from evenhand.data.decoding import Decoder
        from evenhand.data.raw import beyond_domain, passed_codes

        if self.frame is None:
            return self.clipped, [None] * len(self.schema.attributes)
        grid, exact = Decoder(self.schema, frame=self.frame), self.clipped.copy()
        behind: list[Beyond | None] = []
        beyond: Beyond | None
        for index, attribute in enumerate(self.schema.attributes):
            cells = self._cells(attribute, self.frame)
            if attribute.kind == "pass":
                exact[:, index], beyond = passed_codes(attribute.column, cells[attribute.column])
            else:
                meant = grid.cells(index, self.clipped[:, index])
                exact[:, index], beyond = beyond_domain(attribute, cells, meant, self.codes[:, index])
            behind.append(beyond)
        return exact, behind

    def _cells(self, attribute: Attribute, frame: "pd.DataFrame") -> "dict[str, pd.Series]":
        """The columns of an attribute as a program reads them."""
        from evenhand.data.raw import cells_of, notation_for

        notation = notation_for(frame[attribute.raw_columns[0]], self.schema.notation)
        return cells_of(attribute, frame, notation, from_csv=self.from_csv)

    @cached_property
    def possible(self) -> NDArray[np.bool_]:
        """(rows,) false for rows that a rule of the schema calls impossible."""
        possible = np.ones(len(self.codes), dtype=bool)
        for rule in self.schema.rules:
            possible &= ~rule.applies_to(self.clipped, self.schema.lower)
        return possible

    def is_in_domain(self, row: int) -> bool:
        """Whether the domain has just the values of a row, so that a sample can be that person."""
        return bool((self.exact[row] == self.codes[row]).all() and (self.codes[row] == self.clipped[row]).all())

    def numbers(self, index: int) -> NDArray[np.float64]:
        """(rows,) the numbers of an attribute as they stand in the table; not a number where one is missing."""
        import pandas as pd

        from evenhand.data.decoding import numbers_of

        attribute = self.schema.attributes[index]
        if self.frame is None:
            return numbers_of(attribute, self.clipped[:, index])
        cells = self._cells(attribute, self.frame)[attribute.column]
        return np.asarray(pd.to_numeric(cells).to_numpy(dtype=np.float64, na_value=np.nan))

    def compared_within(self, distances: dict[str, float], protected: list[str]) -> "Dataset":
        """The same data, whose protected numbers are compared with values up to so far from a person's own."""
        return replace(self, schema=self.schema.compared_within(distances, protected)) if distances else self

    def text(self, index: int, code: int, *, exact: bool = False) -> str:
        """The value behind a code of one attribute in words; behind an exact code, that of the table."""
        beyond, attribute = self.beyond[index] if exact else None, self.schema.attributes[index]
        if beyond is None or code < beyond.first:
            return attribute.text(code)
        from evenhand.data.raw import cell_text

        return cell_text(attribute, {name: cells.iloc[code - beyond.first] for name, cells in beyond.cells.items()})

    def sentence(self, index: int, code: int, *, exact: bool = False) -> str:
        """The same as part of a sentence about a person."""
        return self.schema.attributes[index].phrased(self.text(index, code, exact=exact))

    def shown(self, *, exact: bool = False) -> list[int]:
        """The attributes whose codes say something about a person; that a column passes only exact codes can say."""
        return [index for index, attribute in enumerate(self.schema.attributes) if exact or attribute.kind != "pass"]

    def describe(self, codes: NDArray[np.int32]) -> str:
        """One person in words."""
        return ", ".join(self.sentence(index, int(codes[index])) for index in self.shown())


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
    path = schema_path(name_or_path)
    schema = Schema.load(path)
    return read_dataset(schema, path.parent / schema.file)


def read_dataset(schema: Schema, table: Path) -> Dataset:
    """The table in a file or folder, read by a schema."""
    from evenhand.data.csv_files import is_csv
    from evenhand.data.tables import read_table

    return encode(schema, read_table(table, schema.separator), from_csv=is_csv(table))


def encode(schema: Schema, frame: "pd.DataFrame", *, from_csv: bool = False) -> Dataset:
    """Codes and labels of a raw table; one of a CSV file is text, one in memory has the cells that a model is given."""
    from evenhand.data.raw import notation_for
    from evenhand.data.tables import text_column

    wanted = [column for attribute in schema.attributes for column in attribute.raw_columns] + [schema.label.column]
    wanted += [column for column in (schema.split.column, schema.weight) if column is not None]
    _check_columns(schema, wanted, list(map(str, frame.columns)))
    if frame.empty:
        raise EvenhandError(f"{_table_of(schema)} has no rows.")
    train = _train_mask(schema, frame)
    if not train.any():
        raise EvenhandError(
            f"The split of {schema.name} leaves no row to train on: the table has {len(frame)} in all. "
            "Lower split.held_out, give split.train_rows, or add rows to the table."
        )
    schema = schema.model_copy(
        update={"attributes": [_as_in_table(each, frame, from_csv) for each in schema.attributes]}
    )
    codes = np.zeros((len(frame), len(schema.attributes)), dtype=np.int32)
    for index, attribute in enumerate(schema.attributes):
        if attribute.kind == "pass":
            continue
        if attribute.columns:
            codes[:, index] = attribute.encode_columns([text_column(frame[name]) for name in attribute.columns])
            continue
        text, notation = text_column(frame[attribute.column]), notation_for(frame[attribute.column], schema.notation)
        codes[:, index] = attribute.encode(text, notation)
    labels = _labels(schema, text_column(frame[schema.label.column]))
    return Dataset(schema, codes, labels, train, frame, _weights(schema, frame), from_csv)


def _train_mask(schema: Schema, frame: "pd.DataFrame") -> NDArray[np.bool_]:
    """(rows,) which rows train."""
    from evenhand.data.tables import text_column

    if schema.split.column is None:
        return schema.split.train_mask(len(frame))
    values = text_column(frame[schema.split.column]).fillna("").str.strip()
    return schema.split.train_mask(len(frame), values.to_numpy(dtype=object))


def _weights(schema: Schema, frame: "pd.DataFrame") -> NDArray[np.float64] | None:
    """(rows,) the sampling weights of a table, if it has any."""
    if schema.weight is None:
        return None
    remedy = f'take weight = "{schema.weight}" out of the schema'
    return sampling_weights(frame, schema.weight, schema.notation, remedy, of=schema.name)


def sampling_weights(
    frame: "pd.DataFrame", column: str, notation: Notation, remedy: str, *, of: str = "the table"
) -> NDArray[np.float64]:
    """(rows,) the numbers of a column of weights, checked: one for each row, none below 0, not all 0."""
    from evenhand.data.raw import notation_for
    from evenhand.data.tables import text_column

    text = text_column(frame[column]).fillna("").str.strip()
    weights = numbers_in_text(text, notation_for(frame[column], notation))
    wrong = ~np.isfinite(weights) | (weights < 0)
    if wrong.any():
        row, count = int(np.argmax(wrong)), int(wrong.sum())
        raise EvenhandError(
            f"Row {row + 1}, column '{column}': '{text.iloc[row]}' is no weight, which is a number that is not "
            f"negative. Correct the value, or {remedy} ({such_values(count)})."
        )
    if not weights.any():
        raise EvenhandError(
            f"All weights of {of} (column '{column}') are 0, so nobody counts. Correct them, or {remedy}."
        )
    return weights


def _as_in_table(attribute: Attribute, frame: "pd.DataFrame", from_csv: bool) -> Attribute:
    """The attribute with what only the table says: the type of a column, what stands for a passed one."""
    from evenhand.data.raw import as_pandas_reads
    from evenhand.data.tables import is_text, text_column

    if attribute.kind == "pass":
        commonest = text_column(frame[attribute.column]).mode()
        return attribute.model_copy(update={"categories": [str(commonest.iloc[0])] if len(commonest) else ["unknown"]})
    column = frame[attribute.raw_columns[0]]
    if attribute.kind == "number" or attribute.type is not None or attribute.columns:
        return attribute
    if is_text(column):
        if not from_csv or not attribute.looks_typed:
            return attribute
        column = as_pandas_reads(column)
    kinds = {"b": "boolean", "i": "integer", "u": "integer", "f": "float"}
    found = kinds.get(getattr(getattr(column.dtype, "numpy_dtype", column.dtype), "kind", "O"))
    categories = attribute.categories if found is None else _with_examples(attribute, frame)
    return attribute.model_copy(update={"type": found, "categories": categories})


def _with_examples(attribute: Attribute, frame: "pd.DataFrame") -> list[str | list[str]]:
    """The categories, with the commonest of all other values where nothing else stands for them."""
    from evenhand.data.tables import text_column

    texts = text_column(frame[attribute.column]).dropna().str.strip()
    others = texts[~texts.isin([*attribute.listed, *attribute.missing_marks, ""])].value_counts()
    first = [str(others.index[0])] if len(others) else []
    return [[*first, ANY_OTHER] if as_list(group) == [ANY_OTHER] and first else group for group in attribute.categories]


def _table_of(schema: Schema) -> str:
    """A table at the start of a sentence; one in memory is called just that."""
    return "The table" if schema.name == "table" else f"The table of {schema.name}"


def _check_columns(schema: Schema, wanted: list[str], present: list[str]) -> None:
    absent = [column for column in wanted if column not in present]
    if absent:
        free = [column for column in present if column not in wanted]
        meant = [f"'{close}' for '{column}'" for column in absent if (close := nearest(column, free))]
        hint = f" Did you mean {', '.join(meant)}?" if meant else ""
        raise EvenhandError(
            f"{_table_of(schema)} has no column {', '.join(map(repr, absent))}.{hint} It has: {', '.join(present)}."
        )
    twice = [column for column in repeated(present) if column in wanted]
    if twice:
        raise EvenhandError(
            f"{_table_of(schema)} has several columns called {', '.join(map(repr, twice))}. Rename all but one of them."
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
