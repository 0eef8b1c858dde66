"""Asking for a repaired model, from an audit that is done."""

from dataclasses import dataclass
from typing import Any

from fastapi import Response

from evenhand.errors import EvenhandError
from evenhand.report.words import joined
from evenhand.service.api.errors import ApiError
from evenhand.service.api.runs import create_run, from_audit
from evenhand.service.pages.view import CurrentView, Form, View, field_of, is_short_number, redirect, router
from evenhand.service.requests import request_of
from evenhand.service.storage.tables import Run


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

LIMITS = {"repeats": (1, 50), "seeds": (1, 1_000_000), "steps": (0, 1_000_000)}
USUAL = {"repeats": "5", "seeds": "1000", "steps": "1000"}

pages = router()


def _repair_page(view: View, run: Run, form: dict[str, str], errors: dict[str, str]) -> Response:
    """The form with its answers."""
    return view.page(
        "repair", section="/runs", status=400 if errors else 200, run=run, ways=WAYS, form=form,
        errors=errors, protected_words=joined(_protected(run)),
    )  # fmt: skip


@pages.get("/runs/{run_id}/repair")
def choose(view: CurrentView, run_id: str) -> Response:
    """How to repair."""
    return _repair_page(view, _audit(view, run_id)[0], {"by": "average", **USUAL}, {})


@pages.post("/runs/{run_id}/repair")
def begin(view: CurrentView, form: Form, run_id: str) -> Response:
    """Start the repair, or show the form again."""
    run, same = _audit(view, run_id)
    answers = {"by": field_of(form, "by")} | {name: field_of(form, name) or USUAL[name] for name in USUAL}
    errors = {}
    if answers["by"] not in [way.value for way in WAYS]:
        errors["by"] = "Choose how to repair."
    for name, (least, most) in LIMITS.items():
        if not is_short_number(answers[name]) or not least <= int(answers[name]) <= most:
            errors[name] = f"Write a whole number from {least:,} to {most:,}."
    if errors:
        return _repair_page(view, run, answers, errors)
    numbers = {name: int(answers[name]) for name in LIMITS}
    config = same | {"protected": _protected(run), "by": [answers["by"]], **numbers}
    try:
        made = create_run(view.caller, "repair", request_of("repair", config), parent=run)
    except EvenhandError as error:
        return _repair_page(view, run, answers, {"": str(error)})
    return redirect(f"/runs/{made.id}")


def _audit(view: View, run_id: str) -> tuple[Run, dict[str, Any]]:
    audit, same = from_audit(view.caller, run_id, "repair")
    if audit.state != "done":
        raise ApiError("conflict", "A repair begins from an audit that is done.")
    return audit, same


def _protected(run: Run) -> list[str]:
    """What the audit changed; where it was left to the schema, what it said then."""
    return list((run.result or {}).get("protected") or run.config.get("protected") or ["the protected columns"])
