"""Which way discrimination goes: whose variant gets the favourable label, among discriminatory samples."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from evenhand.models.classifier import Classifier
from evenhand.search.space import TableSpace

MOST_COMBINATIONS = 12  # of several attributes that are shown one by one; beyond, each attribute by itself


class Look(NamedTuple):
    """What one look at all variants of some samples says."""

    possible: Tensor  # (n,) false for samples that the schema calls impossible: they belong to no population
    hit: Tensor  # (n,) some variants get another label than others
    won: Tensor  # (hits, variants) which variants of the discriminatory samples get the favourable label
    there: Tensor  # (hits, variants) which variants are possible


def look(model: Classifier, space: TableSpace, x: Tensor) -> Look:
    """Ask the model once about all variants of (n, d) samples."""
    favourable = space.schema.label.favourable_code
    parts = []
    for part in torch.split(x, space.chunks(x, model.chunk_rows)):
        labels, _, there = space.answers(model, part)
        if there is None:
            there = torch.ones((), dtype=torch.bool, device=x.device).expand(labels.shape)
            possible, hit = there[:, 0], (labels != labels[:, :1]).any(dim=1)
        else:
            own = space.combination(part)[:, None]
            possible = there.gather(1, own).squeeze(1)
            hit = possible & ((labels != labels.gather(1, own)) & there).any(dim=1)
        parts.append((possible, hit, (labels[hit] == favourable) & there[hit], there[hit]))
    return Look(*(torch.cat(column) for column in zip(*parts, strict=True)))


@dataclass
class Tally:
    """Adds up looks: samples, discriminatory ones, and for how many of these each variant wins."""

    variants: int
    samples: int = 0
    hits: int = 0

    def __post_init__(self) -> None:
        self.won: NDArray[np.int64] = np.zeros(self.variants, dtype=np.int64)
        self.there: NDArray[np.int64] = np.zeros(self.variants, dtype=np.int64)

    def add(self, samples: int, won: Tensor, there: Tensor | None = None) -> None:
        """Add samples, of which those that are discriminatory come with (hits, variants) who wins and who is there."""
        self.samples += samples
        self.hits += len(won)
        self.won += won.sum(dim=0).cpu().numpy()
        self.there += len(won) if there is None else there.sum(dim=0).cpu().numpy()


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
        """Who wins most often; None where all win alike."""
        return self.standings[0].value if self._differ else None

    @property
    def loses(self) -> str | None:
        """Who wins least often; None where all win alike."""
        return self.standings[-1].value if self._differ else None

    @property
    def _differ(self) -> bool:
        return self.standings[0].favourable > self.standings[-1].favourable

    def as_dict(self) -> dict[str, Any]:
        """For a summary file."""
        values = [{"value": standing.value, "favourable": standing.favourable} for standing in self.standings]
        return {"attribute": self.attribute, "favoured": self.favoured, "loses": self.loses, "values": values}


def ranked(attribute: str, values: Sequence[str], shares: Sequence[float]) -> Direction:
    """Values in the order of their shares; equal ones stay in their own order."""
    standings = [Standing(value, float(share)) for value, share in zip(values, shares, strict=True)]
    return Direction(attribute, sorted(standings, key=lambda standing: -standing.favourable))


def directions(tally: Tally, space: TableSpace) -> list[Direction]:
    """Who wins and who loses. Several attributes: each combination where there are few, else each attribute by itself.

    For an attribute by itself its share is the mean over all values of the others. Nothing without discrimination.
    """
    if not tally.hits:
        return []
    attributes = [space.schema.attributes[index] for index in space.protected]
    shares = tally.won / np.maximum(tally.there, 1)
    if len(attributes) == 1 or space.variant_count <= MOST_COMBINATIONS:
        codes = space.combinations.long().tolist()
        values = [", ".join(a.text(code) for a, code in zip(attributes, row, strict=True)) for row in codes]
        return [ranked(", ".join(a.name for a in attributes), values, shares.tolist())]
    table = shares.reshape([attribute.size for attribute in attributes])
    axes = range(len(attributes))
    return [
        ranked(attribute.name, attribute.texts(), table.mean(axis=tuple(a for a in axes if a != axis)).tolist())
        for axis, attribute in enumerate(attributes)
    ]
