"""Looking at the trees of a model's file: libraries follow their indices without asking whether they lie inside."""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import EvenhandError

Integers = NDArray[np.int64]


def sound_lightgbm(text: str, path: Path) -> str:
    """The text of a model for LightGBM to read; refused where its trees point outside.

    LightGBM must read what was checked. Of a field that stands twice it takes the last, so there must be one; and
    where `tree_sizes` says at which bytes the trees begin it believes it, so it is left out.
    """
    text = text.replace("\r\n", "\n")
    if "\r" in text or "\0" in text:
        raise EvenhandError(f"{path} cannot be read as a model of LightGBM: its lines end in other ways than a text's.")
    header, *trees = re.split(r"^Tree=\d+[ \t]*$", text.partition("\nend of trees")[0], flags=re.MULTILINE)
    try:
        fields = _fields(header.strip())
        width = int(fields["max_feature_idx"]) + 1
        if fields["num_class"] != fields["num_tree_per_iteration"]:
            raise _unsound(path)
        for tree in trees:
            if not _sound_tree(_fields(tree.strip()), width):
                raise _unsound(path)
    except KeyError as error:
        raise EvenhandError(f"{path} cannot be read as a model of LightGBM: it has no {error}.") from error
    except (ValueError, IndexError, OverflowError) as error:
        raise EvenhandError(f"{path} cannot be read as a model of LightGBM: {error}.") from error
    return re.sub(r"^tree_sizes=.*\n", "", text, count=1, flags=re.MULTILINE)


def _fields(section: str) -> dict[str, str]:
    """The lines `name=value` of one section, each name once."""
    fields: dict[str, str] = {}
    for line in section.split("\n"):
        name, equals, value = line.partition("=")
        if name in fields or (not equals and name not in ("tree", "average_output")):
            raise ValueError(f"'{name[:40]}' stands in it twice or without a value")
        fields[name] = value.strip()
    return fields


def _sound_tree(tree: dict[str, str], width: int) -> bool:
    leaves = int(tree["num_leaves"])
    left, right, columns = (_numbers(tree, name) for name in ("left_child", "right_child", "split_feature"))
    inner, ends = leaves - 1, np.concatenate([left, right])
    if not (len(left) == len(right) == len(columns) == inner or (leaves == 1 and len(left) == 0)):
        return False
    # A child is an inner node, or -1 - n for the leaf n.
    inside = not (ends < -leaves).any() and is_tree(left, right, columns, inner, width)
    return inside and _sound_categories(tree) and _sound_lines(tree, leaves, width)


def _sound_categories(tree: dict[str, str]) -> bool:
    """The sets of categories of a tree lie in one list, at boundaries."""
    sets = int(tree["num_cat"])
    by_category = (_numbers(tree, "decision_type") & 1).astype(bool)
    if not sets:
        return not by_category.any()
    bounds, words = _numbers(tree, "cat_boundaries"), _numbers(tree, "cat_threshold")
    thresholds = np.array(tree["threshold"].split(), dtype=np.float64)[by_category]
    sound = len(bounds) == sets + 1 and bounds[0] >= 0 and (np.diff(bounds) >= 0).all() and bounds[-1] <= len(words)
    return bool(sound and not ((thresholds < 0) | (thresholds >= sets)).any())


def _sound_lines(tree: dict[str, str], leaves: int, width: int) -> bool:
    """The leaves of linear trees read columns too."""
    if tree.get("is_linear", "0") == "0":
        return True
    counts, columns = _numbers(tree, "num_features"), _numbers(tree, "leaf_features")
    slopes, constants = tree.get("leaf_coeff", "").split(), tree.get("leaf_const", "").split()
    sizes = len(counts) == len(constants) == leaves and counts.sum() == len(columns) == len(slopes)
    return bool(sizes and (counts >= 0).all() and (columns >= 0).all() and (columns < width).all())


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
            if not same or not is_tree(left, right, np.where(left < 0, 0, columns), len(left), max(width, 1)):
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


def is_tree(left: Integers, right: Integers, columns: Integers, nodes: int, width: int) -> bool:
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


def _numbers(tree: dict[str, str], name: str) -> Integers:
    return np.array(tree.get(name, "").split(), dtype=np.int64)  # a tree of one leaf has none


def _unsound(path: Path) -> EvenhandError:
    return EvenhandError(f"{path} holds a decision tree whose nodes point outside of it, so it is not used.")
