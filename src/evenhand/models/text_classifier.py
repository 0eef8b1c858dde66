"""The one place that calls a model of text. What it reads are rows of units: see `evenhand.text.texts`."""

import copy
import time
from abc import abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor

from evenhand.errors import EvenhandError
from evenhand.models.classifier import ROW_MULTIPLE, GradientOf, Model, Outputs, loss_slope, probabilities
from evenhand.models.recurrence import Plan, Recurrence, Trace
from evenhand.models.recurrent import Recurrent
from evenhand.models.sequences import Expansion, Sequences

FEW_TEXTS = 1024  # so many cost little more than one: a second run from the middle would take longer than it saves
CHUNK_TEXTS = 2048  # texts that run together: enough to keep a step busy, few enough to stay in the cache


class TextClassifier(Model):
    """What a search asks of a model of text.

    Inputs are (n, 1 + width): the number of the source text, then its units. Gradients are (n, width, e), by the vector
    of each unit.
    """

    vectors: Tensor  # (units, e) where each unit lies in the space in which the model's gradients are

    @abstractmethod
    def outputs_from(self, x: Tensor, of: Tensor, place: Tensor, near: Tensor) -> tuple[Outputs, Outputs]:
        """Outputs of texts x and of others, (m, 1 + width), that differ from x[of] only from unit `place` (m,) on."""


