"""Rows that a repaired model is asked about, read as far as that model reads them.

A column that it does not read may be absent. A cell that it reads raw goes on as it stands, known to the schema or not;
one that it reads as a code of the schema must have one.
"""

from collections.abc import Collection
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from torch import nn

from evenhand.data.attribute import Attribute, repeated
from evenhand.data.dataset import Dataset
from evenhand.data.raw import cells_of, notation_for
from evenhand.data.schema import Schema
from evenhand.data.tables import is_text, text_column
from evenhand.errors import EvenhandError, nearest
from evenhand.models.adapters.base import BY_NAME, Adapter, FrameAdapter
from evenhand.models.adapters.readers import is_numeric
from evenhand.models.averaged import Averaged
from evenhand.models.network import FeedForward, first_layer


class NewRows:
    """What turns a frame of new rows into data for one model."""

    def __init__(
        self, schema: Schema, module: nn.Module, table: Dataset | None = None, unread: Collection[str] = ()
    ) -> None:
        """A model that reads raw values needs the table; `unread` are attributes that never changed its scores."""
        self._schema = schema
        self._from_csv = table is not None and table.from_csv
        self._table = None if table is None else replace(table, frame=_table_cells(table), from_csv=False, weights=None)
        read, named = attributes_read(module, schema.names), _columns_named(module)
        self._raw = [table is not None and _is_raw(module, each) for each in schema.attributes]
        columns: dict[str, list[str]] = {}
        for attribute, raw in zip(schema.attributes, self._raw, strict=True):
            if attribute.name in read:
                columns[attribute.name] = _columns_of(attribute, named) if raw else _coded_columns(attribute)
        self._wanted = {column for each in columns.values() for column in each}
        self._needed = [name for name in columns if name not in unread]
        self._required = list(dict.fromkeys(column for name in self._needed for column in columns[name]))

    def data(self, frame: pd.DataFrame) -> Dataset:
        """The rows, with a table at its end: they have no label, no weight, and nothing is learned from them."""
        self._check_columns(list(map(str, frame.columns)))
        codes = self._codes(frame)
        labels, train = np.zeros(len(frame), dtype=np.int64), np.zeros(len(frame), dtype=bool)
        if self._table is None:
            return Dataset(self._schema, codes, labels, train)
        table = self._table
        return replace(
            table,
            codes=np.concatenate([table.codes, codes]),
            labels=np.concatenate([table.labels, labels]),
            train=np.concatenate([table.train, train]),
            frame=self._joined(self._cells(frame)),
        )

    def _check_columns(self, present: list[str]) -> None:
        absent = [column for column in self._required if column not in present]
        if absent:
            free = [column for column in present if column not in self._wanted]
            meant = [f"'{close}' for '{column}'" for column in absent if (close := nearest(column, free))]
            hint = f" Did you mean {', '.join(meant)}?" if meant else ""
            raise EvenhandError(
                f"The rows have no column {', '.join(map(repr, absent))}, which the model reads.{hint} They have: "
                f"{', '.join(present)}."
            )
        twice = [column for column in repeated(present) if column in self._wanted]
        if twice:
            raise EvenhandError(
                f"The rows have several columns called {', '.join(map(repr, twice))}. Rename all but one of them."
            )

    def _codes(self, frame: pd.DataFrame) -> NDArray[np.int32]:
        """(n, d) codes of what the model reads as codes; elsewhere, where cells say it or nothing does, usual ones."""
        usual = (
            self._schema.lower if self._table is None else self._table.codes[self._usual_rows, range(len(self._raw))]
        )
        codes = np.tile(np.asarray(usual, dtype=np.int32), (len(frame), 1))
        for index, attribute in enumerate(self._schema.attributes):
            if attribute.name in self._needed and not self._raw[index] and attribute.kind != "pass":
                codes[:, index] = _encoded(attribute, frame, self._schema)
        return codes

    @cached_property
    def _usual_rows(self) -> list[int]:
        """By attribute, the first row of the table that has its commonest code."""
        assert self._table is not None
        columns = self._table.codes.T
        return [int(np.argmax(column == pd.Series(column).mode().iloc[0])) for column in columns]

    @property
    def _known(self) -> pd.DataFrame:
        """The cells of the table."""
        assert self._table is not None
        assert self._table.frame is not None
        return self._table.frame

    def _cells(self, frame: pd.DataFrame) -> dict[str, pd.Series]:
        """The columns of all attributes, typed as in the table; what the model does not read is as usual there."""
        known = self._known
        whole: dict[str, pd.Series] = {}
        for row, attribute in zip(self._usual_rows, self._schema.attributes, strict=True):
            for column in attribute.raw_columns:
                there = column in frame and column in self._wanted
                usual = known[column].iloc[[row] * len(frame)].reset_index(drop=True)
                whole.setdefault(column, frame[column].reset_index(drop=True) if there else usual)
        cells: dict[str, pd.Series] = {}
        for attribute in self._schema.attributes:
            cells |= self._typed(attribute, pd.DataFrame({name: whole[name] for name in attribute.raw_columns}))
        return cells

    def _typed(self, attribute: Attribute, frame: pd.DataFrame) -> dict[str, pd.Series]:
        """The cells of an attribute; text is read as numbers where the table has these."""
        known, notation = self._known, self._schema.notation
        first = notation_for(frame[attribute.raw_columns[0]], notation)
        _check_flags(attribute, frame, known)
        cells = cells_of(attribute, frame, first, from_csv=self._from_csv)
        as_text = {
            name: text_column(frame[name]).astype("str")
            for name in attribute.raw_columns
            if _is_number(known[name]) and not _is_number(cells[name])
        }
        if as_text:
            read = cells_of(attribute, frame.assign(**as_text), notation, from_csv=True)
            cells |= {name: read[name] for name in as_text}
        return cells

    def _joined(self, cells: dict[str, pd.Series]) -> pd.DataFrame:
        """The columns of the table with more cells at their ends."""
        return pd.DataFrame({name: _with_more(known, cells[str(name)]) for name, known in self._known.items()})


