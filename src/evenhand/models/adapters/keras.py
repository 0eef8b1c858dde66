"""Keras 3 models: with torch as its backend they give gradients, with another one they are asked as black boxes.

A .keras file's own description is read before Keras does: layers of Keras alone, no Python, no other files.
"""

import io
import json
import os
import re
import sys
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from evenhand.data.dataset import Dataset
from evenhand.errors import EvenhandError
from evenhand.models.adapters.archives import LARGEST_CONTENT, open_archive
from evenhand.models.adapters.base import Adapter
from evenhand.models.adapters.features.entries import Inputs
from evenhand.models.adapters.features.matrix import Features
from evenhand.models.adapters.torch.networks import cannot_read, check_on_rows
from evenhand.models.classifier import first_line

PREPARING = ("Normalization", "Discretization", "Rescaling", "CategoryEncoding", "Hashing")
HOW_TO_SAVE = "Save the model again with Keras 3: model.save('NAME.keras')."
FILES = re.compile(r"config\.json|metadata\.json|model(_\d+)?\.weights\.(h5|json)")
TRAINED = r"optimizers|losses|metrics"  # a model inside a model says how it was trained
MODULES = re.compile(
    rf"keras\.(layers|models|initializers|regularizers|constraints|activations|dtype_policies|{TRAINED})|"
    rf"keras\.src\.(models\.(functional|sequential|model)|ops\.(core|linalg|math|nn|numpy)|"
    rf"dtype_policies\.\w+|({TRAINED})\.\w+|backend\.\w+\.optimizers\.\w+)",
    re.ASCII,
)
OF_KERAS = ("DTypePolicy", "FloatDTypePolicy", "Functional", "Model", "Sequential")  # that it names without a module
PLAIN = ("__keras_tensor__", "__tensor__", "__numpy__", "__ellipsis__", "__slice__", "__bytes__")
CODE = {
    "Lambda": "Python code",
    "__lambda__": "Python code",
    "function": "a Python function",
    "TorchModuleWrapper": "a pickle",
    "TFSMLayer": "another file",
    "JaxLayer": "Python code",
    "FlaxLayer": "Python code",
    "StringLookup": "a vocabulary, which may be another file",
    "IntegerLookup": "a vocabulary, which may be another file",
    "TextVectorization": "a vocabulary, which may be another file",
}


def open_keras(data: Dataset, path: Path, inputs: Inputs) -> nn.Module:
    """A model from a .keras file of Keras' own layers, loaded in safe mode."""
    check_keras_file(path)
    keras = _keras()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = keras.saving.load_model(path, compile=False, safe_mode=True)
    except Exception as error:  # a damaged file, or one of another version
        raise EvenhandError(f"Keras cannot read {path}: {first_line(error)}.") from error
    return wrap_keras(data, model, inputs, str(path))


def wrap_keras(data: Dataset, model: Any, inputs: Inputs, about: str = "") -> nn.Module:
    """A Keras model that reads one matrix of features. It is asked and left as it is."""
    shape = getattr(model, "input_shape", None)
    if isinstance(shape, list | dict):
        raise EvenhandError(f"The Keras model must read one matrix of people, but it reads {len(shape)} inputs.")
    about = about or f"Keras {type(model).__name__}"
    features = Features(data, inputs, torch.float64 if model.compute_dtype == "float64" else torch.float32)
    if shape and shape[-1] not in (None, features.width):
        raise cannot_read(about, features, f"its input has {shape[-1]} columns")
    adapter = KerasAdapter(features, model, about)
    check_on_rows(adapter, data)
    adapter.note_inputs(inputs)
    if _prepares_values(model):
        adapter.ways = ("values", "raw")
    return adapter


def _prepares_values(model: Any) -> bool:
    """Whether a layer of the model scales or sorts raw values itself."""
    layers = list(getattr(model, "layers", []))
    return any(type(layer).__name__ in PREPARING or _prepares_values(layer) for layer in layers)


def _keras() -> Any:
    """Keras, on torch unless it is already there or the user chose otherwise."""
    if "keras" not in sys.modules:
        os.environ.setdefault("KERAS_BACKEND", "torch")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import keras
    except ImportError as error:
        if error.name == "keras":
            raise keras_is_missing() from error
        raise EvenhandError(f"Keras cannot start: {error}. Set KERAS_BACKEND=torch, or install it.") from error
    if int(keras.__version__.partition(".")[0]) < 3:
        raise keras_is_missing()
    return keras


