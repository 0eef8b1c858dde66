"""A run's page: as it goes, and what came of it; cancel, go on, delete; the report."""

from pathlib import Path
from typing import Any

from fastapi import Response
from fastapi.responses import JSONResponse

from evenhand.errors import EvenhandError
from evenhand.files import read_json
from evenhand.report.page import growth_points
from evenhand.report.repair_page import sentences
from evenhand.report.text import STOPPED, joined
from evenhand.service.api.errors import ApiError, otherwise
from evenhand.service.pages.subjects import data_name, model_name
from evenhand.service.pages.view import Asked, View, link, router, see
from evenhand.service.pages.words import FILE_WORDS, PHASE_WORDS, asked, progress_words
from evenhand.service.storage.runs import OVER
from evenhand.service.storage.tables import Event, Run

MOST_EVENTS = 500
HIDDEN_FILES = ("findings.index",)
RATES = (("uniform", "whole domain"), ("people", "held-out people"), ("remaining", "findings that remain"))


pages = router()


@pages.get("/runs/{run_id}")
def show(view: Asked, run_id: str) -> Response:
    """A run's own page."""
    run = view.run(run_id)
    live = run.state not in OVER
    values = _live(view, run) if live else _over(view, run)
    return view.page(
        "run", section="/runs", run=run, live=live, parent=_parent(view, run), repairs=_repairs(view, run),
        asked=asked(run, data_name(view.service, run), model_name(view.service, run)), file_words=FILE_WORDS,
        again=_again(run), **values,
    )  # fmt: skip


@pages.get("/runs/{run_id}/growth.json")
def growth(view: Asked, run_id: str) -> Response:
    """How findings grew, as a chart."""
    summary = summary_of(view, view.run(run_id))
    points = growth_points(summary) if summary is not None and "search" in summary else []
    lines = [
        {"name": "samples", "points": [[0, 0], *([tried, generated] for tried, generated, _ in points)]},
        {"name": "findings", "points": [[0, 0], *([tried, found] for tried, _, found in points)]},
    ]
    return JSONResponse({"title": "Findings over samples tried", "across": "samples tried", "lines": lines})


@pages.get("/runs/{run_id}/before_after.json")
def before_after(view: Asked, run_id: str) -> Response:
    """A repair's rates, as a chart."""
    return JSONResponse(_before_after(summary_of(view, view.run(run_id))))


@pages.get("/runs/{run_id}/report")
def report(view: Asked, run_id: str) -> Response:
    """The report in a frame without any rights."""
    run = view.run(run_id)
    if "report.html" not in files_of_run(view, run):
        raise ApiError("not-found", "This run has no report: it has not ended, or it ended without a result.")
    return view.page("report", section="/runs", run=run)


@pages.post("/runs/{run_id}/cancel")
def cancel(view: Asked, run_id: str) -> Response:
    """Wish that a run ends."""
    view.run(run_id)
    view.service.runs.cancel(run_id, view.project)
    return see(f"/runs/{run_id}")


@pages.post("/runs/{run_id}/resume")
def resume(view: Asked, run_id: str) -> Response:
    """Let a run that failed or was cancelled start again."""
    view.run(run_id)
    with otherwise("conflict"):
        view.service.runs.resume(run_id, view.project)
    return see(f"/runs/{run_id}")


def _deleting(view: View, run: Run, error: str | None) -> Response:
    """The question, with what stood in the way the last time."""
    return view.page(
        "delete", section="/runs", status=409 if error else 200, name=run.title, error=error,
        consequence="The run, its findings, its report and its models are removed from this service.",
        address=f"/runs/{run.id}/delete", back=f"/runs/{run.id}",
    )  # fmt: skip


@pages.get("/runs/{run_id}/delete")
def ask_to_delete(view: Asked, run_id: str) -> Response:
    """Whether to delete a run."""
    return _deleting(view, view.run(run_id), None)


