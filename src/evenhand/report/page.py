"""The report: one HTML file that needs no network and explains itself."""

from collections.abc import Collection
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from evenhand.data.dataset import Dataset
from evenhand.files import write_text
from evenhand.methods.names import ABOUT
from evenhand.report.charts import growth_chart, rate_bar, share_bars
from evenhand.report.commands import from_python
from evenhand.report.flips import flip_matrix, label_rows, pair_rows, spread_rows
from evenhand.report.groups import COLUMNS, group_rows
from evenhand.report.pairs import Card, Side, growth_points
from evenhand.report.statistics import EXAMPLES, Codes, Example, Statistics
from evenhand.report.text import (
    STOPPED,
    affected_text,
    agreement_text,
    budget_text,
    command_line,
    counted,
    inputs_text,
    interval_text,
    is_not_tested,
    joined,
    limit_text,
    offers_text,
    percent,
    reading_text,
    unread_text,
    warning_rows,
    within_words,
)

FROM_NOBODY = "Started from a random sample of the domain, not from a person."


def write_report(path: Path, summary: dict[str, Any], statistics: Statistics, data: Dataset) -> Path:
    """Write the report about an audit's summary and the statistics of its findings."""
    write_text(path, render(summary, statistics, data))
    return path


def render(summary: dict[str, Any], statistics: Statistics, data: Dataset) -> str:
    """The page as text."""
    schema = data.schema
    protected = schema.protected_indices(summary["protected"])
    titles = [schema.attributes[index].title for index in protected]
    return template("report.html.j2").render(
        summary=summary,
        search=summary["search"],
        schema=schema,
        protected=joined(titles),
        several=len(protected) > 1,
        goal=schema.label.text(schema.label.favourable_code),
        goal_is_favourable=schema.label.favourable is not None,
        budget=budget_text(summary),
        method_about=ABOUT[summary["config"]["method"]],
        stopped=STOPPED[summary["search"]["stopped"]],
        rates=_rates(summary),
        offers=offers_text(summary["model"]),
        reads=inputs_text(summary["model"]) if "inputs" in summary["model"] else "",
        unread=summary["model"].get("unread", {}),
        unread_words=unread_text(summary["model"].get("unread", {})),
        within=within_words(summary),
        warnings=warning_rows(summary),
        not_tested=is_not_tested(summary),
        groups=[(figures, group_rows(figures)) for figures in summary.get("groups", [])],
        group_columns=COLUMNS,
        rules=[rule.words for rule in schema.rules],
        limited=[
            limit_text(a)
            for a in schema.attributes
            if not a.protected and a.kind != "pass" and (a.moves != "any" or a.stride > 1)
        ],
        coarser=[text for a in schema.attributes if (text := reading_text(a)) is not None],
        own_model=summary["config"]["model"] is not None,
        affected=affected_text(summary),
        agrees=agreement_text(summary["model"]["agreement"]) if "agreement" in summary["model"] else "",
        cards=example_cards(summary, statistics, data),
        findings=statistics.findings,
        growth=growth_points(summary),
        command=command_line(summary["config"]),
        from_python=from_python(summary),
        started=moment(summary["started"]),
        **(_about_findings(statistics, data, protected) if statistics.findings else {}),
    )


