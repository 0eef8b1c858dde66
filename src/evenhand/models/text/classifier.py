"""The one place that calls a model of text. What it reads are rows of units: see `evenhand.text.texts`."""

import copy
import time
from abc import abstractmethod
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from evenhand.errors import EvenhandError
from evenhand.models.classifier import ROW_MULTIPLE, GradientOf, Model, Outputs, loss_slope, probabilities
from evenhand.models.text.recurrent import Recurrence, Recurrent, StepPlan, Trace, WantedStates
from evenhand.text.texts import Units
from evenhand.text.vectors import WordVectors

FEW_TEXTS = 1024  # so many cost little more than one: a second run from the middle would take longer than it saves
CHUNK_TEXTS = 1024  # texts that run together: enough to keep a step busy, few enough to stay in the cache
CHUNK_GRADIENTS = 512  # the same for gradients, which keep all gates


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


class TextClassifier(Model):
    """What a search asks of a model of text.

    Inputs are (n, 1 + width): the number of the source text, then its units. Gradients are (n, width, e), by the vector
    of each unit.
    """

    vectors: Tensor  # (units, e) where each unit lies in the space in which the model's gradients are

    @abstractmethod
    def outputs_from(self, x: Tensor, of: Tensor, place: Tensor, near: Tensor) -> tuple[Outputs, Outputs]:
        """Outputs of texts x and of others, (m, 1 + width), that differ from x[of] only from unit `place` (m,) on."""

    def outputs_replacing(self, x: Tensor, of: Tensor, place: Tensor, unit: Tensor) -> tuple[Outputs, Outputs]:
        """Outputs of texts x and of (m,) others: x[of] with another unit at a place."""
        return self.outputs_from(x, of, place, x[of].scatter(1, 1 + place[:, None], unit[:, None]))

    def impacts(self, x: Tensor, y: Tensor) -> Tensor:
        """(n, width) the L-inf norms of the gradients of the loss."""
        return self.gradients(x, y).abs().amax(dim=2)


class _Run(NamedTuple):
    """Some texts that ran together."""

    rows: Tensor  # (n,) which texts, the longest first
    plan: StepPlan
    trace: Trace


