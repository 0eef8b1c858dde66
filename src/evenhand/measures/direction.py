"""Which way discrimination goes: whose variant gets the favourable label, among discriminatory samples.

With more than two classes it is said for each pair of labels: who gets the one where others get the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import isclose
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from evenhand.data.schema import Label
from evenhand.models.classifier import Classifier
from evenhand.search.space import TableSpace

MOST_NAMED = 3  # values that win or lose alike; of more, only how many they are
ROUNDING = 1e-12  # by which sums of weights may differ that are the same
MOST_COMBINATIONS = 12  # of several attributes that are shown one by one; beyond, each attribute by itself


class VariantLabels(NamedTuple):
    """The labels of all variants of some samples."""

    possible: Tensor  # (n,) false for samples that the schema calls impossible: they belong to no population
    hit: Tensor  # (n,) some variants get another label than others
    won: Tensor  # (hits, variants) which variants of the discriminatory samples get the favourable label
    there: Tensor  # (hits, variants) which variants are possible
    labels: Tensor  # (hits, variants) the label of each variant


def label_variants(model: Classifier, space: TableSpace, x: Tensor) -> VariantLabels:
    """Ask the model once about all variants of (n, d) samples."""
    favourable = space.schema.label.favourable_code
    parts = []
    for part in torch.split(x, space.chunks(x, model.chunk_rows)):
        labels, _, there, _ = space.answers(model, part)
        if there is None:
            there = torch.ones((), dtype=torch.bool, device=x.device).expand(labels.shape)
            possible, hit = there[:, 0], (labels != labels[:, :1]).any(dim=1)
        else:
            own = space.combination(part)[:, None]
            possible = there.gather(1, own).squeeze(1)
            hit = possible & ((labels != labels.gather(1, own)) & there).any(dim=1)
        parts.append((possible, hit, (labels[hit] == favourable) & there[hit], there[hit], labels[hit]))
    return VariantLabels(*(torch.cat(column) for column in zip(*parts, strict=True)))


@dataclass
class Tally:
    """Adds up looks: samples, discriminatory ones, and for how many of these each variant wins.

    With more than two classes also, for each pair of labels, which variants got which of the two where both were given.
    """

    variants: int
    classes: int = 2
    samples: int = 0
    hits: int = 0

    def __post_init__(self) -> None:
        self.won: NDArray[np.float64] = np.zeros(self.variants)
        self.there: NDArray[np.float64] = np.zeros(self.variants)
        pairs = combinations(range(self.classes), 2) if self.classes > 2 else ()
        self.pairs = {pair: PairCount(self.variants) for pair in pairs}

    def add(
        self,
        samples: int,
        won: Tensor,
        there: Tensor | None = None,
        labels: Tensor | None = None,
        weights: Tensor | None = None,
    ) -> None:
        """Add samples, of which those that are discriminatory come with (hits, variants) who wins and who is there.

        With `weights` (hits,) each of these counts as often as its weight says.
        """
        self.samples += samples
        self.hits += len(won)
        present = torch.ones_like(won) if there is None else there
        for total, which in ((self.won, won), (self.there, present)):
            total += _summed(which, weights)
        if self.pairs and labels is not None:
            given = labels if there is None else torch.where(there, labels, -1)
            for pair, count in self.pairs.items():
                count.add(given, *pair, weights)


def _summed(which: Tensor, weights: Tensor | None) -> NDArray[np.float64]:
    """(variants,) how many of (n, variants) are true; with weights (n,) each row as often as its weight says."""
    counts = which.sum(dim=0) if weights is None else weights.double() @ which.double()
    total: NDArray[np.float64] = counts.double().cpu().numpy()
    return total


class PairCount:
    """Samples of whose variants some got one label and some another, and which variants got which."""

    def __init__(self, variants: int) -> None:
        self.samples = 0
        self.got = np.zeros((2, variants))  # the first label, the second

    def add(self, given: Tensor, one: int, other: int, weights: Tensor | None = None) -> None:
        """Count (hits, variants) labels; -1 where nobody is such a variant."""
        first, second = given == one, given == other
        both = first.any(dim=1) & second.any(dim=1)
        self.samples += int(both.sum())
        weights = None if weights is None else weights[both]
        self.got += np.stack([_summed(which[both], weights) for which in (first, second)])


@dataclass(frozen=True)
class Standing:
    """How often a protected value gets the favourable label, among discriminatory samples."""

    value: str
    favourable: float


@dataclass(frozen=True)
class Direction:
    """The protected values, or combinations of them, from the most to the least favoured."""

    attribute: str
    standings: list[Standing]

    @property
    def favoured(self) -> str | None:
        """Who wins most often, all of them where several do; None where all win alike."""
        return self._like(self.standings[0])

    @property
    def loses(self) -> str | None:
        """Who wins least often, all of them where several do; None where all win alike."""
        return self._like(self.standings[-1])

    def _like(self, one: Standing) -> str | None:
        """Those who win as often as one does, in words."""
        alike = [of.value for of in self.standings if isclose(of.favourable, one.favourable, abs_tol=ROUNDING)]
        if len(alike) == len(self.standings):
            return None
        return " and ".join(alike) if len(alike) <= MOST_NAMED else f"{len(alike)} values alike"

    def as_dict(self) -> dict[str, Any]:
        """For a summary file."""
        values = [{"value": standing.value, "favourable": standing.favourable} for standing in self.standings]
        return {"attribute": self.attribute, "favoured": self.favoured, "loses": self.loses, "values": values}


def rank_values(attribute: str, values: Sequence[str], shares: Sequence[float]) -> Direction:
    """Values in the order of their shares; equal ones stay in their own order."""
    standings = [Standing(value, float(share)) for value, share in zip(values, shares, strict=True)]
    return Direction(attribute, sorted(standings, key=lambda standing: -standing.favourable))


def directions(tally: Tally, space: TableSpace) -> list[Direction]:
    """Who wins and who loses. Several attributes: each combination where there are few, else each attribute by itself.

    For an attribute by itself its share is the mean over all values of the others. Values that none of the samples can
    have are left out. Nothing without discrimination.
    """
    if not tally.hits:
        return []
    attributes = [space.schema.attributes[index] for index in space.protected]
    if len(attributes) == 1 or space.variant_count <= MOST_COMBINATIONS:
        return _shares_of(tally.won, tally.there, space)
    shares = tally.won / np.where(tally.there > 0, tally.there, 1)
    return _shares_of(shares, (tally.there > 0).astype(float), space)


@dataclass(frozen=True)
class LabelDirection:
    """Who gets a label where others get another one: the values, from those who get it most to those who least do."""

    label: str
    instead_of: str
    samples: int  # discriminatory ones in which both labels are given
    directions: list[Direction]

    def as_dict(self) -> dict[str, Any]:
        """For a summary file."""
        who = [direction.as_dict() for direction in self.directions]
        return {"label": self.label, "instead_of": self.instead_of, "samples": self.samples, "direction": who}


def label_directions(tally: Tally, space: TableSpace) -> list[LabelDirection]:
    """The direction for each pair of labels that occurs, the most frequent first; nothing with two classes."""
    label, found = space.schema.label, []
    for pair, count in tally.pairs.items():
        if count.samples:
            better, worse = label_order(label, *pair)
            got, did_not = count.got if better == pair[0] else count.got[::-1]
            who = _shares_of(got, got + did_not, space)
            found.append(LabelDirection(label.text(better), label.text(worse), count.samples, who))
    return sorted(found, key=lambda direction: -direction.samples)


def label_order(label: Label, one: int, other: int) -> tuple[int, int]:
    """Two labels, the favourable one first, else the one that the schema has later."""
    better = label.favourable_code if label.favourable_code in (one, other) else max(one, other)
    return better, one + other - better


def _shares_of(got: NDArray[np.float64], both: NDArray[np.float64], space: TableSpace) -> list[Direction]:
    """Values by how often they got a label (variants,), of the times that they got either; others are left out."""
    attributes = [space.schema.attributes[index] for index in space.protected]
    if len(attributes) == 1 or space.variant_count <= MOST_COMBINATIONS:
        codes = space.combinations.long().tolist()
        values = [", ".join(a.text(code) for a, code in zip(attributes, row, strict=True)) for row in codes]
        return [_ranked_present(", ".join(a.name for a in attributes), values, got, both)]
    shape, axes = [attribute.size for attribute in attributes], range(len(attributes))
    directions = []
    for axis, attribute in enumerate(attributes):
        others = tuple(other for other in axes if other != axis)
        sums = [counts.reshape(shape).sum(axis=others) for counts in (got, both)]
        directions.append(_ranked_present(attribute.name, attribute.texts(), *sums))
    return directions


def _ranked_present(
    attribute: str, values: Sequence[str], got: NDArray[np.float64], both: NDArray[np.float64]
) -> Direction:
    there = [place for place, count in enumerate(both.tolist()) if count]
    return rank_values(attribute, [values[place] for place in there], [got[place] / both[place] for place in there])
