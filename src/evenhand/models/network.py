"""The built-in network for tables, and its files: safetensors for the weights, JSON for all else."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from evenhand.errors import EvenhandError
from evenhand.files import read_json, replacing, write_json

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


def save_network(network: FeedForward, description: dict[str, Any], path: Path) -> None:
    """Write `path`.safetensors and `path`.json."""
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()}
    with replacing(path.with_suffix(".safetensors")) as temporary:
        safetensors.torch.save_file(weights, temporary)
    write_json(path.with_suffix(".json"), {"format": FORMAT, "widths": list(network.widths), **description})


def load_network(path: Path) -> tuple[FeedForward, dict[str, Any]]:
    """Read a network and its description from `path`.safetensors and `path`.json."""
    description = read_json(path.with_suffix(".json"))
    if description.get("format") != FORMAT:
        raise EvenhandError(f"{path.with_suffix('.json')} does not describe a network: its format is not '{FORMAT}'.")
    network = FeedForward(description["widths"])
    try:
        network.load_state_dict(safetensors.torch.load_file(path.with_suffix(".safetensors")))
    except (OSError, SafetensorError, RuntimeError) as error:
        raise EvenhandError(f"Cannot read the weights {path.with_suffix('.safetensors')}: {error}") from error
    return network, description
