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


class Edits(NamedTuple):
    """Texts (m,) that differ from others in one unit."""

    of: Tensor  # which text each was
    begin: Tensor  # words before the unit
    old: Tensor  # words of the unit that goes
    new: Tensor  # words of the unit that comes
    unit: Tensor

    @staticmethod
    def none(n: int, device: torch.device) -> "Edits":
        """The texts themselves."""
        nothing = torch.zeros(n, dtype=torch.long, device=device)
        return Edits(torch.arange(n, device=device), nothing, nothing, nothing, nothing)

    def take(self, rows: Tensor, size: int) -> "Edits":
        """Some of them, filled up to a size."""
        return Edits(*(torch.nn.functional.pad(field[rows], (0, size - len(rows))) for field in self))

    def joined(self, other: "Edits") -> "Edits":
        """Both."""
        return Edits(*(torch.cat(fields) for fields in zip(self, other, strict=True)))


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

    def edits(self, units: Tensor, of: Tensor, place: Tensor, unit: Tensor) -> tuple[Sequences, Edits, Tensor]:
        """Texts (n, width) with all their words, (m,) others with another unit at a place, and how long those are."""
        sizes = self.size[units.clamp_min(0)] * (units >= 0)
        ends = sizes.cumsum(dim=1)
        at = of * units.shape[1] + place
        old, new = sizes.view(-1)[at], self.size[unit]
        full = ends[:, -1]
        texts = Sequences(self._all_words(units, sizes, ends), full.clamp(1, self.most_words), None)
        lengths = (full[of] + new - old).clamp(1, self.most_words)
        return texts, Edits(of, ends.view(-1)[at] - old, old, new, unit), lengths

    def _all_words(self, units: Tensor, sizes: Tensor, ends: Tensor) -> Tensor:
        """(n, most) all words of units (n, width), also beyond `most_words`, filled up with -1."""
        known = units.clamp_min(0)
        if self.table.shape[1] == 1 or int(sizes.max()) <= 1:
            return torch.where(units >= 0, self.table[:, 0].index_select(0, known.view(-1)).view_as(units), -1)
        most = max(1, int(ends[:, -1].max()))
        place = torch.arange(most, device=units.device).expand(len(units), -1).contiguous()
        unit = torch.searchsorted(ends, place, right=True).clamp_max(units.shape[1] - 1)
        inner = place - (ends - sizes).gather(1, unit)
        words = self.table[known.gather(1, unit), inner.clamp(0, self.table.shape[1] - 1)]
        return torch.where(place < ends[:, -1:], words, -1)

    def words_at(self, words: Tensor, edits: Edits, column: Tensor, at: Tensor) -> Tensor:
        """(total,) word number `at` of the edited text `column`, -1 for none; `words` (n, most) are the texts' own."""
        since = at - edits.begin[column]
        after = since >= 0
        place = at + torch.where(after, (edits.old - edits.new)[column], 0)
        most = words.shape[1]
        found = words.reshape(-1)[(edits.of * most)[column] + place.clamp_(0, most - 1)]
        inside = (after & (since < edits.new[column])).nonzero().squeeze(1)
        found[inside] = self.table[edits.unit[column[inside]], since[inside]]
        return found
