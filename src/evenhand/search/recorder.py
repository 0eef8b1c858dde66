"""Counts what a search looks at and hands over what it finds, without repetition."""

import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from evenhand.search.archive import Archive
from evenhand.search.check import Checked
from evenhand.search.space import Keys, Space

Phase = Literal["global", "local"]
PHASES: tuple[Phase, Phase] = ("global", "local")
FLUSH_SAMPLES = 131_072
FLUSH_NUMBERS = 8_000_000  # so that long texts do not fill the memory
FLUSH_SECONDS = 0.25  # so that a display has news
GROWTH_POINTS = 100


@dataclass(frozen=True)
class Findings:
    """Some findings, as arrays of one length."""

    sample: NDArray[np.int32]  # (k, d)
    witness: NDArray[np.int32]  # (k, protected) the witness' protected values; it shares all others
    label: NDArray[np.int64]
    witness_label: NDArray[np.int64]
    score: NDArray[np.float32]  # O_y(x), y the sample's label
    witness_score: NDArray[np.float32]  # O_y(x')
    phase: NDArray[np.int8]  # position in PHASES
    seed: NDArray[np.int64]  # the row of the data that the search started from; below zero: a random sample
    step: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.sample)

    def part(self, rows: slice | NDArray[np.bool_] | NDArray[np.int64]) -> "Findings":
        """Some of them."""
        return Findings(**{field.name: getattr(self, field.name)[rows] for field in fields(Findings)})

    @staticmethod
    def joined(parts: "list[Findings]") -> "Findings":
        """Several as one; there is at least one part."""
        return Findings(**{f.name: np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(Findings)})


@dataclass(frozen=True)
class Fresh:
    """What was seen for the first time: the keys of samples, in order, and those of them that are findings."""

    keys: Keys
    findings: Findings | None


@dataclass
class Counts:
    """What a search has done so far; every method is counted by this counter."""

    tried: int = 0  # samples looked at, repetitions included
    generated: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PHASES, 0))  # unique and possible ones
    findings: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PHASES, 0))
    ruled_out: int = 0  # unique samples that would be findings if the schema did not call one of the pair impossible
    seeds: set[int] = field(default_factory=set)  # rows of the data that led to a finding of their own
    growth: list[tuple[int, int, int]] = field(default_factory=list)  # tried, generated, findings

    @property
    def all_generated(self) -> int:
        """Unique samples looked at in both phases; what the schema calls impossible is nobody and does not count."""
        return sum(self.generated.values())

    @property
    def all_findings(self) -> int:
        """Unique findings of both phases."""
        return sum(self.findings.values())

    @property
    def success_rate(self) -> float:
        """Findings among generated samples; 0 where there are none."""
        return self.all_findings / self.all_generated if self.all_generated else 0.0


@dataclass(frozen=True)
class _Entry:
    checked: Checked
    phase: int
    step: int
    seeds: Tensor


