"""Models of LightGBM and XGBoost: Booster objects, their files, and their wrappers for scikit-learn."""

import json
import os
import pickle
import re
import sys
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import pytest
import skops.io
import torch
import xgboost

from evenhand.data.dataset import Dataset
from evenhand.errors import EvenhandError
from evenhand.models.adapters.boosting import open_lightgbm, open_xgboost, wrap_booster
from evenhand.models.adapters.frames import RawMatrix
from evenhand.models.adapters.sklearn import open_skops, wrap_estimator
from evenhand.models.trial import conformance
from tests.worlds.adapters import codes_of, features_and_label, people

AS_CATEGORIES = ["sex", "job", "region_code"]
QUIET = {"verbose": -1, "num_threads": 1}


def frame_of(data: Dataset) -> pd.DataFrame:
    """Raw columns as boosters read them: text and codes as categories."""
    features, _ = features_and_label(len(data.schema.label.values))
    return features.astype(dict.fromkeys(AS_CATEGORIES, "category"))


def lightgbm_model(data: Dataset, rows: Any) -> lightgbm.Booster:
    classes = len(data.schema.label.values)
    settings = {"objective": "binary"} if classes == 2 else {"objective": "multiclass", "num_class": classes}
    return lightgbm.train(settings | QUIET, lightgbm.Dataset(rows, data.labels), 8)


def xgboost_model(data: Dataset, rows: Any, objective: str = "") -> xgboost.Booster:
    classes = len(data.schema.label.values)
    settings: dict[str, Any] = {"objective": objective or ("binary:logistic" if classes == 2 else "multi:softprob")}
    if classes > 2:
        settings["num_class"] = classes
    return xgboost.train(settings, xgboost.DMatrix(rows, data.labels, enable_categorical=True), 8)


def labels_of(answer: Any) -> list[int]:
    values = np.asarray(answer)
    labels: list[int] = (values.argmax(axis=1) if values.ndim == 2 else (values > 0.5).astype(int)).tolist()
    return labels


@pytest.mark.parametrize("classes", [2, 3])
def test_a_lightgbm_model_with_categories_conforms_from_memory_and_file(classes: int, tmp_path: Path) -> None:
    data = people(classes)
    model = lightgbm_model(data, frame_of(data))
    model.save_model(tmp_path / "model.txt")
    expected = torch.tensor(np.asarray(model.predict(frame_of(data))), dtype=torch.float32)
    for adapter in (wrap_booster(data, model, None), open_lightgbm(data, tmp_path / "model.txt", None)):
        scores = adapter(codes_of(data))
        assert torch.allclose(scores if classes > 2 else scores[:, 1], expected, atol=1e-6)
        found = conformance(adapter, data)
        assert not found.gradients
        assert found.classifier.outputs(codes_of(data)).labels.tolist() == labels_of(expected)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("suffix", ["ubj", "json"])
def test_an_xgboost_model_with_categories_conforms_from_memory_and_file(
    classes: int, suffix: str, tmp_path: Path
) -> None:
    data = people(classes)
    model = xgboost_model(data, frame_of(data))
    model.save_model(tmp_path / f"model.{suffix}")
    expected = torch.tensor(model.predict(xgboost.DMatrix(frame_of(data), enable_categorical=True)))
    for adapter in (wrap_booster(data, model, None), open_xgboost(data, tmp_path / f"model.{suffix}", None)):
        scores = conformance(adapter, data).classifier.outputs(codes_of(data)).scores
        assert torch.allclose(scores if classes > 2 else scores[:, 1], expected, atol=1e-5)


def test_xgboost_that_answers_with_labels_is_asked_for_scores() -> None:
    data = people(3)
    model = xgboost_model(data, frame_of(data), objective="multi:softmax")
    labels = conformance(wrap_booster(data, model, None), data).classifier.outputs(codes_of(data)).labels
    expected = model.predict(xgboost.DMatrix(frame_of(data), enable_categorical=True))
    assert labels.tolist() == expected.astype(int).tolist()


@pytest.mark.parametrize("make", [lightgbm_model, xgboost_model])
def test_boosters_without_names_read_a_column_per_attribute(make: Any) -> None:
    data = people()
    matrix = RawMatrix(data)(data.clipped)
    model = make(data, matrix)
    expected = model.predict(matrix if make is lightgbm_model else xgboost.DMatrix(matrix))
    labels = conformance(wrap_booster(data, model, None), data).classifier.outputs(codes_of(data)).labels
    assert labels.tolist() == labels_of(expected)
    with pytest.raises(EvenhandError, match=r"3 columns without names.*6: age, sex"):
        wrap_booster(data, make(data, matrix[:, :3]), None)


