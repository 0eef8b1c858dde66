"""Solves path constraints with z3, here or in processes of its own that import nothing but z3."""

import importlib
import json
import signal
import subprocess
import sys
from types import TracebackType
from typing import Any, NamedTuple

RANDOM_SEED = 0
RESOURCES = 100_000  # z3 counts its own work: unlike a time limit, this ends at the same place on every machine


class Problem(NamedTuple):
    """Whole numbers within bounds that meet constraints, near where they start."""

    unknowns: list[tuple[int, int, int, int]]  # attribute, lowest, highest, start
    constraints: list[tuple[int, bool, int]]  # attribute, "at most" or else "above", bound


Solution = list[int] | None  # a value for each unknown


class SolverLostError(RuntimeError):
    """A process that solves is gone."""


def solve(problem: Problem) -> Solution:
    """A solution, or none if there is none (or z3 gives up).

    z3 is asked for distances from the start, since its simplex begins at zero and goes no further than bounds push it:
    that keeps a solution near without the cost of an optimisation.
    """
    z3: Any = importlib.import_module("z3")
    solver = z3.SimpleSolver()
    solver.set(random_seed=RANDOM_SEED, rlimit=RESOURCES)
    unknowns = {attribute: (z3.Int(f"a{attribute}"), start) for attribute, _, _, start in problem.unknowns}
    for attribute, lowest, highest, start in problem.unknowns:
        distance, _ = unknowns[attribute]
        solver.add(distance >= lowest - start, distance <= highest - start)
    for attribute, at_most, bound in problem.constraints:
        distance, start = unknowns[attribute]
        solver.add(distance <= bound - start if at_most else distance > bound - start)
    if solver.check() != z3.sat:
        return None
    model = solver.model()
    return [start + model.eval(distance, model_completion=True).as_long() for distance, start in unknowns.values()]


class Solvers:
    """Solves many problems, in order, in this process or in several others.

    These are plain child processes and no `multiprocessing` pool, since a spawned pool imports the user's main script
    again: it would load torch in every worker, and run a script that has no `__main__` guard once more.
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers if workers > 1 else 0
        self._processes: list[subprocess.Popen[str]] = []

    def __enter__(self) -> "Solvers":
        # -P: the folder of this file stays off the path, where a module would hide one of the same name in Python's own
        command = [sys.executable, "-P", __file__]
        for _ in range(self._workers):
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self._processes.append(process)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes:
            process.kill()  # it may be in the middle of work that nobody waits for; there is nothing to save
            process.communicate()

    def solve(self, problems: list[Problem]) -> list[Solution]:
        """A solution for each problem; the workers take turns along the list and work at the same time."""
        if not self._processes:
            return [solve(problem) for problem in problems]
        solutions: list[Solution] = [None] * len(problems)
        try:
            for number, process in enumerate(self._processes):
                assert process.stdin is not None
                process.stdin.write(json.dumps(problems[number :: self._workers]) + "\n")
                process.stdin.flush()
            for number, process in enumerate(self._processes):
                assert process.stdout is not None
                solutions[number :: self._workers] = json.loads(process.stdout.readline())
        except (BrokenPipeError, json.JSONDecodeError) as error:  # what it said itself is on the error stream
            raise SolverLostError("A solver process of SG ended early.") from error
        return solutions


def main() -> None:
    """A worker: a line of problems in, a line of solutions out, until the parent closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent ends its workers itself
    for line in sys.stdin:
        print(json.dumps([solve(Problem(*problem)) for problem in json.loads(line)]), flush=True)


if __name__ == "__main__":
    main()
