"""The start page, the list of runs, and the settings with the files that were uploaded."""

import platform
from datetime import datetime

from fastapi import Response

import evenhand
from evenhand.report.words import duration
from evenhand.service.api.caller import read_place
from evenhand.service.api.errors import ApiError
from evenhand.service.pages.view import CurrentView, Deletion, View, link, router
from evenhand.service.pages.words import STATE_WORDS
from evenhand.service.storage.tables import DataFile, ModelFile
from evenhand.service.storage.uploads import size_text

LATEST = 8
PER_PAGE = 50
KINDS = ("audit", "measure", "repair")


pages = router()


@pages.get("/")
def start(view: CurrentView) -> Response:
    """The start page."""
    return view.page("start", runs=view.service.runs.newest(view.project, limit=LATEST))


@pages.get("/runs")
def all_runs(view: CurrentView, state: str = "", kind: str = "", after: str = "") -> Response:
    """All runs, a page at a time."""
    state, kind = state if state in STATE_WORDS else "", kind if kind in KINDS else ""
    found = view.service.runs.newest(
        view.project, state=state or None, kind=kind or None, after=_after(after), limit=PER_PAGE + 1
    )
    shown = found[:PER_PAGE]
    last = f"{shown[-1].created.isoformat()} {shown[-1].id}" if len(found) > PER_PAGE else None
    older = link("/runs", state=state, kind=kind, after=last) if last else None
    return view.page("runs", section="/runs", runs=shown, chosen_state=state, chosen_kind=kind, older=older)


@pages.get("/settings")
def show_settings(view: CurrentView) -> Response:
    """What was uploaded, and how the service runs."""
    assets = view.service.assets
    return view.page(
        "settings", section="/settings", facts=_facts(view), datasets=assets.datasets(view.project, limit=500),
        models=assets.models(view.project, limit=500),
    )  # fmt: skip


@pages.get("/settings/{kind}/{known_as}/delete")
def ask_to_delete(view: CurrentView, kind: str, known_as: str) -> Response:
    """Whether to delete an upload."""
    return _deletion(view, kind, known_as).ask(view)


@pages.post("/settings/{kind}/{known_as}/delete")
def delete(view: CurrentView, kind: str, known_as: str) -> Response:
    """Delete an upload, unless a run needs it."""
    assets = view.service.assets
    remove = assets.delete_dataset if kind == "datasets" else assets.delete_model
    return _deletion(view, kind, known_as).do(view, lambda: remove(known_as, view.project))


def _deletion(view: View, kind: str, known_as: str) -> Deletion:
    words = "The file is removed from this service. Runs that used it keep their results."
    item = _item(view, kind, known_as)
    return Deletion("/settings", f"/settings/{kind}/{item.id}", item.name, words, back="/settings")


def _item(view: View, kind: str, known_as: str) -> DataFile | ModelFile:
    if kind not in ("datasets", "models"):
        raise ApiError("not-found", f"There is no page about {kind[:40]}.")
    return view.dataset(known_as) if kind == "datasets" else view.model(known_as)


def _after(text: str) -> tuple[datetime, str] | None:
    """The last run of the page before; what is no such thing begins at the newest."""
    created, _, run_id = text.partition(" ")
    try:
        return read_place(created, run_id)
    except ValueError:
        return None


def _facts(view: View) -> list[tuple[str, str]]:
    """How the service runs, for its admins; the database's password is never shown."""
    if not view.may("admin"):
        return []
    settings, database = view.service.settings, view.service.database
    return [
        ("Version", f"evenhand {evenhand.__version__}, Python {platform.python_version()}"),
        ("Files", str(view.service.home.path)),
        ("Database", database.url.render_as_string(hide_password=True)),
        ("Largest table", size_text(settings.upload_limit)),
        ("Largest model", size_text(settings.model_limit)),
        ("Memory of a run", size_text(settings.run_memory)),
        ("Processor time of a run", duration(settings.run_seconds)),
        ("Accounts", "people sign in" if settings.accounts else "none: only this machine can reach the service"),
    ]
