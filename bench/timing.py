"""What benchmarks measure time with: the clock and the processor, calls that take turns, a search without files."""

import os
import resource
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenhand.data.dataset import Dataset
from evenhand.models.classifier import Classifier
from evenhand.models.devices import one_thread
from evenhand.search.method import Method
from evenhand.search.search import Limits, Search, SearchResult
from evenhand.search.space import TableSpace


class Cost(NamedTuple):
    """Seconds of some work."""

    clock: float
    processor: float


def processor_seconds(who: int = resource.RUSAGE_CHILDREN) -> float:
    """Seconds of the processor that this process took, or its child processes that have ended."""
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def processor_seconds_of(pid: int) -> float:
    """The same of another process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cost_of_processes(work: Callable[[], object]) -> Cost:
    """What some work takes that is done by processes, which end with it."""
    start, before = time.perf_counter(), processor_seconds()
    work()
    return Cost(time.perf_counter() - start, processor_seconds() - before)


def in_turn(first: Callable[[], object], second: Callable[[], object], turns: int) -> tuple[float, float]:
    """Median seconds of two calls that take turns, so that a busy machine is busy for both."""
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(turns):
        for call, seconds in zip((first, second), taken, strict=True):
            start = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - start)
    return statistics.median(taken[0]), statistics.median(taken[1])


def timed_search(
    model: Classifier, data: Dataset, protected: list[str], rows: NDArray[np.int64], method: Method, limits: Limits
) -> tuple[SearchResult, float]:
    """A search without files, in one thread: its result and its seconds."""
    space = TableSpace(data.schema, protected, model.device)
    search = Search(model, space, method, seed=0, limits=limits, sink=lambda findings: None)
    with one_thread(model.device):
        start = time.perf_counter()
        result = search.run(data.codes[rows], rows)
        return result, time.perf_counter() - start
