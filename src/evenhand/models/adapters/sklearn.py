"""Estimators and pipelines in the manner of scikit-learn, on raw columns or on a matrix of numbers.

Files of skops need no pickle: nothing is made from one before all its types are known and trusted.
"""

import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.choices import OutputForm
from evenhand.data.dataset import Dataset
from evenhand.data.schema import Label
from evenhand.errors import EvenhandError
from evenhand.models.adapters.archives import open_archive
from evenhand.models.adapters.base import Adapter, class_order, two_columns
from evenhand.models.adapters.boosting import is_tree, unsound_trees
from evenhand.models.adapters.features.entries import Inputs
from evenhand.models.adapters.frames import (
    FrameAdapter,
    NamedColumns,
    attributes_named,
    in_one_thread,
    matrix_reader,
)
from evenhand.models.classifier import first_line

BOOSTERS = ("lightgbm", "xgboost")
TRUST = "EVENHAND_TRUST"
HOW_TO_SAVE = "Save the model again with skops.io.dump(model, 'NAME.skops')."
# Types that skops itself does not trust and that models in daily use need. Each of them is filled with state and runs
# nothing of the file's own: a function or a class of the file would be a type of its own and has to be trusted too.
# Trees of scikit-learn follow the file's indices without looking whether they lie inside: `_check_trees` looks before
# the model is asked. Boosters parse their own format; a crafted one could end the process, but runs nothing.
# Not here, though common: neighbours (their search trees are followed unchecked and cannot be checked from outside),
# kernels of Gaussian processes, anything that holds a function.
TRUSTED = (
    "collections.OrderedDict",
    "lightgbm.basic.Booster",
    "lightgbm.sklearn.LGBMClassifier",
    "numpy.dtype",
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.calibration._SigmoidCalibration",
    "sklearn.compose._column_transformer.make_column_selector",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.tree._tree.Tree",
    "sklearn.utils._bunch.Bunch",
    "xgboost.core.Booster",
    "xgboost.sklearn.XGBClassifier",
)


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
    if isinstance(read, NamedColumns):
        adapter.reads = _declared(data, model, read)
    elif read is not None:
        adapter.note_inputs(inputs)
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


def _declared(data: Dataset, model: Any, read: NamedColumns) -> list[str]:
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
    owner = type(model).__name__
    if type(model).__module__.partition(".")[0] in BOOSTERS:
        from evenhand.models.adapters.boosting import reader_of

        return reader_of(data, model, inputs)
    names, width = (getattr(model, name, None) for name in ("feature_names_in_", "n_features_in_"))
    matrix = matrix_reader(data, inputs, names, width, owner)
    return NamedColumns(data, list(names), owner) if matrix is None and names is not None else matrix


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


def read_skops(path: Path) -> Any:
    """The object in a file of skops; refused where it holds a type that is not trusted."""
    try:
        import skops.io as skops
    except ImportError as error:
        raise EvenhandError('Files of skops need skops: pip install "evenhand[sklearn]".') from error
    open_archive(path, "a file of skops", HOW_TO_SAVE).close()
    own = [name.strip() for name in os.environ.get(TRUST, "").split(",") if name.strip()]
    try:
        untrusted = [name for name in skops.get_untrusted_types(file=path) if name not in (*TRUSTED, *own)]
    except Exception as error:  # whatever a broken or hostile file does to the reader
        raise _broken(path, error) from error
    if untrusted:
        raise EvenhandError(
            f"{path} holds types that are not trusted: {', '.join(untrusted)}. Reading them may run their code. If you "
            f'know them and where the file comes from, set {TRUST}="{",".join([*own, *untrusted])}" and try again.'
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the file was written by another version of scikit-learn
            model = skops.load(path, trusted=[*TRUSTED, *own])
    except Exception as error:
        raise _broken(path, error) from error
    try:
        _check_trees(model, path)
    except EvenhandError:
        raise
    except Exception as error:  # parts that are not what their names say
        raise _broken(path, error) from error
    return model


def _broken(path: Path, error: Exception) -> EvenhandError:
    return EvenhandError(f"{path} cannot be read: {first_line(error)}. {HOW_TO_SAVE}")


def _check_trees(model: Any, path: Path) -> None:
    """Refuse trees whose nodes point outside, or back: asking them would read foreign memory or never end."""
    for owner, part in _parts(model, model, set()):
        kind, sound = type(part).__qualname__, True
        if kind == "Tree":
            inner = part.children_left != -1
            sound = _leads_on(part.children_left, part.children_right, part.feature, inner, owner.n_features_in_)
        elif kind == "TreePredictor":
            nodes, most = part.nodes, min(owner.n_features_in_, len(owner._bin_mapper.bin_thresholds_))
            sets = nodes["bitset_idx"][nodes["is_categorical"] != 0]
            sound = _leads_on(nodes["left"], nodes["right"], nodes["feature_idx"], nodes["is_leaf"] == 0, most)
            sound = sound and bool((sets < len(part.raw_left_cat_bitsets)).all())
        elif kind.startswith("GradientBoosting"):  # it hands its rows to the trees without asking how many they read
            sound = all(tree.n_features_in_ == part.n_features_in_ for tree in np.ravel(part.estimators_))
        if not sound:
            raise unsound_trees(path)


def _leads_on(
    left: NDArray[Any], right: NDArray[Any], features: NDArray[Any], inner: NDArray[np.bool_], most: int
) -> bool:
    """Whether each inner node leads to other nodes, by a column that there is."""
    lower, upper = (np.where(inner, each.astype(np.int64), -1) for each in (left, right))
    columns = np.where(inner, features.astype(np.int64), 0)
    onward = len(inner) > 0 and (lower[inner] > 0).all() and (upper[inner] > 0).all()
    return bool(onward and is_tree(lower, upper, columns, len(inner), most))


def _parts(part: Any, owner: Any, seen: set[int]) -> Iterator[tuple[Any, Any]]:
    """All objects that a model is made of, each with the estimator it belongs to."""
    if id(part) in seen or isinstance(part, str | bytes | int | float | type | None):
        return
    seen.add(id(part))
    yield owner, part
    if isinstance(part, np.ndarray):
        inside: list[Any] = part.ravel().tolist() if part.dtype == object else []
    elif isinstance(part, dict):
        inside = list(part.values())
    elif isinstance(part, list | tuple | set):
        inside = list(part)
    else:
        inside = list(getattr(part, "__dict__", {}).values())
        owner = part if hasattr(part, "n_features_in_") else owner
    for each in inside:
        yield from _parts(each, owner, seen)
