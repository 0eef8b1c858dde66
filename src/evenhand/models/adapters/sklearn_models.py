"""Estimators and pipelines in the manner of scikit-learn, on raw columns or on a matrix of numbers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.choices import OutputForm
from evenhand.data.dataset import Dataset
from evenhand.data.schema import Label
from evenhand.errors import EvenhandError
from evenhand.models.adapters.base import Adapter, FrameAdapter, class_order, two_columns
from evenhand.models.adapters.feature_entries import Inputs
from evenhand.models.adapters.readers import Columns, Matrix, RawMatrix, attributes_named, check_width
from evenhand.models.adapters.skops_files import read_skops
from evenhand.models.adapters.threads import in_one_thread

BOOSTERS = ("lightgbm", "xgboost")


def open_skops(data: Dataset, path: Path, inputs: Inputs) -> Adapter:
    """An estimator or pipeline from a file of skops."""
    adapter = wrap_estimator(data, read_skops(path), inputs)
    adapter.about = path.name
    return adapter


def wrap_estimator(data: Dataset, model: Any, inputs: Inputs) -> Adapter:
    """An object with predict_proba, decision_function or predict, as a module that reads codes.

    One that was fitted on a data frame reads the raw columns by its `feature_names_in_`. One that was fitted on a
    matrix reads a matrix of `inputs`: raw (numbers as they are, categories as their number where the schema gives them
    the type integer, float or boolean, else as their code), codes, values, onehot or standard. Other objects read the
    whole raw data frame.
    """
    refuse_regressor(model)
    ask, output = question(model)
    read = _reader(data, model, inputs)
    scores_too = hasattr(model, "predict_proba") or hasattr(model, "decision_function")
    adapter = FrameAdapter(
        data,
        in_one_thread(ask),
        about=type(model).__name__,
        classes=getattr(model, "classes_", None),
        no_gradients="scikit-learn models have none",
        read=read,
        decide=in_one_thread(model.predict) if scores_too and hasattr(model, "predict") else None,
    )
    adapter.output = output
    adapter.own_threshold = own_threshold(model, data.schema.label)
    if isinstance(read, Columns):
        adapter.reads = _declared(data, model, read)
    elif read is not None:
        adapter.told(inputs)
    return adapter


def refuse_regressor(model: Any) -> None:
    """An error for a model that predicts a number and not one of several classes."""
    try:
        from sklearn.base import BaseEstimator, is_regressor

        regressor = isinstance(model, BaseEstimator) and is_regressor(model)
        fitted = isinstance(model, BaseEstimator) and hasattr(model, "predict") and not hasattr(model, "predict_proba")
    except ImportError:
        return
    if regressor or (fitted and not hasattr(model, "classes_") and not hasattr(model, "decision_function")):
        raise EvenhandError(
            f"{type(model).__name__} is a regressor: it predicts a number and has no classes (classes_), no "
            "probabilities. Only classifiers can be audited. If a number from some value on means one of the labels, "
            "say so in a function of a data frame that returns the label, and name that function as the model."
        )


def _declared(data: Dataset, model: Any, read: Columns) -> list[str]:
    """The attributes that a model says it reads: by the names of its columns, less those that it drops at once."""
    dropped = dropped_columns(model)
    named = [name for name in read.names if name not in dropped]
    return [data.schema.names[place] for place in attributes_named(data.schema, named, type(model).__name__)]


def dropped_columns(model: Any) -> set[str]:
    """Columns that the first step of a pipeline, a ColumnTransformer, takes and hands to nobody."""
    first = model
    for name in ("best_estimator_", "estimator_"):
        first = getattr(first, name, first)
    first = first.steps[0][1] if getattr(first, "steps", None) else first
    if not hasattr(first, "transformers_") or not hasattr(first, "feature_names_in_"):
        return set()
    names = list(first.feature_names_in_)
    kept: set[str] = set()
    for _, transformer, columns in first.transformers_:
        if isinstance(transformer, str) and transformer == "drop":
            continue
        if isinstance(columns, slice) or not np.iterable(columns) or isinstance(columns, str):
            columns = _sliced(names, columns) if isinstance(columns, slice) else [columns]
        chosen = list(columns)
        if len(chosen) == len(names) and all(isinstance(each, bool | np.bool_) for each in chosen):
            chosen = [name for name, there in zip(names, chosen, strict=True) if there]
        kept |= {str(names[each]) if isinstance(each, int | np.integer) else str(each) for each in chosen}
    return set(map(str, names)) - kept


def _sliced(names: list[str], columns: slice) -> list[str]:
    """The names that a slice means: of positions, or of names, whose last one is among them."""
    ends = [columns.start, columns.stop]
    if not any(isinstance(end, str) for end in ends):
        return names[columns]
    first, last = (None if end is None else names.index(end) for end in ends)
    return names[first : None if last is None else last + 1 : columns.step]


def _reader(data: Dataset, model: Any, inputs: Inputs) -> Callable[[NDArray[np.int32]], Any] | None:
    """What turns codes into the rows that the model was fitted on; None for the whole raw table."""
    whose = type(model).__name__
    if type(model).__module__.partition(".")[0] in BOOSTERS:
        from evenhand.models.adapters.boosters import reader_of

        return reader_of(data, model, inputs)
    names = getattr(model, "feature_names_in_", None)
    width = getattr(model, "n_features_in_", None)
    if inputs == "raw" and names is None:
        if width is not None:
            check_width(data, width, whose)
        return RawMatrix(data)
    if inputs is not None:
        matrix = Matrix(data, inputs, names, whose)
        if names is None and width is not None and matrix.width != width:
            raise EvenhandError(
                f"{whose} reads {width} columns without names; with inputs = {inputs} there are {matrix.width}."
            )
        return matrix
    if names is not None:
        return Columns(data, list(names), whose)
    if width is not None:
        check_width(data, width, whose)
        return RawMatrix(data)
    return None


def own_threshold(model: Any, label: Label) -> float | None:
    """The score of the schema's last class from which on a tuned classifier gives it; None where it names none.

    It may be the last step of a pipeline, or what a search found best. Of two classes either may be the one that the
    classifier's own threshold is about.
    """
    while hasattr(model, "best_estimator_") or getattr(model, "steps", None):
        model = model.best_estimator_ if hasattr(model, "best_estimator_") else model.steps[-1][1]
    own = getattr(model, "best_threshold_", getattr(model, "threshold", None))
    classes = list(getattr(model, "classes_", []))
    if isinstance(own, bool) or not isinstance(own, int | float | np.number) or len(classes) != 2:
        return None
    by_margin = not hasattr(model, "predict_proba")
    if getattr(model, "response_method", "auto") == "decision_function" and not by_margin:
        return None  # it is about other scores than those that are asked for
    cut = float(1 / (1 + np.exp(-own))) if by_margin else float(own)
    favoured = _favoured(model)
    about_last = (1 if favoured is None else classes.index(favoured)) == class_order(classes, label)[-1]
    cut = cut if about_last else 1 - cut
    return cut if 0 < cut < 1 else None


def _favoured(model: Any) -> Any:
    """The class that a tuned classifier's threshold is about; None: the second one."""
    scorer: Any = getattr(model, "_curve_scorer", None)
    return scorer._get_pos_label() if hasattr(scorer, "_get_pos_label") else getattr(model, "pos_label", None)


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
