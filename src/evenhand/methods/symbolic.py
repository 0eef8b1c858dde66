"""SG: symbolic generation, which negates what a decision tree says about a sample and asks a solver for another."""

import heapq
import importlib.util
import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from evenhand.errors import EvenhandError
from evenhand.methods.explanation import (
    Path,
    Seen,
    average_confidence,
    explain,
    global_negations,
    local_negations,
    problem_of,
    unseen,
)
from evenhand.methods.path_solver import Problem, SolverLostError, Solvers
from evenhand.search.archive import Archive
from evenhand.search.check import Checked
from evenhand.search.method import Method, Needs
from evenhand.search.search import Search
from evenhand.search.space import TableSpace

BATCH = 64  # samples that leave the queue together; it decides what is found, so it is a constant and not a setting


class Rank(IntEnum):
    """Where a sample comes from; a lower rank leaves the queue first. The numbers are those of ADF's program."""

    LOCAL = 1
    SEED = 5
    GLOBAL = 10

    def turn(self, path: Path) -> float:
        """The turn of a solution of a negated path: unsure paths first in the local step, sure ones in the global."""
        return self + average_confidence(path) if self == Rank.LOCAL else self - average_confidence(path)


class Candidate(NamedTuple):
    """A sample in the queue; the lowest leaves it first."""

    turn: float
    number: int  # of several with the same turn, the one that came first
    rank: Rank
    x: list[int]
    seed: int  # the row of the data that it descends from


class Question(NamedTuple):
    """A negated path of a sample, for the solver."""

    turn: float
    rank: Rank
    source: Candidate
    problem: Problem


class Queue:
    """Samples that wait for their turn. One that was here before, protected values aside, is not taken again."""

    def __init__(self, space: TableSpace, x: Tensor, ids: Tensor) -> None:
        self.popped = self.popped_beyond_seeds = 0
        self._space = space
        self._archive = Archive()
        self._archive.add(space.keys(x))
        rows = zip(itertools.count(), x.int().tolist(), ids.tolist(), strict=False)
        self._heap = [Candidate(Rank.SEED, number, Rank.SEED, row, seed) for number, row, seed in rows]
        self._pushed = len(self._heap)

    def push(self, candidates: list[Candidate]) -> None:
        """Add candidates; their numbers are given here."""
        if not candidates:
            return
        x = torch.tensor([candidate.x for candidate in candidates], device=self._space.lower.device)
        for place in self._archive.add(self._space.keys(x)):
            heapq.heappush(self._heap, candidates[place]._replace(number=self._pushed))
            self._pushed += 1

    def pop(self, most: int, beyond_seeds: int) -> list[Candidate]:
        """The next candidates, in the order of their turn, until so many that are no seeds have left in all."""
        batch: list[Candidate] = []
        while self._heap and len(batch) < most and self.popped_beyond_seeds < beyond_seeds:
            batch.append(heapq.heappop(self._heap))
            self.popped += 1
            self.popped_beyond_seeds += batch[-1].rank != Rank.SEED
        return batch