@pytest.mark.parametrize("make", [lightgbm_model, xgboost_model])
def test_columns_are_found_by_name_in_any_order_also_by_the_attributes_name(make: Any) -> None:
    data = people()
    rows = frame_of(data)[["income", "region_code", "age"]].astype({"region_code": int})
    model = make(data, rows.rename(columns={"region_code": "region"}))
    other = make(data, rows)
    x = codes_of(data)
    assert torch.equal(wrap_booster(data, model, None)(x), wrap_booster(data, other, None)(x))
    assert wrap_booster(data, model, None)(x)[:, 1].std() > 0.1
    with pytest.raises(EvenhandError, match=r"the column 'height', which the schema people does not have"):
        wrap_booster(data, make(data, rows.rename(columns={"age": "height"})), None)


@pytest.mark.parametrize("make", [lightgbm_model, xgboost_model])
def test_numbers_in_a_column_that_is_text_for_the_schema_need_a_word(make: Any) -> None:
    data = people()
    codes = pd.DataFrame(data.clipped, columns=data.schema.names)
    model = make(data, codes)
    with pytest.raises(EvenhandError, match="reads numbers in 'sex', which is text"):
        wrap_booster(data, model, None)
    expected = model.predict(codes if make is lightgbm_model else xgboost.DMatrix(codes))
    labels = conformance(wrap_booster(data, model, "codes"), data).classifier.outputs(codes_of(data)).labels
    assert labels.tolist() == labels_of(expected)


def test_a_category_that_the_booster_never_saw_is_missing_for_lightgbm_and_an_error_for_xgboost() -> None:
    data = people()
    rows = frame_of(data)
    kept = rows["job"] != "nurse"
    few = rows[kept].assign(job=rows["job"][kept].cat.remove_unused_categories())
    fewer = Dataset(data.schema, data.codes[kept], data.labels[kept], data.train[kept])
    model = lightgbm_model(fewer, few)
    nurses = codes_of(data)[~kept.to_numpy() & rows["job"].notna().to_numpy()]
    unknown = nurses.clone()
    unknown[:, data.schema.index("job")] = 4  # the code of a missing value
    adapter = wrap_booster(data, model, None)
    assert torch.equal(adapter(nurses), adapter(unknown))
    with pytest.raises(EvenhandError, match=r"clerk, driver, teacher of 'job', but the schema has nurse"):
        wrap_booster(data, xgboost_model(fewer, few), None)


@pytest.mark.parametrize(
    "model",
    [
        lightgbm.LGBMClassifier(n_estimators=5, n_jobs=1, verbose=-1),
        xgboost.XGBClassifier(n_estimators=5, enable_categorical=True),
    ],
)
def test_wrappers_for_scikit_learn_read_the_same_rows(model: Any, tmp_path: Path) -> None:
    data = people()
    fitted = model.fit(frame_of(data), data.labels)  # classes 0 and 1: the schema's in their order
    expected = torch.tensor(fitted.predict_proba(frame_of(data)), dtype=torch.float32)
    adapter = wrap_estimator(data, fitted, None)
    conformance(adapter, data)
    assert torch.allclose(adapter(codes_of(data)), expected, atol=1e-6)
    skops.io.dump(fitted, tmp_path / "model.skops")
    assert torch.allclose(open_skops(data, tmp_path / "model.skops", None)(codes_of(data)), expected, atol=1e-6)


class Dangerous:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("name", ["model.txt", "model.ubj", "model.json"])
def test_a_pickle_with_another_name_is_refused_and_not_run(name: str, tmp_path: Path) -> None:
    trace, path = tmp_path / "trace", tmp_path / name
    opened = open_lightgbm if name.endswith("txt") else open_xgboost
    path.write_bytes(pickle.dumps(Dangerous(trace)))
    with pytest.raises(EvenhandError, match=f"{name} is not a"):
        opened(people(), path, None)
    assert not trace.exists()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("model.txt", b"tree\nversion=v4\nnonsense\n"),
        ("model.ubj", b"{L" + b"\xff" * 30),
        ("model.json", b'{"learner": {}}'),
        ("model.json", b'{"learner": '),
    ],
)
def test_broken_files_are_refused_in_one_line(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    opened = open_lightgbm if name.endswith("txt") else open_xgboost
    with pytest.raises(EvenhandError, match=r"cannot (be )?read") as caught:
        opened(people(), tmp_path / name, None)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("pattern", "replacement"),
    [
        (r"left_child=\S+", "left_child=100000000"),
        (r"left_child=\S+", "left_child=0"),  # round and round
        (r"right_child=\S+", "right_child=-1000"),
        (r"split_feature=\S+", "split_feature=77"),
        (r"cat_boundaries=0 \S+", "cat_boundaries=0 900"),
        (r"num_cat=\d+", "num_cat=0"),
        (r"num_tree_per_iteration=1", "num_tree_per_iteration=90"),
    ],
)
def test_lightgbm_trees_that_point_outside_are_refused(pattern: str, replacement: str, tmp_path: Path) -> None:
    data = people()
    text = lightgbm_model(data, frame_of(data)).model_to_string()
    assert re.search(pattern, text)
    (tmp_path / "model.txt").write_text(re.sub(pattern, replacement, text, count=1))
    with pytest.raises(EvenhandError, match="point outside"):
        open_lightgbm(data, tmp_path / "model.txt", None)


