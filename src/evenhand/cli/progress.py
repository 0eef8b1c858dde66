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
        self._phase = self._method = ""
        if not quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            console = Console(stderr=True, markup=False, highlight=False)
            self._live = Live(console=console, refresh_per_second=10, transient=True)

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def of_method(self, method: str, progress: "Progress") -> None:
        """Show where one of several methods stands."""
        if method != self._method:
            self._method, self._phase = method, ""
        self(progress)

    def __call__(self, progress: "Progress") -> None:
        """Show where the search stands, not too often; the start of a phase always."""
        if self._quiet:
            return
        now = time.monotonic()
        pause = SECONDS_BETWEEN_LINES if self._live is None else SECONDS_BETWEEN_UPDATES
        if progress.phase == self._phase and now - self._last < pause:
            return
        self._phase, self._last = progress.phase, now
        line = describe(self._title + (f" {self._method}" if self._method else ""), progress)
        if self._live is None:
            print(line, file=sys.stderr, flush=True)
        else:
            from rich.text import Text

            self._live.update(Text(line))


UNITS = {
    "data": ("people of the data", "checked"),
    "global": ("seeds", "global iterations"),
    "local": ("walks", "local steps"),
}


def describe(title: str, progress: "Progress") -> str:
    """One line, at most 80 columns for usual numbers."""
    who, what = UNITS[progress.phase]
    speed = f" ({progress.findings / progress.seconds:,.0f}/s)" if progress.findings and progress.seconds else ""
    findings = "" if progress.phase == "data" else f", {progress.findings:,} findings{speed}"
    left = f", {progress.left:.0f} s left" if progress.done < progress.total else ""
    return f"{title}  {progress.walks:,} {who}, {what} {progress.done:,}/{progress.total:,}{findings}{left}"