class Recorder:
    """Buffers checked samples; every so often picks the new ones out and passes findings to the sink.

    The order in which samples are added decides which of several equal ones is kept, so it must not depend on how the
    work is chunked; when samples are flushed does not matter. Settling runs in a thread of its own, at most one flush
    behind the search.
    """

    def __init__(
        self,
        space: Space[Any],
        sink: Callable[[Findings], None],
        most_findings: int | None = None,
        expected: int = 0,
        on_fresh: Callable[[Fresh], None] = lambda fresh: None,
    ) -> None:
        self.counts = Counts()
        self._space = space
        self._sink = sink
        self._on_fresh = on_fresh
        self._most = most_findings
        self._archive = Archive()
        self._growth_every = max(1, expected // GROWTH_POINTS)
        # Where few findings are wanted, look often whether they are there.
        self._flush_samples = FLUSH_SAMPLES if most_findings is None else min(FLUSH_SAMPLES, 4096 + 4 * most_findings)
        self._entries: list[_Entry] = []
        self._waiting = 0
        self._flushed_at = time.monotonic()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="evenhand-recorder")
        self._settled: Future[None] = Future()
        self._settled.set_result(None)

    @property
    def full(self) -> bool:
        """Whether the most findings that were asked for are there."""
        return self._most is not None and self.counts.all_findings >= self._most

    def add(self, checked: Checked, phase: Phase, step: int, seeds: Tensor) -> None:
        """Note samples (n,) that were looked at in one step."""
        self._entries.append(_Entry(checked, PHASES.index(phase), step, seeds))
        self._waiting += len(checked)
        full = self._waiting >= min(self._flush_samples, FLUSH_NUMBERS // checked.x.shape[1])
        if full or time.monotonic() - self._flushed_at > FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Start to bring the counts up to date and to hand over new findings; the search goes on meanwhile."""
        self._settled.result()
        entries, self._entries, self._waiting = self._entries, [], 0
        if entries and not self.full:
            self._settled = self._thread.submit(self._settle, entries)
        self._flushed_at = time.monotonic()

    def settle(self) -> None:
        """Bring the counts up to date with all that was added, and hand over what is new, before the search goes on."""
        self.flush()
        self._settled.result()

    def restore(self, seen: Iterable[Fresh], counts: Counts, replay: Callable[[Findings], None]) -> None:
        """Begin where an earlier recorder was: what it had seen is not new, and its findings are replayed."""
        for fresh in seen:
            self._archive.add(fresh.keys)
            if fresh.findings is not None:
                replay(fresh.findings)
        self.counts = counts

    def close(self) -> None:
        """Hand over the rest and wait until all is settled."""
        with self._thread:
            self.settle()

    def _settle(self, entries: list[_Entry]) -> None:
        checked = Checked.joined([entry.checked for entry in entries])
        sizes = np.array([len(entry.checked) for entry in entries])
        phase = np.repeat(np.array([entry.phase for entry in entries], dtype=np.int8), sizes)
        possible = self._possible(checked)
        keys = told_apart(self._space.keys(checked.x), possible)
        fresh = self._archive.add(keys)
        fresh_keys = keys[fresh]
        hit = checked.hit.cpu().numpy()
        tried = len(hit)
        if self._most is not None:
            fresh, tried = self._cut(fresh, hit, tried)
        found, somebody = fresh[hit[fresh]], fresh[possible[fresh]]
        self._grow(somebody, found, np.cumsum(sizes), tried)
        for position, name in enumerate(PHASES):
            self.counts.generated[name] += int((phase[somebody] == position).sum())
            self.counts.findings[name] += int((phase[found] == position).sum())
        self.counts.tried += tried
        self.counts.ruled_out += int(checked.ruled_out.cpu().numpy()[fresh].sum())
        findings = None
        if len(found):
            step = np.repeat(np.array([entry.step for entry in entries], dtype=np.int32), sizes)
            seeds = torch.cat([entry.seeds for entry in entries]).cpu().numpy()
            self.counts.seeds.update(np.unique(seeds[found][seeds[found] >= 0]).tolist())
            findings = self._findings(checked, found, phase, step, seeds)
            self._sink(findings)
        self._on_fresh(Fresh(fresh_keys, findings))

    def _possible(self, checked: Checked) -> NDArray[np.bool_]:
        """(n,) false for samples that the schema calls impossible."""
        possible = self._space.possible(checked.x)
        there: NDArray[np.bool_] = np.ones(len(checked), dtype=bool) if possible is None else possible.cpu().numpy()
        return there

    def _cut(self, fresh: NDArray[np.int64], hit: NDArray[np.bool_], tried: int) -> tuple[NDArray[np.int64], int]:
        """Stop right at the last finding that was asked for."""
        assert self._most is not None
        found = fresh[hit[fresh]]
        left = self._most - self.counts.all_findings
        if len(found) < left:
            return fresh, tried
        last = found[left - 1]
        return fresh[fresh <= last], int(last) + 1

    def _grow(self, fresh: NDArray[np.int64], found: NDArray[np.int64], ends: NDArray[np.int64], tried: int) -> None:
        """Add points to the growth curve at the ends of steps, about GROWTH_POINTS in all."""
        counts = self.counts
        for end in np.minimum(ends, tried):
            total = counts.tried + int(end)
            if not counts.growth or total - counts.growth[-1][0] >= self._growth_every:
                generated = counts.all_generated + int(np.searchsorted(fresh, end))
                counts.growth.append((total, generated, counts.all_findings + int(np.searchsorted(found, end))))

    def _findings(
        self,
        checked: Checked,
        found: NDArray[np.int64],
        phase: NDArray[np.int8],
        step: NDArray[np.int32],
        seeds: NDArray[np.int64],
    ) -> Findings:
        kept = checked.take(torch.as_tensor(found, device=checked.x.device))
        witness = self._space.witness(kept.pair)
        return Findings(
            sample=kept.x.cpu().numpy().astype(np.int32),
            witness=witness.cpu().numpy().astype(np.int32),
            label=kept.label.cpu().numpy(),
            witness_label=kept.pair_label.cpu().numpy(),
            score=kept.score.cpu().numpy(),
            witness_score=kept.pair_score.cpu().numpy(),
            phase=phase[found],
            seed=seeds[found],
            step=step[found],
        )


def told_apart(keys: Keys, possible: NDArray[np.bool_]) -> Keys:
    """Keys of which those of impossible samples are none that a possible one could have.

    Samples with the same key differ in protected values, so one may be impossible and must not hide the other.
    """
    if possible.all():
        return keys
    if keys.dtype == np.int64:
        return np.where(possible, keys, ~keys.view(np.int64))
    halves = np.ascontiguousarray(keys).view(np.uint64).reshape(-1, 2)
    return np.ascontiguousarray(np.where(possible[:, None], halves, ~halves)).view("S16")[:, 0]
