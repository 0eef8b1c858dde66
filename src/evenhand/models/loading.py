"""Getting a module: a built-in network, a file of `evenhand train`, or a function of the user's own."""

import importlib
import sys
from importlib import resources
from pathlib import Path

from torch import nn

from evenhand.data.dataset import Dataset
from evenhand.errors import EvenhandError
from evenhand.models.network import load_network

BUILTIN = Path(str(resources.files("evenhand.models") / "builtin"))


def load_module(data: Dataset, model: str | None) -> tuple[nn.Module, str]:
    """A module and how to name it: built-in for None, else a weights file or `module:function`."""
    if model is None:
        return _network_for(data, BUILTIN / data.name), f"built-in network for {data.name}"
    if Path(model).suffix in (".safetensors", ".json"):
        return _network_for(data, Path(model)), model
    if ":" in model:
        return _call_factory(model), model
    raise EvenhandError(
        f"'{model}' is not a model. Give a function of your own as module:function, "
        "or a file that `evenhand train` made (NAME.safetensors with NAME.json beside it)."
    )


def _network_for(data: Dataset, path: Path) -> nn.Module:
    if not path.with_suffix(".safetensors").is_file():
        if path.parent == BUILTIN:
            raise EvenhandError(
                f"There is no built-in network for '{data.name}'. Train one: evenhand train {data.name}"
            )
        raise EvenhandError(f"There is no file {path.with_suffix('.safetensors')}.")
    network, description = load_network(path)
    if description.get("attributes") != data.schema.names:
        raise EvenhandError(
            f"The network {path.name} reads the attributes {', '.join(description.get('attributes', []))}, "
            f"but {data.name} has {', '.join(data.schema.names)}."
        )
    return network


def _call_factory(path: str) -> nn.Module:
    """Import `module:function` from the current folder or the Python path and call it."""
    module_name, _, function_name = path.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        function = getattr(importlib.import_module(module_name), function_name)
    except ImportError as error:
        raise EvenhandError(f"Cannot import '{module_name}': {error}. Run from its folder, or install it.") from error
    except (AttributeError, ValueError) as error:
        raise EvenhandError(f"'{module_name}' has no function '{function_name}'.") from error
    try:
        module = function if isinstance(function, nn.Module) else function()
    except Exception as error:  # it is the user's code: whatever it raises is theirs to mend
        raise EvenhandError(f"The model function {path} failed: {type(error).__name__}: {error}") from error
    if not isinstance(module, nn.Module):
        raise EvenhandError(f"{path} returned {type(module).__name__}; it must return a torch.nn.Module.")
    return module
