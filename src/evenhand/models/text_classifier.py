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
from evenhand.models.recurrence import Plan, Recurrence, Trace, Wanted
from evenhand.models.recurrent import Recurrent
from evenhand.models.sequences import Edits, Expansion, Sequences
from evenhand.text.texts import Units
from evenhand.text.vectors import WordVectors

FEW_TEXTS = 1024  # so many cost little more than one: a second run from the middle would take longer than it saves
CHUNK_TEXTS = 1024  # texts that run together: enough to keep a step busy, few enough to stay in the cache
CHUNK_GRADIENTS = 512  # the same for gradients, which keep all gates


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
    plan: Plan
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
        if self._together(len(x), len(near)):
            labels, scores = self.outputs(torch.cat([x, near]))
            return Outputs(labels[: len(x)], scores[: len(x)]), Outputs(labels[len(x) :], scores[len(x) :])
        self.count(len(x) + len(near))
        units = x[:, 1:]
        sequences, others = self.expansion.sequences(units), self.expansion.sequences(near[:, 1:])
        begin = torch.minimum(self.expansion.words_before(units[of], place), others.lengths - 1)
        begin = torch.minimum(begin, sequences.lengths[of])
        return self._sharing(sequences, of, begin, others, Edits.none(len(near), self.device))

    @torch.no_grad()
    def outputs_replacing(self, x: Tensor, of: Tensor, place: Tensor, unit: Tensor) -> tuple[Outputs, Outputs]:
        """As `outputs_from`; the others are never written down but looked up in x, word by word as they are read."""
        self.count(len(x) + len(of))
        texts, edits, lengths = self.expansion.edits(x[:, 1:], of, place, unit)
        if self._together(len(x), len(of)):
            both = Sequences(texts.words, torch.cat([texts.lengths, lengths]), None)
            logits, _ = self._logits(both, Edits.none(len(x), self.device).joined(edits), None, None)
            return self._outputs(logits[: len(x)]), self._outputs(logits[len(x) :])
        begin = torch.minimum(torch.minimum(edits.begin, lengths - 1), texts.lengths[of])
        return self._sharing(texts, of, begin, Sequences(texts.words, lengths, None), edits)

    def _together(self, texts: int, others: int) -> bool:
        """Whether texts and those like them run side by side rather than one after the other."""
        return not self.share_prefixes or not others or (others <= texts and texts + others <= FEW_TEXTS)

    def _sharing(
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
        for rows in _even(order, CHUNK_GRADIENTS):
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
        places = _places(run, sequences.lengths, width)
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
        for rows in _even(order, CHUNK_TEXTS):
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
        wanted: Wanted | None = None,
        keep: bool = False,
    ) -> _Run:
        """Run texts (n,), the longest first, from their states or from nothing."""
        lengths = sequences.lengths[rows]
        behind = None if start is None else start[0][rows]
        plan = Plan.of((lengths if behind is None else lengths - behind) + self.engine.delay)
        step = torch.repeat_interleave(torch.tensor(plan.active, device=self.device))
        column = torch.arange(plan.total, device=self.device) - torch.tensor(plan.offset, device=self.device)[step]
        size = plan.active[0]
        at = step if behind is None else step + torch.nn.functional.pad(behind, (0, size - len(rows)))[column]
        words = self.expansion.words_at(sequences.words, edits.take(rows, size), column, at)
        # -1, an unknown word or none at all, is the last column
        read = self._projected.index_select(1, torch.where(words < 0, self._projected.shape[1] - 1, words))
        state = self.engine.start(len(rows)) if start is None else start[1].index_select(1, rows)
        return _Run(rows, plan, self.engine.forward(read, plan, state, behind, wanted, keep))

    def _in_run(self, rows: Tensor, n: int, of: Tensor, begin: Tensor) -> tuple[Tensor, Wanted]:
        """Which wanted states a run of the texts `rows` has, and where; before the first word they stay zero."""
        column = torch.full((n,), -1, device=self.device)
        column[rows] = torch.arange(len(rows), device=self.device)
        here = ((column[of] >= 0) & (begin > 0)).nonzero().squeeze(1)
        return here, Wanted(begin[here] - 1, column[of[here]])

    def _outputs(self, logits: Tensor) -> Outputs:
        return Outputs(logits.argmax(dim=1), probabilities(_filled_up(logits))[: len(logits)])


def word_vectors(units: Units, vectors: WordVectors) -> Tensor:
    """(words + 1, e) the vectors of the units' words; unknown ones, and the last row, get the mean of all vectors."""
    numbers = np.append(vectors.index(units.words), -1)
    found = np.where((numbers >= 0)[:, None], vectors.vectors[np.maximum(numbers, 0)], vectors.mean)
    return torch.tensor(found, dtype=torch.float32)


def _even(rows: Tensor, most: int) -> tuple[Tensor, ...]:
    """Parts of at most so many rows and about one size: a small last part would take nearly as long as a full one."""
    return torch.tensor_split(rows, -(-len(rows) // most)) if len(rows) else ()


def _places(run: _Run, lengths: Tensor, width: int) -> Tensor:
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