@cache
def template(name: str) -> Template:
    """A page of this folder, with what all pages use."""
    environment = Environment(
        loader=PackageLoader("evenhand.report", "."),
        autoescape=True,  # names and values come from data and may hold anything
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": percent, "interval": interval_text, "counted": counted}
    environment.globals |= {"growth_chart": growth_chart, "rate_bar": rate_bar, "share_bars": share_bars}
    return environment.get_template(name)


def _rates(summary: dict[str, Any]) -> list[dict[str, Any]]:
    """Rates in the data, each with its interval, and the share among generated samples, which has none."""
    search = summary["search"]
    rates = [dict(rate) for rate in summary["data_rate"].values()]
    generated = {
        "population": "samples that the search generated",
        "discriminatory": search["findings"]["total"],
        "samples": search["generated"]["total"],
        "rate": search["success_rate"],
        "interval": None,
    }
    rates.append(generated)
    most = max([rate["rate"] for rate in rates] + [rate["interval"][1] for rate in rates if rate["interval"]])
    return [rate | {"bar": rate_bar(rate["rate"], rate["interval"], most or 1)} for rate in rates]


def moment(started: str) -> str:
    """15 November 2026, 19:01 UTC."""
    at = datetime.fromisoformat(started)
    return f"{at.day} {at:%B %Y, %H:%M} {at.tzname() or ''}".strip()


def _about_findings(statistics: Statistics, data: Dataset, protected: list[int]) -> dict[str, Any]:
    """What the page has only where there are findings."""
    flips, schema = statistics.flips, data.schema
    rows = pair_rows(flips, schema, protected)
    titles = {attribute.name: attribute.title for attribute in schema.attributes}
    return {
        "flips": flips,
        "matrix": flip_matrix(flips, schema, protected),
        "by_labels": label_rows(flips, schema, protected),
        "pairs": rows,
        "pairs_share": sum(row.share for row in rows),
        "changed": [(joined([titles[n] for n in names]), count, len(names) == 1) for names, count in flips.changed],
        "spreads": [spread_rows(spread, schema) for spread in statistics.spreads],
        "most_share": max((value.findings for spread in statistics.spreads for value in spread.over), default=1.0),
    }


def example_cards(summary: dict[str, Any], statistics: Statistics, data: Dataset) -> list[Card]:
    """People of the data as they stand there, then findings of the search, in words; no row twice."""
    indices = data.schema.protected_indices(summary["protected"])
    people = [Example(**example) for example in summary.get("people", [])]
    rows = {example.seed_row for example in people}
    found = [example for example in statistics.examples if example.seed_row not in rows]
    unread = [data.schema.index(name) for name in summary["model"].get("unread", {})]
    return [card(example, data, indices, unread) for example in [*people, *found][:EXAMPLES]]


def card(example: Example, data: Dataset, protected: list[int], unread: Collection[int] = ()) -> Card:
    """An example pair in words: what both share, where they differ, and where it comes from.

    What the model does not read tells nothing about its decision and is left out.
    """
    schema, exact = data.schema, example.person == "exact"
    free = [index for index in data.shown(exact=exact) if index not in protected and index not in unread]
    # With two classes both members are scored for the same class in every card, so that cards compare.
    scored = schema.label.favourable_code if len(schema.label.values) == 2 else example.label
    turned = scored != example.label
    scores = [1 - score if turned else score for score in (example.score, example.witness_score)]
    roles = ("Person" if example.person else "Sample", "Witness")
    members = [(roles[0], example.sample, example.label), (roles[1], example.witness, example.witness_label)]
    return Card(
        ", ".join(data.sentence(index, example.sample[index], exact=exact) for index in free),
        [
            Side(role, _marked(codes, example, data, protected), schema.label.text(label), score)
            for (role, codes, label), score in zip(members, scores, strict=True)
        ],
        schema.label.text(scored),
        origin(example, data),
    )


def _marked(codes: Codes, example: Example, data: Dataset, protected: list[int]) -> list[tuple[str, bool]]:
    """The protected values of one member in words, each with whether the other member differs in it."""
    exact = example.person == "exact"
    return [
        (data.sentence(index, codes[index], exact=exact), example.sample[index] != example.witness[index])
        for index in protected
    ]


def origin(example: Example, data: Dataset) -> str:
    """How a sample relates to the row of the data that its search started from."""
    if example.seed_row < 0:
        return FROM_NOBODY
    name = f"row {example.seed_row + 1:,} of the data"
    if example.person:
        return f"R{name[1:]}, unchanged."
    attributes, row = data.schema.attributes, data.clipped[example.seed_row]
    changes = [
        f"{attribute.title} {attribute.text(int(before))} → {attribute.text(after)}"
        for attribute, before, after in zip(attributes, row, example.sample, strict=True)
        if before != after
    ]
    read = "" if data.is_in_domain(example.seed_row) else ", as the schema reads it"
    if changes:
        return f"Started from {name}{read}; changed: {'; '.join(changes)}."
    return f"R{name[1:]}{read or ', unchanged'}."
