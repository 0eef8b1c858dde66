"""Training of repaired networks for tables, whatever the objective.

A network is trained on scaled attributes and then written as one that reads codes, so a repaired network is a file like
any other. The scale is that of the domain: the code for a missing value, far outside of it, would flatten all else.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from evenhand.data.dataset import Dataset
from evenhand.errors import EvenhandError
from evenhand.models import training
from evenhand.models.network import FeedForward, first_layer
from evenhand.search.space import TableSpace

FEWEST_BATCHES, SMALLEST_BATCH = 50, 16  # in an epoch: few rows are trained in smaller batches
STARTS, OTHER_START = 8, 1_000_000  # how often first weights are tried, and how far their seeds are apart
VALIDATION_DRAWS = 1_000_003  # the seed of random samples that validation compares epochs on


@dataclass(frozen=True)
class Recipe:
    """How repaired networks are trained: Adam, with a learning rate that rises and falls once (one cycle)."""

    epochs: int = 20
    learning_rate: float = 0.01
    batch_rows: int = 256
    validation_share: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch_rows < 1:
            raise EvenhandError("Epochs and batch rows must be at least 1.")


@dataclass(frozen=True)
class Material:
    """What repairs learn from: the training rows of a table, and nothing else of it."""

    data: Dataset
    space: TableSpace
    widths: Sequence[int]  # of the network, from attributes to classes
    recipe: Recipe

    @property
    def split(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Training rows to fit on, and those that decide when to stop and what to choose. Held-out rows are neither."""
        rows = np.random.default_rng(self.recipe.seed).permutation(np.flatnonzero(self.data.train))
        if len(rows) < 2:
            raise EvenhandError(f"Repairing a network for {self.data.name} needs two training rows or more.")
        validation = max(1, round(len(rows) * self.recipe.validation_share))
        return rows[validation:], rows[:validation]

    def rows(self, which: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """(n, d) codes as they are in the data, and (n,) labels."""
        return torch.tensor(self.data.codes[which], dtype=torch.float32), torch.tensor(self.data.labels[which])


class Scaled(nn.Module):
    """A network that reads codes through a scale of its own."""

    def __init__(self, network: FeedForward, mean: Tensor, deviation: Tensor) -> None:
        super().__init__()
        self.network, self.mean, self.deviation = network, mean, deviation

    def scale(self, x: Tensor) -> Tensor:
        """(n, d) codes to what the network reads."""
        return (x - self.mean) / self.deviation

    def forward(self, x: Tensor) -> Tensor:
        """(n, d) codes to (n, classes) logits."""
        logits: Tensor = self.network(self.scale(x))
        return logits

    @torch.no_grad()
    def folded(self) -> FeedForward:
        """The same function of codes, with the scale inside the first layer."""
        network = copy.deepcopy(self.network)
        first = first_layer(network)
        first.weight.div_(self.deviation)
        first.bias.sub_(first.weight @ self.mean)
        return network


@torch.no_grad()
def blind_network(network: FeedForward, columns: list[int], codes: Tensor) -> FeedForward:
    """A network that reads the codes given (columns,) wherever a row has others: their weights become zero."""
    network = copy.deepcopy(network)
    first = first_layer(network)
    first.bias.add_(first.weight[:, columns] @ codes)
    first.weight[:, columns] = 0
    return network


class Objective(Protocol):
    """What a repair minimises."""

    def loss(self, network: Scaled, x: Tensor, y: Tensor, done: float, draws: torch.Generator) -> Tensor:
        """The mean loss of rows (n, d) with labels (n,), at a share of training that is done."""


class CrossEntropy:
    """Plain training."""

    def loss(self, network: Scaled, x: Tensor, y: Tensor, done: float, draws: torch.Generator) -> Tensor:  # noqa: ARG002 - an objective
        """Cross-entropy."""
        return functional.cross_entropy(network(x), y)


def fit(
    material: Material,
    objective: Objective,
    *,
    seed: int | None = None,
    extra: tuple[Tensor, Tensor] | None = None,
    on_epoch: Callable[[int, int], None] = lambda done, total: None,
) -> FeedForward:
    """A fresh network trained on the rows to fit, and on extra ones; the epoch with the least validation loss is kept.

    Narrow layers may die at the start, and the network then says one label to all; it is begun again from other first
    weights. On the CPU, on one thread, the same seed gives the same weights.
    """
    seed = material.recipe.seed if seed is None else seed
    fit_rows, held = material.split
    (x, y), validation = material.rows(fit_rows), material.rows(held)
    if extra is not None:
        x, y = torch.cat([x, extra[0]]), torch.cat([y, extra[1]])
    for start in range(STARTS):
        network = _fresh(material, fit_rows, seed + start * OTHER_START)
        _run(network, objective, x, y, validation, material.recipe, seed, on_epoch)
        if not _says_one_label(network, x, y):
            break
    return network.folded()


def _run(
    network: Scaled,
    objective: Objective,
    x: Tensor,
    y: Tensor,
    validation: tuple[Tensor, Tensor],
    recipe: Recipe,
    seed: int,
    on_epoch: Callable[[int, int], None],
) -> None:
    size = min(recipe.batch_rows, max(SMALLEST_BATCH, len(x) // FEWEST_BATCHES))
    steps, done = recipe.epochs * -(-len(x) // size), count()
    draws = torch.Generator().manual_seed(seed)

    def loss(rows: Tensor) -> Tensor:
        return objective.loss(network, x[rows], y[rows], next(done) / steps, draws)

    def validate() -> tuple[float, None]:
        """The objective at its full strength, on the same random samples every time."""
        same = torch.Generator().manual_seed(VALIDATION_DRAWS)
        return objective.loss(network, *validation, 1.0, same).item(), None

    def at_end(epoch: training.Epoch) -> None:
        if epoch.validation_loss is not None:
            on_epoch(epoch.number, recipe.epochs)

    lessons = training.Lessons(
        len(x), lambda: torch.split(torch.randperm(len(x), generator=draws), size), loss, validate
    )
    training.fit(network, lessons, recipe.epochs, recipe.learning_rate, at_end, cycle=steps)


@torch.no_grad()
def _says_one_label(network: Scaled, x: Tensor, y: Tensor) -> bool:
    """Whether a network says the same of all rows though they differ in their labels."""
    said = network(x).argmax(dim=1)
    return bool((said == said[0]).all()) and bool((y != y[0]).any())


def _fresh(material: Material, rows: NDArray[np.int64], seed: int) -> Scaled:
    clipped = torch.tensor(material.data.clipped[rows], dtype=torch.float32)
    deviation = clipped.std(dim=0, correction=0)
    network = training.initialised(seed, lambda: FeedForward(material.widths))
    return Scaled(network, clipped.mean(dim=0), torch.where(deviation > 0, deviation, 1))
