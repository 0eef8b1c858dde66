"""A task from what was said about it to its summary: the one way for a terminal, for a worker and for Python."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.choices import Domain
from evenhand.settings import TaskName

if TYPE_CHECKING:  # a command line imports this before it knows whether there is work for torch
    from evenhand.runs.checkpoints import Checkpoints
    from evenhand.search.recorder import Findings
    from evenhand.search.search import Progress


@dataclass(frozen=True)
class Task:
    """An audit, a measurement or a repair, as it was asked for."""

    kind: TaskName
    data: str  # a built-in name or a path
    protected: list[str]  # empty: what the schema marks
    model: str | None  # a path, an address, module:function; None: built in
    given: dict[str, Any]  # the settings that were said
    domain: Domain = "table"

    @property
    def label(self) -> str:
        """How progress names it."""
        return f"{Path(self.data).stem}/{'+'.join(self.protected)}" if self.protected else Path(self.data).stem


def domain_of(data: object, text: str | None = None) -> Domain:
    """Whether data are texts: a built-in corpus, a file of texts, or a text column is named."""
    from evenhand.text.corpus import BUILTIN, Corpus
    from evenhand.text.corpus_file import SUFFIXES

    if isinstance(data, Corpus) or text is not None:
        return "text"
    is_name = isinstance(data, str | Path)
    return "text" if is_name and (str(data) in BUILTIN or Path(str(data)).suffix.lower() in SUFFIXES) else "table"


class Listener:
    """Hears how a task goes; nobody minds what it does not care for."""

    def search(self, progress: "Progress") -> None:
        """Where a search stands."""

    def count(self, what: str, done: int, total: int) -> None:
        """So many of so many."""

    def step(self, what: str, share: float) -> None:
        """A part of the work, and the share of it that is done."""

    def download(self, what: str, done: int, total: int) -> None:
        """Bytes so far, and bytes in all."""

    def findings(self, findings: "Findings", words: Callable[[int], dict[str, Any]]) -> None:
        """Some more findings, and what says one of them in words."""

    def checkpoints(self) -> "Checkpoints | None":
        """Where an audit keeps what it needs to go on after its process has died; None: nowhere."""
        return None


class Listeners(Listener):
    """Several that hear the same; the first that has a place for checkpoints keeps them."""

    def __init__(self, *listeners: Listener) -> None:
        self._listeners = listeners

    def search(self, progress: "Progress") -> None:
        """Where a search stands."""
        for listener in self._listeners:
            listener.search(progress)

    def count(self, what: str, done: int, total: int) -> None:
        """So many of so many."""
        for listener in self._listeners:
            listener.count(what, done, total)

    def step(self, what: str, share: float) -> None:
        """A part of the work, and the share of it that is done."""
        for listener in self._listeners:
            listener.step(what, share)

    def download(self, what: str, done: int, total: int) -> None:
        """Bytes so far, and bytes in all."""
        for listener in self._listeners:
            listener.download(what, done, total)

    def findings(self, findings: "Findings", words: Callable[[int], dict[str, Any]]) -> None:
        """Some more findings, and what says one of them in words."""
        for listener in self._listeners:
            listener.findings(findings, words)

    def checkpoints(self) -> "Checkpoints | None":
        """Where an audit keeps what it needs to go on."""
        return next((place for listener in self._listeners if (place := listener.checkpoints()) is not None), None)


def perform(
    task: Task, listener: Listener, out: Path | None, *, data: Any = None, started: float | None = None
) -> dict[str, Any]:
    """Do a task; returns its summary. `data` are what it names, where they are at hand.

    `started` is when it began, on the clock of `time.perf_counter`.
    """
    data = task.data if data is None else data
    about: dict[str, Any] = {"model": task.model, "out": out, "on_download": listener.download, **task.given}
    if task.kind == "audit":
        from evenhand.runs.audit import audit

        about |= {"on_pairs": listener.findings, "checkpoints": listener.checkpoints(), "started": started}
        return audit(data, task.protected, on_progress=listener.search, **about).summary
    if task.kind == "measure":
        from evenhand.runs.measure import measure

        return measure(data, task.protected, on_progress=listener.count, **about).summary
    from evenhand.runs.repair import repair

    return repair(data, task.protected, on_step=listener.step, **about).summary
