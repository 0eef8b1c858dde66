"""The report of a repair: before and after, what it cost, and what there was to choose from."""

import math
from pathlib import Path
from typing import Any

from markupsafe import Markup

from evenhand.files import write_text
from evenhand.report.page import template
from evenhand.report.repair_sentences import sentences
from evenhand.report.sentences import warning_rows, within_words
from evenhand.report.words import joined, percent

ABOUT = {
    "original": "the model as it was given",
    "retrained": "trained again in the same way as the repairs, without any repair: what the training alone brings",
    "blind": "trained and used with the protected attributes held at one value; what another repair loses against it "
    "is lost for nothing",
    "augment": "trained again with findings added, both members of each pair under one label",
    "certified": "trained on bounds of what any protected value could do (interval bound propagation)",
    "pairing": "trained with a penalty on the difference of scores between variants (counterfactual logit pairing)",
    "average": "the mean score over protected values (of tables weighted as in the training rows); nothing is trained",
}
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 340, 84, 150, 16, 52


def write_repair_report(path: Path, summary: dict[str, Any]) -> Path:
    """Write the self-contained HTML page."""
    write_text(path, render_repair(summary))
    return path


def render_repair(summary: dict[str, Any]) -> str:
    """The page as text."""
    rows = summary["rows"]
    by_name = {row["name"]: row for row in rows}
    chosen = by_name.get(summary["chosen"] or "")
    return template("repair.html.j2").render(
        summary=summary,
        rows=rows,
        chosen=chosen,
        protected=joined(summary["protected"]),
        about=ABOUT,
        sentences=sentences(summary),
        warnings=warning_rows(summary),
        within=within_words(summary),
        chart=trade_chart(rows, summary["chosen"]),
    )


def trade_chart(rows: list[dict[str, Any]], chosen: str | None) -> Markup:
    """Accuracy against rate for all, one dot each; filled dots are not beaten in both."""
    shown = [row for row in rows if row["accuracy"] is not None]
    if not shown:
        return Markup("")
    rates, accuracies = [row["uniform"]["rate"] for row in shown], [row["accuracy"] for row in shown]
    most = max(*rates, 1e-6) * 1.05
    low, high = min(accuracies), max(accuracies)
    margin = max((high - low) * 0.15, 0.001)
    low, high = low - margin, high + margin

    def place(row: dict[str, Any]) -> tuple[float, float]:
        x = LEFT + (WIDTH - LEFT - RIGHT) * math.sqrt(row["uniform"]["rate"] / most)
        return x, TOP + (HEIGHT - TOP - BOTTOM) * (high - row["accuracy"]) / (high - low)

    front = sorted((place(row) for row in shown if row["front"]), key=lambda at: at[0])
    line = Markup('<polyline class="front" points="{}"/>').format(" ".join(f"{x:.1f},{y:.1f}" for x, y in front))
    parts = [_axes(low, high, most), line, *_dots([(row, *place(row)) for row in shown], chosen)]
    title = Markup(
        "<title>Held-out accuracy against the rate of discriminatory samples, for {} models.</title>"
    ).format(len(shown))
    return Markup('<svg class="chart" viewBox="0 0 {} {}" role="img">{}{}</svg>').format(
        WIDTH, HEIGHT, title, Markup("").join(parts)
    )


def _dots(placed: list[tuple[dict[str, Any], float, float]], chosen: str | None) -> list[Markup]:
    """Dots with their names, which make room for each other from top to bottom."""
    dot = Markup('<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="{}"/>')
    name = Markup('<text class="{}" x="{:.1f}" y="{:.1f}">{}</text>')
    marks, taken = [], list[tuple[float, float]]()
    for row, x, y in sorted(placed, key=lambda dot: (dot[2], dot[1])):
        label, kept = y + 4, row["name"] == chosen
        while any(abs(label - other) < 15 and abs(x - at) < 170 for at, other in taken):
            label += 15
        taken.append((x, label))
        marks.append(dot.format("dot" if row["front"] else "dot beaten", x, y, 7 if kept else 4.5))
        marks.append(name.format("tick chosen" if kept else "tick", x + 11, label, row["name"]))
    return marks


def _axes(low: float, high: float, most: float) -> Markup:
    tick = Markup('<text class="tick" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>')
    rule = Markup('<line class="rule" x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}"/>')
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts = [rule.format(LEFT, right, bottom, bottom)]
    for share in (0.0, 0.5, 1.0):
        y = TOP + (bottom - TOP) * share
        parts += [
            rule.format(LEFT, right, y, y),
            tick.format(LEFT - 6, y + 4, "end", f"{high - (high - low) * share:.1%}"),
        ]
    for share in (0.0, 0.1, 0.4, 1.0):
        x = LEFT + (right - LEFT) * math.sqrt(share)
        parts.append(tick.format(x, bottom + 18, "middle", percent(share * most, 2)))
    parts.append(tick.format(LEFT, HEIGHT - 8, "start", "rate of discriminatory samples (√ scale)"))
    return Markup("").join(parts)
