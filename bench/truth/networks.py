"""Networks that read a matrix: torch, Keras and ONNX; and a pipeline as ONNX. Each knows its own labels."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from torch import nn

from bench.truth.models import Build, pipeline
from bench.truth.world import Subject, World


def network(width: int, classes: int) -> nn.Sequential:
    """A small network that scales its inputs itself."""
    torch.manual_seed(0)
    return nn.Sequential(nn.BatchNorm1d(width, momentum=None), nn.Linear(width, 16), nn.ReLU(), nn.Linear(16, classes))


def trained(matrix: NDArray[np.float32], codes: NDArray[np.int64], steps: int = 200) -> nn.Sequential:
    """The network after learning these rows."""
    module, x, y = network(matrix.shape[1], int(codes.max()) + 1), torch.from_numpy(matrix), torch.from_numpy(codes)
    optimizer = torch.optim.Adam(module.parameters(), lr=0.02)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(module(x), y).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return module.eval()


def torch_predict(world: World, module: nn.Module, way: str) -> Callable[[pd.DataFrame], NDArray[Any]]:
    """The labels of a network that reads a matrix."""

    def predict(frame: pd.DataFrame) -> NDArray[Any]:
        with torch.no_grad():
            return world.labels(module(torch.from_numpy(world.matrix(frame, way))).argmax(1))

    return predict


def torch_network(way: str, *, stated: bool = True) -> Build:
    """A torch module that reads a matrix in this way; whether evenhand is told so."""

    def build(world: World) -> Subject:
        module = trained(world.matrix(world.frame, way), world.class_codes)
        return Subject(torch_predict(world, module, way), module, {"inputs": way} if stated else {})

    return build


def torch_one_score(world: World) -> Subject:
    """A network with one number for each person: the logit of the second label."""
    matrix = world.matrix(world.frame, "values")
    inner = trained(matrix, world.class_codes)
    last: Any = inner[3]
    one = nn.Linear(16, 1)
    one.load_state_dict({"weight": last.weight[1:] - last.weight[:1], "bias": last.bias[1:] - last.bias[:1]})
    module = nn.Sequential(*list(inner)[:3], one).eval()

    def predict(frame: pd.DataFrame) -> NDArray[Any]:
        with torch.no_grad():
            return world.labels(module(torch.from_numpy(world.matrix(frame, "values")))[:, 0].numpy() > 0)

    return Subject(predict, module, {"inputs": "values", "output": "logits"})


def torch_described(world: World) -> Subject:
    """A TorchScript file with a description that says, attribute by attribute, how it reads people."""
    matrix = world.matrix(world.frame, "onehot")
    module = trained(matrix, world.class_codes)
    traced: Any = torch.jit.trace(module, torch.zeros(2, matrix.shape[1]))  # type: ignore[no-untyped-call]
    traced.save(str(world.folder / "net.pt"))
    features = [
        f'[[feature]]\nattribute = "{entry["name"]}"\nas = "{"onehot" if entry.get("categories") else "value"}"\n'
        for entry in world.content["attribute"]
    ]
    description = world.folder / "net.toml"
    description.write_text('file = "net.pt"\n' + "\n".join(features), encoding="utf-8")
    return Subject(torch_predict(world, module, "onehot"), description)


def torch_onnx(world: World) -> Subject:
    """A torch module as an ONNX file with one matrix."""
    matrix = world.matrix(world.frame, "onehot")
    module, path = trained(matrix, world.class_codes), world.folder / "net.onnx"
    torch.onnx.export(
        module, (torch.zeros(2, matrix.shape[1]),), str(path), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},),
        verbose=False,
    )  # fmt: skip
    session = _session(path)
    name = session.get_inputs()[0].name

    def predict(frame: pd.DataFrame) -> NDArray[Any]:
        return world.labels(session.run(None, {name: world.matrix(frame, "onehot")})[0].argmax(1))

    return Subject(predict, path, {"inputs": "onehot"})


def sklearn_onnx(world: World) -> Subject:
    """A pipeline as an ONNX file with one input for each raw column."""
    from skl2onnx import convert_sklearn
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType

    model = pipeline(world, LogisticRegression(max_iter=400)).fit(world.x, world.y)
    inputs = [(n, (FloatTensorType if n in world.numbers else StringTensorType)([None, 1])) for n in world.reads]
    path = world.folder / "model.onnx"
    path.write_bytes(convert_sklearn(model, initial_types=inputs).SerializeToString())
    session = _session(path)

    def predict(frame: pd.DataFrame) -> NDArray[Any]:
        given = {n: frame[[n]].to_numpy(dtype=np.float32 if n in world.numbers else object) for n in world.reads}
        return np.asarray(session.run(["output_label"], given)[0])

    return Subject(predict, path)


def keras_network(world: World) -> Subject:
    """A Keras model that reads a column for each category."""
    os.environ.setdefault("KERAS_BACKEND", "torch")
    import keras

    matrix = world.matrix(world.frame, "onehot")
    keras.utils.set_random_seed(0)
    scaling = keras.layers.Normalization(mean=matrix.mean(0), variance=matrix.var(0) + 1e-6)
    ends = keras.layers.Dense(len(world.classes), activation="softmax")
    model = keras.Sequential(
        [keras.Input((matrix.shape[1],)), scaling, keras.layers.Dense(12, activation="relu"), ends]
    )
    model.compile(keras.optimizers.Adam(0.02), "sparse_categorical_crossentropy")
    model.fit(matrix, world.class_codes, epochs=8, batch_size=128, verbose=0)

    def predict(frame: pd.DataFrame) -> NDArray[Any]:
        scores = model.predict(world.matrix(frame, "onehot"), verbose=0, batch_size=4096)
        return world.labels(scores.argmax(1))

    return Subject(predict, model, {"inputs": "onehot"})


def _session(path: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
