"""A measurement: asked for from an audit that is done, and shown as rates with their intervals."""

from typing import Any

from fastapi import Response
from fastapi.responses import JSONResponse

from evenhand.errors import EvenhandError
from evenhand.report.sentences import label_pair_texts, measured_parts
from evenhand.report.words import interval_text, joined, percent
from evenhand.runs.measure_tables import SHORT, TEXT_SHORT, tables_of
from evenhand.service.api.errors import ApiError
from evenhand.service.api.runs import create_run, from_audit
from evenhand.service.pages.view import CurrentView, Form, View, field_of, is_short_number, redirect, router
from evenhand.service.requests import request_of
from evenhand.service.storage.tables import Run

PRECISIONS: dict[str, dict[str, Any]] = {
    "rough": {
        "name": "Roughly", "about": "Intervals are at most 4 percentage points wide. Quickest.", "half_width": 0.02,
    },
    "usual": {
        "name": "As usual", "about": "At most 1 percentage point wide.", "half_width": 0.005,
    },
    "fine": {
        "name": "Finely", "about": "At most a fifth of a percentage point wide; up to 25 times the usual work.",
        "half_width": 0.001,
    },
}  # fmt: skip
CONFIDENCES = {"0.9": "90%", "0.95": "95%", "0.99": "99%"}
MOST_CHANGES = 1000
PEOPLE = ("held_out", "train")  # rows of the data: those that the model has not learned from first
Summary = dict[str, Any]

pages = router()


def _measure_page(view: View, run: Run, form: dict[str, str], errors: dict[str, str]) -> Response:
    """The form with its answers."""
    protected = (run.result or {}).get("protected") or run.config.get("protected") or ["the protected columns"]
    return view.page(
        "measure", section="/runs", status=400 if errors else 200, run=run, form=form, errors=errors,
        precisions=PRECISIONS, confidences=CONFIDENCES, protected_words=joined(list(protected)),
        several=len(protected) > 1,
    )  # fmt: skip


@pages.get("/runs/{run_id}/measure")
def choose(view: CurrentView, run_id: str) -> Response:
    """How precisely to measure."""
    audit, _ = _audit(view, run_id)
    return _measure_page(view, audit, {"precision": "usual", "confidence": "0.95", "changes": "2"}, {})


@pages.post("/runs/{run_id}/measure")
def begin(view: CurrentView, form: Form, run_id: str) -> Response:
    """Start the measurement, or show the form again."""
    audit, same = _audit(view, run_id)
    answers = {name: field_of(form, name) for name in ("precision", "confidence", "changes")}
    errors = {}
    if answers["precision"] not in PRECISIONS:
        errors["precision"] = "Choose how precisely to measure."
    if answers["confidence"] not in CONFIDENCES:
        errors["confidence"] = "Choose a confidence."
    if not is_short_number(answers["changes"]) or not 1 <= int(answers["changes"]) <= MOST_CHANGES:
        errors["changes"] = f"Write a whole number from 1 to {MOST_CHANGES:,}."
    if errors:
        return _measure_page(view, audit, answers, errors)
    config = same | {
        "half_width": PRECISIONS[answers["precision"]]["half_width"], "confidence": float(answers["confidence"]),
        "changes": int(answers["changes"]),
    }  # fmt: skip
    try:
        made = create_run(view.caller, "measure", request_of("measure", config), parent=audit)
    except EvenhandError as error:
        return _measure_page(view, audit, answers, {"": str(error)})
    return redirect(f"/runs/{made.id}")


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


def _audit(view: View, run_id: str) -> tuple[Run, dict[str, Any]]:
    audit, same = from_audit(view.caller, run_id, "measurement")
    if audit.state != "done":
        raise ApiError("conflict", "A measurement begins from an audit that is done.")
    return audit, same


def measured_values(summary: Summary) -> dict[str, Any]:
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


def _part(summary: Summary, measured: dict[str, Any]) -> dict[str, Any]:
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


def _sentence(rate: dict[str, Any], names: list[str], summary: Summary) -> str:
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


def _short(summary: Summary) -> dict[str, str]:
    return TEXT_SHORT if summary.get("domain") == "text" else SHORT
