"""Differences between groups, from the labels alone: who gets the favourable label, and who is judged wrongly."""

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenhand.data.dataset import Dataset
from evenhand.measures.rates import clopper_pearson, effective_samples, share_of
from evenhand.models.classifier import Classifier
from evenhand.models.evidence import answers_on

MOST_ROWS = 200_000


class _Decisions(NamedTuple):
    """What people are given and what they have in the data, as they stand in the table."""

    codes: NDArray[np.int32]  # (n, d), which say only what group somebody belongs to
    given: NDArray[np.bool_]  # (n,) the favourable label, by the model
    actual: NDArray[np.bool_]  # (n,) the same, in the data
    weights: NDArray[np.float64]  # (n,)
    population: str

    def groups(self, index: int) -> list[tuple[int, NDArray[np.bool_]]]:
        """The codes of an attribute that anybody with a weight has, and who has them."""
        codes = self.codes[:, index]
        return [(code, codes == code) for code in np.unique(codes[self.weights > 0]).tolist()]

    def share(self, hits: NDArray[np.bool_], there: NDArray[np.bool_]) -> float | None:
        """The weighted rate of hits among those who are there; None where nobody is."""
        return share_of(hits[there], self.weights[there])


def _decisions(model: Classifier, data: Dataset, rows: NDArray[np.int64], which: str) -> _Decisions:
    favourable = data.schema.label.favourable_code
    weighted = "" if data.weights is None else f", weighted by {data.schema.weight}"
    return _Decisions(
        data.codes[rows],
        answers_on(model, data, rows).labels.numpy() == favourable,
        data.labels[rows] == favourable,
        np.ones(len(rows)) if data.weights is None else data.weights[rows],
        f"{which} rows of {data.name}{weighted}",
    )


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


def group_figures(model: Classifier, data: Dataset, protected: list[str]) -> list[GroupFigures]:
    """Figures for each protected attribute on the held-out rows, or on all rows where none are held out."""
    rows = np.flatnonzero(~data.train if not data.train.all() else data.train)
    people = _decisions(model, data, rows, "all" if data.train.all() else "held-out")
    found = []
    for index in data.schema.protected_indices(protected):
        attribute = data.schema.attributes[index]
        groups = [
            PeopleOfGroup(
                attribute.text(code),
                int(there.sum()),
                people.share(people.given, there) or 0.0,
                people.share(people.given, there & people.actual),
            )
            for code, there in people.groups(index)
        ]
        selected = [group.selection_rate for group in groups]
        right = [group.true_positive_rate for group in groups if group.true_positive_rate is not None]
        opportunity = max(right) - min(right) if right else None
        parity = max(selected, default=0.0) - min(selected, default=0.0)
        found.append(GroupFigures(attribute.name, people.population, groups, parity, opportunity))
    return found


def group_rates(
    model: Classifier, data: Dataset, protected: list[str], *, confidence: float = 0.95, most_rows: int = MOST_ROWS
) -> list[dict[str, Any]]:
    """For each attribute and each of its values in the data: selection and error rates with exact intervals."""
    counts = np.ones(len(data.codes), dtype=bool) if data.weights is None else data.weights > 0
    held_out = np.flatnonzero(~data.train & counts)
    rows = held_out if len(held_out) else np.flatnonzero(counts)
    rows = np.random.default_rng(0).permutation(rows)[:most_rows]
    people = _decisions(model, data, rows, "held-out" if len(held_out) else "all")
    return [_rates_of(data, index, people, confidence) for index in data.schema.protected_indices(protected)]


def _rates_of(data: Dataset, index: int, people: _Decisions, confidence: float) -> dict[str, Any]:
    attribute, label = data.schema.attributes[index], data.schema.label

    def rate(hits: NDArray[np.bool_], there: NDArray[np.bool_]) -> dict[str, Any] | None:
        share = people.share(hits, there)
        if share is None:
            return None
        effective = effective_samples(people.weights[there])  # the number of people where all weigh the same
        return {"rate": share, "interval": list(clopper_pearson(share * effective, effective, confidence))}

    groups: list[dict[str, Any]] = [
        {
            "value": attribute.text(code),
            "people": int(there.sum()),
            "selection": rate(people.given, there),
            "error": rate(people.given != people.actual, there),
            "false_positive": rate(people.given, there & ~people.actual),
            "false_negative": rate(~people.given, there & people.actual),
        }
        for code, there in people.groups(index)
    ]
    selected = [group["selection"]["rate"] for group in groups]
    return {
        "attribute": attribute.name,
        "title": attribute.title,
        "population": people.population,
        "confidence": confidence,
        "favourable": label.text(label.favourable_code),
        "demographic_parity_difference": max(selected) - min(selected),
        "groups": groups,
    }
