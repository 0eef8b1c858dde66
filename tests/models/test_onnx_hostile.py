"""ONNX files of those who mean harm: no pickle, no weights from elsewhere, no absurd sizes."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from evenhand.errors import EvenhandError
from evenhand.models.adapters.onnx.model import open_onnx
from tests.worlds.adapters import codes_of
from tests.worlds.onnx import DATA, END, FLOAT, INT64, START, WIDTH, node, onnx, saved, weights_of


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
