"""How a network reads people: behind its features, a network of torch reads codes and gives gradients by them."""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from evenhand.data.dataset import Dataset
from evenhand.errors import EvenhandError, UnfitMatrixError
from evenhand.models.adapters.base import Adapter
from evenhand.models.adapters.features.entries import Inputs
from evenhand.models.adapters.features.matrix import Features
from evenhand.models.classifier import first_line

TRIAL_ROWS = 256


class NetworkAdapter(Adapter):
    """A network behind its features. It is asked in evaluation mode and gives gradients."""

    smallest_call = 0  # none of its own: that of plain modules, as a network's matrix products need it
    thread_safe = True
    may_be_logit = True

    def __init__(self, features: Features, network: nn.Module, about: str) -> None:
        super().__init__()
        self.features, self.network, self.about = features, network, about

    def forward(self, x: Tensor) -> Tensor:
        """(n, d) codes to scores."""
        scores: Tensor = self.network(self.features(x))
        return scores

    def train(self, mode: bool = True) -> "NetworkAdapter":  # noqa: ARG002
        """Stay in evaluation mode; some programs cannot even be told to."""
        self.training = False
        return self


def wrap_module(data: Dataset, model: nn.Module, inputs: Inputs, about: str = "") -> NetworkAdapter:
    """A torch module that reads a matrix of features, as one that reads codes. The caller's own is left as it is."""
    try:
        network = copy.deepcopy(model).eval()
    except Exception as error:
        raise EvenhandError(f"The model cannot be copied, so it would be changed: {first_line(error)}.") from error
    return behind_features(data, network, inputs, about or type(model).__name__)


def behind_features(data: Dataset, network: nn.Module, inputs: Inputs, about: str) -> NetworkAdapter:
    """A network in evaluation mode behind its features, tried on a few rows."""
    dtype = next((p.dtype for p in network.parameters() if p.is_floating_point()), torch.float32)
    adapter = NetworkAdapter(Features(data, inputs, dtype), network, about)
    adapter.note_inputs(inputs)
    device = next((p.device for p in network.parameters()), torch.device("cpu"))
    check_on_rows(adapter.to(device), data, device, _first_layer(network))
    return adapter


def check_on_rows(
    adapter: Any, data: Dataset, device: torch.device | str = "cpu", wanted: int | None = None
) -> tuple[Tensor, Tensor]:
    """A few rows and what an adapter behind features says of them; an error in words where it cannot read them."""
    x = torch.tensor(data.clipped[:TRIAL_ROWS], dtype=torch.float32, device=device)
    try:
        with torch.no_grad():
            return x, adapter(x)
    except Exception as error:  # the user's own model: whatever it raises is theirs to mend
        raise cannot_read(adapter.about, adapter.features, first_line(error), wanted) from error


def _first_layer(network: nn.Module) -> int | None:
    """How many columns the first layer reads, where it is a plain one."""
    sizes = [module.in_features for module in network.modules() if isinstance(module, nn.Linear)]
    return sizes[0] if sizes else None


def cannot_read(about: str, features: Features, said: str, wanted: int | None = None) -> EvenhandError:
    """The error for a model that wants other columns than it is given."""
    wants = "" if wanted in (None, features.width) else f" Its first layer reads {wanted}."
    return UnfitMatrixError(
        f"{about} cannot read the {features.width} columns that it is given: {features.words}.{wants} It said: {said}. "
        "Choose how it reads people with inputs = codes, values, raw, onehot or standard, or write a description "
        "(.toml) that lists its features."
    )
