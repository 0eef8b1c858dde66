"""Differences between groups in words and rows."""

from typing import Any

from evenhand.report.tables import Table
from evenhand.report.words import percent

COLUMNS = ("people", "get it", "judged wrongly", "get it wrongly", "miss it wrongly")
RATES = ("selection", "error", "false_positive", "false_negative")


def groups_text(groups: list[dict[str, Any]]) -> str:
    """The largest difference of each attribute in a sentence."""
    return "Differences between groups: " + "; ".join(map(_one, groups)) + "."


def _one(figures: dict[str, Any]) -> str:
    ordered = sorted(figures["groups"], key=lambda group: group["selection"]["rate"])
    least, most = ordered[0], ordered[-1]
    if len(ordered) == 1:
        return f"by {figures['title']} there is one group only, {_selected(least)} of {least['value']}"
    errors = sorted(figures["groups"], key=lambda group: group["error"]["rate"])
    return (
        f"by {figures['title']}, ‘{figures['favourable']}’ goes to {_selected(most)} of {most['value']} and to "
        f"{_selected(least)} of {least['value']} (demographic parity difference "
        f"{points_text(figures['demographic_parity_difference'])}), and {share_text(errors[-1]['error'])} of "
        f"{errors[-1]['value']} are judged wrongly, of {errors[0]['value']} {share_text(errors[0]['error'])} "
        f"({figures['confidence']:.0%} intervals, {figures['population']})"
    )


def points_text(difference: float) -> str:
    """A difference of two shares: 9.7 percentage points."""
    return f"{100 * difference:.1f} percentage points"


def _selected(group: dict[str, Any]) -> str:
    return share_text(group["selection"])


def share_text(share: dict[str, Any] | None) -> str:
    """A rate with its interval."""
    if share is None:
        return "–"
    low, high = share["interval"]
    return f"{percent(share['rate'])} ({low:.1%} to {high:.1%})"


def group_tables(summary: dict[str, Any]) -> list[Table]:
    """The groups of the attributes that an audit's model does not read, a table each."""
    return [
        Table(
            f"groups by {figures['title']}: who gets ‘{figures['favourable']}’, {figures['confidence']:.0%} intervals",
            [figures["title"], *COLUMNS],
            group_rows(figures),
            [figures["population"]],
        )
        for figures in summary.get("groups", [])
    ]


def group_rows(figures: dict[str, Any]) -> list[list[str]]:
    """A row for each group: who, how many, and each rate with its interval."""
    return [
        [group["value"], f"{group['people']:,}", *(share_text(group[name]) for name in RATES)]
        for group in figures["groups"]
    ]
