"""Ctrl-C as a wish to stop rather than a crash."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Stopped(Exception):  # noqa: N818 - a wish, not an error
    """The user wants to stop; what is measured of this part of the work is not whole."""


@contextmanager
def noting_interrupts() -> Iterator[Callable[[], bool]]:
    """Yield a function that says whether Ctrl-C was pressed; a second one interrupts at once, as usual.

    Outside the main thread signals cannot be caught, so there the answer stays no.
    """
    pressed = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield pressed.is_set
        return
    before = signal.getsignal(signal.SIGINT)

    def on_interrupt(_number: int, _frame: FrameType | None) -> None:
        pressed.set()
        print("\nStopping; what was found is kept. Ctrl-C again discards it.", file=sys.stderr, flush=True)
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, before)
