"""The space of texts: each word may become one of the words nearest to it, each protected term another value's."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from evenhand.choices import Swap
from evenhand.models.classifier import Outputs
from evenhand.models.text.classifier import TextClassifier
from evenhand.search.space import Answers, Keys, hashed_rows
from evenhand.text.lexicon import Mention, ProtectedWords
from evenhand.text.texts import NOTHING, SearchTexts, Units, term_number, unit_numbers, unit_ranges
from evenhand.text.tokens import Tokens

SOURCE, SWAP, CODES = 0, 1, 2  # columns of a sample
NO_GROUP = -1


@dataclass(frozen=True)
class Marked:
    """A text whose protected terms are known."""

    tokens: Tokens
    mentions: list[Mention]


class TextSpace:
    """Texts that search from some sources can reach, with some terms protected.

    A sample is a row of whole numbers: its source, its swap, and a code for each unit of the source. Code 0 is the
    source's own word, code j the j-th of the words nearest to it. Swap 0 keeps the protected terms; swap 1 + g K + v
    gives the g-th mention (or, with `swap="all"`, all mentions of the g-th value in the text) the value v of K.
    """

    binary = False
    limited = False
    block_walks = 1024  # a gradient has a vector for each word, so fewer walks than for tables fit the memory

    def __init__(
        self, texts: SearchTexts, tables: "Tables", values: int, max_changes: int | None, local_changes: int | None
    ) -> None:
        self.texts = texts
        self.values = values
        self.local_changes = local_changes
        self.width = texts.rows.shape[1]
        self.candidates = tables.candidates  # (sources, width, k + 1) units, the first the source's own
        self.choices = tables.choices  # (sources, width) how many of them there are; 1 for a unit that stays
        self.group = tables.group  # (sources, width) which group of mentions a unit belongs to, or NO_GROUP
        self.term = tables.term  # (sources, width) the row of `terms` for a mention
        self.terms = tables.terms  # (rows, values) the unit for each value, NOTHING where the value has no such form
        self.swaps = tables.swaps  # (total,) the swaps of all sources, one after another
        self.first_swap = tables.first_swap  # (sources + 1,) where those of each source begin
        self.device = self.candidates.device
        groups = torch.arange(int(self.group.max()) + 1, device=self.device)
        members = self.group[:, :, None] == groups  # (sources, width, groups)
        self.group_place = members.int().argmax(dim=1)  # (sources, groups) the first place of each group
        self.one_place = bool((members.sum(dim=1) <= 1).all())  # a swap changes one unit, never several
        most = self.width if max_changes is None else max_changes
        self.most = torch.full((len(self.choices),), most, device=self.device)  # (sources,) words that may be changed

    def samples(self, rows: NDArray[np.int32]) -> Tensor:
        """(n, 2 + width) samples from (n, 1) numbers of sources: the texts as they were written."""
        x = torch.zeros(len(rows), CODES + self.width, dtype=torch.long, device=self.device)
        x[:, SOURCE] = torch.tensor(rows[:, 0], device=self.device)
        return x

    def inputs(self, x: Tensor) -> Tensor:
        """(n, 1 + width) the source and the units of each sample."""
        source = x[:, SOURCE]
        places = source[:, None] * self.width + torch.arange(self.width, device=self.device)
        units = self.candidates.view(-1)[places * self.candidates.shape[2] + x[:, CODES:]]
        swapped = x[:, SWAP] > 0
        if bool(swapped.any()):
            group, value = self._parts(x[:, SWAP])
            there = (self.group[source] == group[:, None]) & swapped[:, None]
            units = torch.where(there, self.terms[self.term[source], value[:, None]], units)
        return torch.cat([source[:, None], units], dim=1)

    def _parts(self, swap: Tensor) -> tuple[Tensor, Tensor]:
        """(n,) the group and the value of swaps; of no meaning for swap 0."""
        number = (swap - 1).clamp_min(0)
        return number // self.values, number % self.values

    def combination(self, x: Tensor) -> Tensor:
        """(n,) each sample's swap."""
        return x[:, SWAP].clone()

    def with_combination(self, x: Tensor, number: Tensor) -> Tensor:
        """Samples with other swaps."""
        x = x.clone()
        x[:, SWAP] = number
        return x

    def with_code(self, x: Tensor, place: Tensor, code: Tensor) -> Tensor:
        """Samples with another word at one place (n,) each."""
        return x.scatter(1, CODES + place[:, None], code[:, None])

    def variant_counts(self, x: Tensor) -> Tensor:
        """(n,) swaps of each sample's source, and the sample itself."""
        source = x[:, SOURCE]
        return self.first_swap[source + 1] - self.first_swap[source] + 1

    def chunks(self, x: Tensor, rows: int) -> list[int]:
        """As many samples at a time as have about `rows` variants together."""
        which = (self.variant_counts(x).cumsum(0) - 1) // rows
        return [int(size) for size in torch.unique_consecutive(which, return_counts=True)[1]]

    def answers(self, model: TextClassifier, x: Tensor) -> Answers:
        """All variants; they share with their sample what comes before the first word that differs."""
        counts = self.variant_counts(x) - 1
        of = torch.repeat_interleave(counts)
        begin = self.first_swap[x[:, SOURCE]] - (counts.cumsum(0) - counts)
        swap = self.swaps[begin[of] + torch.arange(len(of), device=self.device)]
        own, others = self._outputs(model, x, of, swap)
        width = int(swap.max()) + 1 if len(swap) else 1
        labels = own.labels[:, None].repeat(1, width)
        scores = own.scores[:, None].repeat(1, width, 1)
        there = torch.zeros_like(labels, dtype=torch.bool)
        labels[of, swap], scores[of, swap], there[of, swap] = others.labels, others.scores, True
        there[:, 0] = True
        return Answers(labels, scores, there)

    def answers_of(self, model: TextClassifier, x: Tensor, number: Tensor) -> tuple[Outputs, Outputs]:
        """Samples and one variant of each, which share what comes before the first word that differs."""
        of = torch.arange(len(x), device=self.device)
        return self._outputs(model, x, of, number)

    def _outputs(self, model: TextClassifier, x: Tensor, of: Tensor, swap: Tensor) -> tuple[Outputs, Outputs]:
        """What the model says about samples x and about x[of] with swaps (m,)."""
        group, value = self._parts(swap)
        source = x[:, SOURCE][of]
        place = self.group_place[source, group]
        if self.one_place:
            own = self.candidates[source, place, 0]
            unit = torch.where(swap > 0, self.terms[self.term[source, place], value], own)
            return model.outputs_replacing(self.inputs(x), of, place, unit)
        return model.outputs_from(self.inputs(x), of, place, self.inputs(self.with_combination(x[of], swap)))

    def freedom(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(n, width) 1 for units that may move, (n,) the last of them. At the limit only changed ones may."""
        changed = x[:, CODES:] > 0
        room = changed.sum(dim=1) < self.most[x[:, SOURCE]]
        free = (self.choices[x[:, SOURCE]] > 1) & (changed | room[:, None])
        last = self.width - 1 - free.flip(1).int().argmax(dim=1)
        return free.float(), last

    def around(self, x: Tensor) -> "TextSpace":
        """The texts with at most `local_changes` more changed words than those that local walks start from."""
        if self.local_changes is None:
            return self
        space = copy.copy(self)
        space.most = self.most.clone()
        space.most[x[:, SOURCE]] = torch.minimum(space.most[x[:, SOURCE]], self.changes(x) + self.local_changes)
        return space

    def keys(self, x: Tensor) -> Keys:
        """(n,) a hash of the units that are not protected, with a mark for those that are."""
        units = self.inputs(x)[:, 1:]
        return hashed_rows(torch.where(self.group[x[:, SOURCE]] == NO_GROUP, units, -2).cpu().numpy())

    def witness(self, number: Tensor) -> Tensor:
        """(n, 1) the witness' swap."""
        return number[:, None]

    def possible(self, x: Tensor) -> None:
        """Every text can be written."""

    def near(self, own: Tensor, number: Tensor) -> None:
        """Words have no distance: all are compared."""

    def within_reach(self, x: Tensor, seed: Tensor) -> Tensor:  # noqa: ARG002 - tables have limits
        """Every text, as far as `freedom` goes."""
        return x

    def swapped_values(self, x: Tensor, swap: Tensor) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(n,) the value that a swap takes away from each sample, and the value that it brings."""
        group, value = self._parts(swap)
        source = x[:, SOURCE]
        place = (self.group[source] == group[:, None]).int().argmax(dim=1)
        own = self.candidates[source, place, 0].tolist()
        return np.array([self.texts.values[unit] for unit in own], dtype=np.int64), value.cpu().numpy()

    def changes(self, x: Tensor) -> Tensor:
        """(n,) how many words differ from the source."""
        return (x[:, CODES:] > 0).sum(dim=1)


@dataclass(frozen=True)
class Tables:
    """What `TextSpace` looks up: see there."""

    candidates: Tensor
    choices: Tensor
    group: Tensor
    term: Tensor
    terms: Tensor
    swaps: Tensor
    first_swap: Tensor


def text_space(
    sources: Sequence[Marked],
    words: ProtectedWords,
    nearest: Callable[[list[str]], list[list[str]]],
    *,
    most_tokens: int,
    swap: Swap = "one",
    max_changes: int | None = None,
    local_changes: int | None = None,
    device: torch.device | str = "cpu",
) -> TextSpace:
    """The space around some texts. `nearest` gives, for words, those that each may become; none: it stays."""
    units = Units()
    ranges = [
        unit_ranges(text.tokens, {mention.start: mention.end for mention in text.mentions}, most_tokens)
        for text in sources
    ]
    numbers = [
        unit_numbers(units, text.tokens, parts, {m.start: str(words.replacement(m, m.value)) for m in text.mentions})
        for text, parts in zip(sources, ranges, strict=True)
    ]
    width = max(map(len, numbers))
    rows = np.full((len(sources), width), NOTHING, dtype=np.int32)
    read = np.zeros(rows.shape, dtype=bool)  # what a model reads of a source; the rest may only move up
    for number, (row, parts) in enumerate(zip(numbers, ranges, strict=True)):
        rows[number, : len(row)] = row
        read[number, : len(row)] = [start < most_tokens for start, _ in parts]
    protected = _Protected(words, units, (len(sources), width), swap)
    for number, (text, parts) in enumerate(zip(sources, ranges, strict=True)):
        protected.add(number, text.mentions, parts)
    candidates = _candidates(units, rows, read & (protected.group == NO_GROUP), nearest)
    mentions = [{mention.start: mention for mention in text.mentions} for text in sources]
    texts = SearchTexts([text.tokens for text in sources], ranges, units, rows, words, mentions, protected.values)
    arrays = (candidates, (candidates >= 0).sum(axis=2).clip(min=1), *protected.tables())
    tables = Tables(*(torch.tensor(array, dtype=torch.long, device=device) for array in arrays))
    return TextSpace(texts, tables, len(words.values), max_changes, local_changes)


def _candidates(
    units: Units, rows: NDArray[np.int32], free: NDArray[np.bool_], nearest: Callable[[list[str]], list[list[str]]]
) -> NDArray[np.int32]:
    """(sources, width, k + 1) the units that each place may hold, its own first, filled up with NOTHING."""
    wanted = np.unique(rows[free])
    near = nearest([units.surfaces[unit] for unit in wanted])
    most = max((len(found) for found in near), default=0)
    table = np.full((len(units) + 1, most), NOTHING, dtype=np.int32)  # the last row is for what is no unit
    for unit, found in zip(wanted, near, strict=True):
        table[unit, : len(found)] = [units.number(word) for word in found]
    others = np.where(free[:, :, None], table[rows], NOTHING)
    return np.concatenate([rows[:, :, None], others], axis=2)


class _Protected:
    """Collects the mentions of all sources and what may stand in their place."""

    def __init__(self, words: ProtectedWords, units: Units, shape: tuple[int, int], swap: Swap) -> None:
        self.words, self.units, self.swap = words, units, swap
        self.group = np.full(shape, NO_GROUP, dtype=np.int64)
        self.term = np.zeros(shape, dtype=np.int64)
        self.values: dict[int, int] = {}
        self._rows: dict[tuple[str, int, int], int] = {}
        self._terms: list[list[int]] = []
        self._swaps: list[list[int]] = [[] for _ in range(shape[0])]

    def add(self, source: int, mentions: list[Mention], ranges: list[tuple[int, int]]) -> None:
        """Number the groups of a source's mentions and list its swaps."""
        place_of = {start: place for place, (start, _) in enumerate(ranges)}
        groups: dict[int, list[Mention]] = {}
        for number, mention in enumerate(mentions):
            if mention.start in place_of:
                groups.setdefault(mention.value if self.swap == "all" else number, []).append(mention)
        for group, members in enumerate(groups.values()):
            places = [place_of[mention.start] for mention in members]
            self.group[source, places] = group
            self.term[source, places] = rows = [self._row(mention) for mention in members]
            for value in range(len(self.words.values)):
                if value != members[0].value and all(self._terms[row][value] >= 0 for row in rows):
                    self._swaps[source].append(1 + group * len(self.words.values) + value)

    def _row(self, mention: Mention) -> int:
        """The row of terms for mentions like this one."""
        key = (mention.form, mention.value, mention.index)
        if key not in self._rows:
            self._rows[key] = len(self._terms)
            surfaces = [self.words.replacement(mention, value) for value in range(len(self.words.values))]
            numbers = [NOTHING if surface is None else term_number(self.units, surface) for surface in surfaces]
            self.values.update((number, value) for value, number in enumerate(numbers) if number != NOTHING)
            self._terms.append(numbers)
        return self._rows[key]

    def tables(self) -> tuple[NDArray[np.int64], ...]:
        """Group, term, terms, swaps and first swap, as `TextSpace` reads them."""
        first = np.cumsum([0, *map(len, self._swaps)])
        swaps = np.array([swap for of_source in self._swaps for swap in of_source], dtype=np.int64)
        return self.group, self.term, np.array(self._terms), swaps, first
