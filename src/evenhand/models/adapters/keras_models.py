"""Keras 3 models: with torch as its backend they give gradients, with another one they are asked as black boxes."""

import os
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from evenhand.data.dataset import Dataset
from evenhand.errors import EvenhandError
from evenhand.models.adapters.base import Adapter
from evenhand.models.adapters.feature_entries import Inputs
from evenhand.models.adapters.feature_matrix import Features
from evenhand.models.adapters.features import TRIAL_ROWS, cannot_read
from evenhand.models.adapters.keras_files import check_keras_file, keras_is_missing
from evenhand.models.classifier import first_line

PREPARING = ("Normalization", "Discretization", "Rescaling", "CategoryEncoding", "Hashing")


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
    keras = _keras()
    shape = getattr(model, "input_shape", None)
    if isinstance(shape, list | dict):
        raise EvenhandError(f"The Keras model must read one matrix of people, but it reads {len(shape)} inputs.")
    about = about or f"Keras {type(model).__name__}"
    features = Features(data, inputs, torch.float64 if model.compute_dtype == "float64" else torch.float32)
    if shape and shape[-1] not in (None, features.width):
        raise cannot_read(about, features, f"its input has {shape[-1]} columns")
    backend = keras.backend.backend()
    adapter = KerasOnTorch(features, model, about) if backend == "torch" else KerasElsewhere(features, model, about)
    _try(adapter, data)
    adapter.told(inputs)
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


class _KerasAdapter(Adapter):
    """A Keras model behind its features; it is no part of the module, so that nothing changes its mode or weights."""

    smallest_call = 0  # none of its own: that of plain modules, as a network's matrix products need it
    lone_logit = True

    def __init__(self, features: Features, model: Any, about: str) -> None:
        super().__init__()
        self.features, self.about = features, about
        self._model = (model,)


class KerasOnTorch(_KerasAdapter):
    """A Keras model that torch computes."""

    def __init__(self, features: Features, model: Any, about: str) -> None:
        super().__init__(features, model, about)
        self._place = next((str(weight.value.device) for weight in model.weights), "cpu")

    def forward(self, x: Tensor) -> Tensor:
        """(n, d) codes to scores, computed where Keras has the weights."""
        import keras

        (model,) = self._model
        with keras.device(self._place):
            scores: Tensor = model(self.features(x).to(self._place), training=False)
        return scores.to(x.device)


class KerasElsewhere(_KerasAdapter):
    """A Keras model that another backend computes."""

    def __init__(self, features: Features, model: Any, about: str) -> None:
        super().__init__(features, model, about)
        self.no_gradients = (
            f"Keras runs on {_keras().backend.backend()}, and gradients need its torch backend (KERAS_BACKEND=torch)"
        )

    def forward(self, x: Tensor) -> Tensor:
        """(n, d) codes to scores."""
        (model,) = self._model
        scores = np.array(model.predict_on_batch(self.features(x.detach()).cpu().numpy()))
        return torch.from_numpy(scores).to(x.device)


def _try(adapter: _KerasAdapter, data: Dataset) -> None:
    try:
        with torch.no_grad():
            adapter(torch.tensor(data.clipped[:TRIAL_ROWS], dtype=torch.float32))
    except Exception as error:  # the user's own model: whatever it raises is theirs to mend
        raise cannot_read(adapter.about, adapter.features, first_line(error)) from error
