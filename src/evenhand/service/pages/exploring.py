"""The pairs of a run: filtered, sorted, each side by side in words."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from fastapi import Response

from evenhand.data.schema import Schema
from evenhand.report.pairs import FROM_NOBODY, PairCard, PairSide
from evenhand.service.api.errors import ApiError, errors_as
from evenhand.service.api.runs import worker_request
from evenhand.service.findings import Filters, Finding, FindingsIndex
from evenhand.service.pages.data import schema_of_run
from evenhand.service.pages.view import CurrentView, View, link, router
from evenhand.service.storage.runs import OVER
from evenhand.service.storage.tables import Run

PER_PAGE = 20
MOST_VALUES = 500  # in one list to choose from
PHASES = (("global", "in the first phase, from people in the data"), ("local", "in the second phase, around others"))


@dataclass(frozen=True)
class Chosen:
    """The filters as the form has them."""

    label: str
    phase: str
    gap: str
    sort: str


pages = router()


@pages.get("/runs/{run_id}/findings")
def explore(
    view: CurrentView, run_id: str, label: str = "", phase: str = "", gap: str = "", sort: str = "gap",
    after: int = -1, first: int = 1,
) -> Response:  # fmt: skip
    """A page of pairs."""
    run = view.run(run_id)
    index, schema = _index(view, run), schema_of_run(view.service, run)  # the schema has better words
    unread = ((view.summary(run) or {}).get("model") or {}).get("unread") or {}
    chosen = Chosen(label, phase, gap, sort if sort in ("gap", "order") else "gap")
    values = {f"v{place}": view.request.query_params.get(f"v{place}", "") for place, _ in enumerate(index.protected)}
    least, gap_error = _share(gap)
    wanted = Filters(
        tuple((name, values[f"v{i}"]) for i, name in enumerate(index.protected) if values[f"v{i}"]),
        label or None, phase or None, least,
    )  # fmt: skip
    found = index.page(
        wanted, sort="order" if chosen.sort == "order" else "gap", after=after if after >= 0 else None,
        limit=PER_PAGE,
    )  # fmt: skip
    first = max(first, 1)
    query: dict[str, Any] = {"label": label, "phase": phase, "gap": gap, "sort": chosen.sort, **values}
    address = f"/runs/{run_id}/findings"
    onward = found.after is not None
    return view.page(
        "findings", section="/runs", run=run, total=found.total, all=index.rows, first=first,
        cards=[
            (_card(one, index, schema, unread), first + place, one.gap) for place, one in enumerate(found.rows)
        ],
        fields=_fields(index, schema, values), labels=_labels(index, schema), phases=PHASES, chosen=chosen,
        gap_error=gap_error, filtered=wanted != Filters(),
        repairable=run.state == "done" and worker_request(run) is not None,
        next=link(address, after=found.after, first=first + len(found.rows), **query) if onward else None,
        begin=link(address, **query),
    )  # fmt: skip


def _index(view: View, run: Run) -> FindingsIndex:
    if run.state not in OVER or run.kind != "audit":
        raise ApiError("not-found", "There are no pairs to show: the run has not ended, or it is not an audit.")
    if (run.result or {}).get("texts"):
        raise ApiError("not-found", "Pairs of texts cannot be browsed here. The report has examples.")
    with errors_as("not-found"):
        return FindingsIndex.open(view.service.home.run(run.id) / "findings.parquet")


def _share(text: str) -> tuple[float | None, str]:
    """A percentage as a share, and what is wrong with it."""
    if not text.strip():
        return None, ""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    return (number / 100, "") if 0 <= number <= 100 else (None, "Write a number from 0 to 100.")


def _fields(index: FindingsIndex, schema: Schema | None, values: dict[str, str]) -> list[dict[str, Any]]:
    """A list to choose from for each protected attribute."""
    return [
        {
            "id": f"v{place}",
            "title": _title(name, schema),
            "values": list(dict.fromkeys(index.words(f"sample.{name}") + index.words(f"witness.{name}")))[:MOST_VALUES],
            "chosen": values[f"v{place}"],
        }
        for place, name in enumerate(index.protected)
    ]


def _title(name: str, schema: Schema | None) -> str:
    return schema.attributes[schema.names.index(name)].title if schema and name in schema.names else name


def _labels(index: FindingsIndex, schema: Schema | None) -> list[tuple[str, str]]:
    return [(value, _label(value, schema)) for value in index.words("label")]


def _label(value: str, schema: Schema | None) -> str:
    if schema is None or value not in schema.label.values:
        return value
    return schema.label.text(schema.label.values.index(value))


def _sentence(name: str, value: str, schema: Schema | None) -> str:
    """A value as a part of a sentence: `age 30–39`."""
    if schema is None or name not in schema.names:
        return f"{name} {value}"
    attribute = schema.attributes[schema.names.index(name)]
    if value == "unknown":
        return f"{attribute.title} unknown"
    return (attribute.phrase or f"{attribute.title} {{}}").replace("{}", value)


def _card(found: Finding, index: FindingsIndex, schema: Schema | None, unread: Collection[str]) -> PairCard:
    """A pair in words, without what the model does not read.

    With two labels both scores are for the favourable one, so that cards compare.
    """
    shown = {name: value for name, value in found.sample.items() if name not in found.witness and name not in unread}
    shared = [_sentence(name, value, schema) for name, value in shown.items()]
    own = {name: found.sample[name] for name in index.protected}
    scored = found.label
    if schema is not None and len(schema.label.values) == 2:
        scored = schema.label.values[schema.label.favourable_code]
    scores = [score if scored == found.label else 1 - score for score in (found.score, found.witness_score)]
    members = (
        ("One", own, found.label, scores[0]),
        ("The other", found.witness, found.witness_label, scores[1]),
    )
    sides = [
        PairSide(role, _marked(values, found, schema), _label(label, schema), score)
        for role, values, label, score in members
    ]
    return PairCard(", ".join(shared), sides, _label(scored, schema), _origin(found))


def _origin(found: Finding) -> str:
    if found.seed_row is None:
        return FROM_NOBODY
    return f"Found from row {found.seed_row + 1:,} of the data."


def _marked(values: dict[str, str], found: Finding, schema: Schema | None) -> list[tuple[str, bool]]:
    return [
        (_sentence(name, value, schema), found.sample[name] != found.witness[name]) for name, value in values.items()
    ]
