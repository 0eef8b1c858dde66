"""What audits, measurements and repairs share on the command line: the data, where a run is stored, how it is done."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer

from evenhand.choices import Domain
from evenhand.cli.progress import CountDisplay, DownloadDisplay, LineDisplay, ProgressDisplay, StepDisplay
from evenhand.cli.service import settings_from
from evenhand.cli.settings_options import check_kind
from evenhand.errors import EvenhandError, unknown_name
from evenhand.runs.tasks import Listener, Listeners, Task, domain_of, perform
from evenhand.settings import SETTINGS, TaskName, foreign_words

if TYPE_CHECKING:
    from evenhand.local_runs.held_run import HeldRun
    from evenhand.search.search import Progress
    from evenhand.service.settings import Service
    from evenhand.service.storage.runs import Claim

RunOut = Annotated[
    Path | None,
    typer.Option(
        "--out",
        help="Folder for the results; the run is then not stored for `evenhand runs`.",
        show_default="none: stored as a run",
    ),
]
NOT_INSTALLED = 'This run is not stored: `pip install "evenhand[service]"` adds `evenhand runs` and the service.'
SHORT = 8  # letters of an id that name a run


def task_of(kind: TaskName, data: str, given: dict[str, Any]) -> Task:
    """What a command was asked to do; mistakes that can be known without reading the rows are said now."""
    domain = kind_of_data(kind, data, given)
    given = dict(given)
    protected, model = given.pop("protected", []), given.pop("model", None)
    if domain == "text" and not protected:
        from evenhand.choices import DEFAULT_LEXICON
        from evenhand.text.lexicon import load_lexicon

        words = load_lexicon(given.get("lexicon", DEFAULT_LEXICON))
        raise EvenhandError(
            f"Say which words are protected: --protected with one of {', '.join(words.attributes)} "
            f"(lexicon {words.name})."
        )
    if domain == "table" and not protected:
        from evenhand.data.dataset import load_schema

        protected = load_schema(data).protected
    # That a schema marks nothing, or that texts are asked about several attributes, is said where it matters.
    named = {"protected": protected[:1] or ["-"], "model": model}
    SETTINGS[kind][domain].checked(dataset=data, **given, **named)
    return Task(kind, data, protected, model, given, domain)


def kind_of_data(kind: TaskName, data: str, given: dict[str, Any]) -> Domain:
    """Whether the data are a table or texts; options for the other kind, and data that are neither, are refused."""
    from evenhand.data.dataset import builtin_names
    from evenhand.text.corpus import BUILTIN

    if "text" in given and (data in builtin_names() or data.endswith(".toml")):
        raise EvenhandError(foreign_words("text", "table", "--text"))
    domain = domain_of(data, given.get("text"))
    if domain == "table" and data not in builtin_names() and not data.endswith(".toml"):
        names = [*builtin_names(), *BUILTIN, "PATH/TO/SCHEMA.toml", "PATH/TO/TEXTS.csv"]
        raise unknown_name("data set", data, names)
    if domain == "text" and Path(data).suffix and given.get("text") is None and given.get("label") is None:
        raise EvenhandError(
            f"{data} is a file without a schema. For a table write one: `evenhand schema infer {data} --label COLUMN "
            f"-o {Path(data).stem}.toml`, then name that. For texts name the columns: --text COLUMN --label COLUMN."
        )
    check_kind(kind, domain, given)
    return domain


def one_data(argument: str | None, option: str | None) -> str:
    """What the data are, said as an argument or as --data."""
    if (argument is None) == (option is None):
        raise EvenhandError(
            "Name the data once, as the first argument or with --data: census, wiki, PATH/TO/SCHEMA.toml, …"
        )
    return argument or option or ""


class FilesOnly(Listener):
    """A folder, and nobody who remembers it."""

    run = None

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def keep(self, summary: dict[str, Any]) -> Path | None:  # noqa: ARG002 - as a run that is stored has it
        """The files stay where they are."""
        return self.folder


class TaskDisplay(Listener):
    """Shows on standard error how far a task is."""

    def __init__(self, task: Task, quiet: bool) -> None:
        title = task.label if task.kind == "audit" else Path(task.data).stem
        displays: dict[str, type[LineDisplay]] = {"audit": ProgressDisplay, "measure": CountDisplay}
        self._line: Any = displays.get(task.kind, StepDisplay)(
            f"{title}, repair" if task.kind == "repair" else title, quiet=quiet
        )
        self._downloads = DownloadDisplay(quiet)

    def search(self, progress: "Progress") -> None:
        """Where a search stands."""
        self._line(progress)

    def count(self, what: str, done: int, total: int) -> None:
        """So many of so many."""
        self._line(what, done, total)

    def step(self, what: str, share: float) -> None:
        """A part of the work, and the share of it that is done."""
        self._line(what, share)

    def download(self, what: str, done: int, total: int) -> None:
        """Bytes so far, and bytes in all."""
        self._downloads(what, done, total)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._downloads.__exit__(kind, error, trace)
        self._line.__exit__(kind, error, trace)


@dataclass(frozen=True)
class TaskResult:
    """What came of a task, and where it is."""

    run: str | None  # its id; None: it is not stored
    folder: Path | None
    summary: dict[str, Any]

    @property
    def files(self) -> Path:
        """The folder of a run that has one."""
        assert self.folder is not None
        return self.folder

    def as_dict(self) -> dict[str, Any]:
        """As --json prints it."""
        run = {} if self.run is None else {"run": self.run}
        return run | ({} if self.folder is None else {"folder": str(self.folder)}) | self.summary

    def print_run(self) -> None:
        """How to find it again."""
        if self.run is not None:
            typer.echo(f"run:    {self.run[:SHORT]}, stored: evenhand runs show {self.run[:SHORT]}")

    def print_json(self) -> None:
        """The summary for programs."""
        typer.echo(json.dumps(self.as_dict(), indent=2, ensure_ascii=False))


def do_task(task: Task, place: "FilesOnly | HeldRun", quiet: bool, started: float | None = None) -> TaskResult:
    """One task, shown as it goes; its time counts from `started`, on the clock of `time.perf_counter`."""
    with TaskDisplay(task, quiet) as display:
        summary = perform(task, Listeners(display, place), place.folder, started=started)
    return TaskResult(place.run, place.keep(summary), summary)


def is_storage_usable(out: Path | None, quiet: bool) -> bool:
    """Whether a run goes to the storage: unless a folder is named, or what the storage needs is not installed."""
    if out is not None:
        return False
    try:
        import fcntl  # noqa: F401 - where there is none, as on Windows, there is no service either

        import evenhand.local_runs.held_run  # noqa: F401
    except ModuleNotFoundError as error:
        if not quiet and error.name != "fcntl":
            typer.echo(f"note: {NOT_INSTALLED}", err=True)
        return False
    return True


@contextmanager
def place_for(task: Task, in_storage: bool, folder: Path | None) -> "Iterator[FilesOnly | HeldRun]":
    """The place of a run that begins."""
    if not in_storage:
        yield FilesOnly(folder)
        return
    from evenhand.local_runs.held_run import begin
    from evenhand.local_runs.storage import with_a_way_around

    def enter() -> "Claim":
        with with_a_way_around():
            return begin(service, task)

    with storage() as service, held_here(service, enter) as run:
        yield run


@contextmanager
def held_here(service: "Service", enter: Callable[[], "Claim"], *, again: bool = False) -> Iterator["HeldRun"]:
    """A run that this command does; what its end at the terminal does not show is said."""
    from evenhand.local_runs.held_run import doing

    with doing(service, enter, again=again) as run:
        try:
            yield run
        except KeyboardInterrupt:
            if not run.is_kept:
                raise
            short = run.run[:SHORT]
            typer.echo(f"Stopped; the run {short} had ended before and is stored: evenhand runs show {short}", err=True)
            raise typer.Exit(130) from None
        finally:
            if run.cancelled_elsewhere:  # somebody at this terminal did not press Ctrl-C, and wonders
                typer.echo(f"The run {run.run[:SHORT]} was cancelled from elsewhere.", err=True)


@contextmanager
def storage() -> Iterator["Service"]:
    """The storage that $EVENHAND_HOME and $EVENHAND_DATABASE name; where it cannot be used, --out is the way around."""
    from evenhand.local_runs.storage import opened, with_a_way_around

    with with_a_way_around():
        service = opened(settings_from(None, None))
    try:
        yield service
    finally:
        service.close()
