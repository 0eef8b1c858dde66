"""What can be asked for from an audit that is done: a repaired model, or a measurement."""

from dataclasses import dataclass, replace
from typing import Any

from fastapi import Response

from evenhand.errors import EvenhandError
from evenhand.report.words import joined
from evenhand.service.api.errors import ApiError
from evenhand.service.api.runs import audit_settings, create_run
from evenhand.service.pages.forms import Form, FormError, field_of, request_from, typed, usual
from evenhand.service.pages.view import CurrentView, View, redirect, router
from evenhand.service.requests import NOUNS, domain_of_config
from evenhand.service.storage.tables import Run

PRECISIONS: dict[str, dict[str, Any]] = {
    "rough": {
        "name": "Roughly", "about": "Intervals are at most 4 percentage points wide. Quickest.", "half_width": 0.02,
    },
    "usual": {
        "name": "As usual", "about": "At most 1 percentage point wide.", "half_width": usual("measure", "half_width"),
    },
    "fine": {
        "name": "Finely", "about": "At most a fifth of a percentage point wide; up to 25 times the usual work.",
        "half_width": 0.001,
    },
}  # fmt: skip
CONFIDENCES = {"0.9": "90%", "0.95": "95%", "0.99": "99%"}
NUMBERS = ("repeats", "seeds", "steps")  # of the form of a repair


@dataclass(frozen=True)
class Way:
    """A repair in the words of its page."""

    value: str
    name: str
    about: str


WAYS = (
    Way(
        "average", "Average over the protected values",
        "Fastest; nothing is trained. The model is asked about all protected values, and the mean of its scores "
        "decides, so they cannot change the decision.",
    ),
    Way(
        "blind", "Train a new network that never reads them",
        "The protected columns are held at one value, in training and in use.",
    ),
    Way(
        "augment", "Train a new network with the findings added",
        "Both of each pair get the same decision. Takes longer; reduces differences, but does not rule them out.",
    ),
    Way(
        "pairing", "Train a new network with a penalty on differences",
        "Scores of people who differ in protected values only are pulled together.",
    ),
    Way(
        "certified", "Train a new network on bounds",
        "Slowest. For many people it can be proved that no protected value changes the decision.",
    ),
    Way("all", "Try everything and keep the best", "All of the above, several strengths; this may take very long."),
)  # fmt: skip

TEXT_WAYS = {  # where the words for tables do not fit
    "average": {
        "name": "Average over the groups",
        "about": "Fastest; nothing is trained. The model is asked about the text with the words of every group, and "
        "the mean of its scores decides.",
    },
    "blind": {
        "name": "Read no protected words",
        "about": "They are left out before the network reads a text, in training and in use.",
    },
    "augment": {"name": "Train the network further with the findings added"},
    "pairing": {
        "name": "Train the network further with a penalty on differences",
        "about": "Scores of texts that differ in protected words only are pulled together.",
    },
    "certified": {
        "name": "Train the network further on bounds",
        "about": "Slowest. For many texts it can be proved that no protected word changes the decision.",
    },
}

pages = router()


@pages.get("/runs/{run_id}/repair")
def choose_repair(view: CurrentView, run_id: str) -> Response:
    """How to repair."""
    audit, settings = _audit(view, run_id, "repair")
    form = {"by": "average"} | {name: str(usual("repair", name, settings["domain"])) for name in NUMBERS}
    return _page(view, audit, "repair", form, {})


@pages.get("/runs/{run_id}/measure")
def choose_measurement(view: CurrentView, run_id: str) -> Response:
    """How precisely to measure."""
    audit, settings = _audit(view, run_id, "measure")
    numbers = ("confidence", "texts" if settings["domain"] == "text" else "changes")
    form = {"precision": "usual"} | {name: str(usual("measure", name, settings["domain"])) for name in numbers}
    return _page(view, audit, "measure", form, {})


@pages.post("/runs/{run_id}/repair")
def begin_repair(view: CurrentView, form: Form, run_id: str) -> Response:
    """Start the repair, or show the form again."""
    audit, settings = _audit(view, run_id, "repair")
    answers = {"by": field_of(form, "by")} | {
        name: field_of(form, name) or str(usual("repair", name, settings["domain"])) for name in NUMBERS
    }
    errors = {} if answers["by"] in [way.value for way in WAYS] else {"by": "Choose how to repair."}
    chosen = {"by": [answers["by"]]} if not errors else {}
    numbers = {name: typed(answers[name]) for name in NUMBERS}
    settings |= {"protected": _protected(audit)} | chosen | numbers
    return _begin(view, audit, "repair", settings, answers, errors)


@pages.post("/runs/{run_id}/measure")
def begin_measurement(view: CurrentView, form: Form, run_id: str) -> Response:
    """Start the measurement, or show the form again."""
    audit, settings = _audit(view, run_id, "measure")
    number = "texts" if settings["domain"] == "text" else "changes"
    answers = {name: field_of(form, name) for name in ("precision", "confidence", number)}
    errors = {}
    if settings["domain"] == "text":
        pass  # so many texts as there are, up to a limit, say how precise it is
    elif answers["precision"] in PRECISIONS:
        settings["half_width"] = PRECISIONS[answers["precision"]]["half_width"]
    else:
        errors["precision"] = "Choose how precisely to measure."
    if answers["confidence"] not in CONFIDENCES:
        errors["confidence"] = "Choose a confidence."
    settings |= {"confidence": typed(answers["confidence"]), number: typed(answers[number])}
    return _begin(view, audit, "measure", settings, answers, errors)


def _begin(
    view: View, audit: Run, kind: str, settings: dict[str, Any], answers: dict[str, str], errors: dict[str, str]
) -> Response:
    try:
        request = request_from(kind, settings, settings["domain"])
        if not errors:
            return redirect(f"/runs/{create_run(view, kind, request, parent=audit).id}")
    except FormError as mistakes:
        errors = {name if name in answers else "": words for name, words in mistakes.by_setting.items()} | errors
    except EvenhandError as error:
        errors[""] = str(error)
    return _page(view, audit, kind, answers, errors)


def _page(view: View, run: Run, kind: str, form: dict[str, str], errors: dict[str, str]) -> Response:
    """The form with its answers."""
    protected = _protected(run) or ["the protected columns"]
    texts = domain_of_config(run.config) == "text"
    return view.page(
        kind, section="/runs", status=400 if errors else 200, run=run, form=form, errors=errors, texts=texts,
        ways=[replace(way, **TEXT_WAYS.get(way.value, {})) for way in WAYS] if texts else WAYS,
        precisions=PRECISIONS, confidences=CONFIDENCES, protected_words=joined(protected), several=len(protected) > 1,
    )  # fmt: skip


def _audit(view: View, run_id: str, kind: str) -> tuple[Run, dict[str, Any]]:
    """The audit to begin from, and the settings that it passes on."""
    audit, settings = audit_settings(view, run_id, kind)
    if audit.state != "done":
        raise ApiError("conflict", f"A {NOUNS[kind]} begins from an audit that is done.")
    return audit, settings


def _protected(run: Run) -> list[str]:
    """What the audit changed; where it was left to the schema, what it said then."""
    return list((run.result or {}).get("protected") or run.config.get("protected") or [])
