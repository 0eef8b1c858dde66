"""One search by any method: what it may ask, what is counted, when it ends."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from evenhand.models.classifier import BudgetSpent, ModelGone, OutOfRows
from evenhand.search.check import Checked, check, check_near
from evenhand.search.checkpoint import Keeper, Place, State, counts_as_json, counts_of_json
from evenhand.search.draws import Draws
from evenhand.search.method import Method
from evenhand.search.recorder import PHASES, Counts, Findings, Phase, Recorder
from evenhand.search.space import ModelT, SpaceT
from evenhand.search.walk import DRAWS_PER_STEP, Walk

StopReason = Literal[
    "completed", "max-seconds", "max-findings", "max-rows", "interrupted", "budget-spent", "model-failed"
]

LONGEST_ESTIMATE = 86_400.0  # seconds


@dataclass(frozen=True)
class Limits:
    """How much a search may do. The defaults are the paper's."""

    iterations: int = 10
    steps: int = 1000
    max_seconds: float | None = None
    max_findings: int | None = None
    max_rows: int | None = None


@dataclass(frozen=True)
class Progress:
    """Where a search stands."""

    phase: Phase | Literal["data"]  # data: the rate among the people in the data
    walks: int  # stepping together in this phase
    done: int  # iterations or steps
    total: int
    findings: int
    seconds: float  # since the search began
    left: float  # estimated, for this phase

    @property
    def time_left(self) -> float | None:
        """Seconds to the end of this phase; None where it is over, or where the estimate is too long to say much."""
        return self.left if self.done < self.total and self.left <= LONGEST_ESTIMATE else None


@dataclass
class SearchResult:
    """Counters of a finished search."""

    counts: Counts
    seeds: int
    stopped: StopReason = "completed"
    error: str | None = None  # what a model that failed on the way said, or whose budget was spent
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PHASES, 0.0))
    notes: dict[str, float] = field(default_factory=dict)  # what a method measured on the way
    resumed: int = 0  # how often it went on from a checkpoint
    seconds_before: float = 0.0  # that earlier processes took, until the checkpoint

    @property
    def seeds_with_findings(self) -> int:
        """How many seeds led to a finding that no other walk met before."""
        return len(self.counts.seeds)


