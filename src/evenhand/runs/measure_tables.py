"""A measurement as tables for people."""

import math
from typing import Any

from evenhand.report.groups import points_text
from evenhand.report.sentences import is_not_tested, measured_parts, warning_rows
from evenhand.report.tables import Table
from evenhand.report.words import counted, interval_text, joined, percent

SHORT = {
    "uniform": "whole domain",
    "train": "training rows",
    "held_out": "held-out rows",
    "train_all_values": "training rows, all values",
    "held_out_all_values": "held-out rows, all values",
    "neighbourhood": "neighbourhood",
}
TEXT_SHORT = {"train": "training texts", "held_out": "held-out texts"}
MOST_LABEL_PAIRS = 3  # pairs of labels that have a table; the summary has all
MOST_VALUES = 14  # of a direction; of more, those at both ends


def tables_of(summary: dict[str, Any]) -> list[Table]:
    """Rates, directions, findings that remain, groups."""
    short = short_names(summary)
    tables: list[Table] = []
    for measured in measured_parts(summary):
        tables.append(_rate_table(measured, summary, short))
        by_labels = _label_tables(measured, short)
        tables += by_labels or _direction_tables(measured, summary, short)
    if summary["findings"] is not None:
        tables.append(_findings_table(summary["findings"], summary))
    tables += [_group_table(figures) for figures in summary["groups"]]
    if summary["notes"]:
        tables.append(Table("notes", [], [], summary["notes"]))
    return tables


def short_names(summary: dict[str, Any]) -> dict[str, str]:
    """What the populations of a measurement are called, by their names in its summary."""
    return TEXT_SHORT if summary["domain"] == "text" else SHORT


def title_of(summary: dict[str, Any]) -> str:
    """What the tables are about."""
    who = "texts that" if summary["domain"] == "text" else "who"
    about = "" if is_not_tested(summary) else f": {who} would get another decision"
    return f"{summary['dataset']['title']}{about}"


def heading_of(summary: dict[str, Any]) -> str:
    """The title, and before it what has to be known before any figure."""
    return "\n".join([*(f"{name.capitalize()}: {text}" for name, text in warning_rows(summary)), title_of(summary)])


def _rate_table(measured: dict[str, Any], summary: dict[str, Any], short: dict[str, str]) -> Table:
    populations = measured["populations"]
    rows = [[short[rate["name"]], *_figures(rate, summary)] for rate in populations]
    remarks = [f"{short[rate['name']]}: {rate['population']}" for rate in populations]
    remarks += [f"{short[rate['name']]}: the interval is {rate['note']}" for rate in populations if "note" in rate]
    together = " together" if len(measured["protected"]) > 1 else ""
    title = f"rate of discriminatory samples, changing {joined(measured['protected'])}{together}"
    return Table(title, ["population", *_columns(summary)], rows, remarks)


def _columns(summary: dict[str, Any]) -> list[str]:
    return ["rate", f"{100 * summary['config']['confidence']:g}% interval", "samples"]


def _figures(rate: dict[str, Any], summary: dict[str, Any]) -> list[str]:
    digits = max(2, round(-math.log10(summary["config"].get("half_width", 0.01))) - 1)
    return [percent(rate["rate"], digits), interval_text(rate["interval"], digits), f"{rate['samples']:,}"]


def _direction_tables(measured: dict[str, Any], summary: dict[str, Any], short: dict[str, str]) -> list[Table]:
    """For each attribute: values as rows, populations as columns; the most favoured by the held-out people first."""
    found = [rate for rate in measured["populations"] if rate["direction"]]
    if not found:
        return []
    leading = next((rate for rate in found if rate["name"] == "held_out"), found[0])
    return [
        _direction_table(place, leading["direction"][place], found, summary, short)
        for place in range(len(leading["direction"]))
    ]


