"""The two phases, for any method: from data seeds to first findings, then around each of them."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from evenhand.models.classifier import Classifier
from evenhand.search.check import Checked, check, check_near
from evenhand.search.draws import BLOCK_STEPS, Draws
from evenhand.search.method import Method
from evenhand.search.recorder import PHASES, Counts, Findings, Phase, Recorder
from evenhand.search.space import TableSpace
from evenhand.search.walk import DRAWS_PER_STEP, Walk

# Walks that step together. It decides which of two walks that reach the same sample is first, so it is a constant and
# not a setting; memory is bounded by it and by the model's chunk of rows.
BLOCK_WALKS = 65_536

StopReason = Literal["completed", "max-seconds", "max-findings", "interrupted"]


@dataclass(frozen=True)
class Limits:
    """How much a search may do. The defaults are the paper's."""

    iterations: int = 10
    steps: int = 1000
    max_seconds: float | None = None
    max_findings: int | None = None


@dataclass(frozen=True)
class Progress:
    """Where a search stands."""

    phase: Phase
    walks: int  # stepping together in this phase
    done: int  # iterations or steps
    total: int
    findings: int
    seconds: float  # since the search began
    left: float  # estimated, for this phase


@dataclass
class SearchResult:
    """Counters of a finished search."""

    counts: Counts
    seeds: int
    seeds_with_findings: int = 0
    stopped: StopReason = "completed"
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PHASES, 0.0))


class Search:
    """One search: a model, a space, a method, seeds and limits. `run` does it and leaves the result."""

    def __init__(
        self,
        model: Classifier,
        space: TableSpace,
        method: Method,
        *,
        seed: int,
        limits: Limits,
        sink: Callable[[Findings], None],
        on_progress: Callable[[Progress], None] = lambda progress: None,
        interrupted: Callable[[], bool] = lambda: False,
    ) -> None:
        self.model, self.space, self.method = model, space, method
        self._seed, self._limits, self._sink = seed, limits, sink
        self._on_progress, self._interrupted = on_progress, interrupted

    def run(self, samples: NDArray[np.int32], rows: NDArray[np.int64]) -> SearchResult:
        """Search from seeds: (n, d) samples of the data and (n,) the rows they come from."""
        self._start = time.perf_counter()
        expected = len(rows) * (self._limits.iterations + self._limits.steps)
        self._recorder = Recorder(self.space, self._sink, self._limits.max_findings, expected)
        self._result = SearchResult(self._recorder.counts, len(rows))
        x = self.space.clip(torch.tensor(samples, dtype=torch.float32, device=self.model.device))
        ids = torch.tensor(rows, device=self.model.device)
        try:
            self._phases(x, ids)
        finally:
            self._recorder.close()
        self._stop_if(self._recorder.full, "max-findings")
        self._result.seconds["local"] = time.perf_counter() - self._start - self._result.seconds["global"]
        return self._result

    def _phases(self, x: Tensor, ids: Tensor) -> None:
        found = [
            self._global(*block)
            for block in zip(torch.split(x, BLOCK_WALKS), torch.split(ids, BLOCK_WALKS), strict=True)
        ]
        self._result.seeds_with_findings = sum(len(block_ids) for _, block_ids in found)
        self._result.seconds["global"] = time.perf_counter() - self._start
        for starts, block_ids in _regrouped(found):
            self._local(starts, block_ids)

    def _global(self, x: Tensor, ids: Tensor) -> tuple[Checked, Tensor]:
        """Algorithm 1 for all seeds at once: those that have found something leave the batch."""
        found: list[Checked] = []
        found_ids: list[Tensor] = []
        iterations = self._limits.iterations
        for iteration in range(iterations):
            if not len(x) or self._should_stop():
                break
            checked = check(self.model, self.space, x)
            self._recorder.add(checked, "global", iteration, ids)
            self._report("global", self._result.seeds, iteration + 1, iterations)
            found.append(checked.take(checked.hit))
            found_ids.append(ids[checked.hit])
            rest = checked.take(~checked.hit)
            ids = ids[~checked.hit]
            if len(rest) and iteration + 1 < iterations:
                walk = self._walk(rest, ids, "global", block_steps=1)  # another set of seeds each time
                walk.step = iteration
                x = self.method.global_move(walk)
            else:
                break
        return _joined(found, found_ids, self._empty(x), ids)

    def _local(self, starts: Checked, ids: Tensor) -> None:
        """Algorithm 7 for all findings of the global phase at once: look at a neighbour, step there or stay."""
        if not len(starts):
            return
        walk = self._walk(starts, ids, "local", BLOCK_STEPS)
        for step in range(self._limits.steps):
            if self._should_stop():
                return
            checked = check_near(self.model, self.space, self.method.local_move(walk), walk.own, walk.pair)
            self._recorder.add(checked, "local", step, ids)
            walk.move(checked, self.method.accepts(walk, checked))
            self._report("local", len(starts), step + 1, self._limits.steps)

    def _walk(self, at: Checked, ids: Tensor, phase: Phase, block_steps: int) -> Walk:
        draws = Draws(self._seed, PHASES.index(phase), ids, DRAWS_PER_STEP, block_steps)
        return Walk(self.model, self.space, at, draws)

    def _empty(self, x: Tensor) -> Checked:
        """No sample at all, in the right shapes."""
        nothing = x.new_zeros(0)
        count = nothing.long()
        return Checked(x[:0], count, count, nothing.bool(), count, count, nothing, nothing)

    def _should_stop(self) -> bool:
        """Whether a limit is reached or the user wants to stop; the reason stays in the result."""
        limit = self._limits.max_seconds
        self._stop_if(self._recorder.full, "max-findings")
        self._stop_if(limit is not None and time.perf_counter() - self._start >= limit, "max-seconds")
        self._stop_if(self._interrupted(), "interrupted")
        return self._result.stopped != "completed"

    def _stop_if(self, condition: bool, reason: StopReason) -> None:
        if condition and self._result.stopped == "completed":
            self._result.stopped = reason

    def _report(self, phase: Phase, walks: int, done: int, total: int) -> None:
        seconds = time.perf_counter() - self._start
        before = 0.0 if phase == "global" else self._result.seconds["global"]
        left = (seconds - before) / done * (total - done)
        findings = self._recorder.counts.all_findings
        self._on_progress(Progress(phase, walks, done, total, findings, seconds, left))


def _joined(found: list[Checked], ids: list[Tensor], nothing: Checked, no_ids: Tensor) -> tuple[Checked, Tensor]:
    """Findings of all iterations in one batch, in the order of their seeds' places in the iterations."""
    columns = zip(*[*found, nothing], strict=True)
    return Checked(*(torch.cat(column) for column in columns)), torch.cat([*ids, no_ids[:0]])


def _regrouped(found: list[tuple[Checked, Tensor]]) -> list[tuple[Checked, Tensor]]:
    """The global phase leaves blocks of different lengths; the local phase takes full ones."""
    if not found:
        return []
    columns = zip(*(checked for checked, _ in found), strict=True)
    checked = Checked(*(torch.cat(column) for column in columns))
    ids = torch.cat([block_ids for _, block_ids in found])
    places = torch.split(torch.arange(len(ids), device=ids.device), BLOCK_WALKS)
    return [(checked.take(place), ids[place]) for place in places]
