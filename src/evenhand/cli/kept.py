"""Where a command's run is kept: in the storage that the service has too, or only as files in a folder."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from evenhand.cli.service import settings_from

if TYPE_CHECKING:
    from evenhand.data.dataset import Dataset
    from evenhand.runs.checkpoints import Checkpoints
    from evenhand.search.recorder import Findings
    from evenhand.service.commands import Command
    from evenhand.service.settings import Service
    from evenhand.service.storage.runs import Claim
    from evenhand.service.terminal import TerminalRun

KeptOut = Annotated[
    Path | None,
    typer.Option(
        "--out",
        help="Folder for the results; the run is then not kept for `evenhand runs`.",
        show_default="none: kept as a run",
    ),
]
NOT_INSTALLED = (
    'This run is not kept for later: `pip install "evenhand[service]"` adds `evenhand runs` and the service.'
)
SHORT = 8  # letters of an id that name a run


class Pairs(Protocol):
    """Who is told of findings in a table."""

    def reading(self, protected: list[str], unread: list[str]) -> None:
        """Which attributes they differ in, and which ones the model does not read."""

    def __call__(self, findings: "Findings") -> None:
        """Some more of them."""


class Nobody:
    """Hears of findings, and does not mind."""

    def reading(self, protected: list[str], unread: list[str]) -> None:
        """Nobody is told."""

    def __call__(self, findings: "Findings") -> None:
        """Nobody is told."""


class Place(Protocol):
    """What a command tells how its run goes, and gives the result to."""

    @property
    def folder(self) -> Path | None:
        """Where the files are written; None: none are."""

    @property
    def run(self) -> str | None:
        """The run's id; None: it is not kept."""

    def search(self, progress: Any) -> None:
        """Where a search stands."""

    def count(self, what: str, done: int, total: int) -> None:
        """So many of so many."""

    def step(self, what: str, share: float) -> None:
        """A part of the work, and the share of it that is done."""

    def pairs(self, data: "Dataset", protected: list[str]) -> Pairs:
        """Who is told of findings in a table."""

    def checkpoints(self) -> "Checkpoints | None":
        """Where an audit of a table keeps what it needs to go on after its process has died; None: it does not."""

    def keep(self, summary: dict[str, Any], texts: bool = False) -> Path | None:
        """The work is done; returns where the files are from now on."""


class Files:
    """A folder, and nobody who remembers it."""

    run = None

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def search(self, progress: Any) -> None:
        """Nobody is told."""

    def count(self, what: str, done: int, total: int) -> None:
        """Nobody is told."""

    def step(self, what: str, share: float) -> None:
        """Nobody is told."""

    def pairs(self, data: "Dataset", protected: list[str]) -> Pairs:  # noqa: ARG002
        """Nobody is told."""
        return Nobody()

    def checkpoints(self) -> None:
        """Nobody goes on with it."""

    def keep(self, summary: dict[str, Any], texts: bool = False) -> Path | None:  # noqa: ARG002
        """The files stay where they are."""
        return self.folder


def is_kept(out: Path | None, quiet: bool) -> bool:
    """Whether a run goes to the storage: unless a folder is named, or what the storage needs is not installed."""
    if out is not None:
        return False
    try:
        import fcntl  # noqa: F401 - where there is none, as on Windows, there is no service either

        import evenhand.service.terminal  # noqa: F401
    except ModuleNotFoundError as error:
        if not quiet and error.name != "fcntl":
            typer.echo(f"note: {NOT_INSTALLED}", err=True)
        return False
    return True


@contextmanager
def place_for(command: "Command", kept: bool, folder: Path | None) -> Iterator[Place]:
    """The place of a run that begins."""
    if not kept:
        yield Files(folder)
        return
    from evenhand.service.terminal import begin
    from evenhand.service.terminal_storage import saying_the_way_around

    def enter() -> "Claim":
        with saying_the_way_around():
            return begin(service, command)

    with storage() as service, done_here(service, enter) as run:
        yield run


@contextmanager
def done_here(service: "Service", enter: Callable[[], "Claim"], *, again: bool = False) -> Iterator["TerminalRun"]:
    """A run that this command does; what its end at the terminal does not show is said."""
    from evenhand.service.terminal import doing

    with doing(service, enter, again=again) as run:
        try:
            yield run
        except KeyboardInterrupt:
            if not run.is_kept:
                raise
            short = run.run[:SHORT]
            typer.echo(f"Stopped; the run {short} had ended before and is kept: evenhand runs show {short}", err=True)
            raise typer.Exit(130) from None
        finally:
            if run.cancelled_elsewhere:  # somebody at this terminal did not press Ctrl-C, and wonders
                typer.echo(f"The run {run.run[:SHORT]} was cancelled from elsewhere.", err=True)


@contextmanager
def storage() -> Iterator["Service"]:
    """The storage that $EVENHAND_HOME and $EVENHAND_DATABASE name; where it cannot be used, --out is the way around."""
    from evenhand.service.terminal_storage import opened, saying_the_way_around

    with saying_the_way_around():
        service = opened(settings_from(None, None))
    try:
        yield service
    finally:
        service.close()


def both(*listeners: Callable[..., None]) -> Callable[..., None]:
    """Tell several."""

    def tell(*said: Any) -> None:
        for listener in listeners:
            listener(*said)

    return tell


@dataclass(frozen=True)
class Done:
    """What came of a run, and where it is."""

    run: str | None  # its id; None: it is not kept
    folder: Path | None
    summary: dict[str, Any]

    @property
    def files(self) -> Path:
        """The folder of a run that has one."""
        assert self.folder is not None
        return self.folder

    def card(self) -> dict[str, Any]:
        """As --json prints it."""
        run = {} if self.run is None else {"run": self.run}
        return run | ({} if self.folder is None else {"folder": str(self.folder)}) | self.summary

    def print_run(self) -> None:
        """How to find it again."""
        if self.run is not None:
            typer.echo(f"run:    {self.run[:SHORT]}, kept: evenhand runs show {self.run[:SHORT]}")


def names_in(words: str | None) -> list[str]:
    """Names separated by commas."""
    return [] if words is None else [name.strip() for name in words.split(",")]
