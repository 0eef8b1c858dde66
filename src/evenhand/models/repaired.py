"""A repaired model as its user needs it: labels and scores for a data frame with the raw columns of the table.

A column that it does not read may be absent. A cell that it reads raw goes on as it stands, known to the schema or not;
one that it reads as a code of the schema must have one.
"""

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import nn

from evenhand.data.attribute import Attribute, repeated
from evenhand.data.dataset import Dataset, builtin_names, encode, load_dataset
from evenhand.data.raw import cells_of, notation_for
from evenhand.data.schema import Schema
from evenhand.data.tables import is_text, text_column
from evenhand.errors import EvenhandError, nearest
from evenhand.models.adapters.base import BY_NAME, Adapter, people_codes
from evenhand.models.adapters.frames import FrameAdapter, is_numeric
from evenhand.models.averaged import AveragedModel
from evenhand.models.classifier import Classifier, Outputs
from evenhand.models.devices import one_thread
from evenhand.models.loading import load_module
from evenhand.models.network import FeedForward, first_layer, network_files, read_description

if TYPE_CHECKING:
    import pandas as pd

MODEL = "model"  # the name of a repaired model's files
LABEL_TYPES = {"b": "boolean", "i": "integer", "u": "integer", "f": "float"}


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
    if isinstance(module, AveragedModel):
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
    asked = module.inner if isinstance(module, AveragedModel) else module
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


class RepairedModel:
    """Labels people as a repair judged it, from the raw columns of the table that it reads.

    A model that reads raw values is given every cell as it stands: nothing is rounded or filled in. `classes_` are the
    labels in the order of the scores.
    """

    def __init__(
        self,
        schema: Schema,
        opened: Callable[[Dataset], Classifier],
        rows: NewRows,
        label_type: str | None = None,
    ) -> None:
        """`opened` makes the model for data, which `rows` makes of the frames that it is asked about."""
        self._schema, self._opened, self._rows = schema, opened, rows
        self.classes_: NDArray[Any] = np.array([_typed(value, label_type) for value in schema.label.values])

    def __repr__(self) -> str:
        return f"<evenhand repaired model for {self._schema.name}: {', '.join(map(str, self.classes_))}>"

    def predict(self, frame: "pd.DataFrame") -> NDArray[Any]:
        """(n,) the label of each row, as the table writes it."""
        outputs = self._outputs(frame)
        labels: NDArray[Any] = self.classes_[[] if outputs is None else outputs.labels.cpu().numpy()]
        return labels

    def predict_proba(self, frame: "pd.DataFrame") -> NDArray[np.float32]:
        """(n, classes) the score of each label, in the order of `classes_`."""
        outputs = self._outputs(frame)
        none = np.zeros((0, len(self.classes_)), dtype=np.float32)
        scores: NDArray[np.float32] = none if outputs is None else outputs.scores.cpu().numpy()
        return scores

    def _outputs(self, frame: "pd.DataFrame") -> Outputs | None:
        """What the model says of rows; None where there are none."""
        from evenhand.data.tables import as_frame

        frame = as_frame(frame)
        if not len(frame):
            return None
        data = self._rows.data(frame)
        model = self._opened(data)
        codes = people_codes(data, model.module)[-len(frame) :]
        with one_thread(model.device):
            return model.outputs(torch.tensor(codes, dtype=torch.float32))


def label_type(data: Dataset) -> str | None:
    """The type of a typed label column: integer, float or boolean; None for text, as all of a CSV file is."""
    if data.frame is None or data.schema.label.column not in data.frame:
        return None
    dtype = data.frame[data.schema.label.column].dtype
    return LABEL_TYPES.get(getattr(getattr(dtype, "numpy_dtype", dtype), "kind", "O"))


def _typed(value: str, kind: str | None) -> Any:
    if kind == "boolean":
        return value.lower() in ("true", "1")
    return {"integer": int, "float": float}.get(kind or "", str)(value)


def description_of(data: Dataset, name: str) -> dict[str, Any]:
    """What the file of a repaired model says of its table, so that it can predict; `name` is how the table is named."""
    schema = data.schema.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return {"schema": schema, "label_type": label_type(data), "data": name, "from_csv": data.from_csv}


def load_repaired(path: str | Path, data: Any = None) -> RepairedModel:
    """The repaired model in a folder that `evenhand repair` wrote, with `predict` and `predict_proba`.

    `data` is the table that it was made for: a data frame, or the name or schema file of a data set. It is needed only
    where the model that was averaged reads raw values and its table is not where it was.
    """
    file = Path(path) / MODEL if Path(path).is_dir() else Path(path)
    if not network_files(file)[0].is_file():
        raise EvenhandError(f"{path} holds no repaired model. Give the folder of a repair of a table, or its model.")
    description = read_description(file)
    if not isinstance(description.get("schema"), dict):
        raise EvenhandError(
            f"{network_files(file)[1]} does not say how the columns of a table are read. Give a model that `evenhand "
            "repair` made for a table."
        )
    schema = Schema.parse(description["schema"], where=str(network_files(file)[1]))
    weights, kind = str(network_files(file)[0]), description.get("label_type")
    if isinstance(description.get("inner"), str):
        table = _table_for(schema, data, description, file)
        module, _ = load_module(table, weights)  # what is wrong with it is said now
        reader = NewRows(schema, module, table, _names(description.get("unread")))
        return RepairedModel(schema, lambda rows: Classifier(load_module(rows, weights)[0]), reader, kind)
    nobody = Dataset(schema, np.zeros((0, len(schema.names)), np.int32), np.zeros(0, np.int64), np.zeros(0, bool))
    model = Classifier(load_module(nobody, weights)[0])
    return RepairedModel(schema, lambda rows: model, NewRows(schema, model.module), kind)  # it reads codes


def _table_for(schema: Schema, data: Any, description: dict[str, Any], path: Path) -> Dataset:
    """The table that a model was repaired for, read by the schema of then."""
    from evenhand.data.tables import as_frame

    if data is None:
        data = description.get("data")
        if data not in builtin_names() and not (str(data).endswith(".toml") and Path(str(data)).is_file()):
            raise EvenhandError(
                f"{path} asks a model that reads raw values, and the table that it was repaired for, {data}, is not "
                "there. Give it: load_repaired(path, data=FRAME)."
            )
    frame: Any = load_dataset(str(data)).frame if isinstance(data, str | Path) else getattr(data, "frame", data)
    return encode(schema, as_frame(frame), from_csv=bool(description.get("from_csv")))


def _names(listed: Any) -> list[str]:
    """Names in a description; files that were made before it had them list none."""
    return [str(name) for name in listed] if isinstance(listed, list) else []