class Search(Generic[SpaceT, ModelT]):
    """A model, a space, seeds, limits and counters. A method looks at samples through it and nowhere else."""

    def __init__(
        self,
        model: ModelT,
        space: SpaceT,
        method: Method[SpaceT, ModelT],
        *,
        seed: int,
        limits: Limits,
        sink: Callable[[Findings], None],
        on_progress: Callable[[Progress], None] = lambda progress: None,
        interrupted: Callable[[], bool] = lambda: False,
        keeper: Keeper | None = None,
        replay: Callable[[Findings], None] | None = None,
    ) -> None:
        """With a keeper, a method that is `resumable` goes on from its last checkpoint.

        `replay` then gets the findings from before it; without one the sink does.
        """
        self.model, self.space, self.method = model, space, method
        self.seed, self.limits = seed, limits
        self._sink, self._on_progress, self._interrupted = sink, on_progress, interrupted
        self._keeper = keeper if method.resumable else None
        self._replay = replay or sink
        self.place: Place | None = None  # where an earlier process was, for the method to go on from
        self.background = Place({}, {})  # what a method needs beside its walks to go on; it is saved with their place

    def run(self, samples: NDArray[np.int32], rows: NDArray[np.int64]) -> SearchResult:
        """Search from seeds: (n, d) samples of the data and (n,) the rows they come from."""
        self._start = time.perf_counter()
        self._phase: Phase = "global"
        self._done = self._total = 0
        self.model.rows, self.model.seconds, self.model.most_rows = 0, 0.0, self.limits.max_rows
        expected = len(rows) * (self.limits.iterations + self.limits.steps)
        on_fresh = {} if self._keeper is None else {"on_fresh": self._keeper.add}
        self._recorder = Recorder(self.space, self._sink, self.limits.max_findings, expected, **on_fresh)
        self.result = SearchResult(self._recorder.counts, len(rows))
        x, ids = self.space.samples(samples), torch.tensor(rows, device=self.model.device)
        self._seed_rows, order = ids.sort()
        self._seed_samples = x[order]
        try:
            self._resume()
            self.method.search(self, x, ids)
        except OutOfRows:
            self._stop_if(True, "max-rows")
        except ModelGone as error:  # what was found until then is true all the same
            self._stop_if(True, "budget-spent" if isinstance(error, BudgetSpent) else "model-failed")
            self.result.error = str(error)
        finally:
            self._recorder.close()
            self.model.most_rows = None
        self._stop_if(self._recorder.full, "max-findings")
        self._end_phase()
        return self.result

    def _resume(self) -> None:
        """Go on from the last checkpoint, if there is one."""
        state = None if self._keeper is None else self._keeper.state()
        if self._keeper is None or state is None:
            return
        counters = state.counters
        self._recorder.restore(self._keeper.fresh(), counts_of_json(counters["counts"]), self._replay)
        self.result = SearchResult(
            self._recorder.counts,
            self.result.seeds,
            seconds=counters["seconds"],
            notes=counters["notes"],
            resumed=counters["taken_up"] + 1,
            seconds_before=counters["passed"],
        )
        self.place, self._phase = state.place.on(self.model.device), counters["phase"]
        self._start -= counters["passed"]
        self._done, self._total = counters["done"], counters["total"]
        self.model.rows, self.model.seconds = counters["rows"], counters["model_seconds"]

    def _save(self, place: Place) -> None:
        """Write a checkpoint; the counts must be settled."""
        assert self._keeper is not None
        counters = {
            "counts": counts_as_json(self._recorder.counts),
            "seconds": self.result.seconds,
            "notes": self.result.notes,
            "taken_up": self.result.resumed,
            "passed": time.perf_counter() - self._start,
            "phase": self._phase,
            "rows": self.model.rows,
            "model_seconds": self.model.seconds,
            "findings": self._recorder.counts.all_findings,
            "done": self._done,
            "total": self._total,
        }
        self._keeper.save(State(self.background.joined(place), counters))

    def _end_phase(self) -> None:
        """Add the time since the last change to the phase that ran; some methods go back and forth."""
        self.result.seconds[self._phase] += time.perf_counter() - self._start - sum(self.result.seconds.values())

    def look(self, x: Tensor, phase: Phase, step: int, ids: Tensor) -> Checked:
        """Check samples (n, d) that belong to the seeds `ids` (n,), and count them."""
        x = self._within_reach(x, ids)
        affordable = self._affordable(x, phase, 0)
        checked = check(self.model, self.space, x[:affordable])
        return self._noted(checked, len(x), phase, step, ids)

    def look_near(self, x: Tensor, own: Tensor, guess: Tensor, phase: Phase, step: int, ids: Tensor) -> Checked:
        """Check neighbours of samples whose witnesses are known, and count them; see `check_near`."""
        x = self._within_reach(x, ids)
        affordable = self._affordable(x, phase, 0 if self.space.binary else 2)  # the guess may be asked in vain
        checked = check_near(self.model, self.space, x[:affordable], own[:affordable], guess[:affordable])
        return self._noted(checked, len(x), phase, step, ids)

    def _within_reach(self, x: Tensor, ids: Tensor) -> Tensor:
        """Samples as near to where the method wants to go as the schema allows; a random one has no seed to keep to."""
        if not self.space.limited:
            return x
        place = torch.searchsorted(self._seed_rows, ids).clamp_max(len(self._seed_rows) - 1)
        return torch.where((ids >= 0)[:, None], self.space.within_reach(x, self._seed_samples[place]), x)

    def _affordable(self, x: Tensor, phase: Phase, extra: int) -> int:
        """How many of the samples the budget of rows still allows for; also the place that sees a phase begin."""
        if phase != self._phase:
            self._end_phase()
            self._phase = phase
        if self.limits.max_rows is None:
            return len(x)
        dearest = (self.space.variant_counts(x) + extra).cumsum(0)  # if every variant must be looked at
        affordable = int((dearest <= self.limits.max_rows - self.model.rows).sum())
        if not affordable:
            raise OutOfRows
        return affordable

    def _noted(self, checked: Checked, wanted: int, phase: Phase, step: int, ids: Tensor) -> Checked:
        """Record what was looked at; where the budget did not reach for all of it, the search ends here."""
        self._recorder.add(checked, phase, step, ids[: len(checked)])
        if len(checked) < wanted:
            raise OutOfRows
        return checked

    def walk(
        self, at: Checked, ids: Tensor, phase: Phase, block_steps: int, space: SpaceT | None = None
    ) -> Walk[SpaceT, ModelT]:
        """Walks that stand at checked samples, with the random numbers that belong to their seeds.

        The first ones of a search that goes on from a checkpoint stand where they were then.
        """
        draws = self.draws(ids, phase, DRAWS_PER_STEP, block_steps)
        walk = Walk(self.model, self.space if space is None else space, at, draws)
        if self.place is not None:
            walk.restore(self.place)
            self.place = None
        return walk

    def draws(self, ids: Tensor, phase: Phase, per_step: int, block_steps: int) -> Draws:
        """Random numbers of this search."""
        return Draws(self.seed, PHASES.index(phase), ids, per_step, block_steps)

    def should_stop(self, place: Callable[[], Place] | None = None) -> bool:
        """Whether a limit is reached or the user wants to stop; the reason stays in the result.

        A method that could go on from here says from what `place`: a checkpoint is written if one is due, or the user
        wants to stop.
        """
        limit, wish = self.limits.max_seconds, self._interrupted()
        saving = self._keeper is not None and place is not None and (wish or self._keeper.due)
        saving = saving and self.result.stopped == "completed"  # what comes after a stop has gaps
        if saving:
            self._recorder.settle()
        self._stop_if(self._recorder.full, "max-findings")
        self._stop_if(limit is not None and time.perf_counter() - self._start >= limit, "max-seconds")
        self._stop_if(wish, "interrupted")
        if saving and place is not None and self.result.stopped in ("completed", "interrupted"):
            self._save(place())
        return self.result.stopped != "completed"

    def _stop_if(self, condition: bool, reason: StopReason) -> None:
        if condition and self.result.stopped == "completed":
            self.result.stopped = reason

    def report(self, phase: Phase, walks: int, done: int, total: int) -> None:
        """Say how far a phase is."""
        self._done, self._total = done, total
        seconds = time.perf_counter() - self._start
        before = 0.0 if phase == "global" else self.result.seconds["global"]
        left = (seconds - before) / done * (total - done)
        if self.limits.max_seconds is not None:
            left = min(left, max(0.0, self.limits.max_seconds - seconds))
        findings = self._recorder.counts.all_findings
        self._on_progress(Progress(phase, walks, done, total, findings, seconds, left))