class KerasAdapter(Adapter):
    """A Keras model behind its features; it is no part of the module, so that nothing changes its mode or weights."""

    smallest_call = 0  # none of its own: that of plain modules, as a network's matrix products need it
    may_be_logit = True

    def __init__(self, features: Features, model: Any, about: str) -> None:
        super().__init__()
        self.features, self.about = features, about
        self._model, self._keras = (model,), _keras()
        backend = self._keras.backend.backend()
        if backend != "torch":
            self.no_gradients = f"Keras runs on {backend}, and gradients need its torch backend (KERAS_BACKEND=torch)"
        else:  # it is computed where Keras has the weights
            self._place = next((str(weight.value.device) for weight in model.weights), "cpu")

    def forward(self, x: Tensor) -> Tensor:
        """(n, d) codes to scores."""
        (model,) = self._model
        if self.no_gradients is not None:
            matrix = self.features(x.detach()).cpu().numpy()
            return torch.from_numpy(np.array(model.predict_on_batch(matrix))).to(x.device)
        with self._keras.device(self._place):
            scores: Tensor = model(self.features(x).to(self._place), training=False)
        return scores.to(x.device)


def check_keras_file(path: Path) -> None:
    """Refuse a file that would run code or read other files when Keras loads it; Keras is not even imported."""
    with open_archive(path, "a .keras file", HOW_TO_SAVE) as archive:
        for name in archive.namelist():
            if not FILES.fullmatch(name):
                raise EvenhandError(f"{path} holds '{name}', which no network needs, so it was not opened.")
        if "config.json" not in archive.namelist():
            raise EvenhandError(f"{path} is not a .keras file: it has no config.json. {HOW_TO_SAVE}")
        config = _config(archive, path)
        for name in archive.namelist():
            if name.endswith(".h5"):
                _check_weights(archive.read(name), name, path)
    config.pop("compile_config", None)  # how it was trained; never loaded
    _check_layers(config, path)


def _config(archive: zipfile.ZipFile, path: Path) -> dict[str, Any]:
    try:
        config = json.loads(archive.read("config.json"))
    except (ValueError, RecursionError) as error:
        raise EvenhandError(f"{path}: its config.json cannot be read: {error}.") from error
    if not isinstance(config, dict):
        raise EvenhandError(f"{path}: its config.json does not describe a model.")
    return config


def _check_layers(config: dict[str, Any], path: Path) -> None:
    waiting: list[Any] = [config]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if "class_name" in value:
                _check_layer(value, path)
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)


def _check_layer(entry: dict[str, Any], path: Path) -> None:
    kind, module = str(entry["class_name"]), entry.get("module")
    inner = entry.get("config")
    name = str(inner.get("name", kind) if isinstance(inner, dict) else inner or kind)[:80]
    if kind in CODE:
        raise EvenhandError(
            f"{path}: '{name}' ({kind}) holds {CODE[kind]}, so the file was not opened. Write it with layers of Keras, "
            "or load the model in your own code and name it as module:function."
        )
    if kind in PLAIN:
        return
    own = isinstance(module, str) and (
        MODULES.fullmatch(module) is not None or (module == "keras" and kind in OF_KERAS)
    )
    if not own or ">" in str(entry.get("registered_name") or ""):
        raise EvenhandError(
            f"{path}: '{name}' is a {module or 'custom'} {kind} and not of Keras itself, so the file was not opened. "
            "Load the model in your own code and name it as module:function."
        )


def _check_weights(content: bytes, name: str, path: Path) -> None:
    """Weights that lie in the file itself, and no more than a model may have."""
    try:
        import h5py
    except ImportError as error:
        raise keras_is_missing() from error
    try:
        with h5py.File(io.BytesIO(content), "r") as file:
            total = _bytes_in(h5py, file, f"{path}: '{name}'")
    except (OSError, RuntimeError, ValueError, KeyError) as error:
        raise EvenhandError(f"{path}: its weights '{name}' cannot be read: {error}.") from error
    if total > LARGEST_CONTENT:
        raise EvenhandError(f"{path}: its weights say that they are {total:,} bytes. It was not opened.")


def _bytes_in(h5py: Any, group: Any, where: str, depth: int = 0) -> int:
    total = 0
    for key in group:
        link = group.get(key, getlink=True)
        if not isinstance(link, h5py.HardLink) or depth > 50:
            raise EvenhandError(f"{where} points to another place ('{key}'), so it was not opened.")
        item = group[key]
        if isinstance(item, h5py.Group):
            total += _bytes_in(h5py, item, where, depth + 1)
        elif item.external or item.is_virtual:
            raise EvenhandError(f"{where} reads another file ('{key}'), so it was not opened.")
        else:
            total += int(item.nbytes)
    return total


def keras_is_missing() -> EvenhandError:
    """The error for an extra that is not installed."""
    return EvenhandError('Keras models need Keras 3: pip install "evenhand[keras]".')
