"""Ctrl-C, and a wish from elsewhere that a run ends, while a command does the run in its own process."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

WISH = signal.SIGURG  # a signal of our own, since Ctrl-C is ignored in a script's background; unheard it does no harm


class Interrupts:
    """What is done when Ctrl-C is pressed, or when somebody elsewhere wishes that the run ends."""

    def __init__(self) -> None:
        self._deaf = False
        self._held = False
        self.is_whole: Callable[[], bool] = lambda: False  # whether only the keeping of a result is left to do

    @contextmanager
    def deferring_interrupts(self) -> Iterator[None]:
        """Ctrl-C waits until the block is done: half of it would be worse than either. An error of its own wins."""
        self._deaf = True
        try:
            yield
        finally:
            self._deaf = False
        if self._held:
            self._held = False
            raise KeyboardInterrupt

    def shut(self) -> None:
        """Hear nothing any more: the command is ending."""
        self._deaf = True

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Hear both kinds during the block; only the main thread can."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        interrupt, wish = signal.getsignal(signal.SIGINT), signal.getsignal(WISH)

        def on_interrupt(number: int, frame: FrameType | None) -> None:
            if self._deaf or self.is_whole():
                self._held = True
            elif callable(interrupt):
                interrupt(number, frame)

        def on_wish(_number: int, frame: FrameType | None) -> None:
            now = signal.getsignal(signal.SIGINT)
            if callable(now) and now is not on_interrupt:  # the work itself hears of Ctrl-C, and ends in good order
                now(signal.SIGINT, frame)
            elif not self._deaf and not self.is_whole():
                raise KeyboardInterrupt

        if callable(interrupt):  # one that is ignored stays so
            signal.signal(signal.SIGINT, on_interrupt)
        signal.signal(WISH, on_wish)
        try:
            yield
        finally:
            signal.signal(WISH, signal.SIG_DFL if wish is None else wish)
            if callable(interrupt):
                signal.signal(signal.SIGINT, interrupt)


def wish() -> None:
    """Let the main thread hear that somebody wishes that its run ends."""
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, WISH)