def attributes_read(module: nn.Module, names: list[str]) -> set[str]:
    """The attributes that a model reads, by how it is made or by its own declaration; all where nothing says so."""
    if isinstance(module, Averaged):
        return attributes_read(module.inner, names) - {names[place] for place in module.columns}
    if isinstance(module, FeedForward):
        weights = first_layer(module).weight.detach()
        return {name for name, column in zip(names, weights.T, strict=True) if column.any()}
    if isinstance(module, Adapter) and module.reads is not None:
        return set(module.reads)
    return set(names)


def _columns_named(module: nn.Module) -> list[str] | None:
    """The raw columns that a model asks for by name; None where it is given all."""
    return next((part.columns for part in module.modules() if isinstance(part, FrameAdapter)), None)


def _columns_of(attribute: Attribute, named: list[str] | None) -> list[str]:
    """The columns of an attribute that a model reads raw."""
    own = attribute.raw_columns
    return own if named is None else [column for column in own if column in named] or own[:1]


def _coded_columns(attribute: Attribute) -> list[str]:
    """The columns that the code of an attribute is made from; that of a column that passes says nothing."""
    return [] if attribute.kind == "pass" else attribute.columns or [attribute.column]


def _is_raw(module: nn.Module, attribute: Attribute) -> bool:
    """Whether a model is given the cells of an attribute and not what the schema makes of them."""
    asked = module.inner if isinstance(module, Averaged) else module
    reading = asked.reading if isinstance(asked, Adapter) else "codes"
    if reading == BY_NAME:
        return True
    if reading == "raw":
        return is_numeric(attribute)
    return attribute.kind == "number" and reading in ("values", "onehot", "standard")


def _encoded(attribute: Attribute, frame: pd.DataFrame, schema: Schema) -> NDArray[np.int32]:
    """(n,) codes by the schema; an error for a value that it does not know."""
    if attribute.columns:
        return attribute.encode_columns([text_column(frame[name]) for name in attribute.columns])
    column = frame[attribute.column]
    return attribute.encode(text_column(column), notation_for(column, schema.notation))


def _check_flags(attribute: Attribute, frame: pd.DataFrame, known: pd.DataFrame) -> None:
    """Text that is read as yes or no must say one of them."""
    name = attribute.raw_columns[0]
    if attribute.type == "boolean" and not attribute.columns and is_text(frame[name]) and not is_text(known[name]):
        text = text_column(frame[name])
        attribute.encode(text[text.fillna("").str.strip() != ""])


def _is_number(column: pd.Series) -> bool:
    return bool(pd.api.types.is_numeric_dtype(column.dtype))


def _with_more(known: pd.Series, more: pd.Series) -> pd.Series:
    """A column with more cells at its end; new ones of pandas' categories come after those that there were."""
    if isinstance(known.dtype, pd.CategoricalDtype):
        values = more.astype(object)
        new = [value for value in values.dropna().unique() if value not in known.cat.categories]
        kind = pd.CategoricalDtype([*known.cat.categories, *new], ordered=known.cat.ordered)
        known, more = known.astype(kind), values.astype(kind)
    return pd.concat([known, more], ignore_index=True)


def _table_cells(data: Dataset) -> pd.DataFrame:
    """The columns of the attributes, typed, so that tables that write them otherwise can be joined."""
    if data.frame is None:
        return data.decoder.frame(data.clipped)
    cells: dict[str, Any] = {}
    for attribute in data.schema.attributes:
        notation = notation_for(data.frame[attribute.raw_columns[0]], data.schema.notation)
        cells |= cells_of(attribute, data.frame, notation, from_csv=data.from_csv)
    return pd.DataFrame({name: cells[name] for name in map(str, data.frame.columns) if name in cells})
