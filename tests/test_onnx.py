"""ONNX files of networks, of scikit-learn pipelines, and of those who mean harm."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
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
from evenhand.models.adapters.base import Adapter
from evenhand.models.adapters.feature_matrix import Features
from evenhand.models.adapters.features import NetworkAdapter, wrap_module
from evenhand.models.adapters.onnx_models import open_onnx
from evenhand.models.conformance import conformance
from evenhand.models.loading import load_module
from tests.adapter_world import codes_of, features_and_label, people
from tests.network_audits import audited, credit_width

onnx: Any = pytest.importorskip("onnx")
onnxruntime: Any = pytest.importorskip("onnxruntime")
DATA = people()
WIDTH = Features(DATA, "standard").width
FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64


def saved(path: Path, nodes: list[Any], weights: dict[str, NDArray[Any]], version: int = 20, **ends: Any) -> Path:
    """A file of these nodes from `x` (n, k) to `y`."""
    helper = onnx.helper
    graph = helper.make_graph(
        nodes,
        "net",
        [
            helper.make_tensor_value_info(
                "x", ends.get("reads", FLOAT), [ends.get("rows", "n"), ends.get("width", WIDTH)]
            )
        ],
        [helper.make_tensor_value_info("y", FLOAT, ["n", 2])],
        [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    domains = [helper.make_opsetid("", version), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(graph, opset_imports=domains, ir_version=9)
    path.write_bytes(model.SerializeToString())
    return path


def node(kind: str, *names: str, **settings: Any) -> Any:
    """A node from inputs to the last name."""
    return onnx.helper.make_node(kind, list(names[:-1]), [names[-1]], **settings)


def weights_of(seed: int = 0) -> dict[str, NDArray[Any]]:
    rng = np.random.default_rng(seed)
    return {
        "w": rng.normal(size=(WIDTH, 6)).astype(np.float32),
        "b": rng.normal(size=6).astype(np.float32),
        "v": (0.3 * rng.normal(size=(6, 2))).astype(np.float32),  # gentle: differences of a code measure its slopes
        "half": np.array(0.5, np.float32),
        "ones": np.ones(6, np.float32),
        "axis": np.array([1], np.int64),
        "six": np.array([0, 6], np.int64),
        "sixes": np.array([0, 1, 6], np.int64),
        "first": np.array([0], np.int64),
        "last": np.array([6], np.int64),
        "back": np.array([5, 4, 3, 2, 1, 0], np.int64),
        "low": np.array(-1, np.float32),
        "high": np.array(1.5, np.float32),
    }


START = [node("MatMul", "x", "w", "m"), node("Add", "m", "b", "a")]
END = [node("MatMul", "h", "v", "z"), node("Softmax", "z", "y", axis=1)]
MIDDLES: dict[str, list[Any]] = {
    "Relu": [node("Relu", "a", "h")],
    "LeakyRelu": [node("LeakyRelu", "a", "h", alpha=0.2)],
    "Elu": [node("Elu", "a", "h", alpha=1.5)],
    "Selu": [node("Selu", "a", "h")],
    "Sigmoid": [node("Sigmoid", "a", "h")],
    "Tanh": [node("Tanh", "a", "h")],
    "Softplus": [node("Softplus", "a", "h")],
    "Softsign": [node("Softsign", "a", "h")],
    "HardSigmoid": [node("HardSigmoid", "a", "h", alpha=0.3, beta=0.4)],
    "HardSwish": [node("HardSwish", "a", "h")],
    "Mish": [node("Mish", "a", "h")],
    "PRelu": [node("PRelu", "a", "half", "h")],
    "Clip": [node("Clip", "a", "low", "high", "h")],
    "Clip, one bound": [node("Clip", "a", "", "high", "h")],
    "Erf": [node("Erf", "a", "h")],
    "Gelu": [node("Gelu", "a", "h", approximate="tanh")],
    "LogSoftmax": [node("LogSoftmax", "a", "h", axis=-1)],
    "Cast": [node("Cast", "a", "d", to=11), node("Cast", "d", "h", to=1)],
    "Gemm": [node("Gemm", "a", "v", "g", alpha=0.5), node("Gemm", "g", "v", "b", "h", transB=1, beta=2.0)],
    "Div, Sub, Mul, Neg": [
        node("Div", "a", "half", "d"),
        node("Sub", "d", "b", "s"),
        node("Mul", "s", "b", "p"),
        node("Neg", "p", "h"),
    ],
    "Pow, Sqrt, Exp, Log": [
        node("Mul", "a", "a", "q"),
        node("Add", "q", "half", "p"),
        node("Sqrt", "p", "r"),
        node("Log", "r", "l"),
        node("Exp", "l", "e"),
        node("Pow", "e", "half", "h"),
    ],
    "Abs, Reciprocal": [node("Abs", "a", "p"), node("Add", "p", "half", "q"), node("Reciprocal", "q", "h")],
    "Concat, Slice": [
        node("Concat", "a", "m", "c", axis=1),
        node("Slice", "c", "first", "last", "axis", "h"),
    ],
    "Gather": [node("Gather", "a", "back", "h", axis=1)],
    "Reshape, Squeeze": [node("Reshape", "a", "sixes", "c"), node("Squeeze", "c", "axis", "h")],
    "Unsqueeze, Flatten": [node("Unsqueeze", "a", "axis", "u"), node("Flatten", "u", "h")],
    "Transpose": [node("Transpose", "a", "t"), node("Transpose", "t", "h", perm=[1, 0])],
    "Shape": [node("Shape", "a", "s"), node("Reshape", "a", "s", "h")],
    "ReduceMean, ReduceSum": [
        node("ReduceMean", "a", "axis", "mean"),
        node("ReduceSum", "a", "axis", "sum", keepdims=1),
        node("Add", "mean", "sum", "both"),
        node("Add", "a", "both", "h"),
    ],
    "ReduceMax, Max, Min": [
        node("ReduceMax", "a", "axis", "top"),
        node("Max", "a", "b", "half", "p"),
        node("Min", "p", "top", "h"),
    ],
    "Where": [node("Less", "a", "half", "small"), node("Where", "small", "a", "half", "h")],
    "BatchNormalization": [node("BatchNormalization", "a", "ones", "b", "b", "ones", "h", epsilon=0.01)],
    "LayerNormalization": [node("LayerNormalization", "a", "ones", "b", "h")],
    "Constant": [node("Constant", "k", value_floats=[0.5, -1, 1.5, -1, 1, -0.5]), node("Mul", "a", "k", "h")],
    "Dropout, Identity": [node("Dropout", "a", "p"), node("Identity", "p", "h")],
    "Scaler": [node("Scaler", "a", "h", domain="ai.onnx.ml", offset=[1.0] * 6, scale=[0.5] * 6)],
    "Normalizer": [node("Normalizer", "a", "h", domain="ai.onnx.ml", norm="L2")],
    "Swish by parts": [node("Sigmoid", "a", "s"), node("Mul", "a", "s", "h")],
}


@pytest.mark.parametrize("middle", MIDDLES)
def test_each_operator_in_torch_agrees_with_onnxruntime_and_has_its_gradient(tmp_path: Path, middle: str) -> None:
    path = saved(tmp_path / "net.onnx", [*START, *MIDDLES[middle], *END], weights_of())
    adapter = open_onnx(DATA, path, "standard")
    assert isinstance(adapter, NetworkAdapter), adapter.no_gradients  # it agreed, or it would be a black box
    assert conformance(adapter, DATA).gradients


OLD: dict[str, tuple[int, list[Any]]] = {
    "Softmax of version 9": (9, [node("Softmax", "a", "h", axis=1)]),
    "Clip of version 9": (9, [node("Clip", "a", "h", min=-1.0, max=0.5)]),
    "Unsqueeze and Squeeze of version 11": (
        11,
        [node("Unsqueeze", "a", "u", axes=[1]), node("Squeeze", "u", "h", axes=[1])],
    ),
    "ReduceSum of version 11": (11, [node("ReduceSum", "a", "s", axes=[1]), node("Add", "a", "s", "h")]),
    "Slice of version 9": (
        9,
        [node("Concat", "m", "a", "c", axis=1), node("Slice", "c", "h", axes=[1], starts=[6], ends=[12])],
    ),
}


@pytest.mark.parametrize("middle", OLD)
def test_operators_of_old_versions(tmp_path: Path, middle: str) -> None:
    version, nodes = OLD[middle]
    path = saved(tmp_path / "net.onnx", [*START, *nodes, *END], weights_of(), version)
    assert isinstance(open_onnx(DATA, path, "standard"), NetworkAdapter)


def test_scores_are_those_of_onnxruntime_and_slopes_those_of_the_graph_in_torch(tmp_path: Path) -> None:
    path = saved(tmp_path / "net.onnx", [*START, *MIDDLES["Swish by parts"], *END], weights_of())
    adapter = open_onnx(DATA, path, "standard")
    assert isinstance(adapter, NetworkAdapter)
    x = codes_of(DATA)
    session = onnxruntime.InferenceSession(str(path))
    (said,) = session.run(None, {session.get_inputs()[0].name: adapter.features(x).numpy()})
    assert np.array_equal(adapter(x).numpy(), said)
    by_torch = adapter(x.clone().requires_grad_(True))
    assert by_torch.requires_grad
    np.testing.assert_allclose(by_torch.detach().numpy(), said, atol=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_a_network_that_torch_exported(tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Linear(WIDTH, 16), nn.LayerNorm(16), nn.GELU(), nn.BatchNorm1d(16), nn.Dropout(0.2), nn.Linear(16, 2)
    ).eval()
    path = tmp_path / "net.onnx"
    torch.onnx.export(
        network,
        (torch.zeros(4, WIDTH),),
        path,
        dynamo=False,  # the new exporter takes seconds to start; the documentation's example is run with it
        input_names=["x"],
        dynamic_axes={"x": {0: "n"}},
    )
    adapter, name = load_module(DATA, path, "standard")
    assert name == str(path)
    x = codes_of(DATA).requires_grad_(True)
    scores, expected = adapter(x), wrap_module(DATA, network, "standard")(x)
    torch.testing.assert_close(scores, expected, atol=1e-5, rtol=1e-4)
    slopes, expected_slopes = (torch.autograd.grad(s[:, 1].sum(), x)[0] for s in (scores, expected))
    torch.testing.assert_close(slopes, expected_slopes, atol=1e-5, rtol=1e-4)
    assert conformance(adapter, DATA).gradients


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


@pytest.mark.parametrize("rounds", [False, True])
def test_full_audits_through_the_command_line(tmp_path: Path, rounds: bool) -> None:
    width = credit_width()
    weights = weights_of() | {"w": np.random.default_rng(1).normal(size=(width, 6)).astype(np.float32)}
    middle = [node("Round", "a", "r"), node("Tanh", "r", "h")] if rounds else [node("Tanh", "a", "h")]
    path = saved(tmp_path / "net.onnx", [*START, *middle, *END], weights, width=width)
    summary = audited(path, tmp_path / "out")
    assert summary["model"]["offers"] == (["scores"] if rounds else ["scores", "gradients"])
    assert summary["search"]["findings"]["total"] > 0


def test_raw_columns_take_no_inputs(tmp_path: Path) -> None:
    path = skl(raw_pipeline(2)[0], None, tmp_path / "m.onnx", initial_types=raw_types())
    with pytest.raises(EvenhandError, match="reads raw columns by their names"):
        open_onnx(DATA, path, "onehot")


def test_a_matrix_of_whole_numbers(tmp_path: Path) -> None:
    weights = weights_of() | {"w": weights_of()["w"][:6]}
    middle = [node("Cast", "x", "f", to=1), node("MatMul", "f", "w", "m"), *START[1:], node("Tanh", "a", "h")]
    path = saved(tmp_path / "net.onnx", [*middle, *END], weights, reads=INT64, width=6)
    found = conformance(open_onnx(DATA, path, "codes"), DATA)
    assert found.why_not == "it reads whole numbers"


def test_a_graph_that_rounds_is_a_black_box(tmp_path: Path) -> None:
    nodes = [*START, node("Round", "a", "r"), node("Floor", "r", "h"), *END]
    adapter = open_onnx(DATA, saved(tmp_path / "net.onnx", nodes, weights_of()), "standard")
    assert isinstance(adapter, Adapter)
    assert adapter.no_gradients == "its operators Floor and Round have no gradient here"


def test_a_graph_that_torch_would_compute_otherwise_is_a_black_box(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evenhand.models.adapters.onnx_operators import OPERATORS

    monkeypatch.setitem(OPERATORS, "Relu", lambda call: call[0].abs())
    path = saved(tmp_path / "net.onnx", [*START, node("Relu", "a", "h"), *END], weights_of())
    adapter = open_onnx(DATA, path, "standard")
    assert isinstance(adapter, Adapter)
    assert adapter.no_gradients == "its graph gives other scores in torch than in onnxruntime"


def test_a_fixed_number_of_rows_and_other_columns(tmp_path: Path) -> None:
    nodes = [*START, node("Relu", "a", "h"), *END]
    with pytest.raises(EvenhandError, match="exactly 8 rows"):
        open_onnx(DATA, saved(tmp_path / "net.onnx", nodes, weights_of(), rows=8), "standard")
    with pytest.raises(EvenhandError, match=r"cannot read the 6 columns .*age \(value\).* its input has 15 columns"):
        open_onnx(DATA, saved(tmp_path / "net.onnx", nodes, weights_of()), "values")


class Writes:
    """Unpickling it creates a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return open, (str(self.path), "w")


