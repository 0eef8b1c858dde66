"""ONNX files of scikit-learn: matrices, trees, and pipelines that read raw columns."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from torch import nn

from evenhand.data.dataset import Dataset
from evenhand.errors import EvenhandError
from evenhand.models.adapters.features.matrix import Features
from evenhand.models.adapters.onnx.model import open_onnx
from evenhand.models.trial import conformance
from tests.worlds.adapters import codes_of, features_and_label, people
from tests.worlds.onnx import DATA, onnx


def matrix(data: Dataset) -> NDArray[np.float32]:
    features: NDArray[np.float32] = Features(data, "onehot")(codes_of(data)).numpy()
    return features


def skl(estimator: Any, first: Any, path: Path, **settings: Any) -> Path:
    to_onnx = pytest.importorskip("skl2onnx").to_onnx
    path.write_bytes(to_onnx(estimator, first, **settings).SerializeToString())
    return path


@pytest.mark.parametrize("zipmap", [True, False])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.filterwarnings("ignore")
def test_linear_models_and_networks_of_scikit_learn_give_gradients(tmp_path: Path, classes: int, zipmap: bool) -> None:
    data, (_, labels) = people(classes), features_and_label(classes)
    estimators = [
        make_pipeline(StandardScaler(), LogisticRegression()),
        make_pipeline(StandardScaler(), MLPClassifier((8,), max_iter=30, random_state=0)),
    ]
    for estimator in estimators:
        estimator.fit(matrix(data), labels)
        path = skl(estimator, matrix(data)[:1], tmp_path / "m.onnx", options={"zipmap": zipmap})
        adapter = open_onnx(data, path, "onehot")
        same_probabilities(adapter, estimator.predict_proba(matrix(data)), estimator.classes_, data)
        assert conformance(adapter, data).gradients


def same_probabilities(adapter: nn.Module, expected: NDArray[Any], classes: NDArray[Any], data: Dataset) -> None:
    order = [list(classes).index(value) for value in data.schema.label.values]
    np.testing.assert_allclose(adapter(codes_of(data)), expected[:, order], atol=1e-5)


def test_trees_are_a_black_box_that_names_its_operator(tmp_path: Path) -> None:
    data, (_, labels) = people(3), features_and_label(3)
    trees = GradientBoostingClassifier(n_estimators=5, random_state=0).fit(matrix(data), labels)
    adapter = open_onnx(data, skl(trees, matrix(data)[:1], tmp_path / "m.onnx"), "onehot")
    same_probabilities(adapter, trees.predict_proba(matrix(data)), trees.classes_, data)
    found = conformance(adapter, data)
    assert not found.gradients
    assert found.why_not == "its operator TreeEnsembleClassifier has no gradient here"


def raw_types() -> list[tuple[str, Any]]:
    types = pytest.importorskip("skl2onnx.common.data_types")
    kinds = {
        "age": "Int64",
        "sex": "String",
        "job": "String",
        "region_code": "Int64",
        "income": "Float",
        "member": "Int64",
    }
    return [(name, getattr(types, f"{kind}TensorType")([None, 1])) for name, kind in kinds.items()]


def raw_pipeline(classes: int) -> tuple[Any, pd.DataFrame]:
    """A pipeline on raw columns, and the columns as it reads them: a missing job is an empty text."""
    frame, labels = features_and_label(classes)
    frame["job"], frame["member"] = frame["job"].fillna(""), frame["member"].astype(int)
    frame = frame.astype({"sex": object, "job": object})
    columns = ColumnTransformer(
        [
            ("numbers", StandardScaler(), ["age", "income"]),
            ("texts", OneHotEncoder(), ["sex", "job"]),
            ("codes", OneHotEncoder(), ["region_code"]),
            ("rest", "passthrough", ["member"]),
        ]
    )
    model = make_pipeline(columns, GradientBoostingClassifier(n_estimators=5, random_state=0))
    return model.fit(frame, labels), frame


@pytest.mark.parametrize("classes", [2, 3])
def test_a_pipeline_with_an_input_for_each_raw_column(tmp_path: Path, classes: int) -> None:
    data = people(classes)
    pipeline, frame = raw_pipeline(classes)
    adapter = open_onnx(data, skl(pipeline, None, tmp_path / "m.onnx", initial_types=raw_types()), None)
    same_probabilities(adapter, pipeline.predict_proba(frame), pipeline.classes_, data)
    found = conformance(adapter, data)
    assert not found.gradients
    assert "it reads raw columns" in found.why_not
    assert "TreeEnsembleClassifier" in found.why_not


def test_an_input_that_is_no_column(tmp_path: Path) -> None:
    pipeline, _ = raw_pipeline(2)
    path = skl(pipeline, None, tmp_path / "m.onnx", initial_types=raw_types())
    model = onnx.load(path)
    model.graph.input[1].name = "sexe"
    for each in model.graph.node:
        each.input[:] = ["sexe" if name == "sex" else name for name in each.input]
    path.write_bytes(model.SerializeToString())
    with pytest.raises(EvenhandError, match=r"reads an input 'sexe', .* It has: age, sex, job"):
        open_onnx(DATA, path, None)


def test_raw_columns_take_no_inputs(tmp_path: Path) -> None:
    path = skl(raw_pipeline(2)[0], None, tmp_path / "m.onnx", initial_types=raw_types())
    with pytest.raises(EvenhandError, match="reads raw columns by their names"):
        open_onnx(DATA, path, "onehot")


def test_a_file_that_returns_only_labels(tmp_path: Path) -> None:
    data, (_, labels) = people(3), features_and_label(3)
    trees = GradientBoostingClassifier(n_estimators=5, random_state=0).fit(matrix(data), labels)
    path = skl(trees, matrix(data)[:1], tmp_path / "m.onnx", options={"zipmap": False})
    model = onnx.load(path)
    del model.graph.output[1]
    path.write_bytes(model.SerializeToString())
    adapter = open_onnx(data, path, "onehot")
    given = [data.schema.label.values[place] for place in adapter(codes_of(data)).argmax(dim=1)]
    assert given == trees.predict(matrix(data)).tolist()
