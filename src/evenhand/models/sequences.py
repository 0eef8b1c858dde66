"""Rows of units as the words that a network reads, and back."""

from typing import NamedTuple

import torch
from torch import Tensor


class Sequences(NamedTuple):
    """Texts as words."""

    words: Tensor  # (n, most words) filled up with -1
    lengths: Tensor  # (n,) at least 1
    unit: Tensor | None  # (n, most words) the unit that each word belongs to; None where every unit is one word

    def by_unit(self, values: Tensor, width: int) -> Tensor:
        """(n, words, e) values of words, added up to (n, width, e) values of units."""
        values = torch.nn.functional.pad(values, (0, 0, 0, max(0, width - values.shape[1])))
        if self.unit is None:
            return values[:, :width]
        unit = torch.nn.functional.pad(self.unit, (0, values.shape[1] - self.unit.shape[1]))
        sums = values.new_zeros(len(values), width, values.shape[2])
        return sums.scatter_add(1, unit[:, :, None].expand_as(values), values)


class Expansion:
    """Turns units into words: most units are one word, a term may be several."""

    def __init__(self, table: Tensor, most_words: int) -> None:
        self.table = table  # (units, most words of a unit)
        self.most_words = most_words
        self.size = (table >= 0).sum(dim=1)

    def sequences(self, units: Tensor) -> Sequences:
        """(n, width) units to words, cut to the first `most_words`. An empty text is one word that nobody knows: -1."""
        there = units >= 0
        known = units.clamp_min(0)
        sizes = self.size[known] * there
        lengths = sizes.sum(dim=1).clamp(1, self.most_words)
        if self.table.shape[1] == 1 or int(sizes.max()) <= 1:
            width = int(lengths.max())
            return Sequences(torch.where(there, self.table[known, 0], -1)[:, :width], lengths, None)
        ends = sizes.cumsum(dim=1)
        place = torch.arange(int(lengths.max()), device=units.device).expand(len(units), -1).contiguous()
        unit = torch.searchsorted(ends, place, right=True).clamp_max(units.shape[1] - 1)
        inner = place - (ends - sizes).gather(1, unit)
        words = self.table[known.gather(1, unit), inner.clamp(0, self.table.shape[1] - 1)]
        return Sequences(torch.where(place < lengths[:, None], words, -1), lengths, unit)

    def words_before(self, units: Tensor, place: Tensor) -> Tensor:
        """(n,) how many words the units before a place (n,) have."""
        sizes = self.size[units.clamp_min(0)] * (units >= 0)
        before = torch.arange(units.shape[1], device=units.device) < place[:, None]
        return (sizes * before).sum(dim=1)