class _Run(NamedTuple):
    """Some texts that ran together."""

    rows: Tensor  # (n,) which texts, the longest first
    plan: Plan
    traces: list[Trace]


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
        logits = self._logits(sequences, None, None)[0]
        return self._outputs(logits)

    @torch.no_grad()
    def outputs_from(self, x: Tensor, of: Tensor, place: Tensor, near: Tensor) -> tuple[Outputs, Outputs]:
        """The states of x where the other texts leave it are kept, and they run from there."""
        few = len(near) <= len(x) and len(x) + len(near) <= FEW_TEXTS
        if few or not self.share_prefixes or not len(near):
            labels, scores = self.outputs(torch.cat([x, near]))
            return Outputs(labels[: len(x)], scores[: len(x)]), Outputs(labels[len(x) :], scores[len(x) :])
        self.count(len(x) + len(near))
        units = x[:, 1:]
        sequences, others = self.expansion.sequences(units), self.expansion.sequences(near[:, 1:])
        begin = torch.minimum(self.expansion.words_before(units[of], place), others.lengths - 1)
        begin = torch.minimum(begin, sequences.lengths[of])
        logits, states = self._logits(sequences, None, (of, begin))
        assert states is not None
        logits_near, _ = self._logits(_rest(others, begin), states, None)
        return self._outputs(logits), self._outputs(logits_near)

    def gradients(self, x: Tensor, y: Tensor, of: GradientOf = "loss") -> Tensor:
        """(n, width, e): forward with all gates kept, then backward to the words."""
        parts = [
            self._gradients(part, labels, of)
            for part, labels in zip(torch.split(x, CHUNK_TEXTS), torch.split(y, CHUNK_TEXTS), strict=True)
        ]
        return torch.cat(parts)

    @torch.no_grad()
    def _gradients(self, x: Tensor, y: Tensor, of: GradientOf) -> Tensor:
        self.count(len(x))
        sequences = self.expansion.sequences(x[:, 1:])
        start = time.perf_counter()
        order = sequences.lengths.argsort(descending=True, stable=True)
        run = self._run(sequences, order, None, keep_gates=True)
        logits = self.engine.logits(run.traces[-1].state[:, run.plan.last])
        slope = loss_slope(_filled_up(_finite(logits.t())), _filled_up(y[order, None]).squeeze(1), of)[: len(x)]
        by_word = self.engine.backward(run.traces, run.plan, slope.t())  # (e, total)
        gradient = by_word.new_zeros(len(x), sequences.words.shape[1], len(by_word))
        places, there = _places(run.plan, sequences.lengths[order])
        gradient[order] = by_word.t()[places] * there[:, :, None]
        self.seconds += time.perf_counter() - start
        return sequences.by_unit(gradient, x.shape[1] - 1)

    def _logits(
        self, sequences: Sequences, start: Tensor | None, wanted: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, Tensor | None]:
        """(n, classes), and (layers, width, m) the states of texts `wanted[0]` before their words `wanted[1]`."""
        begun = time.perf_counter()
        lengths = sequences.lengths
        logits = torch.empty(len(lengths), len(self.engine.head_weight), device=self.device)
        states = None if wanted is None else self.engine.start(len(wanted[0]))
        order = (
            lengths.argsort(descending=True, stable=True)
            if self.sort_by_length
            else torch.arange(len(lengths), device=lengths.device)
        )
        for rows in torch.split(order, CHUNK_TEXTS):
            rows = rows if self.sort_by_length else rows[lengths[rows].argsort(descending=True, stable=True)]
            run = self._run(sequences, rows, start)
            logits[rows] = self.engine.logits(run.traces[-1].state[:, run.plan.last]).t()
            if wanted is not None and states is not None:
                self._pick_states(run, len(lengths), *wanted, states)
        self.seconds += time.perf_counter() - begun
        return _finite(logits), states

    def _run(self, sequences: Sequences, rows: Tensor, start: Tensor | None, keep_gates: bool = False) -> _Run:
        """Run texts (n,), the longest first, from their states or from nothing."""
        plan = Plan.of(sequences.lengths[rows])
        active = torch.tensor(plan.active, device=self.device)
        missing = plan.active[0] - len(rows)
        words = torch.nn.functional.pad(sequences.words[rows, : len(active)].t(), (0, missing), value=-1)
        runs = torch.arange(words.shape[1], device=self.device) < active[:, None]
        flat = words[runs]  # the words of each step, one step after the other
        # -1, an unknown word or none at all, is the last column
        first = self._projected.index_select(1, torch.where(flat < 0, self._projected.shape[1] - 1, flat))
        at = self.engine.start(len(rows)) if start is None else start[:, :, rows]
        return _Run(rows, plan, self.engine.forward(first, plan, at, keep_gates))

    def _pick_states(self, run: _Run, n: int, of: Tensor, begin: Tensor, states: Tensor) -> None:
        """Write the states of those wanted texts that were in this run; before the first word they stay zero."""
        column = torch.full((n,), -1, device=self.device)
        column[run.rows] = torch.arange(len(run.rows), device=self.device)
        here = ((column[of] >= 0) & (begin > 0)).nonzero().squeeze(1)
        offset = torch.tensor(run.plan.offset, device=self.device)
        places = offset[begin[here] - 1] + column[of[here]]
        states[:, :, here] = self.engine.states_after(run.traces, places)

    def _outputs(self, logits: Tensor) -> Outputs:
        return Outputs(logits.argmax(dim=1), probabilities(_filled_up(logits))[: len(logits)])


def _rest(sequences: Sequences, begin: Tensor) -> Sequences:
    """The texts from their words `begin` (n,) on."""
    lengths = sequences.lengths - begin
    places = begin[:, None] + torch.arange(int(lengths.max()), device=begin.device)
    words = sequences.words.gather(1, places.clamp_max(sequences.words.shape[1] - 1))
    return Sequences(words, lengths, None)


def _places(plan: Plan, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """(n, words) where each word's step is written, and whether there is such a word."""
    steps = torch.arange(len(plan.active), device=lengths.device)
    offset = torch.tensor(plan.offset, device=lengths.device)
    there = steps < lengths[:, None]
    columns = torch.arange(len(lengths), device=lengths.device)[:, None]
    return (offset + columns) * there, there


def _filled_up(rows: Tensor) -> Tensor:
    """(n, …) with zeros up to a multiple of ROW_MULTIPLE, so that no row's result depends on where it stands."""
    return torch.nn.functional.pad(rows, (0, 0, 0, -len(rows) % ROW_MULTIPLE))


def _finite(logits: Tensor) -> Tensor:
    if bool(torch.isnan(logits).any()):
        raise EvenhandError("The model's score is not a number (NaN) for some text. Check its weights.")
    return logits
