"""What repairs of tables and of texts share: the rows that they are compared in, and searches for findings."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.measures.choice import Trade, front
from evenhand.measures.rates import effective_samples
from evenhand.measures.verdict import JudgedRepair
from evenhand.search.method import Method
from evenhand.search.recorder import Findings
from evenhand.search.search import Limits, Search
from evenhand.search.space import ModelT, SpaceT

OnStep = Callable[[str, float], None]  # what is being made, and the share of it that is done


def compared(
    rows: list[JudgedRepair], originals: list[JudgedRepair], weights: NDArray[np.float64] | None = None
) -> list[dict[str, Any]]:
    """All models once, with which of them are not beaten in both accuracy and rate.

    `weights` (held-out rows,) are those of the people whom they are judged on.
    """
    everything = list({row.name: row for row in (*originals, *rows)}.values())
    kept = [row.kept for row in everything]
    trades = [
        Trade(one.validation_accuracy if one.accuracy is None else one.accuracy, one.uniform.share) for one in kept
    ]
    return [
        row.as_dict() | {"front": best, "accuracy_change": paired(everything[0].kept.right, row.kept.right, weights)}
        for row, best in zip(everything, front(trades), strict=True)
    ]


def paired(
    before: NDArray[np.bool_], after: NDArray[np.bool_], weights: NDArray[np.float64] | None = None
) -> dict[str, Any] | None:
    """By how much accuracy on the same rows changes, with a 95 % interval (normal approximation); None without rows.

    With weights the interval is that of as many rows as they are worth.
    """
    weights = np.ones(len(before)) if weights is None else weights
    if not weights.any():
        return None
    change = after.astype(float) - before
    middle = float(np.average(change, weights=weights))
    variance = float(np.average((change - middle) ** 2, weights=weights))
    error = 1.96 * math.sqrt(variance / effective_samples(weights))
    return {"mean": middle, "interval": [middle - error, middle + error]}


def search_all(
    model: ModelT,
    space: SpaceT,
    method: Method[SpaceT, ModelT],
    samples: NDArray[np.int32],
    rows: NDArray[np.int64],
    seed: int,
    limits: Limits,
) -> list[Findings]:
    """All findings of a search."""
    found: list[Findings] = []
    Search(model, space, method, seed=seed, limits=limits, sink=found.append).run(samples, rows)
    return found
