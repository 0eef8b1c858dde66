"""Differences between groups, from the labels alone: who gets the favourable label, and who is judged wrongly."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.data.dataset import Dataset
from evenhand.measures.rates import clopper_pearson, effective_samples, share_of
from evenhand.models.classifier import Classifier
from evenhand.models.evidence import answers_on

MOST_ROWS = 200_000


def group_rates(
    model: Classifier, data: Dataset, protected: list[str], *, confidence: float = 0.95, most_rows: int = MOST_ROWS
) -> list[dict[str, Any]]:
    """For each attribute and each of its values in the data: selection and error rates with exact intervals."""
    counts = np.ones(len(data.codes), dtype=bool) if data.weights is None else data.weights > 0
    held_out = np.flatnonzero(~data.train & counts)
    rows = held_out if len(held_out) else np.flatnonzero(counts)
    rows = np.random.default_rng(0).permutation(rows)[:most_rows]
    given = answers_on(model, data, rows).labels.numpy() == data.schema.label.favourable_code
    actual = data.labels[rows] == data.schema.label.favourable_code
    weighted = "" if data.weights is None else f", weighted by {data.schema.weight}"
    words = f"{'held-out' if len(held_out) else 'all'} rows of {data.name}{weighted}"
    weights = np.ones(len(rows)) if data.weights is None else data.weights[rows]
    return [
        _of_attribute(data, index, data.codes[rows, index], given, actual, weights, words, confidence)
        for index in data.schema.protected_indices(protected)
    ]


def _of_attribute(
    data: Dataset,
    index: int,
    codes: NDArray[np.int32],
    given: NDArray[np.bool_],
    actual: NDArray[np.bool_],
    weights: NDArray[np.float64],
    population: str,
    confidence: float,
) -> dict[str, Any]:
    attribute = data.schema.attributes[index]
    groups: list[dict[str, Any]] = []
    for code in np.unique(codes[weights > 0]).tolist():
        there = codes == code
        groups.append(
            {
                "value": attribute.text(code),
                "people": int(there.sum()),
                "selection": _share(given, there, weights, confidence),
                "error": _share(given != actual, there, weights, confidence),
                "false_positive": _share(given, there & ~actual, weights, confidence),
                "false_negative": _share(~given, there & actual, weights, confidence),
            }
        )
    rates = [group["selection"]["rate"] for group in groups]
    return {
        "attribute": attribute.name,
        "title": attribute.title,
        "population": population,
        "confidence": confidence,
        "favourable": data.schema.label.text(data.schema.label.favourable_code),
        "demographic_parity_difference": max(rates) - min(rates),
        "groups": groups,
    }


def _share(
    hits: NDArray[np.bool_], there: NDArray[np.bool_], weights: NDArray[np.float64], confidence: float
) -> dict[str, Any] | None:
    """The weighted rate of hits among those who are there, with its interval; None where nobody is."""
    share = share_of(hits[there], weights[there])
    if share is None:
        return None
    effective = effective_samples(weights[there])  # the number of people where all weigh the same
    return {"rate": share, "interval": list(clopper_pearson(share * effective, effective, confidence))}
