"""Getting a module for a table: built in, from a file of any framework, from an address, or from the user's code."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable
from functools import partial
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from evenhand.data.dataset import Dataset
from evenhand.errors import EvenhandError
from evenhand.files import read_json
from evenhand.models.adapters.base import Adapter
from evenhand.models.averaged import FORMAT as AVERAGED
from evenhand.models.averaged import load_averaged
from evenhand.models.decisions import DecidingAdapter
from evenhand.models.network import load_network, network_files, read_description

if TYPE_CHECKING:
    from evenhand.models.adapters.features.entries import Inputs

BUILTIN = Path(str(resources.files("evenhand.models") / "builtin"))

# Which function opens which file: module and function, imported when needed.
OPENERS = {
    ".skops": "sklearn:open_skops",
    ".txt": "boosting:open_lightgbm",
    ".ubj": "boosting:open_xgboost",
    ".onnx": "onnx.model:open_onnx",
    ".keras": "keras:open_keras",
    ".pt2": "torch.programs:open_exported",
    ".pt": "torch.programs:open_torchscript",
    ".ts": "torch.programs:open_torchscript",
    ".toml": "description:open_described",
}
TRUST = "EVENHAND_TRUST"
PICKLES = (".pkl", ".pickle", ".joblib", ".pth", ".bin", ".h5", ".hdf5")
KNOWN_FILES = (
    "a file that evenhand made (NAME.safetensors), .skops (scikit-learn), .txt (LightGBM), .ubj or .json (XGBoost), "
    ".onnx, .keras, .pt2 (torch.export) or .pt (TorchScript), .toml (a description of a file or an address)"
)


def load_module(data: Dataset, model: Any = None, inputs: Inputs = None) -> tuple[nn.Module, str]:
    """A module that reads codes, and how to name it.

    `model` is None for the built-in network, a file, an address (http), `module:function`, or an object: a torch
    module, an estimator, a booster, a Keras model, a function of a data frame. `inputs` says how a model that
    reads a matrix wants it; see `adapters.features.entries`.
    """
    if model is None:
        return _builtin_network(data), f"built-in network for {data.name}"
    if not isinstance(model, str | Path):
        return _with_name(wrap(data, model, inputs))
    text = str(model)
    if text.startswith(("http://", "https://")):
        return _with_name(_function("http.endpoint:open_address")(data, text))
    suffix = Path(text).suffix
    if suffix == ".safetensors" or (suffix == ".json" and not _is_booster(Path(text))):
        return _network_for(data, Path(text)), text
    if suffix == ".json":
        return _open("boosting:open_xgboost", data, Path(text), inputs), text
    if suffix in OPENERS:
        return _open(OPENERS[suffix], data, Path(text), inputs), text
    if suffix in PICKLES:
        raise EvenhandError(
            f"{text} looks like a pickle or an old format that can run code when it is read, so it is not opened. Save "
            "the model as .skops, .onnx, .keras or .safetensors, or load it yourself and name it as module:function."
        )
    if _is_python_path(text):
        return wrap(data, _import_object(text), inputs, of=text), text
    raise EvenhandError(
        f"'{text}' is not a model. Give an object or a function of your own as module:function, an address (http://…), "
        f"or {KNOWN_FILES}."
    )


def loader_of(data: Dataset, model: Any) -> Callable[[Inputs], tuple[nn.Module, str]]:
    """A function that loads a model for a way of reading people; the user's own code runs once for all of them."""
    if isinstance(model, str) and _is_python_path(model):
        own = _import_object(model)
        return lambda inputs: (wrap(data, own, inputs, of=model), model)
    return lambda inputs: load_module(data, model, inputs)


def _is_python_path(text: str) -> bool:
    """Whether a model is named as module:function."""
    if text.startswith(("http://", "https://")) or Path(text).suffix in (".safetensors", ".json", *OPENERS, *PICKLES):
        return False
    return ":" in text or Path(text).suffix == ".py"


def wrap(data: Dataset, model: Any, inputs: Inputs = None, of: str = "") -> nn.Module:
    """An object as a module that reads codes: of torch or another framework, or a function of a data frame."""
    if isinstance(model, Adapter) or (
        isinstance(model, nn.Module) and inputs in (None, "codes") and not _is_keras(model)
    ):
        return model
    if _is_keras(model):
        kind = "keras:wrap_keras"
    elif isinstance(model, nn.Module):
        kind = "torch.networks:wrap_module"
    elif _framework(model) in ("lightgbm", "xgboost") and not hasattr(model, "predict_proba"):
        kind = "boosting:wrap_booster"
    elif hasattr(model, "predict_proba") or hasattr(model, "predict"):
        kind = "sklearn:wrap_estimator"
    elif callable(model):
        kind = "frames:wrap_function"
    else:
        raise EvenhandError(
            f"{of or 'The model'} is of the type {type(model).__name__}, which is no model: it must be a "
            "torch.nn.Module, have predict_proba or predict, or be a function of a data frame."
        )
    module: nn.Module = _function(kind)(data, model, inputs)
    return module


def _framework(model: Any) -> str:
    return type(model).__module__.partition(".")[0]


def _is_keras(model: Any) -> bool:
    """Whether an object is a Keras model; with torch as its backend it is a torch module too."""
    return any(kind.__module__.partition(".")[0] == "keras" for kind in type(model).__mro__)


