"""The built-in network for tables, and its files: safetensors for the weights, JSON for all else."""

import itertools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeGuard, TypeVar

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from evenhand.errors import EvenhandError
from evenhand.files import read_json, replacing, write_json

Network = TypeVar("Network", bound=nn.Module)
FORMAT = "evenhand feed-forward network 1"
HIDDEN = (64, 32, 16, 8, 4)  # with the output layer, the paper's six fully connected layers


class FeedForward(nn.Module):
    """Fully connected layers with ReLU between them; reads codes, returns logits."""

    def __init__(self, widths: Sequence[int]) -> None:
        super().__init__()
        self.widths = tuple(widths)
        pairs = itertools.pairwise(widths[:-1])
        self.hidden = nn.ModuleList(nn.Linear(before, after) for before, after in pairs)
        self.head = nn.Linear(widths[-2], widths[-1])

    def forward(self, x: Tensor) -> Tensor:
        """(n, attributes) to (n, classes)."""
        for layer in self.hidden:
            x = torch.relu(layer(x))
        logits: Tensor = self.head(x)
        return logits


def first_layer(network: FeedForward) -> nn.Linear:
    """The layer that reads the attributes."""
    layer = network.hidden[0] if len(network.hidden) else network.head
    assert isinstance(layer, nn.Linear)
    return layer


def network_files(path: Path) -> tuple[Path, Path]:
    """Where a network's weights and its description are: `path`.safetensors and `path`.json.

    `path` may also be one of the two. Other dots are part of the name.
    """
    if not path.name:
        raise EvenhandError(f"'{path}' is not a name for a network's files. Give one such as {path / 'network'}.")
    name = path.stem if path.suffix in (".safetensors", ".json") else path.name
    return path.with_name(f"{name}.safetensors"), path.with_name(f"{name}.json")


def read_description(path: Path) -> dict[str, Any]:
    """What a network's description says; weights alone are not enough."""
    weights_file, description_file = network_files(path)
    if weights_file.is_file() and not description_file.is_file():
        raise EvenhandError(
            f"{weights_file} holds weights only. Their description, {description_file.name}, belongs beside them: "
            "`evenhand train` and `evenhand repair` write both, so copy both into one folder."
        )
    return read_json(description_file)


def save_network(network: FeedForward, description: dict[str, Any], path: Path) -> None:
    """Write `path`.safetensors and `path`.json."""
    save_weights(network, {"format": FORMAT, "widths": list(network.widths), **description}, path)


def load_network(path: Path) -> tuple[FeedForward, dict[str, Any]]:
    """Read a network and its description from `path`.safetensors and `path`.json."""
    return load_weights(path, FORMAT, _from_description)


def save_weights(network: nn.Module, description: dict[str, Any], path: Path) -> None:
    """Write a network's weights and a description from which an empty one can be made again."""
    weights_file, description_file = network_files(path)
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()}
    with replacing(weights_file) as temporary:
        safetensors.torch.save_file(weights, temporary)
    write_json(description_file, description)


def load_weights(
    path: Path, expected: str, make: Callable[[dict[str, Any], Path], Network]
) -> tuple[Network, dict[str, Any]]:
    """A network that `make` builds from its description, with its weights."""
    weights_file, description_file = network_files(path)
    description = read_description(path)
    if description.get("format") != expected:
        raise EvenhandError(f"{description_file} does not describe a network: its format is not '{expected}'.")
    try:
        network = make(description, path)  # a description may ask for more than memory holds
        network.load_state_dict(safetensors.torch.load_file(weights_file))
    except (OSError, SafetensorError, RuntimeError, TypeError) as error:
        raise EvenhandError(f"Cannot read the weights {weights_file}: {error}") from error
    return network, description


def _from_description(description: dict[str, Any], path: Path) -> FeedForward:
    widths = description.get("widths")
    if not _are_widths(widths):
        raise EvenhandError(
            f"{network_files(path)[1]} does not describe a network: its widths are {json.dumps(widths)}, not a list of "
            "whole numbers, one for each layer. Make the file again with `evenhand train`."
        )
    return FeedForward(widths)


def _are_widths(widths: object) -> TypeGuard[list[int]]:
    return isinstance(widths, list) and len(widths) > 1 and all(type(width) is int and width > 0 for width in widths)
