"""A repaired model as its user needs it: labels and scores for a data frame with the raw columns of the table."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from evenhand.data.dataset import Dataset, builtin_names, encode, load_dataset
from evenhand.data.schema import Schema
from evenhand.errors import EvenhandError
from evenhand.models.classifier import Classifier, Outputs
from evenhand.models.devices import one_thread
from evenhand.models.loading import load_module
from evenhand.models.network import network_files, read_description
from evenhand.models.new_rows import NewRows
from evenhand.models.people import people_codes

if TYPE_CHECKING:
    import pandas as pd

MODEL = "model"  # the name of a repaired model's files
LABEL_TYPES = {"b": "boolean", "i": "integer", "u": "integer", "f": "float"}


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
