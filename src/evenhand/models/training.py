"""How networks are trained, for tables and for texts; and the paper's network for a table.

A part of the training rows is held back: the weights with the lowest loss on it are kept.
"""

import copy
import shlex
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from evenhand.data.dataset import Dataset
from evenhand.errors import EvenhandError
from evenhand.models.devices import one_thread
from evenhand.models.network import HIDDEN, FeedForward

Network = TypeVar("Network", bound=nn.Module)


@dataclass(frozen=True)
class TrainingConfig:
    """The paper's settings: Adam, batches of 128. Epochs and patience are ours, since the paper does not state them."""

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
    """Where training stands, for a progress display: after each batch, and at the end of each epoch with its losses."""

    number: int
    share: float  # of this epoch's rows that are done
    seconds: float  # since training began
    left: float  # estimated, for all epochs
    validation_loss: float | None = None  # at the end of an epoch
    validation_score: float | None = None  # the accuracy of a table's network, the AUC of a text's
    best: bool = False


@dataclass(frozen=True)
class Lessons:
    """What a network learns from."""

    rows: int  # of an epoch
    batches: Callable[[], Iterable[Any]]  # of an epoch, each of some rows
    loss: Callable[[Any], Tensor]  # of a batch
    validate: Callable[[], tuple[float, float | None]]  # loss and score on the validation rows


def initialised(seed: int, make: Callable[[], Network]) -> Network:
    """A fresh network whose weights depend on the seed alone; the caller's random state is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()


def fit(
    network: nn.Module,
    lessons: Lessons,
    epochs: int,
    learning_rate: float,
    on_epoch: Callable[[Epoch], None],
    *,
    patience: int | None = None,
    cycle: int | None = None,
    largest_norm: float | None = None,
) -> int:
    """Train with Adam and keep the weights with the lowest validation loss; returns how many epochs it took.

    `patience`: epochs without a better loss after which it ends; `cycle`: steps over which the learning rate rises and
    falls; `largest_norm`: what gradients are cut to.
    """
    optimizer = torch.optim.Adam(network.parameters(), lr=learning_rate)
    schedule = cycle and torch.optim.lr_scheduler.OneCycleLR(optimizer, learning_rate, total_steps=cycle + 1)
    best, best_loss, best_epoch = copy.deepcopy(network.state_dict()), float("inf"), 0
    number, start = 0, time.perf_counter()

    def standing(share: float, *of_validation: Any) -> Epoch:
        seconds, done = time.perf_counter() - start, (number - 1 + share) / epochs
        return Epoch(number, share, seconds, seconds / done * (1 - done), *of_validation)

    for number in range(1, epochs + 1):
        network.train()
        done = 0
        for rows in lessons.batches():
            optimizer.zero_grad(set_to_none=True)
            lessons.loss(rows).backward()  # type: ignore[no-untyped-call]
            if largest_norm is not None:
                nn.utils.clip_grad_norm_(network.parameters(), largest_norm)
            optimizer.step()
            if schedule:
                schedule.step()
            done += len(rows)
            on_epoch(standing(done / lessons.rows))
        network.eval()
        with torch.no_grad():
            loss, score = lessons.validate()
        on_epoch(standing(1.0, loss, score, loss < best_loss))
        if loss < best_loss:
            best, best_loss, best_epoch = copy.deepcopy(network.state_dict()), loss, number
        elif patience is not None and number - best_epoch >= patience:
            break
    network.load_state_dict(best)
    return number


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
    generator = torch.Generator().manual_seed(config.seed)
    rows = torch.tensor(data.train).nonzero()[:, 0]
    if len(rows) < 2:
        raise EvenhandError(f"Training {data.name} needs two training rows or more: to fit, and to know when to stop.")
    rows = rows[torch.randperm(len(rows), generator=generator)]
    held, learned = rows.tensor_split([max(1, round(len(rows) * config.validation_share))])
    x, y = torch.tensor(data.codes, dtype=torch.float32, device=device), torch.tensor(data.labels, device=device)
    widths = [x.shape[1], *HIDDEN, len(data.schema.label.values)]
    network = initialised(config.seed, lambda: FeedForward(widths)).to(device)

    def batches() -> Iterable[Tensor]:
        return torch.split(learned[torch.randperm(len(learned), generator=generator)].to(device), config.batch_rows)

    def validate() -> tuple[float, float]:
        logits, labels = network(x[held]), y[held]
        return functional.cross_entropy(logits, labels).item(), (logits.argmax(1) == labels).double().mean().item()

    lessons = Lessons(len(learned), batches, lambda part: functional.cross_entropy(network(x[part]), y[part]), validate)
    with one_thread(torch.device(device)):
        epochs = fit(network, lessons, config.epochs, config.learning_rate, on_epoch, patience=config.patience)
    return network.cpu(), _description(network.cpu(), data, config, epochs, data_argument or data.name)


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
