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
from evenhand.methods.explanation import Path, Seen, explain, global_negations, local_negations, problem_of, unseen
from evenhand.methods.path_solver import Problem, Solvers
from evenhand.search.archive import Archive
from evenhand.search.check import Checked
from evenhand.search.method import Method, Needs
from evenhand.search.search import Search
from evenhand.search.space import TableSpace

BATCH = 64  # samples that leave the queue together; it decides what is found, so it is a constant and not a setting


class Rank(IntEnum):
    """Where a sample comes from; a lower rank leaves the queue first."""

    SEED = 0
    LOCAL = 1
    GLOBAL = 2


class Candidate(NamedTuple):
    """A sample in the queue. The first three decide its turn."""

    rank: Rank
    doubt: float  # global: one minus the confidence of the constraint that was negated; otherwise 0
    number: int  # of several that are equal so far, the one that came first
    x: list[int]
    seed: int  # the row of the data that it descends from


class Question(NamedTuple):
    """A negated path of a sample, for the solver."""

    rank: Rank
    doubt: float
    source: Candidate
    problem: Problem


class Queue:
    """Samples that wait for their turn. One that was here before, protected values aside, is not taken again."""

    def __init__(self, space: TableSpace, x: Tensor, ids: Tensor) -> None:
        self.popped = 0
        self._space = space
        self._archive = Archive()
        self._archive.add(space.keys(x))
        rows = zip(itertools.count(), x.int().tolist(), ids.tolist(), strict=False)
        self._heap = [Candidate(Rank.SEED, 0.0, number, row, seed) for number, row, seed in rows]
        self._pushed = len(self._heap)

    def __len__(self) -> int:
        return len(self._heap)

    def push(self, candidates: list[Candidate]) -> None:
        """Add candidates; their numbers are given here."""
        if not candidates:
            return
        x = torch.tensor([candidate.x for candidate in candidates], device=self._space.lower.device)
        for place in self._archive.add(self._space.keys(x)):
            heapq.heappush(self._heap, candidates[place]._replace(number=self._pushed))
            self._pushed += 1

    def pop(self, most: int) -> list[Candidate]:
        """The next candidates, in the order of their turn."""
        batch = [heapq.heappop(self._heap) for _ in range(min(most, len(self._heap)))]
        self.popped += len(batch)
        return batch


@dataclass(frozen=True, kw_only=True)
class SymbolicGeneration(Method):
    """Agarwal et al., "Automated Test Generation to Detect Individual Discrimination in AI Models".

    At most seeds × (1 + steps) samples leave the queue: as many as ADF may look at.
    """

    name: ClassVar[str] = "sg"
    needs: ClassVar[Needs] = "labels"
    neighbours: int = 200  # that explain one sample
    depth: int = 6  # of the tree: the longest path
    confidence: float = 0.3  # T1: constraints that are less sure are not negated in the global step
    workers: int = min(2, os.cpu_count() or 1)  # processes that solve; they change nothing but the time

    def __post_init__(self) -> None:
        if importlib.util.find_spec("z3") is None:
            raise EvenhandError("SG needs z3: pip install 'evenhand[symbolic]'")
        for setting in ("neighbours", "depth", "workers"):
            if getattr(self, setting) < 1:
                raise EvenhandError(f"{setting} of SG is at least 1; {getattr(self, setting)} is not.")
        if not 0 <= self.confidence <= 1:
            raise EvenhandError(f"confidence is a share, from 0 to 1; {self.confidence} is not.")

    def search(self, search: Search, x: Tensor, ids: Tensor) -> None:
        """Look at the samples whose turn it is, explain them, and queue a solution of each of their negated paths."""
        queue, most = Queue(search.space, x, ids), len(x) * (1 + search.limits.steps)
        seen: Seen = set()
        found: set[int] = set()  # seeds
        with Solvers(self.workers) as solvers:
            for step in itertools.count():
                if not queue or queue.popped >= most or search.should_stop():
                    return
                first = queue.popped
                batch = queue.pop(min(BATCH, most - first))
                checked = look(search, batch, step)
                hits = checked.hit.tolist()
                found.update(candidate.seed for candidate, hit in zip(batch, hits, strict=True) if hit)
                search.result.seeds_with_findings = len(found)
                paths = explain(search, checked.x, checked.label, first, self.neighbours, self.depth)
                parts = zip(batch, hits, paths, strict=True)
                questions = [question for part in parts for question in self.questions(search.space, *part, seen)]
                queue.push(answers(questions, solvers))
                search.report("global", len(batch), queue.popped, most)

    def questions(self, space: TableSpace, source: Candidate, hit: bool, path: Path, seen: Seen) -> Iterator[Question]:
        """The local step where the sample is a finding, then the global one; a path that was seen is left out."""
        local = local_negations(path, space.protected) if hit else []
        for negated in unseen(local, seen):
            # A neighbour: only the attribute of the negated constraint moves.
            yield Question(Rank.LOCAL, 0.0, source, problem_of(space, source.x, negated, {negated[-1].attribute}))
        for negated in unseen(global_negations(path, space.protected, self.confidence), seen):
            # As in concolic testing, attributes that the path does not name keep the sample's values.
            free = {constraint.attribute for constraint in negated}.difference(space.protected)
            doubt = 1 - negated[-1].confidence
            yield Question(Rank.GLOBAL, doubt, source, problem_of(space, source.x, negated, free))


def look(search: Search, batch: list[Candidate], step: int) -> Checked:
    """Check candidates; those of the local step count as local."""
    parts = []
    for rank, group in itertools.groupby(batch, key=lambda candidate: candidate.rank):
        _, _, _, x, seeds = zip(*group, strict=True)
        samples = torch.tensor(x, dtype=torch.float32, device=search.model.device)
        ids = torch.tensor(seeds, device=search.model.device)
        parts.append(search.look(samples, "local" if rank == Rank.LOCAL else "global", step, ids))
    return Checked.joined(parts)


def answers(questions: list[Question], solvers: Solvers) -> list[Candidate]:
    """The samples that the solver finds."""
    candidates = []
    solutions = solvers.solve([question.problem for question in questions])
    for (rank, doubt, source, problem), solution in zip(questions, solutions, strict=True):
        if solution is not None:
            x = source.x.copy()
            for (attribute, *_), value in zip(problem.unknowns, solution, strict=True):
                x[attribute] = value
            candidates.append(Candidate(rank, doubt, 0, x, source.seed))
    return candidates
