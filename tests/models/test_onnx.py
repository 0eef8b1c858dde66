"""ONNX files of networks: each operator, its gradient, and what is a black box."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from evenhand.errors import EvenhandError
from evenhand.models.adapters.base import Adapter
from evenhand.models.adapters.onnx.model import open_onnx
from evenhand.models.adapters.torch.networks import NetworkAdapter, wrap_module
from evenhand.models.loading import load_module
from evenhand.models.trial import conformance
from tests.worlds.adapters import codes_of
from tests.worlds.network_audits import audited, credit_width
from tests.worlds.onnx import DATA, END, INT64, START, WIDTH, node, onnxruntime, saved, weights_of

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


@pytest.mark.parametrize("rounds", [False, True])
def test_full_audits_through_the_command_line(tmp_path: Path, rounds: bool) -> None:
    width = credit_width()
    weights = weights_of() | {"w": np.random.default_rng(1).normal(size=(width, 6)).astype(np.float32)}
    middle = [node("Round", "a", "r"), node("Tanh", "r", "h")] if rounds else [node("Tanh", "a", "h")]
    path = saved(tmp_path / "net.onnx", [*START, *middle, *END], weights, width=width)
    summary = audited(path, tmp_path / "out")
    assert summary["model"]["offers"] == (["scores"] if rounds else ["scores", "gradients"])
    assert summary["search"]["findings"]["total"] > 0


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
    from evenhand.models.adapters.onnx.graph import OPERATORS

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
