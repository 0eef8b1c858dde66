"""A small table for tests of repairs, in which the protected attribute a0 helps to say the label."""

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from evenhand.data.dataset import Dataset
from evenhand.data.schema import Schema
from evenhand.models.network import FeedForward
from evenhand.repairs.table_training import CrossEntropy, Material, Recipe, fit
from evenhand.runs.repair import Repair, repair
from evenhand.search.recorder import Findings
from evenhand.search.space import TableSpace
from tests.worlds.schemas import schema_of

DOMAINS = [(0, 2), (0, 5), (0, 5), (1, 4)]
WIDTHS = (4, 12, 6, 2)
QUICK: dict[str, Any] = {"seeds": 20, "steps": 5, "epochs": 3, "repeats": 1, "half_width": 0.03}


def table_schema() -> Schema:
    return schema_of(DOMAINS)


def table(rows: int = 300, seed: int = 0, carried: float = 1.5, held_out: bool = True) -> Dataset:
    """People whose label is a1 + a2 and something of a0, with some noise; a fifth of them held out."""
    schema, rng = table_schema(), np.random.default_rng(seed)
    codes = rng.integers(schema.lower, schema.upper + 1, size=(rows, 4)).astype(np.int32)
    height = codes[:, 1] + codes[:, 2] + carried * (codes[:, 0] - 1) + rng.normal(0, 0.5, rows)
    train = schema.split.train_mask(rows) if held_out else np.ones(rows, dtype=bool)
    return Dataset(schema, codes, (height > 5).astype(np.int64), train)


def with_other_held_out_rows(data: Dataset) -> Dataset:
    """The same training rows; of all others neither a code nor a label is as it was."""
    schema, held_out = data.schema, ~data.train
    codes, labels = data.codes.copy(), data.labels.copy()
    span = schema.upper - schema.lower + 1
    codes[held_out] = schema.lower + (codes[held_out] - schema.lower + 1) % span
    labels[held_out] = 1 - labels[held_out]
    return Dataset(schema, codes, labels, data.train)


def material_of(data: Dataset, epochs: int = 3, seed: int = 0) -> Material:
    return Material(data, TableSpace(data.schema, ["a0"]), WIDTHS, Recipe(epochs=epochs, seed=seed))


def trained(data: Dataset, epochs: int = 6) -> FeedForward:
    """A network that reads a0 like all else."""
    return fit(material_of(data, epochs), CrossEntropy()).eval()


@cache
def network() -> FeedForward:
    """One for the table as it is."""
    return trained(table())


def repaired(by: str, data: Dataset | None = None, out: Path | None = None, **settings: Any) -> Repair:
    """That network repaired, in little time."""
    return repair(data or table(), "a0", by, model=network(), out=out, **QUICK | settings)


def row_of(summary: dict[str, Any], name: str) -> dict[str, Any]:
    """The figures of a model."""
    (row,) = [row for row in summary["rows"] if row["name"] == name]
    found: dict[str, Any] = row
    return found


def findings_of(rows: NDArray[np.int32], witness: Iterable[int]) -> Findings:
    """Pairs by hand; only sample and witness matter to repairs."""
    count = len(rows)
    return Findings(
        sample=rows,
        witness=np.array(list(witness), dtype=np.int32)[:, None],
        label=np.zeros(count, dtype=np.int64),
        witness_label=np.ones(count, dtype=np.int64),
        score=np.full(count, 0.6, dtype=np.float32),
        witness_score=np.full(count, 0.4, dtype=np.float32),
        phase=np.zeros(count, dtype=np.int8),
        seed=np.arange(count),
        step=np.zeros(count, dtype=np.int32),
    )


def same_weights(one: nn.Module, other: nn.Module) -> bool:
    """To the bit."""
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(mine, theirs) for mine, theirs in pairs)
