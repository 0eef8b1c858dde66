"""The report: one HTML file that needs no network and explains itself."""

from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from evenhand.data.dataset import Dataset
from evenhand.data.schema import Schema
from evenhand.files import write_text
from evenhand.methods.names import ABOUT
from evenhand.report.charts import growth_chart, rate_bar, share_bars
from evenhand.report.commands import from_python
from evenhand.report.flips import flip_matrix, pair_rows, spread_rows
from evenhand.report.pairs import Card, Side, growth_points
from evenhand.report.statistics import Codes, Example, Statistics
from evenhand.report.text import (
    STOPPED,
    affected_text,
    agreement_text,
    budget_text,
    command_line,
    counted,
    joined,
    limit_text,
    offers_text,
    percent,
    reading_text,
)


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
        rules=[rule.words for rule in schema.rules],
        limited=[limit_text(a) for a in schema.attributes if not a.protected and (a.moves != "any" or a.stride > 1)],
        coarser=[text for a in schema.attributes if (text := reading_text(a)) is not None],
        own_model=summary["config"]["model"] is not None,
        affected=affected_text(summary),
        agrees=agreement_text(summary["model"]["agreement"]) if "agreement" in summary["model"] else "",
        coarse_rows=0 if data.read_otherwise is None else int(data.read_otherwise.sum()),
        clipped_rows=int((data.codes != data.clipped).any(axis=1).sum()),
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
    environment.filters |= {"percent": percent, "counted": counted}
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
        "pairs": rows,
        "pairs_share": sum(row.share for row in rows),
        "changed": [(joined([titles[n] for n in names]), count, len(names) == 1) for names, count in flips.changed],
        "spreads": [spread_rows(spread, schema) for spread in statistics.spreads],
        "most_share": max((value.findings for spread in statistics.spreads for value in spread.over), default=1.0),
        "cards": example_cards(statistics, data, [schema.names[index] for index in protected]),
    }


def example_cards(statistics: Statistics, data: Dataset, protected: list[str]) -> list[Card]:
    """All example pairs in words."""
    indices = data.schema.protected_indices(protected)
    return [card(example, data, indices) for example in statistics.examples]


def card(example: Example, data: Dataset, protected: list[int]) -> Card:
    """An example pair in words: what both share, where they differ, and where it comes from."""
    schema = data.schema
    free = [index for index in range(len(schema.attributes)) if index not in protected]
    # With two classes both members are scored for the same class in every card, so that cards compare.
    scored = schema.label.favourable_code if len(schema.label.values) == 2 else example.label
    turned = scored != example.label
    scores = [1 - score if turned else score for score in (example.score, example.witness_score)]
    members = [("Sample", example.sample, example.label), ("Witness", example.witness, example.witness_label)]
    return Card(
        ", ".join(schema.attributes[index].sentence(example.sample[index]) for index in free),
        [
            Side(role, _marked(codes, example, schema, protected), schema.label.text(label), score)
            for (role, codes, label), score in zip(members, scores, strict=True)
        ],
        schema.label.text(scored),
        origin(example, data),
    )


def _marked(codes: Codes, example: Example, schema: Schema, protected: list[int]) -> list[tuple[str, bool]]:
    """The protected values of one member in words, each with whether the other member differs in it."""
    return [
        (schema.attributes[index].sentence(codes[index]), example.sample[index] != example.witness[index])
        for index in protected
    ]


def origin(example: Example, data: Dataset) -> str:
    """How a sample relates to the row of the data that its search started from."""
    if example.seed_row < 0:
        return "Started from a random sample of the domain, not from a person."
    raw, row = data.codes[example.seed_row], data.clipped[example.seed_row]
    attributes = data.schema.attributes
    changes = [
        f"{attribute.title} {attribute.text(int(before))} → {attribute.text(after)}"
        for attribute, before, after in zip(attributes, row, example.sample, strict=True)
        if before != after
    ]
    moved = [
        f"{attribute.title} {attribute.text(int(outside))}, read as {attribute.text(int(inside))}"
        for attribute, outside, inside in zip(attributes, raw, row, strict=True)
        if outside != inside
    ]
    name = f"row {example.seed_row + 1:,} of the data"
    outside = f" Outside the domain in that row: {'; '.join(moved)}." if moved else ""
    if changes:
        return f"Started from {name}; changed: {'; '.join(changes)}.{outside}"
    if moved:
        return f"R{name[1:]}, moved into the domain.{outside}"
    as_it_is = data.as_they_are[example.seed_row]
    return f"R{name[1:]}, {'unchanged' if as_it_is else 'its numbers rounded or filled in as the schema says'}."
