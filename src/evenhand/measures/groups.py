"""Differences between groups, from the labels alone: by our own counts with intervals, and by fairlearn's metrics."""

import importlib.util
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.data.dataset import Dataset
from evenhand.measures.rates import clopper_pearson, effective_samples, share_of
from evenhand.models.classifier import Classifier
from evenhand.models.evidence import answers_on

MOST_GROUP_ROWS = 200_000
NOT_INSTALLED = 'Group figures need fairlearn: pip install "evenhand[groups]"'


def group_rates(
    model: Classifier,
    data: Dataset,
    protected: list[str],
    *,
    confidence: float = 0.95,
    most_rows: int = MOST_GROUP_ROWS,
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


@dataclass(frozen=True)
class PeopleOfGroup:
    """People with one value of a protected attribute."""

    value: str
    people: int
    selection_rate: float  # the share that the model gives the favourable label
    true_positive_rate: float | None  # the same among those who have it in the data; None where nobody has


@dataclass(frozen=True)
class GroupFigures:
    """How the model treats the groups of one protected attribute, on rows of the data as they are."""

    attribute: str
    population: str
    groups: list[PeopleOfGroup]
    demographic_parity_difference: float  # largest minus smallest selection rate
    equal_opportunity_difference: float | None  # largest minus smallest true positive rate

    def as_dict(self) -> dict[str, Any]:
        """For a summary file."""
        return asdict(self)


def fairlearn_is_there() -> bool:
    """Whether the optional extra is installed."""
    return importlib.util.find_spec("fairlearn") is not None


def group_figures(model: Classifier, data: Dataset, protected: list[str]) -> list[GroupFigures]:
    """Figures for each protected attribute on the held-out rows, or on all rows where none are held out.

    The model is asked about people as they stand in the table; codes only say which group somebody belongs to.
    """
    rows = np.flatnonzero(~data.train if not data.train.all() else data.train)
    which = "all" if data.train.all() else "held-out"
    favourable = data.schema.label.favourable_code
    codes = data.codes[rows]
    labels = answers_on(model, data, rows).labels.numpy()
    actual, given = ((of == favourable).astype(np.int64) for of in (data.labels[rows], labels))
    weights = None if data.weights is None else data.weights[rows]
    weighted = "" if weights is None else f", weighted by {data.schema.weight}"
    return [
        _figures(data, index, f"{which} rows of {data.name}{weighted}", codes[:, index], actual, given, weights)
        for index in data.schema.protected_indices(protected)
    ]


def _figures(
    data: Dataset,
    index: int,
    population: str,
    codes: NDArray[np.int32],
    actual: NDArray[np.int64],
    given: NDArray[np.int64],
    weights: NDArray[np.float64] | None,
) -> GroupFigures:
    """The metrics of one attribute, each value a group.

    The rate among those who have the favourable label is asked of groups in which somebody has it: fairlearn says 0
    for nobody.
    """
    from fairlearn.metrics import MetricFrame, count, selection_rate, true_positive_rate

    attribute = data.schema.attributes[index]
    if weights is not None:  # a group without any weight has no rate
        counts = np.isin(codes, codes[weights > 0])
        codes, actual, given, weights = codes[counts], actual[counts], given[counts], weights[counts]
    selected = MetricFrame(
        metrics={"people": count, "rate": selection_rate},
        y_true=actual,
        y_pred=given,
        sensitive_features=codes,
        sample_params=None if weights is None else {"rate": {"sample_weight": weights}},
    )
    found: dict[int, float] = {}
    opportunity = None
    if (actual if weights is None else actual * weights).any():
        there = np.isin(codes, codes[(actual == 1) & (weights > 0 if weights is not None else True)])
        frame = MetricFrame(
            metrics={"rate": true_positive_rate},
            y_true=actual[there],
            y_pred=given[there],
            sensitive_features=codes[there],
            sample_params=None if weights is None else {"rate": {"sample_weight": weights[there]}},
        )
        found, opportunity = frame.by_group["rate"].to_dict(), float(frame.difference()["rate"])
    by_group = selected.by_group
    groups = [
        PeopleOfGroup(attribute.text(code), int(people), float(rate), found.get(code))
        for code, people, rate in zip(by_group.index.tolist(), by_group["people"], by_group["rate"], strict=True)
    ]
    return GroupFigures(attribute.name, population, groups, float(selected.difference()["rate"]), opportunity)
