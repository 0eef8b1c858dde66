"""`evenhand runs`: the runs of this machine's commands and of its service, and what can be done to them."""

import json
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenhand.cli.accounts import confirm
from evenhand.cli.options import Json
from evenhand.cli.printing import print_facts
from evenhand.cli.resume import resume_here
from evenhand.cli.run_facts import event_words, result_words, settings_words
from evenhand.cli.service import DatabaseUrl, HomeFolder, opened, settings_from
from evenhand.cli.stored_runs import check_storage_exists, holds_nothing, run_named
from evenhand.errors import unknown_name

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from sqlalchemy.orm import Session

    from evenhand.service.settings import Service
    from evenhand.service.storage.tables import Event, Run

runs_app = typer.Typer(
    no_args_is_help=True,
    help="Stored runs: evenhand runs list, show, resume, cancel, delete.",
)
LAST_EVENTS = 10

RunId = Annotated[
    str, typer.Argument(help="The run's id, or as much of its beginning as names one run.", metavar="RUN")
]
WantedState = Annotated[
    str | None, typer.Option("--state", help="Only runs that are queued, running, done …", show_default=False)
]
WantedKind = Annotated[str | None, typer.Option("--kind", help="Only audit, measure or repair.", show_default=False)]
Most = Annotated[int, typer.Option("--limit", help="How many, the newest first.", min=1, max=10_000)]


@runs_app.command("list")
def list_runs(
    state: WantedState = None,
    kind: WantedKind = None,
    limit: Most = 20,
    home: HomeFolder = None,
    database: DatabaseUrl = None,
    as_json: Json = False,
) -> None:
    """List the runs, the newest first.

    Example:  evenhand runs list --state failed
    """
    settings = settings_from(home, database)
    _check_filters(state, kind)
    found: list[Run] = []
    if not holds_nothing(settings):
        with opened(settings) as service:
            found = service.runs.newest(state=state, kind=kind, limit=limit)
    if as_json:
        _print_json([_card(run) for run in found])
    elif not found:
        only = "" if state is None and kind is None else " of that kind"
        typer.echo(f"There are no runs{only} in {settings.home}. `evenhand audit` makes one.")
    else:
        _print_list(found)


@runs_app.command("show")
def show_run(run: RunId, home: HomeFolder = None, database: DatabaseUrl = None, as_json: Json = False) -> None:
    """Show one run: what was asked for, where it stands, what came out, where its files are.

    Example:  evenhand runs show 3f2a
    """
    with _there(home, database) as service:
        found = run_named(service, run)
        events = service.runs.events(found.id, limit=10_000)
        folder = service.home.run(found.id)
        files = sorted(path.name for path in folder.iterdir() if path.is_file()) if folder.is_dir() else []
    if as_json:
        card = _card(found) | {"config": found.config, "folder": str(folder), "files": files}
        _print_json(card | {"events": [_event_card(event) for event in events]})
        return
    _print_run(found, str(folder), files, events)


@runs_app.command("resume")
def resume_run(run: RunId, home: HomeFolder = None, database: DatabaseUrl = None, as_json: Json = False) -> None:
    """Go on with a run that failed, was cancelled or was interrupted.

    One that was started in a terminal is done here and now, with the same settings and in the folder it was started
    from; one of the service waits for a worker again. An audit goes on from its last checkpoint, where it has one.

    Example:  evenhand runs resume 3f2a
    """
    with _there(home, database) as service:
        found = run_named(service, run)
        if found.place == "terminal":
            resume_here(service, found, as_json)
            return
        changed = service.runs.resume(found.id, check=_holding(service))
    _print_json(_card(changed)) if as_json else typer.echo(f"{changed.id} waits for a worker.")


@runs_app.command("cancel")
def cancel_run(run: RunId, home: HomeFolder = None, database: DatabaseUrl = None, as_json: Json = False) -> None:
    """End a run that waits, or ask whoever does one that is running to end it; what was found is kept.

    Example:  evenhand runs cancel 3f2a
    """
    from evenhand.service.run_folder import tidy

    with _there(home, database) as service:
        found = run_named(service, run)
        changed = service.runs.cancel(found.id)
        if found.state == "interrupted":  # whoever did it cannot, and there need not be a worker
            tidy(service.home.run(found.id), service.runs)
    words = "will end soon" if changed.state == "cancelling" else f"is {changed.state}"
    _print_json(_card(changed)) if as_json else typer.echo(f"{changed.id} {words}.")


