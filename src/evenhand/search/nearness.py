"""Which values of protected numbers a sample is compared with: those within a distance of its own."""

import torch
from torch import Tensor

from evenhand.data.decoding import check_within, numbers_of
from evenhand.data.notation import number_text
from evenhand.data.schema import Schema

SLACK = 1e-9  # of the distance: 0.1 + 0.2 is a hair above 0.3


class Nearness:
    """The limits that a schema's `within` sets. Two missing values are as near as two equal ones."""

    def __init__(self, schema: Schema, protected: list[int], combinations: Tensor) -> None:
        """`combinations` (variants, protected) are all combinations of protected values."""
        self.attributes = [index for index in protected if schema.attributes[index].within is not None]
        self._values: list[Tensor] = []  # (variants,) the number of each combination, by limited attribute
        self._within: list[float] = []
        for index in self.attributes:
            attribute = schema.attributes[index]
            check_within(attribute)
            codes = combinations[:, protected.index(index)].long().cpu().numpy()
            self._values.append(torch.tensor(numbers_of(attribute, codes), device=combinations.device))
            self._within.append(attribute.within or 0.0)
        named = [
            (schema.attributes[index], number_text(size))
            for index, size in zip(self.attributes, self._within, strict=True)
        ]
        self.titles = [attribute.title for attribute, _ in named]
        self.words = " and ".join(
            f"within {size}{f' {attribute.unit}' if attribute.unit else ''} of their own {attribute.title}"
            for attribute, size in named
        )

    def __bool__(self) -> bool:
        return bool(self.attributes)

    def of_pairs(self, own: Tensor, other: Tensor) -> Tensor:
        """Whether combinations, by their numbers, may be compared; the shapes go together as in arithmetic."""
        near = torch.ones((), dtype=torch.bool, device=own.device)
        for values, within in zip(self._values, self._within, strict=True):
            near = near & _near(values[own], values[other], within)
        return near

    def of_people(self, numbers: Tensor) -> Tensor:
        """(n, variants) which combinations people are compared with, whose own numbers (n, limited) are these."""
        near = torch.ones((), dtype=torch.bool, device=numbers.device)
        for place, (values, within) in enumerate(zip(self._values, self._within, strict=True)):
            near = near & _near(numbers[:, place, None], values, within)
        return near


def _near(one: Tensor, other: Tensor, within: float) -> Tensor:
    return ((one - other).abs() <= within * (1 + SLACK)) | (one.isnan() & other.isnan())
