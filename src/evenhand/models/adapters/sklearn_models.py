"""Estimators and pipelines in the manner of scikit-learn, on raw columns or on a matrix of numbers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.data.dataset import Dataset
from evenhand.models.adapters.base import Adapter, FrameAdapter, two_columns
from evenhand.models.adapters.feature_entries import Inputs
from evenhand.models.adapters.readers import Columns, Matrix, RawMatrix, check_width
from evenhand.models.adapters.skops_files import read_skops
from evenhand.models.adapters.threads import in_one_thread
from evenhand.models.classifier import OutputForm

BOOSTERS = ("lightgbm", "xgboost")


def open_skops(data: Dataset, path: Path, inputs: Inputs) -> Adapter:
    """An estimator or pipeline from a file of skops."""
    adapter = wrap_estimator(data, read_skops(path), inputs)
    adapter.about = path.name
    return adapter


def wrap_estimator(data: Dataset, model: Any, inputs: Inputs) -> Adapter:
    """An object with predict_proba, decision_function or predict, as a module that reads codes.

    One that was fitted on a data frame reads the raw columns by its `feature_names_in_`. One that was fitted on a
    matrix reads a column for each attribute: numbers as they are, categories as their number where the schema gives
    them the type integer, float or boolean, else as their code. With `inputs` (codes, values, onehot, standard) it
    reads that matrix instead. Other objects read the whole raw data frame.
    """
    ask, output = question(model)
    adapter = FrameAdapter(
        data.schema,
        in_one_thread(ask),
        about=type(model).__name__,
        classes=getattr(model, "classes_", None),
        no_gradients="models in the manner of scikit-learn have none",
        read=_reader(data, model, inputs),
    )
    adapter.output = output
    return adapter


def _reader(data: Dataset, model: Any, inputs: Inputs) -> Callable[[NDArray[np.int32]], Any] | None:
    """What turns codes into the rows that the model was fitted on; None for the whole raw table."""
    whose = type(model).__name__
    if type(model).__module__.partition(".")[0] in BOOSTERS:
        from evenhand.models.adapters.boosters import reader_of

        return reader_of(data, model, inputs)
    names = getattr(model, "feature_names_in_", None)
    if inputs is not None:
        return Matrix(data, inputs, names, whose)
    if names is not None:
        return Columns(data, list(names), whose)
    if hasattr(model, "n_features_in_"):
        check_width(data, model.n_features_in_, whose)
        return RawMatrix(data)
    return None


def question(model: Any) -> tuple[Callable[[Any], Any], OutputForm]:
    """What to ask the model, and what it answers with."""
    if hasattr(model, "predict_proba"):
        return model.predict_proba, "probabilities"
    classes = getattr(model, "classes_", None)
    if hasattr(model, "decision_function"):
        return lambda rows: two_columns(np.asarray(model.decision_function(rows)), 0), "logits"
    if classes is None:
        return model.predict, "auto"
    return lambda rows: (np.asarray(model.predict(rows))[:, None] == np.asarray(classes)).astype(np.float32), "auto"
