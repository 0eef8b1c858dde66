"""Looking at the trees of a booster's file: libraries follow their indices without asking whether they lie inside."""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import EvenhandError

Integers = NDArray[np.int64]


def check_lightgbm(text: str, path: Path) -> None:
    """Refuse a text model of LightGBM whose trees point outside; to be asked before LightGBM reads it."""
    header, *trees = re.split(r"^Tree=\d+\s*$", text, flags=re.MULTILINE)
    try:
        width = int(_field(header, "max_feature_idx")) + 1
        for tree in trees:
            leaves = int(_field(tree, "num_leaves"))
            left, right, columns = (_numbers(tree, name) for name in ("left_child", "right_child", "split_feature"))
            inner = leaves - 1
            right_sizes = len(left) == len(right) == len(columns) == inner or (leaves == 1 and len(left) == 0)
            ends = np.concatenate([left, right])
            # A child is an inner node, or -1 - n for the leaf n.
            if not right_sizes or (ends < -leaves).any() or not _is_tree(left, right, columns, inner, width):
                raise _unsound(path)
            _check_categories(tree, path)
    except (ValueError, OverflowError) as error:
        raise EvenhandError(f"{path} cannot be read as a model of LightGBM: {error}.") from error


def _check_categories(tree: str, path: Path) -> None:
    """The sets of categories of a tree lie in one list, at boundaries."""
    sets = int(_field(tree, "num_cat"))
    by_category = (_numbers(tree, "decision_type") & 1).astype(bool)
    if not sets:
        if by_category.any():
            raise _unsound(path)
        return
    bounds, words = _numbers(tree, "cat_boundaries"), _numbers(tree, "cat_threshold")
    thresholds = np.array(_field(tree, "threshold").split(), dtype=np.float64)[by_category]
    sound = len(bounds) == sets + 1 and bounds[0] >= 0 and (np.diff(bounds) >= 0).all() and bounds[-1] <= len(words)
    if not sound or ((thresholds < 0) | (thresholds >= sets)).any():
        raise _unsound(path)


def check_xgboost(content: bytes, path: Path) -> None:
    """Refuse a model of XGBoost, as JSON, whose trees point outside."""
    try:
        learner = json.loads(content)["learner"]
        width = int(learner["learner_model_param"]["num_feature"])
        for tree in _xgboost_trees(learner["gradient_booster"]):
            left, right, columns = (
                np.array(tree[name], dtype=np.int64) for name in ("left_children", "right_children", "split_indices")
            )
            same = len(left) == len(right) == len(columns) > 0 and bool(((left < 0) == (right < 0)).all())
            if not same or not _is_tree(left, right, np.where(left < 0, 0, columns), len(left), max(width, 1)):
                raise _unsound(path)
            starts, sizes = np.array(tree["categories_segments"]), np.array(tree["categories_sizes"])
            if len(starts) and ((starts < 0) | (sizes < 0) | (starts + sizes > len(tree["categories"]))).any():
                raise _unsound(path)
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise EvenhandError(f"{path} cannot be read as a model of XGBoost: {error!r}.") from error


def _xgboost_trees(booster: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The trees of a plain ensemble or one with dropout; a linear model has none."""
    booster = booster.get("gbtree", booster)
    trees: Iterable[dict[str, Any]] = booster["model"].get("trees", [])
    yield from trees


def _is_tree(left: Integers, right: Integers, columns: Integers, nodes: int, width: int) -> bool:
    """Whether all columns and nodes exist, and a walk from the first node meets none twice."""
    if (columns < 0).any() or (columns >= width).any() or (left >= nodes).any() or (right >= nodes).any():
        return False
    seen = np.zeros(nodes, dtype=bool)
    level = np.arange(min(nodes, 1))
    while len(level):
        if seen[level].any() or len(np.unique(level)) < len(level):
            return False
        seen[level] = True
        children = np.concatenate([left[level], right[level]])
        level = children[children >= 0]
    return True


def _field(text: str, name: str) -> str:
    found = re.search(rf"^{name}=(.*)$", text, re.MULTILINE)
    if found is None:
        raise ValueError(f"it has no {name}")
    return found[1].strip()


def _numbers(text: str, name: str) -> Integers:
    found = re.search(rf"^{name}=(.*)$", text, re.MULTILINE)  # a tree of one leaf has none
    return np.array(found[1].split() if found else [], dtype=np.int64)


def _unsound(path: Path) -> EvenhandError:
    return EvenhandError(f"{path} holds a decision tree whose nodes point outside of it, so it is not used.")
