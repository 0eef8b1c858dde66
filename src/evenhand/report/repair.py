"""A repair in sentences and as a page: before and after, what it cost, and what there was to choose from."""

import math
from pathlib import Path
from typing import Any

from evenhand.files import write_text
from evenhand.report.charts import trade_chart
from evenhand.report.sentences import is_about_texts, warning_rows, within_words
from evenhand.report.words import interval_text, joined, percent

MUCH = 0.02  # accuracy that protected attributes are worth before the report says so
ABOUT = {
    "original": "the model as it was given",
    "retrained": "trained again in the same way as the repairs, without any repair: what the training alone brings",
    "blind": "trained and used with the protected attributes held at one value; what another repair loses against it "
    "is lost for nothing",
    "augment": "trained again with findings added, both members of each pair under one decision",
    "certified": "trained on bounds of what any protected value could do (interval bound propagation)",
    "pairing": "trained with a penalty on the difference of scores between variants (counterfactual logit pairing)",
    "average": "the mean score over protected values (of tables weighted as in the training rows); nothing is trained",
}


def write_repair_report(path: Path, summary: dict[str, Any]) -> Path:
    """Write the self-contained HTML page."""
    write_text(path, render_repair(summary))
    return path


def render_repair(summary: dict[str, Any]) -> str:
    """The page as text."""
    from evenhand.report.page import template  # it imports torch, which the server's own pages do not need

    rows = summary["rows"]
    by_name = {row["name"]: row for row in rows}
    chosen = by_name.get(summary["chosen"] or "")
    return template("repair.html.j2").render(
        summary=summary,
        rows=rows,
        chosen=chosen,
        protected=joined(summary["protected"]),
        about=ABOUT,
        sentences=repair_sentences(summary),
        warnings=warning_rows(summary),
        within=within_words(summary),
        chart=trade_chart(rows, summary["chosen"]),
    )


def repair_sentences(summary: dict[str, Any]) -> list[str]:
    """The result in sentences that say population and interval."""
    rows = {row["name"]: row for row in summary["rows"]}
    before, chosen = summary["rows"][0], rows.get(summary["chosen"] or "")
    if chosen is None:
        return [f"No repair keeps to the condition {summary['config']['choose']}, so no model was written."]
    within = within_words(summary)
    found = [_headline(before, chosen, is_about_texts(summary), within)]
    if chosen["people"] is not None:
        found.append(
            f"Held-out people who would get another decision ({_population(chosen['people'], within)}): "
            f"{_rate(before['people'])} before, {_rate(chosen['people'])} after."
        )
    found += _accuracy_sentences(before, chosen, rows)
    if summary.get("split"):
        found.append(f"Judged on held-out rows ({summary['split']}).")
    found.append(
        f"Discriminatory samples over {_population(chosen['uniform'], within)}: {_rate(before['uniform'])} before, "
        f"{_rate(chosen['uniform'])} after."
    )
    if chosen["remaining"] is not None:
        found.append(
            f"Of {chosen['remaining']['samples']:,} {chosen['remaining']['population']} against the model as it was, "
            f"{percent(chosen['remaining']['rate'], 2)} are findings still."
        )
    return [*found, *_cost(rows), *summary["notes"]]


def _population(rate: dict[str, Any], within: str) -> str:
    """Who a rate is about, and with whom they are compared where that is limited."""
    words: str = rate["population"]
    return f"{words}, compared {within}" if within and within not in words else words


def _headline(before: dict[str, Any], chosen: dict[str, Any], texts: bool, within: str) -> str:
    """Whom it is about: the held-out people or texts affected before and after, and the accuracy that this costs."""
    who = "texts that mention the attribute" if texts else "people"
    name, whose = "people", f"Held-out {who}"
    if texts:
        name = "uniform"
    elif chosen["people"] is None:
        name, whose = "uniform", "Samples of the whole domain"
    rates = [percent(row[name]["rate"], 2) for row in (before, chosen)]
    value = f"another protected value{f' {within}' if within else ''}"
    return (
        f"{whose} {'for which' if texts else 'for whom'} {value} changes the decision: {rates[0]} before, "
        f"{rates[1]} after; {accuracy_lost(before, chosen)}."
    )


def accuracy_lost(before: dict[str, Any], chosen: dict[str, Any]) -> str:
    """What that costs, in words."""
    which = "validation_accuracy" if chosen["accuracy"] is None else "accuracy"
    points = 100 * (before[which] - chosen[which])
    if abs(points) < 0.005:
        return "accuracy is the same"
    return f"accuracy {'lost' if points > 0 else 'gained'}: {abs(points):.2f} percentage points"


def _accuracy_sentences(before: dict[str, Any], chosen: dict[str, Any], rows: dict[str, dict[str, Any]]) -> list[str]:
    """Accuracy against the model as it was, with an interval, and against a blind one."""
    if chosen["accuracy"] is None:
        return [
            "No rows are held out. On training rows that no repair was fitted on (the model as it was may have been): "
            f"accuracy {before['validation_accuracy']:.2%} before, {chosen['validation_accuracy']:.2%} after."
        ]
    low, high = chosen["accuracy_change"]["interval"]
    text = (
        f"Accuracy on held-out data: {before['accuracy']:.2%} before, {chosen['accuracy']:.2%} after; the change is "
        f"between {100 * low:+.2f} and {100 * high:+.2f} percentage points (95% interval, the same rows)."
    )
    if chosen["auc"] is not None and before["auc"] is not None:
        text += f" Area under the ROC curve: {before['auc']:.4f} before, {chosen['auc']:.4f} after."
    blind = rows.get("blind")
    if blind is not None and chosen is not blind:
        text += f" The blind reference: {blind['accuracy']:.2%}."
    return [text]


def _cost(rows: dict[str, dict[str, Any]]) -> list[str]:
    """What it costs not to read the protected attributes at all."""
    blind, retrained = rows.get("blind"), rows.get("retrained")
    if blind is None or retrained is None:
        return []
    repeats, where = blind["repeats"], "held-out rows"
    spreads = [row["over_repeats"]["accuracy"] for row in (retrained, blind)]
    if spreads[0] is None:
        where = "training rows set aside"
        spreads = [{"mean": row["validation_accuracy"], "spread": 0.0} for row in (retrained, blind)]
    lost = 100 * (spreads[0]["mean"] - spreads[1]["mean"])
    noise = 100 * math.hypot(spreads[0]["spread"], spreads[1]["spread"]) if repeats > 1 else None
    price = f"costs {lost:.2f} percentage points of accuracy" if lost > 0 else "costs no accuracy"
    text = (
        f"Not reading the protected attributes at all {price} on {where}, comparing the means of {repeats} "
        f"{'networks' if repeats > 1 else 'network'} trained with and without them"
    )
    if lost < 0 and f"{lost:.2f}" != "-0.00":
        text += f", {-lost:.2f} percentage points in favour of those without"
    if noise is not None:
        text += f" (standard deviation of such a difference over repeats: {noise:.2f})"
    if lost > 100 * MUCH:
        text += ". The protected attributes carry much of what the outcome depends on"
    return [f"{text}."]


def _rate(rate: dict[str, Any]) -> str:
    return f"{percent(rate['rate'], 2)} ({rate['confidence']:.0%} interval {interval_text(rate['interval'])})"