@pages.post("/runs/{run_id}/delete")
def delete(view: Asked, run_id: str) -> Response:
    """Delete a run and its files."""
    run = view.run(run_id)
    try:
        view.service.delete_run(run_id, view.project)
    except EvenhandError as error:
        return _deleting(view, run, str(error))
    return see("/runs")


def summary_of(view: View, run: Run) -> dict[str, Any] | None:
    """The summary that a finished run wrote; None where it is not there."""
    path = view.service.home.run(run.id) / "summary.json"
    try:
        return read_json(path) if run.state == "done" and path.is_file() else None
    except EvenhandError:
        return None


def files_of_run(view: View, run: Run) -> dict[str, int]:
    """The files of a finished run with their sizes, the report first."""
    folder: Path = view.service.home.run(run.id)
    if run.state != "done" or not folder.is_dir():
        return {}
    found = [path for path in folder.iterdir() if path.is_file() and path.name not in HIDDEN_FILES]
    order = list(FILE_WORDS)
    found.sort(key=lambda path: (order.index(path.name) if path.name in order else len(order), path.name))
    return {path.name: path.stat().st_size for path in found if not path.name.startswith(".")}


def _live(view: View, run: Run) -> dict[str, Any]:
    events = view.service.runs.events(run.id, limit=MOST_EVENTS)
    return {
        "progress": progress_words(run),
        "phase_words": PHASE_WORDS,
        "pairs": _pairs(events),
        "last_event": events[-1].id if events else 0,
        "summary": None,
        "files": {},
        "inner": None,
    }


def _pairs(events: list[Event]) -> list[dict[str, Any]]:
    """The example pairs of the latest attempt: one that begins anew finds them again."""
    started = max((event.id for event in events if event.kind == "started"), default=0)
    return [event.data for event in events if event.kind == "pair" and event.id > started]


def _over(view: View, run: Run) -> dict[str, Any]:
    summary, files = summary_of(view, run), files_of_run(view, run)
    values: dict[str, Any] = {"summary": summary, "files": files, "inner": None}
    if summary is None:
        return values
    values["protected_words"] = joined(summary["protected"])
    if run.kind == "audit":
        values |= {"growth": growth_points(summary), "stopped_words": STOPPED[summary["search"]["stopped"]]}
    elif run.kind == "repair":
        rows = {row["name"]: row for row in summary["rows"]}
        values |= {
            "chosen": rows.get(summary["chosen"] or ""),
            "sentences": sentences(summary),
            "inner": next((name for name in files if name.startswith("model.inner.")), None),
        }
    return values


def _before_after(summary: dict[str, Any] | None) -> dict[str, Any]:
    """Bars for each rate, before and after."""
    groups: list[dict[str, Any]] = []
    rows = {row["name"]: row for row in (summary or {}).get("rows", [])}
    chosen = rows.get((summary or {}).get("chosen") or "")
    for key, name in RATES:
        before, after = rows.get("original", {}).get(key), (chosen or {}).get(key)
        if before and after:
            bars = [("before", before), ("after", after)]
            groups.append(
                {
                    "name": name,
                    "bars": [
                        {"name": word, "share": rate["rate"], "interval": rate["interval"]} for word, rate in bars
                    ],
                }
            )
    return {"title": "Before and after", "groups": groups}


def _parent(view: View, run: Run) -> Run | None:
    if run.parent is None:
        return None
    try:
        return view.service.runs.get(run.parent, run.project)
    except EvenhandError:
        return None


def _repairs(view: View, run: Run) -> list[Run]:
    """The newest repairs that began from this run."""
    if run.kind != "audit":
        return []
    return [one for one in view.service.runs.newest(run.project, kind="repair", limit=200) if one.parent == run.id]


def _again(run: Run) -> str:
    """Where the settings of a run can be changed."""
    if run.kind == "repair" and run.parent is not None:
        return f"/runs/{run.parent}/repair"
    protected = run.config.get("protected") or []
    return link("/new/model", data=run.config.get("dataset"), protected=protected, model=run.config.get("model"))
