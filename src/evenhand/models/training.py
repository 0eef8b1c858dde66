"""Training of the paper's network: Adam, batches of 128, early stopping on a tenth of the training rows."""

import copy
import shlex
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from evenhand.data.dataset import Dataset
from evenhand.errors import EvenhandError
from evenhand.models.devices import one_thread
from evenhand.models.network import HIDDEN, FeedForward


@dataclass(frozen=True)
class TrainingConfig:
    """The paper's settings; epochs and patience are ours, since the paper does not state them."""

    epochs: int = 100
    patience: int = 10
    learning_rate: float = 0.01
    batch_rows: int = 128
    validation_share: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.patience < 1 or self.batch_rows < 1:
            raise EvenhandError("Epochs, patience and batch rows must be at least 1.")


@dataclass(frozen=True)
class Epoch:
    """Where training stands, for a progress display."""

    number: int
    validation_loss: float
    validation_accuracy: float
    best: bool


def train(
    data: Dataset,
    config: TrainingConfig,
    device: torch.device | str = "cpu",
    on_epoch: Callable[[Epoch], None] = lambda epoch: None,
    data_argument: str | None = None,
) -> tuple[FeedForward, dict[str, Any]]:
    """Train on the training rows; keep the weights with the lowest loss on the validation rows.

    The description names the command that does the same again; `data_argument` is what it says for the data.
    """
    with one_thread(torch.device(device)):
        network, epochs = _train(data, config, device, on_epoch)
    return network, _description(network, data, config, epochs, data_argument or data.name)


def _train(
    data: Dataset, config: TrainingConfig, device: torch.device | str, on_epoch: Callable[[Epoch], None]
) -> tuple[FeedForward, int]:
    """The network, and how many epochs it took."""
    generator = torch.Generator().manual_seed(config.seed)
    x = torch.tensor(data.codes, dtype=torch.float32)
    y = torch.tensor(data.labels)
    rows = torch.tensor(data.train).nonzero()[:, 0]
    if len(rows) < 2:
        raise EvenhandError(f"Training {data.name} needs two training rows or more: to fit, and to know when to stop.")
    rows = rows[torch.randperm(len(rows), generator=generator)]
    validation = max(1, round(len(rows) * config.validation_share))
    held, fit = rows[:validation], rows[validation:]
    network = _initialised([x.shape[1], *HIDDEN, len(data.schema.label.values)], config.seed).to(device)
    x, y = x.to(device), y.to(device)
    optimizer = torch.optim.Adam(network.parameters(), lr=config.learning_rate)
    best, best_loss, since_best, number = copy.deepcopy(network.state_dict()), float("inf"), 0, 0
    for number in range(1, config.epochs + 1):
        _one_epoch(network, optimizer, x, y, fit[torch.randperm(len(fit), generator=generator)], config.batch_rows)
        loss, accuracy = _evaluate(network, x[held], y[held])
        since_best = 0 if loss < best_loss else since_best + 1
        on_epoch(Epoch(number, loss, accuracy, since_best == 0))
        if since_best == 0:
            best, best_loss = copy.deepcopy(network.state_dict()), loss
        elif since_best >= config.patience:
            break
    network.load_state_dict(best)
    return network.cpu(), number


def _initialised(widths: list[int], seed: int) -> FeedForward:
    """A fresh network whose weights depend on the seed alone; the caller's random state is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return FeedForward(widths)


def _one_epoch(
    network: FeedForward, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor, order: Tensor, batch_rows: int
) -> None:
    network.train()
    for rows in torch.split(order.to(x.device), batch_rows):
        optimizer.zero_grad(set_to_none=True)
        functional.cross_entropy(network(x[rows]), y[rows]).backward()  # type: ignore[no-untyped-call]
        optimizer.step()


@torch.no_grad()
def _evaluate(network: FeedForward, x: Tensor, y: Tensor) -> tuple[float, float]:
    network.eval()
    logits = network(x)
    return functional.cross_entropy(logits, y).item(), (logits.argmax(1) == y).double().mean().item()


def accuracy(network: torch.nn.Module, data: Dataset, held_out: bool) -> float:
    """The share of rows whose label the network gets right, on the training or on the held-out rows."""
    rows = ~data.train if held_out else data.train
    dtype = next((weights.dtype for weights in network.parameters()), torch.float32)
    x = torch.tensor(data.codes[rows], dtype=dtype)
    with torch.no_grad():
        right = network(x).argmax(1) == torch.tensor(data.labels[rows])
    return float(right.double().mean())


def _description(
    network: FeedForward, data: Dataset, config: TrainingConfig, epochs: int, data_argument: str
) -> dict[str, Any]:
    """What the network's JSON file says about how it was made and how good it is."""
    return {
        "dataset": data.name,
        "attributes": data.schema.names,
        "classes": data.schema.label.values,
        "made_by": _command(data_argument, config),
        "training": asdict(config) | {"epochs_run": epochs, "torch": torch.__version__},
        "accuracy": {
            "train": round(accuracy(network, data, held_out=False), 4),
            **_held_out_accuracy(network, data),
            "paper": data.schema.accuracy_in_paper,
        },
    }


def _held_out_accuracy(network: FeedForward, data: Dataset) -> dict[str, float | None]:
    """How good the network is on the held-out rows, and how good the commonest label is; None without such rows."""
    if data.train.all():
        return {"held_out": None, "held_out_majority_class": None}
    counts = np.bincount(data.labels[~data.train])
    return {
        "held_out": round(accuracy(network, data, held_out=True), 4),
        "held_out_majority_class": round(float(counts.max() / counts.sum()), 4),
    }


def _command(data_argument: str, config: TrainingConfig) -> str:
    """The command that makes the network again."""
    words = ["evenhand", "train", data_argument, "--seed", str(config.seed)]
    if config.epochs != TrainingConfig.epochs:
        words += ["--epochs", str(config.epochs)]
    if config.patience != TrainingConfig.patience:
        words += ["--patience", str(config.patience)]
    return shlex.join(words)
