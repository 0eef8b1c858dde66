"""Spaces: what a legal sample is, its variants, how to move in it, and when two samples are one."""

import math
from collections.abc import Collection
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import TypeVar

from evenhand.data.schema import Schema
from evenhand.errors import EvenhandError
from evenhand.models.classifier import Classifier, Model, Outputs
from evenhand.search.nearness import Nearness
from evenhand.search.reach import Reach

MOST_VARIANTS = 1_000_000

Keys = NDArray[np.int64] | NDArray[np.bytes_]


class Answers(NamedTuple):
    """What a model says about all variants of some samples."""

    labels: Tensor  # (n, variants)
    scores: Tensor  # (n, variants, classes)
    there: Tensor | None = None  # (n, variants) false where a sample has no such variant; None: all are there
    near: Tensor | None = None  # (n, variants) false where that is so for its distance alone; None: nowhere


ModelT = TypeVar("ModelT", bound=Model, default=Classifier)
AnyModel = TypeVar("AnyModel", bound=Model, contravariant=True)


class Space(Protocol[AnyModel]):
    """What a search needs to know of samples: tables and texts differ in this and in nothing else.

    Samples are (n, d) tensors. A sample's combination is a number that stands for its protected values.
    """

    binary: bool  # every sample has one other variant, the combination 1 - its own
    block_walks: int  # walks that step together

    def samples(self, rows: NDArray[np.int32]) -> Tensor:
        """Samples in the domain from rows of the data."""

    def inputs(self, x: Tensor) -> Tensor:
        """What a model reads of samples."""

    def combination(self, x: Tensor) -> Tensor:
        """(n,) the number of each sample's own combination of protected values."""

    def with_combination(self, x: Tensor, number: Tensor) -> Tensor:
        """Samples with their protected values replaced by the numbered combinations."""

    def variant_counts(self, x: Tensor) -> Tensor:
        """(n,) how many variants each sample has, itself included."""

    def chunks(self, x: Tensor, rows: int) -> list[int]:
        """How many samples at a time to check, so that with their variants they are about so many rows."""

    def answers(self, model: AnyModel, x: Tensor) -> Answers:
        """What the model says about all variants."""

    def answers_of(self, model: AnyModel, x: Tensor, number: Tensor) -> tuple[Outputs, Outputs]:
        """What the model says about samples and about one variant of each."""

    def freedom(self, x: Tensor) -> tuple[Tensor, Tensor | int]:
        """1 for elements that a search may move and 0 for others, and the last that it may move: for each sample."""

    def around(self, x: Tensor) -> Self:
        """The part of the space in which local walks that start at samples stay."""

    def keys(self, x: Tensor) -> Keys:
        """(n,) what a sample is known by: all but its protected values."""

    def witness(self, number: Tensor) -> Tensor:
        """(n, k) what a finding stores of its witness' combination."""

    def possible(self, x: Tensor) -> Tensor | None:
        """(n,) false for samples that nobody can be; None where all can."""

    def near(self, own: Tensor, number: Tensor) -> Tensor | None:
        """(n,) false for pairs of combinations too far apart to be compared; None where all are."""

    limited: bool  # whether there are samples that a search may not reach from a seed

    def within_reach(self, x: Tensor, seed: Tensor) -> Tensor:
        """Samples moved to where a search may go from their seeds (n, d)."""