class RecurrentClassifier(TextClassifier):
    """A recurrent network over fixed word vectors. Texts run sorted by length, and share what comes before a change."""

    def __init__(
        self,
        network: Recurrent,
        word_vectors: Tensor,
        unit_words: Tensor,
        *,
        most_words: int,
        device: torch.device | str = "cpu",
        chunk_rows: int | None = None,
        share_prefixes: bool = True,
        sort_by_length: bool = True,
    ) -> None:
        """`word_vectors` (words, e) with a last row for unknown words, `unit_words` the words of each unit."""
        self.device = torch.device(device)
        self.engine = Recurrence(copy.deepcopy(network).to(self.device).eval())
        self.expansion = Expansion(unit_words.to(self.device), most_words)
        self.chunk_rows = chunk_rows or 16_384
        self.share_prefixes, self.sort_by_length = share_prefixes, sort_by_length
        word_vectors = word_vectors.to(self.device)
        self._projected = self.engine.project(word_vectors)  # (gates, words)
        there = (self.expansion.table >= 0)[:, :, None]
        of_words = word_vectors[self.expansion.table.clamp_min(0)] * there
        self.vectors = of_words.sum(dim=1) / there.sum(dim=1)

    @torch.no_grad()
    def outputs(self, x: Tensor) -> Outputs:
        """Labels and scores of (n, 1 + width) texts."""
        self.count(len(x))
        sequences = self.expansion.sequences(x[:, 1:])
        return self._outputs(self._logits(sequences, Edits.none(len(x), self.device), None, None)[0])

    @torch.no_grad()
    def outputs_from(self, x: Tensor, of: Tensor, place: Tensor, near: Tensor) -> tuple[Outputs, Outputs]:
        """The states of x where the other texts leave it are kept, and they run from there."""
        if self._run_together(len(x), len(near)):
            labels, scores = self.outputs(torch.cat([x, near]))
            return Outputs(labels[: len(x)], scores[: len(x)]), Outputs(labels[len(x) :], scores[len(x) :])
        self.count(len(x) + len(near))
        units = x[:, 1:]
        sequences, others = self.expansion.sequences(units), self.expansion.sequences(near[:, 1:])
        begin = torch.minimum(self.expansion.words_before(units[of], place), others.lengths - 1)
        begin = torch.minimum(begin, sequences.lengths[of])
        return self._outputs_sharing(sequences, of, begin, others, Edits.none(len(near), self.device))

    @torch.no_grad()
    def outputs_replacing(self, x: Tensor, of: Tensor, place: Tensor, unit: Tensor) -> tuple[Outputs, Outputs]:
        """As `outputs_from`; the others are never written down but looked up in x, word by word as they are read."""
        self.count(len(x) + len(of))
        texts, edits, lengths = self.expansion.edits(x[:, 1:], of, place, unit)
        if self._run_together(len(x), len(of)):
            both = Sequences(texts.words, torch.cat([texts.lengths, lengths]), None)
            logits, _ = self._logits(both, Edits.none(len(x), self.device).joined(edits), None, None)
            return self._outputs(logits[: len(x)]), self._outputs(logits[len(x) :])
        begin = torch.minimum(torch.minimum(edits.begin, lengths - 1), texts.lengths[of])
        return self._outputs_sharing(texts, of, begin, Sequences(texts.words, lengths, None), edits)

    def _run_together(self, texts: int, others: int) -> bool:
        """Whether texts and those like them run side by side rather than one after the other."""
        return not self.share_prefixes or not others or (others <= texts and texts + others <= FEW_TEXTS)

    def _outputs_sharing(
        self, texts: Sequences, of: Tensor, begin: Tensor, others: Sequences, edits: Edits
    ) -> tuple[Outputs, Outputs]:
        """Outputs of texts and of others that share their first `begin` words (m,) with texts `of`."""
        logits, states = self._logits(texts, Edits.none(len(texts.lengths), self.device), None, (of, begin))
        assert states is not None
        logits_near, _ = self._logits(others, edits, (begin, states), None)
        return self._outputs(logits), self._outputs(logits_near)

    def gradients(self, x: Tensor, y: Tensor, of: GradientOf = "loss") -> Tensor:
        """(n, width, e): forward with all gates kept, then backward to the words."""
        return self._in_buckets(x, y, of, norms=False)

    def impacts(self, x: Tensor, y: Tensor) -> Tensor:
        """(n, width) the L-inf norms of the gradients of the loss, which are not written down text by text."""
        return self._in_buckets(x, y, "loss", norms=True).squeeze(2)

    def _in_buckets(self, x: Tensor, y: Tensor, of: GradientOf, norms: bool) -> Tensor:
        if len(x) <= CHUNK_GRADIENTS:
            return self._gradients(x, y, of, norms)
        order = (x[:, 1:] >= 0).sum(dim=1).argsort(descending=True, stable=True)
        result = torch.empty(len(x), x.shape[1] - 1, 1 if norms else self.vectors.shape[1], device=self.device)
        for rows in _even_parts(order, CHUNK_GRADIENTS):
            result.index_copy_(0, rows, self._gradients(x[rows], y[rows], of, norms))
        return result

    @torch.no_grad()
    def _gradients(self, x: Tensor, y: Tensor, of: GradientOf, norms: bool) -> Tensor:
        """(n, width, e), or (n, width, 1) the norms."""
        self.count(len(x))
        sequences = self.expansion.sequences(x[:, 1:])
        start = time.perf_counter()
        order = sequences.lengths.argsort(descending=True, stable=True)
        run = self._run(sequences, Edits.none(len(x), self.device), order, None, keep=True)
        logits = _finite(self.engine.logits(run.trace.last).t())
        slope = loss_slope(_filled_up(logits), _filled_up(y[order, None]).squeeze(1), of)[: len(x)]
        by_word = self.engine.backward(run.trace, run.plan, slope.t())  # (e, total)
        if norms:
            by_word = by_word.abs_().amax(dim=0, keepdim=True)
        by_word = torch.nn.functional.pad(by_word.t(), (0, 0, 0, 1))  # zeros for words that are not there
        width = x.shape[1] - 1 if sequences.unit is None else sequences.words.shape[1]
        places = _places_of_words(run, sequences.lengths, width)
        gradient = by_word.index_select(0, places.view(-1)).view(len(x), width, -1)
        self.seconds += time.perf_counter() - start
        return sequences.by_unit(gradient, x.shape[1] - 1)

    def _logits(
        self,
        sequences: Sequences,
        edits: Edits,
        start: tuple[Tensor, Tensor] | None,
        wanted: tuple[Tensor, Tensor] | None,
    ) -> tuple[Tensor, Tensor | None]:
        """(n, classes), and (width, m) the states of texts `wanted[0]` before their words `wanted[1]`.

        `start` is how many words (n,) each text has behind it, and its state (width, n) there.
        """
        begun = time.perf_counter()
        left = sequences.lengths if start is None else sequences.lengths - start[0]
        logits = torch.empty(len(left), len(self.engine.head_weight), device=self.device)
        states = None if wanted is None else self.engine.start(len(wanted[0]))
        order = (
            left.argsort(descending=True, stable=True)
            if self.sort_by_length
            else torch.arange(len(left), device=left.device)
        )
        for rows in _even_parts(order, CHUNK_TEXTS):
            rows = rows if self.sort_by_length else rows[left[rows].argsort(descending=True, stable=True)]
            here, places = (None, None) if wanted is None else self._in_run(rows, len(left), *wanted)
            run = self._run(sequences, edits, rows, start, places)
            logits[rows] = self.engine.logits(run.trace.last).t()
            if states is not None:
                states[:, here] = run.trace.states
        self.seconds += time.perf_counter() - begun
        return _finite(logits), states

    def _run(
        self,
        sequences: Sequences,
        edits: Edits,
        rows: Tensor,
        start: tuple[Tensor, Tensor] | None,
        wanted: WantedStates | None = None,
        keep: bool = False,
    ) -> _Run:
        """Run texts (n,), the longest first, from their states or from nothing."""
        lengths = sequences.lengths[rows]
        behind = None if start is None else start[0][rows]
        plan = StepPlan.of((lengths if behind is None else lengths - behind) + self.engine.delay)
        step = torch.repeat_interleave(torch.tensor(plan.active, device=self.device))
        column = torch.arange(plan.total, device=self.device) - torch.tensor(plan.offset, device=self.device)[step]
        size = plan.active[0]
        at = step if behind is None else step + torch.nn.functional.pad(behind, (0, size - len(rows)))[column]
        words = self.expansion.words_at(sequences.words, edits.take(rows, size), column, at)
        # -1, an unknown word or none at all, is the last column
        read = self._projected.index_select(1, torch.where(words < 0, self._projected.shape[1] - 1, words))
        state = self.engine.start(len(rows)) if start is None else start[1].index_select(1, rows)
        return _Run(rows, plan, self.engine.forward(read, plan, state, behind, wanted, keep))

    def _in_run(self, rows: Tensor, n: int, of: Tensor, begin: Tensor) -> tuple[Tensor, WantedStates]:
        """Which wanted states a run of the texts `rows` has, and where; before the first word they stay zero."""
        column = torch.full((n,), -1, device=self.device)
        column[rows] = torch.arange(len(rows), device=self.device)
        here = ((column[of] >= 0) & (begin > 0)).nonzero().squeeze(1)
        return here, WantedStates(begin[here] - 1, column[of[here]])

    def _outputs(self, logits: Tensor) -> Outputs:
        return Outputs(logits.argmax(dim=1), probabilities(_filled_up(logits))[: len(logits)])


