"""Two audits side by side."""

from typing import Any

from fastapi import Response
from fastapi.responses import JSONResponse

from evenhand.errors import EvenhandError
from evenhand.report.sentences import NOT_TESTED, changed_text, is_about_texts, is_not_tested, within_words
from evenhand.report.words import interval_text, joined, percent
from evenhand.service.pages.view import CurrentView, View, router
from evenhand.service.storage.tables import Run

MOST_CHOICES = 200
FIRST_FIGURE = {False: "People in the data affected", True: "Texts in the data affected"}  # by whether it is texts


pages = router()


@pages.get("/compare")
def compare(view: CurrentView, a: str = "", b: str = "") -> Response:
    """Two audits to choose, and what they have to say."""
    audits = view.service.runs.newest(view.project, state="done", kind="audit", limit=MOST_CHOICES)
    errors: dict[str, str] = {"a": "", "b": ""}
    chosen = {field: _summary(view, known_as, errors, field) for field, known_as in (("a", a), ("b", b))}
    if a and a == b:
        errors["b"] = "Choose a run other than the first."
    rows: list[tuple[str, str, str]] = []
    one, other = chosen["a"], chosen["b"]
    if one is not None and other is not None and is_about_texts(one[1]) != is_about_texts(other[1]):
        errors["b"] = "Choose two audits of tables, or two of texts: one of each has nothing to compare."
    if one is not None and other is not None and not any(errors.values()):
        rows = _rows(one[1], other[1])
    return view.page(
        "compare", section="/compare", status=400 if any(errors.values()) else 200, audits=audits,
        first=a, second=b, errors=errors, rows=rows, both=[one[0], other[0]] if rows and one and other else [],
        differs=_differs(one[1], other[1]) if rows and one and other else "",
        chart=not any(is_not_tested(found[1]) for found in (one, other) if found is not None),
    )  # fmt: skip


@pages.get("/compare.json")
def compare_chart(view: CurrentView, a: str = "", b: str = "") -> Response:
    """The shares of people affected, as a chart."""
    groups = []
    for name, known_as in (("first", a), ("second", b)):
        found = _summary(view, known_as, {}, name)
        if found is not None and not is_not_tested(found[1]):
            rate = _leading(found[1])
            bar = {"name": percent(rate["rate"], 2), "share": rate["rate"], "interval": rate["interval"]}
            groups.append({"name": f"{name}: {found[0].title}", "bars": [bar]})
    return JSONResponse({"title": "Share of the data that is affected", "groups": groups})


def _summary(view: View, known_as: str, errors: dict[str, str], field: str) -> tuple[Run, dict[str, Any]] | None:
    """An audit and its summary; what is wrong is kept beside its field."""
    if not known_as:
        return None
    try:
        run = view.run(known_as)
    except EvenhandError as error:
        errors[field] = str(error)
        return None
    summary = view.summary(run)
    if run.kind != "audit" or run.state != "done" or summary is None:
        errors[field] = "Choose an audit that is done."
        return None
    return run, summary


def _rows(one: dict[str, Any], other: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(name, first, second) for (name, first), (_, second) in zip(_facts(one), _facts(other), strict=True)]


def _leading(summary: dict[str, Any]) -> dict[str, Any]:
    """The rate that is compared: of all people, or of texts that the model did not learn from."""
    rates = summary["data_rate"]
    return next(rates[name] for name in ("all", "held_out", *rates) if name in rates)


def _facts(summary: dict[str, Any]) -> list[tuple[str, str]]:
    search, rate, config = summary["search"], _leading(summary), summary["config"]
    texts = is_about_texts(summary)
    who, samples = ("texts", "texts") if texts else ("people", "samples")
    facts = [
        ("Data", f"{summary['dataset']['title']}, {summary['dataset']['rows']:,} rows"),
        ("Model", summary["model"]["name"]),
        ("Changed", changed_text(summary)),
        (FIRST_FIGURE[texts], percent(rate["rate"], 2)),
        ("95% interval", interval_text(rate["interval"])),
        ("Findings", f"{search['findings']['total']:,}"),
        (f"Generated {samples}", f"{search['generated']['total']:,}"),
        (f"Share of generated {samples}", percent(search["success_rate"])),
        ("Seeds with a finding", f"{search['seeds_with_findings']:,} of {search['seeds']:,}"),
        ("Method", config["method"]),
        ("Effort", f"{config['seeds']:,} {who}, {config['steps']:,} steps"),
        ("Findings per second", f"{search['findings_per_second']:,}"),
    ]
    if not is_not_tested(summary):
        return facts
    first = [name for name, _ in facts].index(FIRST_FIGURE[texts])  # a share of 0 would read as one that was measured
    return facts[:first] + [(name, NOT_TESTED) for name, _ in facts[first:]]


def _differs(one: dict[str, Any], other: dict[str, Any]) -> str:
    """A warning where a difference of figures may not be one of the models."""
    if is_not_tested(one) or is_not_tested(other):
        return "A run was not tested, since its model does not read what would be changed: there is nothing to compare."
    names = (("dataset", "data"), ("protected", "protected columns"))
    what = [words for key, words in names if one[key] != other[key]]
    if within_words(one) != within_words(other):
        what.append("how far from their own values people are compared")
    if any(one["config"][key] != other["config"][key] for key in ("seeds", "steps", "method")):
        what.append("effort")
    if not what:
        return ""
    return (
        f"The two runs differ in {joined(what)}, so their numbers of findings do not say which model discriminates "
        "more. The share of the data that is affected can be compared where the data are the same."
    )
