"""Getting a module: a built-in network, a file of `evenhand train` or `repair`, or a function of the user's own."""

import importlib
import sys
from importlib import resources
from pathlib import Path

from torch import nn

from evenhand.data.dataset import Dataset
from evenhand.errors import EvenhandError
from evenhand.files import read_json
from evenhand.models.averaged import FORMAT as AVERAGED
from evenhand.models.averaged import load_averaged
from evenhand.models.network import load_network, network_files

BUILTIN = Path(str(resources.files("evenhand.models") / "builtin"))


def load_module(data: Dataset, model: str | None) -> tuple[nn.Module, str]:
    """A module and how to name it: built-in for None, else a weights file or `module:function`."""
    if model is None:
        return _builtin_network(data), f"built-in network for {data.name}"
    if Path(model).suffix in (".safetensors", ".json"):
        return _network_for(data, Path(model)), model
    if ":" in model:
        return _call_factory(model), model
    raise EvenhandError(
        f"'{model}' is not a model. Give a function of your own as module:function, "
        "or a file that `evenhand train` made (NAME.safetensors with NAME.json beside it)."
    )


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
    averaged = read_json(description_file).get("format") == AVERAGED
    network: nn.Module
    network, description = load_averaged(path, _call_factory) if averaged else load_network(path)
    for key, expected in {"attributes": data.schema.names, "classes": data.schema.label.values}.items():
        if description.get(key) != expected:
            raise EvenhandError(
                f"The network {path.name} is for other data: its {key} are {_listed(description.get(key))}, but those "
                f"of {data.name} are {_listed(expected)}. Choose another network, or correct {description_file}."
            )
    return network


def _listed(values: object) -> str:
    return ", ".join(map(str, values)) if isinstance(values, list) else "not given"


def _call_factory(path: str) -> nn.Module:
    """Import `module:function` from the current folder or the Python path and call it."""
    module_name, _, function_name = path.partition(":")
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
    if not hasattr(imported, function_name):
        raise EvenhandError(f"'{module_name}' has no function '{function_name}'. Write module:function.")
    function = getattr(imported, function_name)
    try:
        module = function if isinstance(function, nn.Module) else function()
    except Exception as error:  # it is the user's code: whatever it raises is theirs to mend
        raise EvenhandError(f"The model function {path} failed: {type(error).__name__}: {error}") from error
    if not isinstance(module, nn.Module):
        raise EvenhandError(f"{path} returned {type(module).__name__}; it must return a torch.nn.Module.")
    return module
