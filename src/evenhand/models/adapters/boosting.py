"""XGBoost and LightGBM: their own files, Booster objects, and what their wrappers for scikit-learn read.

The libraries follow the indices of a file's trees without asking whether they lie inside, so these are checked first.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.choices import OutputForm
from evenhand.data.dataset import Dataset
from evenhand.errors import EvenhandError
from evenhand.models.adapters.base import Adapter, two_columns
from evenhand.models.adapters.features.entries import Inputs
from evenhand.models.adapters.frames import (
    FrameAdapter,
    NamedColumns,
    attributes_named,
    in_one_thread,
    is_numeric,
    matrix_reader,
)
from evenhand.models.classifier import first_line

WITH_MARGINS = ("binary:", "multi:", "reg:logistic")  # objectives of XGBoost whose raw scores are logits
PROBABILITIES = ("binary", "multiclass", "cross_entropy", "xentropy")  # objectives of LightGBM
Reader = Callable[[NDArray[np.int32]], Any]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Booster:
    """What a booster says about the rows that it reads."""

    owner: str
    width: int
    names: Sequence[str] | None  # None where it was trained on a matrix
    categories: dict[str, Sequence[Any] | None]  # columns that are categories, with those it was trained on
    unseen_are_missing: bool


def open_lightgbm(data: Dataset, path: Path, inputs: Inputs) -> Adapter:
    """A model that LightGBM saved as text (.txt)."""
    content = _content(path)
    if not re.match(rb"tree\r?\n", content):
        raise EvenhandError(f"{path} is not a text model of LightGBM. Save it with booster.save_model('model.txt').")
    lightgbm = _framework("lightgbm")
    text = content.decode("utf-8", errors="replace")
    text = sound_lightgbm(text, path)
    with _broken_file(path, "LightGBM"):
        adapter = wrap_booster(data, lightgbm.Booster(model_str=text), inputs)
    adapter.about = path.name
    return adapter


def open_xgboost(data: Dataset, path: Path, inputs: Inputs) -> Adapter:
    """A model that XGBoost saved as .ubj or .json."""
    if not _content(path).startswith(b"{"):
        raise EvenhandError(f"{path} is not a model of XGBoost. Save it with booster.save_model('model.ubj').")
    xgboost = _framework("xgboost")
    with _broken_file(path, "XGBoost"):
        model = xgboost.Booster(model_file=str(path))
        check_xgboost(bytes(model.save_raw("json")), path)
        _check_stopped_early(model, path)
        adapter = wrap_booster(data, model, inputs)
    adapter.about = path.name
    return adapter


def _check_stopped_early(model: Any, path: Path) -> None:
    """A file of training that stopped early holds more rounds than some of its users ask."""
    best, rounds = (model.attributes() or {}).get("best_iteration"), model.num_boosted_rounds()
    if best is not None and int(best) + 1 < rounds:
        kept = int(best) + 1
        raise EvenhandError(
            f"{path} was trained with early stopping: its best iteration is {best} of {rounds} rounds. XGBClassifier "
            f"asks the first {kept}, Booster.predict all {rounds}; which of them decides about people is not said. "
            f"Save the first {kept} as booster[:{kept}].save_model(…), or all of them after "
            "booster.set_attr(best_iteration=None); or give the model itself from Python."
        )


@contextmanager
def _broken_file(path: Path, reader: str) -> Iterator[None]:
    """Whatever a broken file does to its reader, in one line."""
    try:
        yield
    except EvenhandError:
        raise
    except Exception as error:
        raise EvenhandError(f"{reader} cannot read {path}: {first_line(error)}.") from error


def wrap_booster(data: Dataset, model: Any, inputs: Inputs) -> Adapter:
    """A Booster of LightGBM or XGBoost as a module that reads codes.

    One with names reads the raw columns, or attributes, of these names; its categories are those that it was trained
    on, and a missing value is NaN. One without names reads a column for each attribute, as an estimator does. Its
    classes 0, 1, … are the schema's in their order: a booster does not know their names.
    """
    of_lightgbm = type(model).__module__.startswith("lightgbm")
    model = model.get_booster() if hasattr(model, "get_booster") else getattr(model, "booster_", model)
    ask, output = _lightgbm_question(model) if of_lightgbm else _xgboost_question(model)
    read = reader_of(data, model, inputs)
    adapter = FrameAdapter(
        data,
        in_one_thread(ask),
        about=f"{'LightGBM' if of_lightgbm else 'XGBoost'} model",
        no_gradients="boosted trees have none",
        read=read,
    )
    adapter.output, adapter.regression = output, _regression(model, of_lightgbm)
    if isinstance(read, NamedColumns):
        places = attributes_named(data.schema, read.names, adapter.about)
        adapter.reads = [data.schema.names[place] for place in places]
    else:
        adapter.note_inputs(inputs)
    return adapter


def reader_of(data: Dataset, model: Any, inputs: Inputs) -> Reader:
    """What turns codes into the rows that a booster, or an estimator around one, was trained on."""
    of_lightgbm = type(model).__module__.startswith("lightgbm")
    if hasattr(model, "get_booster"):
        model = model.get_booster()
    booster = _about_lightgbm(getattr(model, "booster_", model), data) if of_lightgbm else _about_xgboost(model)
    matrix = matrix_reader(data, inputs, booster.names, booster.width, booster.owner)
    if booster.names is None or matrix is not None:
        assert matrix is not None
        return matrix
    _check_text(data, booster)
    columns = NamedColumns(data, booster.names, booster.owner, booster.categories)
    for name, values in columns.unknown(all_of_them=booster.unseen_are_missing).items():
        raise EvenhandError(
            f"{booster.owner} was trained on the categories {_shown(booster.categories[name] or [])} of '{name}', but "
            f"the schema has {_shown(values)}. Correct the attribute's categories or its type."
        )
    return columns


def _about_lightgbm(model: Any, data: Dataset) -> Booster:
    names: list[str] = model.feature_name()
    if all(re.fullmatch(r"Column_\d+", name) for name in names):
        return Booster("The LightGBM model", len(names), None, {}, True)
    names = _with_blanks(names, data)
    places = re.search(r"^\[categorical_feature: ([\d,]+)\]", model.model_to_string(num_iteration=1), re.MULTILINE)
    as_categories = [names[int(place)] for place in places[1].split(",")] if places else []
    known = model.pandas_categorical or []
    # Without pandas' categories the columns were numbers that LightGBM was told to take as categories.
    categories = _pandas_categories(names, as_categories, known, data) if known else {}
    return Booster("The LightGBM model", len(names), names, categories, True)


def _pandas_categories(
    names: list[str], unordered: list[str], known: list[Sequence[Any]], data: Dataset
) -> dict[str, Sequence[Any] | None]:
    """The categories of each column. LightGBM names only columns of unordered ones: it splits ordered ones by rank."""
    if len(known) == len(unordered):
        return dict(zip(unordered, known, strict=True))
    places = attributes_named(data.schema, names, "The LightGBM model")
    texts = {name for name, place in zip(names, places, strict=True) if not is_numeric(data.schema.attributes[place])}
    columns = [name for name in names if name in texts or name in unordered]
    if len(columns) != len(known):
        raise EvenhandError(
            f"The LightGBM model was trained on {len(known)} columns of pandas categories, of which it names "
            f"{', '.join(unordered) or 'none'}; the others are ordered. Which they are cannot be told: give their "
            "attributes, and only theirs, the type category in the schema, or wrap the model in a function."
        )
    return dict(zip(columns, known, strict=True))


def _with_blanks(names: list[str], data: Dataset) -> list[str]:
    """The schema's own spelling of names in which LightGBM wrote blanks as underscores."""
    columns = [column for attribute in data.schema.attributes for column in attribute.raw_columns]
    spelled = columns + data.schema.names
    own = {re.sub(r"\s", "_", name): name for name in spelled}
    return [name if name in spelled else own.get(name, name) for name in names]