def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail when a file gets as far as being run."""

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("a session was made")

    monkeypatch.setattr("onnxruntime.InferenceSession", never)


@pytest.mark.parametrize("content", ["pickle", "text", "nothing"])
def test_what_is_no_onnx_file(tmp_path: Path, content: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path, trap = tmp_path / "net.onnx", tmp_path / "trap"
    path.write_bytes({"pickle": pickle.dumps(Writes(trap)), "text": b"hello", "nothing": b""}[content])
    no_session(monkeypatch)
    with pytest.raises(EvenhandError, match=r"pickle|not an ONNX file"):
        open_onnx(DATA, path, "standard")
    assert not trap.exists()


def external(path: Path, location: str) -> Path:
    """A file whose weights are said to be elsewhere."""
    saved(path, [*START, node("Relu", "a", "h"), *END], weights_of())
    model = onnx.load(path)
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize("location", ["/etc/passwd", "../weights", "a/../../weights", "C:\\weights", "link", ""])
def test_weights_from_outside_the_folder_are_refused(
    tmp_path: Path, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_session(monkeypatch)
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "weights").write_bytes(b"secret" * 1000)
    (folder / "link").symlink_to(tmp_path / "weights")
    with pytest.raises(EvenhandError, match="outside the model's folder"):
        open_onnx(DATA, external(folder / "net.onnx", location), "standard")


def test_weights_beside_the_model_are_read(tmp_path: Path) -> None:
    path = external(tmp_path / "net.onnx", "net.bin")
    with pytest.raises(EvenhandError, match="which does not exist"):
        open_onnx(DATA, path, "standard")
    (tmp_path / "net.bin").write_bytes(weights_of()["w"].tobytes())
    inside = saved(tmp_path / "inside.onnx", [*START, node("Relu", "a", "h"), *END], weights_of())
    adapters = [open_onnx(DATA, each, "standard") for each in (path, inside)]
    assert torch.equal(*(adapter(codes_of(DATA)) for adapter in adapters))


def absurd_weight(path: Path) -> None:
    model = onnx.load(saved(path, [*START, node("Relu", "a", "h"), *END], weights_of()))
    model.graph.initializer[0].dims[:] = [2**40, 2**20]
    path.write_bytes(model.SerializeToString())


def negative_weight(path: Path) -> None:
    model = onnx.load(saved(path, [*START, node("Relu", "a", "h"), *END], weights_of()))
    model.graph.initializer[0].dims[:] = [-5, 6]
    path.write_bytes(model.SerializeToString())


def absurd_input(path: Path) -> None:
    saved(path, [*START, node("Relu", "a", "h"), *END], weights_of(), width=2**50)


def terabytes_on_the_way(path: Path) -> None:
    nodes = [*START, node("ConstantOfShape", "terabytes", "k"), node("ReduceSum", "k", "s"), node("Add", "a", "s", "h")]
    saved(path, [*nodes, *END], weights_of() | {"terabytes": np.array([2**20, 2**20], np.int64)})


def computed_size(path: Path) -> None:
    nodes = [node("Exp", "power", "e"), node("Cast", "e", "s", to=INT64), node("ConstantOfShape", "s", "k")]
    nodes += [node("ReduceMax", "k", "top", keepdims=0), *START, node("Add", "a", "top", "h")]
    saved(path, [*nodes, *END], weights_of() | {"power": np.array([20], np.float32)})


def size_of_a_person(path: Path) -> None:
    nodes = [*START, node("ReduceMax", "a", "m1", keepdims=0), node("Cast", "m1", "s", to=INT64)]
    nodes += [node("Range", "zero", "s", "one", "r"), node("Cast", "r", "f", to=FLOAT), node("ReduceMax", "f", "top")]
    numbers = {"zero": np.array(0, np.int64), "one": np.array(1, np.int64)}
    saved(path, [*nodes, node("Add", "a", "top", "h"), *END], weights_of() | numbers)


def rows_by_the_million(path: Path) -> None:
    nodes = [*START, node("Shape", "a", "s"), node("Mul", "s", "million", "big"), node("Expand", "half", "big", "wide")]
    nodes += [node("ReduceMax", "wide", "top", keepdims=0), node("Add", "a", "top", "h")]
    saved(path, [*nodes, *END], weights_of() | {"million": np.array([10**6], np.int64)})


def lie_about_a_shape(path: Path) -> None:
    rows_by_the_million(path)
    model = onnx.load(path)
    model.graph.value_info.append(onnx.helper.make_tensor_value_info("wide", FLOAT, [1, 1]))
    path.write_bytes(model.SerializeToString())


@pytest.mark.parametrize("make", [computed_size, size_of_a_person, rows_by_the_million, lie_about_a_shape])
def test_computed_sizes_are_refused_unless_they_follow_from_constants_and_the_rows(
    tmp_path: Path, make: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path / "net.onnx")
    no_session(monkeypatch)
    with pytest.raises(EvenhandError, match=r"cannot be told before it is run|elements for 1,024 rows"):
        open_onnx(DATA, tmp_path / "net.onnx", "standard")


def test_sizes_that_follow_from_the_rows_are_read(tmp_path: Path) -> None:
    nodes = [
        *START,
        node("Shape", "a", "s"),
        node("Gather", "s", "first", "n"),
        node("Concat", "n", "last", "sides", axis=0),
    ]
    nodes += [node("ConstantOfShape", "sides", "k"), node("Add", "a", "k", "d"), node("Tile", "d", "twice", "t")]
    nodes += [node("Slice", "t", "first", "last", "axis", "e"), node("Expand", "e", "s", "h")]
    path = saved(tmp_path / "net.onnx", [*nodes, *END], weights_of() | {"twice": np.array([1, 2], np.int64)})
    plain = saved(tmp_path / "plain.onnx", [*START, node("Identity", "a", "h"), *END], weights_of())
    adapters = [open_onnx(DATA, each, "standard") for each in (path, plain)]
    torch.testing.assert_close(*(adapter(codes_of(DATA)) for adapter in adapters))


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


def short_weight(path: Path) -> None:
    model = onnx.load(saved(path, [*START, node("Relu", "a", "h"), *END], weights_of()))
    model.graph.initializer[0].dims[:] = [WIDTH, 600]
    path.write_bytes(model.SerializeToString())


@pytest.mark.parametrize("make", [absurd_weight, negative_weight, absurd_input, terabytes_on_the_way, short_weight])
def test_absurd_shapes_are_refused_before_a_session_is_made(
    tmp_path: Path, make: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path / "net.onnx")
    no_session(monkeypatch)
    with pytest.raises(EvenhandError, match=r"says that it has the shape|not a valid ONNX file"):
        open_onnx(DATA, tmp_path / "net.onnx", "standard")
