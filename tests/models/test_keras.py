"""Keras models in memory and on disk, and .keras files that would run code."""

import base64
import json
import marshal
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from evenhand.errors import EvenhandError
from evenhand.models.adapters.features.matrix import Features
from evenhand.models.adapters.keras import open_keras, wrap_keras
from evenhand.models.loading import load_module
from evenhand.models.trial import conformance
from tests.worlds.adapters import codes_of, people
from tests.worlds.network_audits import audited, credit_width

os.environ.setdefault("KERAS_BACKEND", "torch")
keras: Any = pytest.importorskip("keras")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:keras.*")
DATA = people()
WIDTH = Features(DATA, "standard").width


def network(*more: Any, ends: Any = None, width: int = WIDTH) -> Any:
    keras.utils.set_random_seed(0)
    layers = keras.layers
    ends = ends or layers.Dense(2, activation="softmax")
    model = keras.Sequential(
        [keras.Input((width,)), layers.Dense(16, activation="relu"), layers.BatchNormalization(), *more, ends]
    )
    model.compile("adam", "sparse_categorical_crossentropy")
    return model


def test_a_file_gives_the_scores_of_its_model_and_gradients(tmp_path: Path) -> None:
    model = network(keras.layers.Dropout(0.5))
    model.save(tmp_path / "net.keras")
    adapter, name = load_module(DATA, tmp_path / "net.keras", "standard")
    assert name == str(tmp_path / "net.keras")
    features = Features(DATA, "standard")(codes_of(DATA))
    np.testing.assert_allclose(adapter(codes_of(DATA)).detach(), model.predict(features, verbose=0), atol=1e-6)
    assert conformance(adapter, DATA).gradients


def test_a_full_audit_through_the_command_line(tmp_path: Path) -> None:
    network(width=credit_width()).save(tmp_path / "net.keras")
    summary = audited(tmp_path / "net.keras", tmp_path / "out")
    assert summary["model"]["offers"] == ["scores", "gradients"]
    assert summary["search"]["findings"]["total"] > 0


def test_a_functional_model_with_a_shortcut(tmp_path: Path) -> None:
    keras.utils.set_random_seed(0)
    layers, start = keras.layers, keras.Input((WIDTH,))
    hidden = layers.Dense(8, activation="gelu", kernel_regularizer="l2")(layers.LayerNormalization()(start))
    both = keras.ops.add(hidden, layers.Dense(8, activation=keras.activations.tanh)(hidden))
    within = keras.Sequential([layers.Dense(8, kernel_constraint="max_norm", dtype=keras.DTypePolicy("float32"))])
    within.compile("adam", "mse", metrics=["accuracy"])
    both = keras.ops.relu(keras.ops.clip(within(both), -1, 1))
    keras.Model(start, layers.Dense(2)(layers.Concatenate()([both, start]))).save(tmp_path / "net.keras")
    assert conformance(open_keras(DATA, tmp_path / "net.keras", "standard"), DATA).gradients


@pytest.mark.parametrize("ends", ["sigmoid", "linear"])
def test_a_model_in_memory_with_one_score_is_left_as_it_is(ends: str) -> None:
    model = network(ends=keras.layers.Dense(1, activation=ends))
    adapter, name = load_module(DATA, model, "standard")
    assert name == "Keras Sequential"
    checked = conformance(adapter, DATA)
    assert checked.gradients
    assert checked.classifier.output == ("probabilities" if ends == "sigmoid" else "logits")
    assert all(weight.value.requires_grad for weight in model.trainable_weights)


def test_a_model_of_other_columns() -> None:
    with pytest.raises(EvenhandError, match=r"6 columns .*its input has 15 columns"):
        wrap_keras(DATA, network(), "values")


def test_a_model_of_several_inputs() -> None:
    ends = [keras.Input((1,)), keras.Input((2,))]
    model = keras.Model(ends, keras.layers.Concatenate()(ends))
    with pytest.raises(EvenhandError, match="reads 2 inputs"):
        wrap_keras(DATA, model, None)


def test_another_backend_is_a_black_box_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    model = network()
    white = wrap_keras(DATA, model, "standard")
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    black = wrap_keras(DATA, model, "standard")
    torch.testing.assert_close(black(codes_of(DATA)), white(codes_of(DATA)))
    found = conformance(black, DATA)
    assert not found.gradients
    assert "Keras runs on jax" in found.why_not