def _about_xgboost(model: Any) -> Booster:
    names, types = model.feature_names, model.feature_types
    categories: dict[str, Sequence[Any] | None] = {}
    if names is not None and types is not None and "c" in types:
        if not hasattr(model, "get_categories"):
            raise EvenhandError(
                "The categories of this XGBoost model can be read with xgboost 3.1 or later: "
                'pip install "xgboost>=3.1".'
            )
        known = dict(model.get_categories(export_to_arrow=True).to_arrow())
        for name in (name for name, kind in zip(names, types, strict=True) if kind == "c"):
            values = known.get(name)
            categories[name] = None if values is None else values.to_pylist()
    return Booster("The XGBoost model", model.num_features(), names, categories, False)


def _check_text(data: Dataset, booster: Booster) -> None:
    """A booster cannot read text; a column that it does not take as categories must hold numbers."""
    names = booster.names or []
    for name, place in zip(names, attributes_named(data.schema, names, booster.owner), strict=True):
        attribute = data.schema.attributes[place]
        if name not in booster.categories and not is_numeric(attribute) and attribute.kind != "pass":
            raise EvenhandError(
                f"{booster.owner} reads numbers in '{name}', which is text in the schema. If they are the schema's "
                "codes, use inputs = codes; else give the attribute a type, or wrap the model in a function."
            )


