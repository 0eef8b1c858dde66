"""The paper's networks for text: three recurrent layers of ten states and a linear head, over fixed word vectors."""

from pathlib import Path
from typing import Any, Literal, TypeGuard

from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from evenhand.errors import EvenhandError
from evenhand.models.network import load_weights, network_files, save_weights

FORMAT = "evenhand recurrent network 1"
Cell = Literal["lstm", "gru"]
CELLS: dict[str, type[nn.LSTM | nn.GRU]] = {"lstm": nn.LSTM, "gru": nn.GRU}
LAYERS, STATES = 3, 10


class Recurrent(nn.Module):
    """Reads word vectors, returns logits from the last layer's state after the last word."""

    def __init__(self, cell: Cell, dimensions: int, outputs: int, layers: int = LAYERS, states: int = STATES) -> None:
        super().__init__()
        self.cell: Cell = cell
        self.shape = {"dimensions": dimensions, "layers": layers, "states": states, "outputs": outputs}
        self.layers = CELLS[cell](dimensions, states, layers, batch_first=True)
        self.head = nn.Linear(states, outputs)

    def forward(self, vectors: Tensor, lengths: Tensor) -> Tensor:
        """(n, words, dimensions) padded vectors and (n,) lengths to (n, classes); padding is never read."""
        packed = pack_padded_sequence(vectors, lengths.cpu(), batch_first=True, enforce_sorted=False)
        _, last = self.layers(packed)
        state = last[0] if self.cell == "lstm" else last  # (layers, n, states)
        logits: Tensor = self.head(state[-1])
        return logits


def save_recurrent(network: Recurrent, description: dict[str, Any], path: Path) -> None:
    """Write `path`.safetensors and `path`.json; word vectors are not part of a network.

    A description with a `format` of its own says that the network must be read in another way.
    """
    save_weights(network, {"format": FORMAT, "cell": network.cell, **network.shape, **description}, path)


def load_recurrent(path: Path, expected: str = FORMAT) -> tuple[Recurrent, dict[str, Any]]:
    """Read a network and its description from `path`.safetensors and `path`.json."""
    return load_weights(path, expected, _from_description)


def _from_description(description: dict[str, Any], path: Path) -> Recurrent:
    cell = description.get("cell")
    sizes = {name: description.get(name) for name in ("dimensions", "outputs", "layers", "states")}
    if cell not in CELLS or not _are_sizes(sizes):
        raise EvenhandError(
            f"{network_files(path)[1]} does not describe a network: it needs a cell ({', '.join(CELLS)}) and whole "
            "numbers for dimensions, layers, states and outputs. Make the file again with `evenhand train`."
        )
    return Recurrent(cell, **sizes)


def _are_sizes(sizes: dict[str, Any]) -> TypeGuard[dict[str, int]]:
    return all(type(size) is int and size > 0 for size in sizes.values())
