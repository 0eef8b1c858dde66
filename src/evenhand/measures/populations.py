"""Populations to draw people from: the whole domain, and the neighbourhood of the data."""

from typing import Protocol

import torch
from torch import Tensor

from evenhand.data.dataset import Dataset
from evenhand.errors import EvenhandError
from evenhand.search.space import TableSpace

FINE = 2.0**-24  # random numbers are multiples of it


class Population(Protocol):
    """Random samples of a stated kind, each made from random numbers of its own."""

    name: str  # short
    words: str  # the definition, for people
    per_sample: int  # random numbers that a sample is made from
    stream: int  # tells its random numbers from those of other populations

    def samples(self, numbers: Tensor) -> Tensor:
        """(n, per_sample) random numbers in [0, 1) to (n, d) samples."""


class Uniform:
    """Every combination of values is equally likely: the estimate of AEQUITAS and of the paper."""

    name = "uniform"
    stream = 2

    def __init__(self, space: TableSpace) -> None:
        self._space = space
        self.per_sample = len(space.sizes)
        self.words = f"the whole domain of {space.schema.name}, every combination of values equally likely"

    def samples(self, numbers: Tensor) -> Tensor:
        """Uniform samples, protected values too."""
        return self._space.uniform(numbers)


class Neighbourhood:
    """Rows of the data, of which some random attributes that are not protected are changed a little.

    An ordered attribute or a number moves one step up or down, with equal odds; at an end of its domain it moves
    inward. A category becomes any other one, with equal odds. All rows are equally likely or, where they have weights,
    as likely as these say; and so are all sets of attributes that the model reads and that have more than one value.
    Where the schema limits how an attribute may move, it moves by one stride to an allowed side; one that can go
    nowhere from its value stays.
    """

    name = "neighbourhood"
    stream = 3

    def __init__(self, space: TableSpace, data: Dataset, changes: int = 2) -> None:
        self._space = space
        movable = [i for i, size in enumerate(space.sizes) if size > 1 and space.kept[i] * space.reach.movable[i]]
        if not 1 <= changes <= len(movable):
            raise EvenhandError(
                f"The neighbourhood changes {changes} attributes of each row; with these protected ones "
                f"{data.name} has {len(movable)} that can change. Use 1 to {len(movable)} changes."
            )
        read = [i for i in movable if space.free[i]]  # what the model does not read stays as it is
        movable = read or movable
        self.changes = min(changes, len(movable))
        self.words = self._in_words(data, read=bool(read and space.unread), fewer=self.changes < changes)
        self.per_sample = 2 + 2 * self.changes  # two for the row: one alone could not reach all of 10^7 rows evenly
        self._rows = space.samples(data.clipped)
        device = self._rows.device
        self._up_to = None if data.weights is None else torch.tensor(data.weights, device=device).cumsum(0)
        self._movable = torch.tensor(movable, device=device)
        anywhere = [a.kind == "category" and a.moves == "any" and a.stride == 1 for a in space.schema.attributes]
        self._category = torch.tensor(anywhere, device=device)
        # A number has one step less than codes where a missing value is one of them, which is no neighbour of any.
        spans = [a.span if a.kind == "number" else a.domain for a in space.schema.attributes]
        self._sizes = torch.tensor([high - low + 1 for low, high in spans], device=device)

    def _in_words(self, data: Dataset, *, read: bool, fewer: bool) -> str:
        drawn = "" if data.weights is None else f", drawn in proportion to {data.schema.weight},"
        of_which = f"{'are' if self.changes > 1 else 'is'} not protected"
        of_which += " and that the model reads" if read else ""
        return (
            f"rows of {data.name}{drawn} with {self.changes} random attribute{'s' if self.changes > 1 else ''} that "
            f"{of_which} changed{' (it reads no more)' if fewer else ''}: a number or rank by one step, a category to "
            "any other" + (", as far as the schema lets it move" if self._space.limited else "")
        )

    def samples(self, numbers: Tensor) -> Tensor:
        """Changed rows."""
        x = self._rows[self.rows(numbers)]
        attributes = self._chosen(numbers[:, 2 : 2 + self.changes])
        for attribute, number in zip(attributes, numbers[:, 2 + self.changes :].unbind(1), strict=True):
            moved = self._moved(x.gather(1, attribute[:, None]).squeeze(1), attribute, number)
            x.scatter_(1, attribute[:, None], moved[:, None])
        return x

    def rows(self, numbers: Tensor) -> Tensor:
        """(n,) the row of the data that each sample starts from."""
        fine = numbers[:, 0].double() + numbers[:, 1].double() * FINE
        if self._up_to is None:
            return (fine * len(self._rows)).long()
        last = int((self._up_to < self._up_to[-1]).sum())  # rows after it have no weight
        return torch.searchsorted(self._up_to, fine * self._up_to[-1], right=True).clamp_max(last)

    def _chosen(self, numbers: Tensor) -> list[Tensor]:
        """`changes` different attributes (n,) for each sample: a shuffle that ends after so many."""
        order = self._movable.repeat(len(numbers), 1)
        for place, number in enumerate(numbers.unbind(1)):
            other = (place + (number * (len(self._movable) - place)).long())[:, None]
            here = order[:, place : place + 1].clone()
            order[:, place] = order.gather(1, other).squeeze(1)
            order.scatter_(1, other, here)
        return list(order[:, : self.changes].unbind(1))

    def _moved(self, code: Tensor, attribute: Tensor, number: Tensor) -> Tensor:
        """(n,) another code for one attribute of each sample; the same where the schema lets it go nowhere."""
        low, size, reach = self._space.lower[attribute], self._sizes[attribute], self._space.reach
        at, stride = code - low, reach.stride[attribute]
        up, down = reach.rises[attribute] & (at + stride < size), reach.falls[attribute] & (at - stride >= 0)
        down = down & (at < size)  # a missing number stays missing
        step = torch.where(up & (~down | (number >= 0.5)), stride, torch.where(down, -stride, 0.0))
        other = (at + 1 + torch.floor(number * (size - 1))) % size
        return low + torch.where(self._category[attribute], other, at + step)