class Writes:
    """Unpickling it creates a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return open, (str(self.path), "w")


def changed(tmp_path: Path, change: Callable[[dict[str, Any]], None], more: dict[str, bytes] | None = None) -> Path:
    """A .keras file whose config was tampered with."""
    network().save(tmp_path / "good.keras")
    path = tmp_path / "changed.keras"
    with zipfile.ZipFile(tmp_path / "good.keras") as source, zipfile.ZipFile(path, "w") as target:
        config = json.loads(source.read("config.json"))
        change(config)
        target.writestr("config.json", json.dumps(config))
        for name in ("metadata.json", "model.weights.h5"):
            target.writestr(name, (more or {}).pop(name, source.read(name)))
        for name, content in (more or {}).items():
            target.writestr(name, content)
    return path


def test_a_lambda_layer_is_refused_and_its_code_never_runs(tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    code = compile(f"lambda x: open({str(trap)!r}, 'w') and x", "<lambda>", "eval").co_consts[0]
    packed = base64.b64encode(marshal.dumps(code)).decode()
    function = {"class_name": "__lambda__", "config": {"code": packed, "defaults": None, "closure": None}}
    evil = {"module": "keras.layers", "class_name": "Lambda", "config": {"name": "harmless", "function": function}}
    path = changed(tmp_path, lambda config: config["config"]["layers"].append(evil))
    with pytest.raises(EvenhandError, match=r"'harmless' \(Lambda\) holds Python code, so the file was not opened"):
        open_keras(DATA, path, "standard")
    assert not trap.exists()


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        ({"module": "my_layers", "class_name": "Mine", "config": {"name": "m"}}, "'m' is a my_layers Mine"),
        ({"module": None, "class_name": "Mine", "registered_name": "Own>Mine", "config": {}}, "custom Mine"),
        (
            {"module": "keras.layers", "class_name": "Dense", "registered_name": "Own>Dense", "config": {}},
            "not of Keras",
        ),
        ({"module": "builtins", "class_name": "function", "config": "exec"}, "'exec' .function. holds a Python"),
        ({"module": "keras.utils", "class_name": "get_file", "config": {}}, "keras.utils get_file and not of Keras"),
        (
            {"module": "keras.config", "class_name": "enable_unsafe_deserialization", "config": {}},
            "not of Keras itself",
        ),
        (
            {"module": "keras.src.trainers.data_adapters.data_adapter", "class_name": "DataAdapter", "config": {}},
            "not of Keras itself",
        ),
        ({"module": "keras", "class_name": "Variable", "config": {}}, "a keras Variable and not of Keras itself"),
        ({"module": "keras.layers", "class_name": "TorchModuleWrapper", "config": {"module": "gAQ="}}, "a pickle"),
        ({"module": "keras.layers", "class_name": "StringLookup", "config": {"vocabulary": "/etc/passwd"}}, "another"),
    ],
)
def test_what_is_not_of_keras_itself_is_refused(tmp_path: Path, layer: dict[str, Any], message: str) -> None:
    path = changed(tmp_path, lambda config: config["config"]["layers"][1]["config"].update(activation=layer))
    with pytest.raises(EvenhandError, match=message):
        open_keras(DATA, path, "standard")


def test_a_pickle_by_the_name_of_keras_is_refused(tmp_path: Path) -> None:
    path, trap = tmp_path / "net.keras", tmp_path / "trap"
    path.write_bytes(pickle.dumps(Writes(trap)))
    with pytest.raises(EvenhandError, match="is a pickle"):
        open_keras(DATA, path, "standard")
    torch.save(Writes(trap), path)
    with pytest.raises(EvenhandError, match="which no network needs"):
        open_keras(DATA, path, "standard")
    assert not trap.exists()


def test_weights_that_lie_elsewhere_or_are_absurd_are_refused(tmp_path: Path) -> None:
    h5py: Any = pytest.importorskip("h5py")
    linked, huge = tmp_path / "linked.h5", tmp_path / "huge.h5"
    with h5py.File(linked, "w") as file:
        file["weights"] = h5py.ExternalLink("/etc/other.h5", "weights")
    with h5py.File(huge, "w") as file:
        file.create_dataset("weights", shape=(10**6, 10**6), dtype="f4", chunks=(10**3, 10**3))
    for path, message in ((linked, "points to another place"), (huge, "4,000,000,000,000 bytes")):
        tampered = changed(tmp_path, lambda config: None, {"model.weights.h5": path.read_bytes()})
        with pytest.raises(EvenhandError, match=message):
            open_keras(DATA, tampered, "standard")


def test_a_file_with_more_than_a_model_is_refused(tmp_path: Path) -> None:
    path = changed(tmp_path, lambda config: None, {"assets/run.py": b"print(1)"})
    with pytest.raises(EvenhandError, match=r"'assets/run\.py', which no network needs"):
        open_keras(DATA, path, "standard")