@pytest.mark.parametrize(
    "again", ["left_child=100000000", "max_feature_idx=90", "nonsense", "leaf_value=1\rleft_child=9"]
)
def test_lightgbm_files_that_can_be_read_in_two_ways_are_refused(again: str, tmp_path: Path) -> None:
    data = people()
    text = lightgbm_model(data, frame_of(data)).model_to_string()
    after = "max_feature_idx" if "idx" in again else "left_child"
    (tmp_path / "model.txt").write_text(re.sub(rf"^({after}=.*)$", rf"\1\n{again}", text, count=1, flags=re.MULTILINE))
    with pytest.raises(EvenhandError, match=r"stands in it twice or without a value|its lines end"):
        open_lightgbm(data, tmp_path / "model.txt", None)


def test_lightgbm_begins_its_trees_where_the_check_does(tmp_path: Path) -> None:
    data = people()
    model = lightgbm_model(data, frame_of(data))
    (tmp_path / "model.txt").write_text(re.sub(r"tree_sizes=\d+", "tree_sizes=100000000", model.model_to_string()))
    expected = torch.tensor(np.asarray(model.predict(frame_of(data))), dtype=torch.float32)
    scores = open_lightgbm(data, tmp_path / "model.txt", None)(codes_of(data))
    assert torch.allclose(scores[:, 1], expected, atol=1e-6)


def test_linear_trees_of_lightgbm(tmp_path: Path) -> None:
    data = people()
    matrix = RawMatrix(data)(data.clipped)
    settings = {"objective": "binary", "linear_tree": True} | QUIET
    model = lightgbm.train(settings, lightgbm.Dataset(matrix, data.labels), 8)
    model.save_model(tmp_path / "model.txt")
    expected = torch.tensor(np.asarray(model.predict(matrix)), dtype=torch.float32)
    scores = open_lightgbm(data, tmp_path / "model.txt", None)(codes_of(data))
    assert torch.allclose(scores[:, 1], expected, atol=1e-6)
    text, count = re.subn(r"^leaf_features=\s*\d+", "leaf_features=77", model.model_to_string(), flags=re.MULTILINE)
    assert count
    (tmp_path / "model.txt").write_text(text)
    with pytest.raises(EvenhandError, match="point outside"):
        open_lightgbm(data, tmp_path / "model.txt", None)


def test_lightgbm_with_ordered_categories_of_pandas() -> None:
    data = people()
    rows = frame_of(data)
    rows["job"] = rows["job"].cat.set_categories(["nurse", "clerk", "teacher", "driver"], ordered=True)
    model = lightgbm_model(data, rows)
    expected = torch.tensor(np.asarray(model.predict(rows)), dtype=torch.float32)
    assert torch.allclose(wrap_booster(data, model, None)(codes_of(data))[:, 1], expected, atol=1e-6)
    rows["age"] = rows["age"].astype(pd.CategoricalDtype(sorted(set(rows["age"])), ordered=True))
    with pytest.raises(EvenhandError, match=r"4 columns of pandas categories, .* sex, region_code; the others"):
        wrap_booster(data, lightgbm_model(data, rows), None)


def test_an_old_xgboost_is_told_which_version_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    data = people()
    model = xgboost_model(data, frame_of(data))
    monkeypatch.delattr(xgboost.Booster, "get_categories")
    with pytest.raises(EvenhandError, match=r'xgboost 3\.1 or later: pip install "xgboost>=3\.1"'):
        wrap_booster(data, model, None)


@pytest.mark.parametrize(
    ("name", "value"), [("left_children", 10**8), ("right_children", 0), ("split_indices", 77), ("left_children", -1)]
)
def test_xgboost_trees_that_point_outside_are_refused(name: str, value: int, tmp_path: Path) -> None:
    data = people()
    content = json.loads(xgboost_model(data, frame_of(data)).save_raw("json"))
    content["learner"]["gradient_booster"]["model"]["trees"][0][name][0] = value
    (tmp_path / "model.json").write_text(json.dumps(content))
    with pytest.raises(EvenhandError, match="point outside"):
        open_xgboost(data, tmp_path / "model.json", None)


@pytest.mark.parametrize(("name", "opened"), [("lightgbm", open_lightgbm), ("xgboost", open_xgboost)])
def test_a_framework_that_is_not_installed_is_named(
    name: str, opened: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model"
    path.write_bytes(b"tree\n" if name == "lightgbm" else b"{}")
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(EvenhandError, match=f"needs {name}: pip install"):
        opened(people(), path, None)
