"""Progress of a search: a live line on a terminal, plain lines in a log."""

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from evenhand.search.search import Progress

SECONDS_BETWEEN_LINES = 5.0
SECONDS_BETWEEN_UPDATES = 0.1


class ProgressDisplay:
    """Shows how far a search is, on standard error, so that results can be piped."""

    def __init__(self, title: str, quiet: bool = False) -> None:
        self._title = title
        self._quiet = quiet
        self._live = None
        self._last = 0.0
        self._phase = ""
        if not quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(stderr=True), refresh_per_second=10, transient=True)

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, progress: "Progress") -> None:
        """Show where the search stands, not too often; the start of a phase always."""
        if self._quiet:
            return
        now = time.monotonic()
        pause = SECONDS_BETWEEN_LINES if self._live is None else SECONDS_BETWEEN_UPDATES
        if progress.phase == self._phase and now - self._last < pause:
            return
        self._phase, self._last = progress.phase, now
        line = describe(self._title, progress)
        if self._live is None:
            print(line, file=sys.stderr, flush=True)
        else:
            self._live.update(line)


def describe(title: str, progress: "Progress") -> str:
    """One line, at most 80 columns for usual numbers."""
    speed = progress.findings / progress.seconds if progress.seconds else 0
    unit = "iterations" if progress.phase == "global" else "steps"
    left = f", {progress.left:.0f} s left" if progress.phase == "local" else ""
    return (
        f"{title}  {progress.walks:,} {'seeds' if progress.phase == 'global' else 'walks'}, "
        f"{progress.phase} {unit} {progress.done:,}/{progress.total:,}, "
        f"{progress.findings:,} findings ({speed:,.0f}/s){left}"
    )
