"""Files of skops, which need no pickle: nothing is made from one before all its types are known and trusted."""

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import EvenhandError
from evenhand.models.adapters.archives import open_archive
from evenhand.models.adapters.booster_trees import is_tree
from evenhand.models.classifier import first_line

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
            raise EvenhandError(f"{path} holds a decision tree whose nodes point outside of it, so it is not used.")


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