def word_vectors(units: Units, vectors: WordVectors) -> Tensor:
    """(words + 1, e) the vectors of the units' words; unknown ones, and the last row, get the mean of all vectors."""
    numbers = np.append(vectors.index(units.words), -1)
    found = np.where((numbers >= 0)[:, None], vectors.vectors[np.maximum(numbers, 0)], vectors.mean)
    return torch.tensor(found, dtype=torch.float32)


def _even_parts(rows: Tensor, most: int) -> tuple[Tensor, ...]:
    """Parts of at most so many rows and about one size: a small last part would take nearly as long as a full one."""
    return torch.tensor_split(rows, -(-len(rows) // most)) if len(rows) else ()


def _places_of_words(run: _Run, lengths: Tensor, width: int) -> Tensor:
    """(n, width) where each word's step is written; the place behind all where there is no such word."""
    steps = torch.arange(width, device=lengths.device)
    offset = torch.tensor(run.plan.offset, device=lengths.device)
    offset = torch.nn.functional.pad(offset, (0, max(0, width - len(offset))))[:width]
    column = torch.empty_like(run.rows)
    column[run.rows] = torch.arange(len(run.rows), device=lengths.device)
    return torch.where(steps < lengths[:, None], offset + column[:, None], run.plan.total)


def _filled_up(rows: Tensor) -> Tensor:
    """(n, …) with zeros up to a multiple of ROW_MULTIPLE, so that no row's result depends on where it stands."""
    return torch.nn.functional.pad(rows, (0, 0, 0, -len(rows) % ROW_MULTIPLE))


def _finite(logits: Tensor) -> Tensor:
    if bool(torch.isnan(logits).any()):
        raise EvenhandError("The model's score is not a number (NaN) for some text. Check its weights.")
    return logits