def _direction_table(
    place: int, leading: dict[str, Any], found: list[dict[str, Any]], summary: dict[str, Any], short: dict[str, str]
) -> Table:
    shares = [{v["value"]: v["favourable"] for v in rate["direction"][place]["values"]} for rate in found]
    values = [entry["value"] for entry in leading["values"]]
    half = MOST_VALUES // 2
    shown = values if len(values) <= MOST_VALUES else [*values[:half], *values[-half:]]
    rows = [[value, *(f"{of[value]:.1%}" if value in of else "–" for of in shares)] for value in shown]
    remarks = []
    named = summary.get("favourable_named", True)  # else nobody said which decision is good for people
    for rate in found:
        who = rate["direction"][place]
        if who["favoured"] is not None:
            most, least = who["favoured"], who["loses"]
            words = f"favoured most: {most}; least: {least}" if named else f"most often: {most}; least often: {least}"
            remarks.append(f"{short[rate['name']]}: {words}")
    if len(shown) < len(values):
        remarks.append(f"{len(values) - len(shown)} values in the middle are left out")
    title = f"how often each {leading['attribute']} gets ‘{summary['favourable']}’, among discriminatory samples"
    return Table(title, ["value", *(short[rate["name"]] for rate in found)], rows, remarks)


def _label_tables(measured: dict[str, Any], short: dict[str, str]) -> list[Table]:
    """With more than two classes: for each pair of labels, how often each value gets the one and not the other."""
    found: dict[str, list[dict[str, Any]]]
    found = {rate["name"]: rate["label_pairs"] for rate in measured["populations"] if rate.get("label_pairs")}
    leading = found.get("held_out") or next(iter(found.values()), [])
    return [
        _label_table(pair, place, found, short)
        for pair in leading[:MOST_LABEL_PAIRS]
        for place in range(len(pair["direction"]))
    ]


def _label_table(
    leading: dict[str, Any], place: int, found: dict[str, list[dict[str, Any]]], short: dict[str, str]
) -> Table:
    same = ("label", "instead_of")
    of = {
        name: pair
        for name, pairs in found.items()
        for pair in pairs
        if [pair[key] for key in same] == [leading[key] for key in same]
    }
    shares = [{v["value"]: v["favourable"] for v in pair["direction"][place]["values"]} for pair in of.values()]
    values = list(dict.fromkeys(value for share in shares for value in share))
    ordered = [entry["value"] for entry in leading["direction"][place]["values"]]
    shown = [*ordered, *(value for value in values if value not in ordered)]
    half = MOST_VALUES // 2
    left_out = max(0, len(shown) - MOST_VALUES)
    shown = shown if not left_out else [*shown[:half], *shown[-half:]]
    rows = [[value, *(f"{share[value]:.1%}" if value in share else "–" for share in shares)] for value in shown]
    remarks = [_label_remark(short[name], pair, place) for name, pair in of.items()]
    if left_out:
        remarks.append(f"{left_out} values in the middle are left out")
    attribute = leading["direction"][place]["attribute"]
    title = (
        f"how often each {attribute} gets ‘{leading['label']}’ instead of ‘{leading['instead_of']}’, where both occur"
    )
    return Table(title, ["value", *(short[name] for name in of)], rows, remarks)


def _label_remark(where: str, pair: dict[str, Any], place: int) -> str:
    who = pair["direction"][place]
    text = f"{where}: {counted(pair['samples'], 'discriminatory sample')} with both decisions"
    if who["favoured"] is None:
        return text
    return f"{text}; ‘{pair['label']}’ goes most often to {who['favoured']}, ‘{pair['instead_of']}’ to {who['loses']}"


def _findings_table(rate: dict[str, Any], summary: dict[str, Any]) -> Table:
    rows = [["still findings", *_figures(rate, summary)]]
    return Table("findings of an earlier audit with this model", ["", *_columns(summary)], rows, [rate["population"]])


def _group_table(figures: dict[str, Any]) -> Table:
    rows = [
        [group["value"], f"{group['people']:,}", f"{group['selection_rate']:.1%}", _share(group["true_positive_rate"])]
        for group in figures["groups"]
    ]
    remarks = [
        figures["population"],
        f"demographic parity difference {points_text(figures['demographic_parity_difference'])}, equal opportunity "
        f"difference {_points(figures['equal_opportunity_difference'])}: the largest rate minus the smallest; small "
        "groups make large differences by chance",
    ]
    header = [figures["attribute"], "people", "selection rate", "true positive rate"]
    return Table(f"groups by {figures['attribute']}", header, rows, remarks)


def _points(difference: float | None) -> str:
    return "–" if difference is None else points_text(difference)


def _share(share: float | None) -> str:
    return "–" if share is None else f"{share:.1%}"
