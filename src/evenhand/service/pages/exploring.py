"""The pairs of a run: filtered, sorted, each side by side in words."""

from collections.abc import Collection
from dataclasses import asdict
from typing import Any

from fastapi import Response

from evenhand.data.schema import Schema
from evenhand.report.pairs import FROM_NOBODY, PairCard, PairSide, card_of, comparable_scores
from evenhand.service.api.errors import ApiError, errors_as
from evenhand.service.api.runs import worker_request
from evenhand.service.findings import Filters, Finding, FindingInTexts, FindingsIndex
from evenhand.service.findings_index import Sort
from evenhand.service.pages.data import schema_of_run
from evenhand.service.pages.view import CurrentView, View, link, router
from evenhand.service.storage.runs import OVER
from evenhand.service.storage.tables import Run

PER_PAGE = 20
MOST_VALUES = 500  # in one list to choose from
MOST_LETTERS = 200  # that can be looked for in texts
PHASES = {"global": "in the first phase, from {}", "local": "in the second phase, around others"}
BEGINNINGS = {True: "texts in the data", False: "people in the data"}
SORTS: dict[Sort, str] = {
    "gap": "widest score gap first",
    "similarity": "most like the original first",
    "words": "fewest replaced words first",
    "order": "as they were found",
}

pages = router()


@pages.get("/runs/{run_id}/findings")
def explore(view: CurrentView, run_id: str, after: int = -1, first: int = 1) -> Response:
    """A page of pairs."""
    run = view.run(run_id)
    index, schema = _index(view, run), schema_of_run(view.service, run)  # the schema has better words
    summary = view.summary(run)
    form = _Form(view, index)
    found = index.page(form.filters, sort=form.sort, after=after if after >= 0 else None, limit=PER_PAGE)
    first = max(first, 1)
    address = f"/runs/{run_id}/findings"
    return view.page(
        "findings", section="/runs", run=run, texts=index.texts, total=found.total, all=index.rows, first=first,
        cards=[
            (_card(one, index, schema, summary), first + place, one.gap) for place, one in enumerate(found.rows)
        ],
        fields=_fields(index, schema), labels=_labels(index, schema), form=form.sent, errors=form.errors,
        phases=[(phase, words.format(BEGINNINGS[index.texts])) for phase, words in PHASES.items()],
        sorts=[(sort, words) for sort, words in SORTS.items() if sort in index.sorts], chosen_sort=form.sort,
        filtered=form.filters != Filters(), repairable=run.state == "done" and worker_request(run) is not None,
        next=None if found.after is None
        else link(address, after=found.after, first=first + len(found.rows), **form.sent),
        begin=link(address, **form.sent),
    )  # fmt: skip


class _Form:
    """The filters as the form has them, and what they mean."""

    def __init__(self, view: View, index: FindingsIndex) -> None:
        own = (
            ["value", "witness", "words", "contains"] if index.texts else [f"v{i}" for i in range(len(index.protected))]
        )
        names = ["label", "phase", "gap", "sort", *own]
        self.sent = {name: view.request.query_params.get(name, "") for name in names}
        self.errors: dict[str, str] = {}
        self.sort: Sort = next((sort for sort in index.sorts if sort == self.sent["sort"]), "gap")
        self.sent["sort"] = self.sort
        gap = self._number("gap", 100.0)
        words = self._number("words", 1e9)
        self.filters = Filters(
            values=tuple((name, value) for i, name in enumerate(index.protected) if (value := self.sent[f"v{i}"])),
            label=self.sent["label"] or None,
            phase=self.sent["phase"] or None,
            least_gap=None if gap is None else gap / 100,
            text_value=self.sent.get("value") or None,
            witness_value=self.sent.get("witness") or None,
            most_words=None if words is None else int(words),
            contains=self.sent.get("contains", "")[:MOST_LETTERS] or None,
        )

    def _number(self, name: str, most: float) -> float | None:
        """A number of the form; None where there is none, or what is there is wrong."""
        text = self.sent.get(name, "").strip()
        if not text:
            return None
        try:
            number = float(text)
        except ValueError:
            number = -1.0
        if 0 <= number <= most:
            return number
        self.errors[name] = "Write a number from 0 to 100." if name == "gap" else "Write a number, 0 or more."
        return None


def _index(view: View, run: Run) -> FindingsIndex:
    if run.state not in OVER or run.kind != "audit":
        raise ApiError("not-found", "There are no pairs to show: the run has not ended, or it is not an audit.")
    with errors_as("not-found"):
        return FindingsIndex.open(view.service.home.run(run.id) / "findings.parquet")


def _fields(index: FindingsIndex, schema: Schema | None) -> list[dict[str, Any]]:
    """Lists to choose from: for each protected attribute, or for what a text and its witness name."""
    if index.texts:
        lists = {
            "value": ("The text names", index.words("value")),
            "witness": ("The other names", index.words("witness_value")),
        }
    else:
        lists = {
            f"v{place}": (
                f"One of the two: {_title(name, schema)}",
                list(dict.fromkeys(index.words(f"sample.{name}") + index.words(f"witness.{name}"))),
            )
            for place, name in enumerate(index.protected)
        }
    return [
        {"id": name, "title": title, "options": [(value, value) for value in values[:MOST_VALUES]]}
        for name, (title, values) in lists.items()
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


def _card(
    found: Finding | FindingInTexts, index: FindingsIndex, schema: Schema | None, summary: dict[str, Any] | None
) -> PairCard:
    """A pair, ready to show."""
    if isinstance(found, FindingInTexts):
        return _text_card(found, summary)
    unread = ((summary or {}).get("model") or {}).get("unread") or {}
    return _table_card(found, index, schema, unread)


def _text_card(found: FindingInTexts, summary: dict[str, Any] | None) -> PairCard:
    """A pair of texts with its marks."""
    scores = [found.score, found.witness_score]
    score_of, scores = (found.label, scores) if summary is None else comparable_scores(found.label, scores, summary)
    example = asdict(found) | {
        "values": (found.value, found.witness_value), "labels": (found.label, found.witness_label),
        "score_of": score_of, "scores": scores,
    }  # fmt: skip
    return card_of(example)  # the text first, about which the filters are


def _table_card(found: Finding, index: FindingsIndex, schema: Schema | None, unread: Collection[str]) -> PairCard:
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
