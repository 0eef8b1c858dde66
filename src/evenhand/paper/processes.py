"""Work in parts, several at a time, each in a process of its own; all of them hear Ctrl-C through the first."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Event
from typing import TypeVar

from evenhand.errors import EvenhandError
from evenhand.runs.interrupt import Stopped

Part = TypeVar("Part")
Result = TypeVar("Result")
Say = Callable[[str], None]
Interrupted = Callable[[], bool]
Task = Callable[[Part, Say, Interrupted], Result]  # raises Stopped where the user wants to stop

MOST_WORKERS = 4  # each holds a gigabyte or two
POLL_SECONDS = 0.2


def default_workers() -> int:
    """One for each core that this process may use, within reason."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(MOST_WORKERS, cores)


def all_results(
    parts: Sequence[Part], task: Task[Part, Result], say: Say, interrupted: Interrupted, workers: int
) -> Iterator[Result]:
    """Results as they are done; a part that is not whole when the user stops gives none."""
    if workers > 1:
        yield from in_processes(parts, task, say, interrupted, workers)
        return
    for part in parts:
        try:
            yield task(part, say, interrupted)
        except Stopped:
            return


def stopping(interrupted: Interrupted) -> Callable[[str, float], None]:
    """For work that tells of its steps: what ends it where the user wants to stop."""

    def on_step(what: str, share: float) -> None:  # noqa: ARG001 - only the wish to stop matters
        if interrupted():
            raise Stopped

    return on_step


class InProcess:
    """What a process was told when it began."""

    stop: Event
    messages: "SimpleQueue[str]"


def _begin(stop: Event, messages: "SimpleQueue[str]") -> None:
    """A terminal sends Ctrl-C to all processes; the first one alone decides what it means."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    InProcess.stop, InProcess.messages = stop, messages


def _do(part: Part, task: Task[Part, Result]) -> Result | None:
    """In a process: one part, or nothing where the user wants to stop."""
    if InProcess.stop.is_set():
        return None
    try:
        return task(part, InProcess.messages.put, InProcess.stop.is_set)
    except Stopped:
        return None


def in_processes(
    parts: Sequence[Part], task: Task[Part, Result], say: Say, interrupted: Interrupted, workers: int
) -> Iterator[Result]:
    """Processes are spawned: a copy of one that runs torch may hang."""
    context = multiprocessing.get_context("spawn")
    stop, messages = context.Event(), context.SimpleQueue()
    pool = ProcessPoolExecutor(workers, context, _begin, (stop, messages))
    try:
        with _deaf_to_interrupts():
            waiting = {pool.submit(_do, part, task) for part in parts}
        while waiting:
            done, waiting = wait(waiting, POLL_SECONDS, FIRST_COMPLETED)
            while not messages.empty():
                say(messages.get())
            if interrupted():
                stop.set()
            yield from (result for future in done if (result := future.result()) is not None)
    except BrokenProcessPool as error:
        raise EvenhandError(
            "A process that did a part of the work was ended from outside, perhaps for want of memory. Try --workers 1."
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