class TableSpace:
    """Integer codes in a box, with some attributes protected.

    Samples are (n, d) float32 tensors of whole numbers: exact for every code that a schema allows, and what networks
    read. A combination is one choice of values for all protected attributes, numbered in mixed radix.
    """

    # It decides which of two walks that reach the same sample is first, so it is a constant and not a setting; memory
    # is bounded by it and by the model's chunk of rows.
    block_walks = 65_536

    def __init__(
        self,
        schema: Schema,
        protected: list[str],
        device: torch.device | str = "cpu",
        unread: Collection[str] = (),
    ) -> None:
        """`unread`: attributes that the model does not read; they stay as they are and tell no samples apart."""
        self.schema = schema
        self.protected = schema.protected_indices(protected)
        self.unread = [index for index, name in enumerate(schema.names) if name in unread]
        self.lower = torch.as_tensor(schema.lower, dtype=torch.float32, device=device)
        self.upper = torch.as_tensor(schema.upper, dtype=torch.float32, device=device)
        self.sizes = [attribute.size for attribute in schema.attributes]
        self.kept = torch.ones(len(self.sizes), device=device)  # 1 for attributes that variants share, 0 for protected
        self.kept[self.protected] = 0
        self.reach = Reach.of(schema, self.lower, self.upper)
        self.limited = self.reach.limited
        self.free = self.kept * self.reach.movable  # 1 for attributes that a search may move, 0 for others
        if self._read_and_free().any():
            self.free = self._read_and_free()
        else:
            self.unread = []  # the model reads nothing but protected attributes: a search still needs samples
        if not self.free.any():
            raise EvenhandError(
                'The schema lets a search move none of the attributes that are not protected (moves = "none"). '
                "Let it move at least one."
            )
        self.last_free = int(self.free.nonzero()[-1])
        self._told_by = [i for i in range(len(self.sizes)) if i not in self.protected and i not in self.unread]
        self._rules = [
            {index: torch.as_tensor(codes, device=device) for index, codes in rule.codes.items()}
            for rule in schema.rules
        ]
        self.variant_count = math.prod(self.sizes[index] for index in self.protected)
        if self.variant_count > MOST_VARIANTS:
            raise EvenhandError(
                f"The protected attributes have {self.variant_count:,} combinations of values together; at most "
                f"{MOST_VARIANTS:,} are checked. Protect fewer at once, or audit them one by one with --each."
            )
        self.binary = self.variant_count == 2
        self.combinations = self._combinations(device)
        self.nearness = Nearness(schema, self.protected, self.combinations)
        self._protected_rows = torch.zeros(self.variant_count, len(self.sizes), device=device)
        self._protected_rows[:, self.protected] = self.combinations

    def _read_and_free(self) -> Tensor:
        """1 for attributes that a search may move and the model reads."""
        free = self.free.clone()
        free[self.unread] = 0
        return free

    def samples(self, rows: NDArray[np.int32]) -> Tensor:
        """(n, d) samples in the domain from rows of codes."""
        return self.clip(torch.tensor(rows, dtype=torch.float32, device=self.lower.device))

    def inputs(self, x: Tensor) -> Tensor:
        """A network for tables reads codes as they are."""
        return x

    def variant_counts(self, x: Tensor) -> Tensor:
        """(n,) the same for all samples."""
        return torch.full((len(x),), self.variant_count, device=x.device)

    def chunks(self, x: Tensor, rows: int) -> list[int]:
        """Equal numbers of samples, but for the last."""
        size = max(1, rows // self.variant_count)
        whole, rest = divmod(x.shape[0], size)
        return [size] * whole + ([rest] if rest else [])

    def answers(self, model: Classifier, x: Tensor) -> Answers:
        """All variants in one call."""
        n = x.shape[0]
        variants = self.variants(x).view(n * self.variant_count, -1)
        outputs, there = model.outputs(variants), self.possible(variants)
        shape = (n, self.variant_count)
        there = None if there is None else there.view(shape)
        near = self.near(self.combination(x)[:, None], torch.arange(self.variant_count, device=x.device))
        if near is not None:
            there = near if there is None else there & near
        return Answers(outputs.labels.view(shape), outputs.scores.view(*shape, -1), there, near)

    def answers_of(self, model: Classifier, x: Tensor, number: Tensor) -> tuple[Outputs, Outputs]:
        """Both members of each pair in one call."""
        n = x.shape[0]
        labels, scores = model.outputs(torch.cat([x, self.with_combination(x, number)]))
        return Outputs(labels[:n], scores[:n]), Outputs(labels[n:], scores[n:])

    def freedom(self, x: Tensor) -> tuple[Tensor, int]:  # noqa: ARG002 - in texts it depends on the sample
        """The same attributes for all samples."""
        return self.free, self.last_free

    def around(self, x: Tensor) -> "TableSpace":  # noqa: ARG002 - texts have a limit
        """All of it: a table's domain is limit enough."""
        return self

    def witness(self, number: Tensor) -> Tensor:
        """(n, protected) the witness' protected values."""
        return self.combinations[number]

    def possible(self, x: Tensor) -> Tensor | None:
        """(n,) false for samples that a rule of the schema calls impossible; None where there is no rule."""
        if not self._rules:
            return None
        places = (x - self.lower).long()
        impossible = torch.zeros(len(x), dtype=torch.bool, device=x.device)
        for rule in self._rules:
            named = [codes[places[:, index]] for index, codes in rule.items()]
            impossible |= torch.stack(named).all(dim=0)
        return ~impossible

    def near(self, own: Tensor, number: Tensor) -> Tensor | None:
        """Whether combinations, by their numbers, may be compared; None where no attribute has `within`."""
        return self.nearness.of_pairs(own, number) if self.nearness else None

    def within_reach(self, x: Tensor, seed: Tensor) -> Tensor:
        """Samples moved to where the schema's `moves` and `stride` let a search go from their seeds (n, d)."""
        return torch.where(self.kept > 0, self.reach.kept_to(x, seed), x) if self.reach.limited else x

    def _combinations(self, device: torch.device | str) -> Tensor:
        """(variants, protected) all combinations of protected values, the last attribute fastest."""
        ranges = [torch.arange(self.sizes[i], device=device) + self.lower[i] for i in self.protected]
        return torch.cartesian_prod(*ranges).view(-1, len(self.protected)).to(torch.float32)

    def clip(self, x: Tensor) -> Tensor:
        """Samples moved into the domain (the paper's Algorithm 4)."""
        return torch.clamp(x, self.lower, self.upper)

    def variants(self, x: Tensor) -> Tensor:
        """(n, d) to (n, variants, d): each sample with every combination of protected values, its own included."""
        return torch.addcmul(self._protected_rows, x[:, None, :], self.kept)

    def combination(self, x: Tensor) -> Tensor:
        """(n,) the number of each sample's own combination of protected values."""
        return _mixed_radix((x - self.lower).long(), self.sizes, self.protected)

    def with_combination(self, x: Tensor, number: Tensor) -> Tensor:
        """Samples with their protected values replaced by the numbered combinations."""
        return torch.addcmul(self._protected_rows.index_select(0, number), x, self.kept)

    def uniform(self, numbers: Tensor) -> Tensor:
        """(n, d) random numbers in [0, 1) to samples that are uniform over the domain."""
        return self.clip(torch.floor(self.lower + numbers * (self.upper - self.lower + 1)))

    def move(self, x: Tensor, direction: Tensor) -> Tensor:
        """Samples moved by (n, d) whole steps and clipped; protected values stay."""
        return self.clip(x + self.reach.strided(x, direction * self.free))

    def nudge(self, x: Tensor, attribute: Tensor, amount: Tensor) -> Tensor:
        """One attribute (n,) of each sample moved by its amount (n,) and clipped."""
        if not self.reach.strides:
            return self.clip(x.scatter_add(1, attribute[:, None], amount[:, None]))
        return self.move(x, torch.zeros_like(x).scatter(1, attribute[:, None], amount[:, None]))

    def keys(self, x: Tensor) -> Keys:
        """(n,) what a sample is known by, packed into an integer or, if too many, a hash.

        These are its values that are not protected and that the model reads.
        """
        codes = (x - self.lower).long()
        if math.prod(self.sizes[index] for index in self._told_by) >= 2**63:
            return hashed_rows(codes[:, self._told_by].cpu().numpy())
        return _mixed_radix(codes, self.sizes, self._told_by).cpu().numpy()


def _mixed_radix(codes: Tensor, sizes: list[int], columns: list[int]) -> Tensor:
    """(n,) some columns of (n, d) codes as one integer each, the last column fastest."""
    number = codes[:, columns[0]].clone()
    for column in columns[1:]:
        number.mul_(sizes[column]).add_(codes[:, column])
    return number


def hashed_rows(codes: NDArray[np.int64]) -> NDArray[np.bytes_]:
    """(n,) 16-byte hashes of integer rows, for domains that 63 bits cannot number.

    Two independent 64-bit polynomial hashes with a final mix; among 10^9 rows a collision has odds below 10^-19.
    """
    state = np.zeros((len(codes), 2), dtype=np.uint64)
    multipliers = np.array([0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93], dtype=np.uint64)
    for column in codes.T.astype(np.uint64):
        state = (state ^ column[:, None]) * multipliers
        state ^= state >> np.uint64(29)
    state *= np.array([0xBF58476D1CE4E5B9, 0x94D049BB133111EB], dtype=np.uint64)
    state ^= state >> np.uint64(32)
    return np.ascontiguousarray(state).view("S16")[:, 0]


SpaceT = TypeVar("SpaceT", bound=Space[Any], default=TableSpace)
