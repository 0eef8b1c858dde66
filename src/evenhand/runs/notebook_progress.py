"""Progress where Python runs in a notebook: one line below the cell, kept up to date."""

import sys
import time
from collections.abc import Callable
from typing import Any

from evenhand.report.sentences import progress_text
from evenhand.search.search import Progress

SECONDS_BETWEEN_UPDATES = 0.25


def silent(*standing: Any) -> None:
    """Say nothing: the default of every `on_progress`, in whose place a notebook has a line of its own."""


def shown_in_notebook(on_progress: Callable[..., None], title: str) -> Callable[..., None]:
    """What the caller gave; a line in the notebook where he gave nothing and there is one."""
    return NotebookLine(title) if on_progress is silent and in_notebook() else on_progress


def in_notebook() -> bool:
    """Whether a Jupyter kernel runs this process; IPython in a terminal has none."""
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None else None
    return getattr(shell, "kernel", None) is not None


class NotebookLine:
    """A line that says how far the work is. It takes whatever the parts of the package say of theirs."""

    def __init__(self, title: str) -> None:
        self._title, self._handle, self._last, self._part = title, None, 0.0, ""

    def __call__(self, *standing: Any) -> None:
        """A search's `Progress`; or what is done, how much of it, of how much; or what is made, and the share of it."""
        part = standing[0].phase if isinstance(standing[0], Progress) else standing[0]
        now = time.monotonic()
        if part == self._part and now - self._last < SECONDS_BETWEEN_UPDATES:
            return
        self._part, self._last = part, now
        self._show(_line(self._title, *standing))

    def _show(self, line: str) -> None:
        from IPython.display import display

        content = {"text/plain": line}
        if self._handle is None:
            self._handle = display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)


def _line(title: str, first: Any, *numbers: Any) -> str:
    if isinstance(first, Progress):
        return progress_text(title, first)
    done = f"{numbers[0]:,} of {numbers[1]:,}" if len(numbers) == 2 else f"{numbers[0]:.0%}"
    return f"{title}  {first}: {done}"