def _lightgbm_question(model: Any) -> tuple[Callable[[Any], Any], OutputForm]:
    header = model.model_to_string(num_iteration=1).partition("\nTree=")[0]
    objective = re.search(r"^objective=(\w+)", header, re.MULTILINE)
    if objective is not None and objective[1] in PROBABILITIES:
        return lambda rows: two_columns(model.predict(rows), 1), "probabilities"
    return lambda rows: two_columns(model.predict(rows), 0), "logits"


def _xgboost_question(model: Any) -> tuple[Callable[[Any], Any], OutputForm]:
    xgboost = _framework("xgboost")

    def ask(rows: Any) -> Any:  # multi:softmax would answer with labels if it were not asked for its margins
        return two_columns(model.predict(xgboost.DMatrix(rows, enable_categorical=True), output_margin=True), 0)

    return ask, "logits"


def _regression(model: Any, of_lightgbm: bool) -> str:
    """Why a booster is no classifier, by its objective; empty where it is one."""
    known: tuple[str, ...]
    if of_lightgbm:
        found = re.search(r"^objective=(\w+)", model.model_to_string(num_iteration=1), re.MULTILINE)
        named, known, others = found[1] if found else "of your own", tuple(PROBABILITIES), "binary or multiclass"
    else:
        named = json.loads(model.save_config())["learner"]["objective"]["name"]
        known, others = tuple(WITH_MARGINS), "binary:logistic or multi:softprob"
    if str(named).startswith(known):
        return ""
    return (
        f"The {'LightGBM' if of_lightgbm else 'XGBoost'} model was trained with the objective {named}, so it predicts "
        f"a number and not one of several classes. Only classifiers can be audited: train it with {others}. If its "
        "numbers are raw scores (logits) of an objective of your own, say --output logits (in Python output='logits'); "
        "if a number from some value on means one of the labels, write a function of a data frame that returns the "
        "label, and name that as the model."
    )


def _framework(name: str) -> Any:
    try:
        return __import__(name)
    except ImportError as error:
        how = {"lightgbm": 'pip install "evenhand[boosting]"', "xgboost": "pip install xgboost"}[name]
        raise EvenhandError(f"This model needs {name}: {how}.") from error


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise EvenhandError(f"Cannot read {path}: {error.strerror}.") from error


def _shown(values: Sequence[Any]) -> str:
    return ", ".join(map(str, values[:8])) + (", …" if len(values) > 8 else "")


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
            raise unsound_trees(path)
        for tree in trees:
            if not _sound_tree(_fields(tree.strip()), width):
                raise unsound_trees(path)
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
                raise unsound_trees(path)
            starts, sizes = np.array(tree["categories_segments"]), np.array(tree["categories_sizes"])
            if len(starts) and ((starts < 0) | (sizes < 0) | (starts + sizes > len(tree["categories"]))).any():
                raise unsound_trees(path)
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


def unsound_trees(path: Path) -> EvenhandError:
    """The error for a file with trees that lead astray."""
    return EvenhandError(f"{path} holds a decision tree whose nodes point outside of it, so it is not used.")