def _with_name(module: nn.Module) -> tuple[nn.Module, str]:
    return module, (module.about if isinstance(module, Adapter) else "") or type(module).__name__


def _function(place: str) -> Callable[..., Any]:
    """A function of an adapter, whose framework is an extra: `module:function`."""
    module, _, name = place.partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(f"evenhand.models.adapters.{module}"), name)
    return function


def _open(opener: str, data: Dataset, path: Path, inputs: Inputs) -> nn.Module:
    if not path.is_file():
        raise EvenhandError(f"There is no file {path}.")
    module: nn.Module = _function(opener)(data, path, inputs)
    return module


def _is_booster(path: Path) -> bool:
    """Whether a JSON file is XGBoost's and not a description of ours."""
    return path.is_file() and "learner" in read_json(path)


def _builtin_network(data: Dataset) -> nn.Module:
    if data.name not in {path.stem for path in BUILTIN.glob("*.json")}:
        raise EvenhandError(
            f"There is no built-in network for '{data.name}'. Name a model of your own with --model, or train one: "
            f"`evenhand train SCHEMA.toml --out {data.name}` makes it, --model {data.name}.safetensors names it."
        )
    return _network_for(data, BUILTIN / data.name)


def _network_for(data: Dataset, path: Path) -> nn.Module:
    weights_file, description_file = network_files(path)
    if not weights_file.is_file():
        raise EvenhandError(f"There is no file {weights_file}.")
    averaged = read_description(path).get("format") == AVERAGED
    network: nn.Module
    network, description = load_averaged(path, partial(_inner_model, data, path)) if averaged else load_network(path)
    network.threshold = _threshold(description, description_file)
    for key, expected in {"attributes": data.schema.names, "classes": data.schema.label.values}.items():
        if description.get(key) != expected:
            raise EvenhandError(
                f"The network {path.name} is for other data: its {key} are {_listed(description.get(key))}, but those "
                f"of {data.name} are {_listed(expected)}. Choose another network, or correct {description_file}."
            )
    return network


def _inner_model(data: Dataset, path: Path, inner: str) -> nn.Module:
    """The model that an averaged one asks, given people and deciding as the description says."""
    description = read_description(path)
    module, _ = load_module(data, _check_trust(inner, path), description.get("inputs"))
    threshold, decided = _threshold(description, path), description.get("decided")
    if isinstance(module, Adapter) and decided in ("logits", "probabilities"):
        return DecidingAdapter(module, decided, threshold)
    if isinstance(module, Adapter):
        module.threshold = threshold
    return module


def _threshold(description: dict[str, Any], path: Path) -> float | None:
    """The score from which on a model gives the second class."""
    threshold = description.get("threshold")
    if threshold is not None and not (isinstance(threshold, float) and 0 < threshold < 1):
        raise EvenhandError(f"{path} has the threshold {threshold}, which is no score between 0 and 1.")
    return threshold


def _check_trust(inner: str, path: Path) -> str:
    """The model that an averaged one asks: a file beside it, or something that the user has said to trust.

    A file from somebody else must not import code, nor send people's data to an address, because it says so.
    """
    if inner in os.environ.get(TRUST, "").split(","):
        return inner
    beside = path.parent / inner
    if Path(inner).name == inner and Path(inner).suffix in OPENERS and Path(inner).suffix != ".toml":
        return str(beside)
    raise EvenhandError(
        f"{path} is the average of the model '{inner}', which is code or an address and no file beside it. If you "
        f"trust it, say so: {TRUST}='{inner}' in the environment."
    )


def _listed(values: object) -> str:
    return ", ".join(map(str, values)) if isinstance(values, list) else "not given"


def _import_object(path: str) -> Any:
    """Import `module:name` from the current folder or the Python path; a function without arguments is called."""
    module_name, _, name = path.partition(":")
    if "/" in module_name or module_name.endswith(".py"):
        plain = Path(module_name).stem
        raise EvenhandError(f"'{path}' names a file. Write {plain}:{name or 'FUNCTION'}, and run from its folder.")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        imported = importlib.import_module(module_name)
    except ImportError as error:
        raise EvenhandError(f"Cannot import '{module_name}': {error}. Run from its folder, or install it.") from error
    except (Exception, SystemExit) as error:  # the user's code again, and it may be a script that ends itself
        raise EvenhandError(
            f"Cannot import '{module_name}': it raised {type(error).__name__}: {error}. Correct the module."
        ) from error
    if not hasattr(imported, name):
        raise EvenhandError(f"'{module_name}' has no function '{name}'. Write module:function.")
    found = getattr(imported, name)
    if not _is_factory(found):
        return found
    try:
        return found()
    except (Exception, SystemExit) as error:  # it is the user's code: whatever it raises is theirs to mend
        raise EvenhandError(f"The model function {path} failed: {type(error).__name__}: {error}") from error


def _is_factory(found: Any) -> bool:
    """Whether it makes a model: a class, or a function that needs no argument."""
    if isinstance(found, type):
        return True
    if isinstance(found, nn.Module) or hasattr(found, "predict") or not callable(found):
        return False
    try:
        inspect.signature(found).bind()
    except (TypeError, ValueError):  # it needs arguments, or says nothing about them
        return False
    return True