@runs_app.command("delete")
def delete_run(
    run: RunId,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    home: HomeFolder = None,
    database: DatabaseUrl = None,
    as_json: Json = False,
) -> None:
    """Delete a run with all its files, for good.

    Example:  evenhand runs delete 3f2a
    """
    with _there(home, database) as service:
        found = run_named(service, run)
        if not yes and not as_json:
            confirm(f"Delete {found.id} ({found.title}) and all its files?")
        service.delete_run(found.id)
    _print_json({"deleted": found.id}) if as_json else typer.echo(f"{found.id} is deleted.")


def _there(home: Path | None, database: str | None) -> "AbstractContextManager[Service]":
    """The service of a place that has one: to look for a run must not make a storage."""
    settings = settings_from(home, database)
    check_storage_exists(settings)
    return opened(settings)


def _holding(service: "Service") -> "Callable[[Session, Run], None]":
    """Refuse a run whose uploads are not there any more, as the service does, instead of letting it fail later."""

    def check(session: "Session", run: "Run") -> None:
        service.assets.hold(session, run.project, run.config)

    return check


def _check_filters(state: str | None, kind: str | None) -> None:
    from evenhand.service.storage.runs import STATES

    if state is not None and state not in STATES:
        raise unknown_name("state", state, STATES)
    if kind is not None and kind not in ("audit", "measure", "repair"):
        raise unknown_name("kind of run", kind, ("audit", "measure", "repair"))


def _print_list(runs: "list[Run]") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("run", "kind", "state", "place", "made", "title"):
        table.add_column(heading, no_wrap=heading != "title", overflow="fold")
    for run in runs:
        state, made = f"{_state(run)} {_progress(run)}".strip(), _moment(run.created)[:-3]
        cells = (run.id[:8], run.kind, state, run.place, made, run.title)
        table.add_row(*map(Text, cells))
    Console(highlight=False).print(table)


def _print_run(run: "Run", folder: str, files: list[str], events: "list[Event]") -> None:
    from rich.console import Console

    facts = [
        ("run", run.id),
        ("title", run.title),
        ("kind", run.kind),
        ("state", _state(run)),
        ("progress", _progress(run)),
        ("made", _moment(run.created)),
        ("started", _moment(run.started)),
        ("ended", _moment(run.finished)),
        ("place", _place(run)),
        ("attempts", str(run.attempts)),
        ("done by", run.worker or ""),
        ("error", run.error or ""),
        ("asked for", settings_words(run.kind, run.config)),
        ("result", result_words(run.result) if run.result else ""),
        ("folder", folder if files else ""),
        ("files", ", ".join(files)),
        *((_moment(at), words) for at, words in event_words(events)[-LAST_EVENTS:]),
    ]
    print_facts(Console(highlight=False), [(name, value) for name, value in facts if value])


def _state(run: "Run") -> str:
    """The state, and whether the result has to be read with care: nothing was tested, or there is a warning."""
    result = run.result or {}
    if result.get("status") == "not tested":
        return f"{run.state}, not tested"
    return f"{run.state}, warned" if result.get("warnings") else run.state


def _place(run: "Run") -> str:
    """Who does it, and from where."""
    started = run.config.get("terminal", {}).get("folder")
    return run.place if started is None else f"{run.place}, started in {started}"


def _progress(run: "Run") -> str:
    done, total = run.progress.get("done"), run.progress.get("total")
    if run.state not in ("running", "cancelling") or not isinstance(done, int | float):
        return ""
    return f"{done / total:.0%}" if isinstance(total, int | float) and total else f"{done:,}"


def _moment(moment: datetime | None) -> str:
    return "" if moment is None else moment.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _card(run: "Run") -> dict[str, Any]:
    moments = {"created": run.created, "started": run.started, "finished": run.finished}
    return {
        **{name: getattr(run, name) for name in ("id", "project", "kind", "title", "parent", "state", "progress")},
        **{name: getattr(run, name) for name in ("result", "error", "attempts", "worker", "place")},
        **{name: None if moment is None else moment.isoformat() for name, moment in moments.items()},
    }


def _event_card(event: "Event") -> dict[str, Any]:
    return {"id": event.id, "at": event.at.isoformat(), "kind": event.kind, "data": event.data}


def _print_json(content: Any) -> None:
    typer.echo(json.dumps(content, indent=2, ensure_ascii=False))
