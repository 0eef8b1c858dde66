"""A run's page: as it goes, and what came of it; cancel, go on, delete; the report."""

from typing import Any

from fastapi import Response
from fastapi.responses import JSONResponse

from evenhand.errors import EvenhandError
from evenhand.report.charts import growth_points
from evenhand.report.groups import group_tables
from evenhand.report.repair import repair_sentences
from evenhand.report.sentences import (
    STOPPED,
    is_about_texts,
    is_not_tested,
    label_pair_texts,
    measured_parts,
    within_words,
)
from evenhand.report.words import interval_text, joined, percent
from evenhand.runs.measure_tables import SHORT, TEXT_SHORT, tables_of
from evenhand.service.api.errors import ApiError
from evenhand.service.api.runs import requeue_run, worker_request
from evenhand.service.pages.data import data_name, model_name
from evenhand.service.pages.new_audit import settings_link
from evenhand.service.pages.view import CurrentView, Deletion, View, redirect, router
from evenhand.service.pages.words import (
    FILE_WORDS,
    POPULATION_WORDS,
    phase_words,
    progress_words,
    requested,
    state_text,
)
from evenhand.service.requests import TERMINAL
from evenhand.service.storage.runs import OVER, STATES
from evenhand.service.storage.tables import Event, Run

PEOPLE = ("held_out", "train")  # rows of the data: those that the model has not learned from first
MOST_EVENTS = 500
MOST_CHILDREN = 100
RATES = (("uniform", "whole domain"), ("people", "held-out people"), ("remaining", "findings that remain"))


pages = router()


@pages.get("/runs/{run_id}")
def show(view: CurrentView, run_id: str) -> Response:
    """A run's own page."""
    run = view.run(run_id)
    live = run.state not in OVER
    values = _live(view, run) if live else _over(view, run)
    return view.page(
        "run", section="/runs", run=run, live=live, parent=_parent(view, run), children=_children(view, run),
        requested=requested(run, data_name(view.service, run), model_name(view.service, run)), file_words=FILE_WORDS,
        again=_again(run), **values,
    )  # fmt: skip


@pages.get("/runs/{run_id}/growth.json")
def growth(view: CurrentView, run_id: str) -> Response:
    """How findings grew, as a chart."""
    summary = view.summary(view.run(run_id))
    points = growth_points(summary) if summary is not None and "search" in summary else []
    lines = [
        {"name": "samples", "points": [[0, 0], *([tried, generated] for tried, generated, _ in points)]},
        {"name": "findings", "points": [[0, 0], *([tried, found] for tried, _, found in points)]},
    ]
    return JSONResponse({"title": "Findings over samples tried", "across": "samples tried", "lines": lines})


@pages.get("/runs/{run_id}/before_after.json")
def before_after(view: CurrentView, run_id: str) -> Response:
    """A repair's rates, as a chart."""
    return JSONResponse(_before_after(view.summary(view.run(run_id))))


@pages.get("/runs/{run_id}/report")
def report(view: CurrentView, run_id: str) -> Response:
    """The report in a frame without any rights."""
    run = view.run(run_id)
    if "report.html" not in view.files(run):
        raise ApiError("not-found", "This run has no report: it has not ended, or it ended without a result.")
    return view.page("report", section="/runs", run=run)


@pages.post("/runs/{run_id}/cancel")
def cancel(view: CurrentView, run_id: str) -> Response:
    """Cancel a run."""
    view.run(run_id)
    view.service.runs.cancel(run_id, view.project)
    return redirect(f"/runs/{run_id}")


@pages.post("/runs/{run_id}/resume")
def resume(view: CurrentView, run_id: str) -> Response:
    """Let a run that failed or was cancelled start again."""
    requeue_run(view, run_id)
    return redirect(f"/runs/{run_id}")


@pages.get("/runs/{run_id}/delete")
def ask_to_delete(view: CurrentView, run_id: str) -> Response:
    """Whether to delete a run."""
    return _deletion(view.run(run_id)).ask(view)


@pages.post("/runs/{run_id}/delete")
def delete(view: CurrentView, run_id: str) -> Response:
    """Delete a run and its files."""
    return _deletion(view.run(run_id)).do(view, lambda: view.service.delete_run(run_id, view.project))


def _deletion(run: Run) -> Deletion:
    words = "The run, its findings, its report and its models are removed from this service."
    return Deletion("/runs", f"/runs/{run.id}", run.title, words)


@pages.get("/runs/{run_id}/rates.json")
def rates(view: CurrentView, run_id: str, at: int = 0) -> Response:
    """The rates of one part of a measurement, as a chart."""
    summary = view.summary(view.run(run_id)) or {}
    found = measured_parts(summary)[at : at + 1] if "measured" in summary and at >= 0 else []
    groups = [
        {
            "name": _short(summary)[rate["name"]],
            "bars": [{"name": percent(rate["rate"], 2), "share": rate["rate"], "interval": rate["interval"]}],
        }
        for measured in found
        for rate in measured["populations"]
    ]
    title = f"Rates, changing {joined(found[0]['protected'])}" if found else "Rates"
    return JSONResponse({"title": title, "groups": groups})