@dataclass(frozen=True, kw_only=True)
class SymbolicGeneration(Method):
    """Agarwal et al., "Automated Test Generation to Detect Individual Discrimination in AI Models".

    At most seeds × (1 + steps) samples leave the queue, as many as ADF may look at, unless `samples` is given. The
    order of the queue and the use of T1 are those of ADF's program for SG. It keeps no checkpoints: a queue of paths is
    more than tensors, so an audit that is taken up starts from the beginning.
    """

    name: ClassVar[str] = "sg"
    needs: ClassVar[Needs] = "labels"
    neighbours: int = 200  # that explain one sample
    depth: int = 6  # of the tree: the longest path
    confidence: float = 0.3  # T1: the global step goes along a path up to the first constraint that is less sure
    local: bool = True  # whether the local step is taken
    samples: int | None = None  # the search ends after so many samples that are no seeds, whatever the steps
    workers: int = min(2, os.cpu_count() or 1)  # processes that solve; they change nothing but the time

    def __post_init__(self) -> None:
        if importlib.util.find_spec("z3") is None:
            raise EvenhandError("SG needs z3: pip install 'evenhand[symbolic]'")
        for setting in ("neighbours", "depth", "workers", "samples"):
            value = getattr(self, setting)
            if not (isinstance(value, int) and value >= 1) and (setting, value) != ("samples", None):
                raise EvenhandError(f"{setting} of SG is a whole number of at least 1; {value!r} is not.")
        if self.local not in (0, 1):
            raise EvenhandError(f"local of SG is 1 (take the local step) or 0; {self.local!r} is not.")
        if not 0 <= self.confidence <= 1:
            raise EvenhandError(f"confidence is a share, from 0 to 1; {self.confidence} is not.")

    def search(self, search: Search, x: Tensor, ids: Tensor) -> None:
        """Look at the samples whose turn it is, explain them, and queue a solution of each of their negated paths."""
        queue = Queue(search.space, x, ids)
        beyond_seeds = self.samples or len(x) * (1 + search.limits.steps)
        most = len(x) + beyond_seeds if self.samples else beyond_seeds
        search.result.notes |= {"generated_beyond_seeds": 0, "findings_beyond_seeds": 0}
        seen: Seen = set()
        with Solvers(self.workers) as solvers:
            for step in itertools.count():
                first = queue.popped
                batch = queue.pop(min(BATCH, most - first), beyond_seeds)
                if not batch or search.should_stop():
                    return
                checked = look(search, batch, step)
                paths = explain(search, checked.x, checked.label, first, self.neighbours, self.depth)
                parts = zip(batch, checked.hit.tolist(), paths, strict=True)
                questions = [question for part in parts for question in self.questions(search.space, *part, seen)]
                queue.push(answers(questions, solvers))
                search.report("global", len(batch), queue.popped, most)

    def questions(self, space: TableSpace, source: Candidate, hit: bool, path: Path, seen: Seen) -> Iterator[Question]:
        """The local step where the sample is a finding, then the global one; a path that was seen is left out."""
        local = local_negations(path, space.protected) if hit and self.local else []
        for negated in unseen(local, seen):
            # A neighbour: only the attribute of the negated constraint moves.
            problem = problem_of(space, source.x, negated, {negated[-1].attribute})
            yield Question(Rank.LOCAL.turn(negated), Rank.LOCAL, source, problem)
        for negated in unseen(global_negations(path, space.protected, self.confidence), seen):
            # As in concolic testing, attributes that the path does not name keep the sample's values.
            problem = problem_of(space, source.x, negated, {constraint.attribute for constraint in negated})
            yield Question(Rank.GLOBAL.turn(negated), Rank.GLOBAL, source, problem)


def look(search: Search, batch: list[Candidate], step: int) -> Checked:
    """Check candidates; those of the local step count as local, and those that are no seeds are noted."""
    parts, notes = [], search.result.notes
    for rank, group in itertools.groupby(batch, key=lambda candidate: candidate.rank):
        _, _, _, x, seeds = zip(*group, strict=True)
        samples = torch.tensor(x, dtype=torch.float32, device=search.model.device)
        ids = torch.tensor(seeds, device=search.model.device)
        parts.append(search.look(samples, "local" if rank == Rank.LOCAL else "global", step, ids))
        if rank != Rank.SEED:
            notes["generated_beyond_seeds"] += len(samples)
            notes["findings_beyond_seeds"] += int(parts[-1].hit.sum())
    return Checked.joined(parts)


def answers(questions: list[Question], solvers: Solvers) -> list[Candidate]:
    """The samples that the solver finds."""
    candidates = []
    try:
        solutions = solvers.solve([question.problem for question in questions])
    except SolverLostError as error:
        raise EvenhandError(f"{error} Do without such processes: --set workers=1") from error
    for (turn, rank, source, problem), solution in zip(questions, solutions, strict=True):
        if solution is not None:
            x = source.x.copy()
            for (attribute, *_), value in zip(problem.unknowns, solution, strict=True):
                x[attribute] = value
            candidates.append(Candidate(turn, 0, rank, x, source.seed))
    return candidates
