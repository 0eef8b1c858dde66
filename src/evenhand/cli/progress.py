"""Progress of a search: a live line on a terminal, plain lines in a log."""

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

    from evenhand.search.search import Progress

SECONDS_BETWEEN_LINES = 5.0
SECONDS_BETWEEN_UPDATES = 0.1


class LineDisplay:
    """One line on standard error, so that results can be piped: live on a terminal, now and then in a log."""

    def __init__(self, title: str, quiet: bool = False) -> None:
        self._title = title
        self._quiet = quiet
        self._live = None
        self._last = 0.0
        self._part = ""
        if not quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            console = Console(stderr=True, markup=False, highlight=False)
            self._live = Live(console=console, refresh_per_second=10, transient=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    @property
    def quiet(self) -> bool:
        """Whether nothing is shown."""
        return self._quiet

    def _due(self, part: str) -> bool:
        """Whether to show something now: not too often, but the start of a part always."""
        now = time.monotonic()
        pause = SECONDS_BETWEEN_LINES if self._live is None else SECONDS_BETWEEN_UPDATES
        if self._quiet or (part == self._part and now - self._last < pause):
            return False
        self._part, self._last = part, now
        return True

    def _show(self, line: str) -> None:
        if self._live is None:
            print(line, file=sys.stderr, flush=True)
        else:
            from rich.text import Text

            self._live.start()  # only now: before a search, downloads may have a bar of their own
            self._live.update(Text(line))


class ProgressDisplay(LineDisplay):
    """Shows how far a search is."""

    _method = ""

    def of_method(self, method: str, progress: "Progress") -> None:
        """Show where one of several methods stands."""
        if method != self._method:
            self._method, self._part = method, ""
        self(progress)

    def __call__(self, progress: "Progress") -> None:
        """Show where the search stands."""
        if self._due(progress.phase):
            from evenhand.report.sentences import progress_text

            self._show(progress_text(self._title + (f" {self._method}" if self._method else ""), progress))


class CountDisplay(LineDisplay):
    """Shows how much of a part of some work is done."""

    def __call__(self, what: str, done: int, total: int) -> None:
        """So many of so many."""
        if self._due(what):
            self._show(f"{self._title}  {what}: {done:,} of {total:,}")


class StepDisplay(LineDisplay):
    """Shows what is being made, and which share of it is done."""

    def __call__(self, what: str, share: float) -> None:
        """A part of the work and how far it is."""
        if self._due(what):
            self._show(f"{self._title}  {what}: {share:.0%}")


class DownloadDisplay:
    """Shows downloads on standard error: what, how large, how far."""

    def __init__(self, quiet: bool = False) -> None:
        self._quiet = quiet
        self._what = ""
        self._bar: Bar | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def __call__(self, what: str, done: int, total: int) -> None:
        """Show how many bytes are there; the size is said before the first of them comes."""
        if self._quiet:
            return
        if what != self._what:
            self._stop()
            self._what = what
            print(f"downloading {what}: {total / 1e6:.0f} MB, once", file=sys.stderr, flush=True)
            if sys.stderr.isatty():
                self._start(total)
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=done)
        if done >= total:
            self._stop()

    def _start(self, total: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

        columns = (BarColumn(), DownloadColumn(), TimeRemainingColumn())
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self._bar.start()
        self._task = self._bar.add_task("", total=total)

    def _stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()
        self._bar = None