def _measured_values(summary: dict[str, Any]) -> dict[str, Any]:
    """What the page of a measurement shows: each part in words and as tables, then the groups."""
    tested = measured_parts(summary)
    parts = [_part(summary, measured) for measured in tested]
    rest = tables_of(summary | {"measured": [], "notes": []})
    drawn = sum(rate.get("drawn", rate["samples"]) for one in tested for rate in one["populations"])
    return {"parts": parts, "rest": rest, "precision": _precision(summary["config"]), "drawn": drawn}


def _precision(config: dict[str, Any]) -> str:
    words = f"intervals of {100 * config['confidence']:g}% confidence"
    if "half_width" not in config:
        return words
    return f"{words} that are at most {200 * config['half_width']:g} percentage points wide"


def _part(summary: dict[str, Any], measured: dict[str, Any]) -> dict[str, Any]:
    """What was found by changing some attributes."""
    names, populations = joined(measured["protected"]), measured["populations"]
    alone = summary | {"measured": [measured], "findings": None, "groups": [], "notes": []}
    by_name = {rate["name"]: rate for rate in populations}
    leading = next((by_name[name] for name in (*PEOPLE, "uniform") if name in by_name), None)
    return {
        "name": names + (" together" if len(measured["protected"]) > 1 else ""),
        "leading": leading,
        "leading_name": "" if leading is None else _short(summary)[leading["name"]],
        "leading_sentence": "" if leading is None else _sentence(leading, measured["protected"], summary),
        "sentences": [_sentence(rate, measured["protected"], summary) for rate in populations],
        "tables": tables_of(alone) if populations else [],
    }


def _sentence(rate: dict[str, Any], names: list[str], summary: dict[str, Any]) -> str:
    """A rate in words: whose, of how many, with which interval, and who is favoured."""
    who = rate["population"] if rate["name"].startswith(PEOPLE) else f"samples drawn from {rate['population']}"
    words = (
        f"Of {rate['samples']:,} {who}, {rate['discriminatory']:,} get another decision when nothing but "
        f"{joined(names)} {'are' if len(names) > 1 else 'is'} changed: {percent(rate['rate'], 2)} "
        f"({rate['confidence']:.0%} interval {interval_text(rate['interval'])})."
    )
    if rate.get("label_pairs"):
        return " ".join([words, *(text for pair in rate["label_pairs"] for text in label_pair_texts(pair))])
    favoured = [one for one in rate["direction"] if one["favoured"] is not None]
    return words + "".join(
        f" Among these, ‘{summary['favourable']}’ goes most often to {one['favoured']}, least often to {one['loses']}."
        for one in favoured
    )


def _short(summary: dict[str, Any]) -> dict[str, str]:
    return TEXT_SHORT if summary.get("domain") == "text" else SHORT


def _live(view: View, run: Run) -> dict[str, Any]:
    events = view.service.runs.events(run.id, limit=MOST_EVENTS)
    return {
        "progress": progress_words(run),
        "phase_words": phase_words(run),
        "population_words": POPULATION_WORDS,
        "states": {state: state_text(state, run.place) for state in STATES},
        "pairs": _pairs(events),
        "resumed": next((event.data for event in reversed(events) if event.kind == "resumed"), None),
        "last_event": events[-1].id if events else 0,
        "summary": None,
        "files": {},
        "inner": None,
    }


def _pairs(events: list[Event]) -> list[dict[str, Any]]:
    """The example pairs, which are told once for the whole run, however often it is taken up."""
    return [event.data for event in events if event.kind == "pair"]


def _over(view: View, run: Run) -> dict[str, Any]:
    summary, files = view.summary(run), view.files(run)
    texts = is_about_texts(summary or {})
    values: dict[str, Any] = {"summary": summary, "files": files, "inner": None, "texts": texts, "from_here": False}
    if summary is None:
        return values
    values["protected_words"] = joined(summary["protected"])
    values["not_tested"] = is_not_tested(summary)
    values["from_here"] = (
        run.kind == "audit" and run.state == "done" and worker_request(run) is not None
    )  # a repair, a measurement
    if run.kind == "measure":
        values |= _measured_values(summary)
    elif texts:
        values["headline"] = (run.result or {}).get("headline", "")
    elif run.kind == "audit":
        values |= {
            "growth": growth_points(summary),
            "stopped_words": STOPPED[summary["search"]["stopped"]],
            "within": within_words(summary),
            "groups": group_tables(summary),
        }
    elif run.kind == "repair":
        rows = {row["name"]: row for row in summary["rows"]}
        values |= {
            "chosen": rows.get(summary["chosen"] or ""),
            "sentences": repair_sentences(summary),
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


def _children(view: View, run: Run) -> list[Run]:
    """The newest repairs and measurements that began from this run."""
    if run.kind != "audit":
        return []
    return view.service.runs.newest(run.project, parent=run.id, limit=MOST_CHILDREN)


def _again(run: Run) -> str:
    """Where the settings of a run can be changed; nowhere where only a terminal has its data."""
    if TERMINAL in run.config:
        return ""
    if run.kind in ("repair", "measure") and run.parent is not None:
        return f"/runs/{run.parent}/{run.kind}"
    return settings_link(run.kind, run.config)
