"""Small ONNX files for tests: nodes in a row from features of people to two scores."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from evenhand.models.adapters.features.matrix import Features
from tests.worlds.adapters import people

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
