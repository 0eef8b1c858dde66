"""Charts as inline SVG, coloured by the page's own style, so that a report needs nothing but itself.

Names that come from data pass through `Markup.format`, which escapes them.
"""

import math
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from evenhand.report.words import percent

WIDTH, HEIGHT = 640, 330
TOP, RIGHT, BOTTOM, LEFT = 34, 150, 52, 6  # the right margin holds the names of the lines
TRADE_WIDTH, TRADE_HEIGHT, TRADE_LEFT, TRADE_RIGHT, TRADE_TOP, TRADE_BOTTOM = 720, 340, 84, 150, 16, 52
LABEL_ROOM = 56  # two rows of text, at the size that a phone needs

Point = tuple[int, int, int]  # samples tried, unique generated, findings


def growth_points(summary: dict[str, Any]) -> list[Point]:
    """The points of a search's growth curve, the end of the search included."""
    search = summary["search"]
    end = (search["tried"], search["generated"]["total"], search["findings"]["total"])
    points = [(int(tried), int(generated), int(found)) for tried, generated, found in search["growth"]]
    return points if points and points[-1] == end else [*points, end]


def growth_chart(points: Sequence[Point], title: str = "", across: str = "samples tried") -> Markup:
    """Unique samples and findings over samples tried or seeds, as two lines with their names at the ends."""
    points = [(0, 0, 0), *points]
    tried, generated, findings = points[-1]
    x_most, y_most = max(tried, 1), max(generated, 1)
    parts = [_grid(y_most), _axis(x_most, across)]
    heights = _apart([_height(count, y_most) for count in (generated, findings)])
    for column, name, height in zip((1, 2), ("generated", "findings"), heights, strict=True):
        places = " ".join(f"{_across(p[0], x_most):.1f},{_height(p[column], y_most):.1f}" for p in points)
        parts.append(Markup('<polyline class="line {}" points="{}"/>').format(name, places))
        parts.append(_line_name(name, points[-1][column], height))
    if title:
        parts.append(Markup('<text class="name" x="{}" y="16">{}</text>').format(LEFT, title))
    described = (
        f"{f'{title}: ' if title else ''}findings and generated samples over {across}. "
        f"After {tried:,} {across}: {generated:,} unique generated samples, {findings:,} findings."
    )
    return Markup('<svg class="chart" viewBox="0 0 {} {}" role="img"><title>{}</title>{}</svg>').format(
        WIDTH, HEIGHT, described[0].upper() + described[1:], Markup("").join(parts)
    )


def share_bars(findings: float, people: float, most: float) -> Markup:
    """Two small bars, findings above people; the numbers stand beside them in the table."""
    rows = [("findings", 0, findings), ("people", 8, people)]
    bars = [
        Markup('<rect class="{}" y="{}" width="{:.2f}" height="7"/>').format(name, y, 100 * share / most)
        for name, y, share in rows
    ]
    return _small_chart(bars)


def rate_bar(share: float, interval: Sequence[float] | None, most: float) -> Markup:
    """A small bar for a rate, with a line for its interval where it has one."""
    bars = [Markup('<rect class="rate" y="2" width="{:.2f}" height="11"/>').format(100 * share / most)]
    if interval is not None:
        low, high = (100 * bound / most for bound in interval)
        bars.append(Markup('<line class="interval" x1="{:.2f}" x2="{:.2f}" y1="7.5" y2="7.5"/>').format(low, high))
    return _small_chart(bars)


def ticks(most: float, wanted: int = 4) -> list[int]:
    """Whole round numbers from 0 to at most `most`, about as many as wanted."""
    rough = max(most / wanted, 1)
    power = 10 ** math.floor(math.log10(rough))
    step = next(int(factor * power) for factor in (1, 2, 5, 10) if factor * power >= rough)
    return [step * place for place in range(int(most / step) + 1)]


def short_number(number: int) -> str:
    """A number as an axis has it: 250,000, but 25 M."""
    return f"{number:,}" if number < 1_000_000 else f"{number / 1_000_000:,.10g} M"


def _small_chart(parts: Sequence[Markup]) -> Markup:
    return Markup(
        '<svg class="bars" viewBox="0 0 100 15" preserveAspectRatio="none" aria-hidden="true">{}</svg>'
    ).format(Markup("").join(parts))


def _across(tried: float, most: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * tried / most


def _height(count: float, most: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * count / most


def _grid(most: int) -> Markup:
    """Level lines with their numbers on top of them: a margin for them would cost a phone too much width."""
    line = Markup(
        '<line class="grid" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/><text class="tick" x="{}" y="{:.1f}">{}</text>'
    )
    heights = [(value, _height(value, most)) for value in ticks(most)]
    return Markup("").join(
        line.format(LEFT, WIDTH - RIGHT, y, y, LEFT, y - 5, short_number(value) if value else "")
        for value, y in heights
    )


def _axis(most: int, name: str) -> Markup:
    """Numbers below, and what they count."""
    mark = Markup('<text class="tick" x="{:.1f}" y="{}" text-anchor="{}">{}</text>')
    y = HEIGHT - BOTTOM + 22
    marks = [
        mark.format(_across(value, most), y, "middle" if value else "start", short_number(value))
        for value in ticks(most)
    ]
    named = mark.format(_across(most / 2, most), HEIGHT - 5, "middle", name)
    return Markup("").join([*marks, named])


def _line_name(name: str, count: int, height: float) -> Markup:
    """The name of a line with its last value, right of its end."""
    return Markup(
        '<text class="name {}" x="{}" y="{:.1f}">{}<tspan class="value" x="{}" dy="1.15em">{}</tspan></text>'
    ).format(
        name,
        WIDTH - RIGHT + 8,
        height,
        name,
        WIDTH - RIGHT + 8,
        short_number(count) if count >= 10**8 else f"{count:,}",
    )


def _apart(heights: list[float]) -> list[float]:
    """Where two names go so that they do not overlap: the upper one stays unless the lower would leave the chart."""
    upper, lower = heights
    lower = min(max(lower, upper + LABEL_ROOM), HEIGHT - BOTTOM - LABEL_ROOM / 2)
    return [max(min(upper, lower - LABEL_ROOM), 16), lower]


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
        x = TRADE_LEFT + (TRADE_WIDTH - TRADE_LEFT - TRADE_RIGHT) * math.sqrt(row["uniform"]["rate"] / most)
        return x, TRADE_TOP + (TRADE_HEIGHT - TRADE_TOP - TRADE_BOTTOM) * (high - row["accuracy"]) / (high - low)

    front = sorted((place(row) for row in shown if row["front"]), key=lambda at: at[0])
    line = Markup('<polyline class="front" points="{}"/>').format(" ".join(f"{x:.1f},{y:.1f}" for x, y in front))
    parts = [_axes(low, high, most), line, *_dots([(row, *place(row)) for row in shown], chosen)]
    title = Markup(
        "<title>Held-out accuracy against the rate of discriminatory samples, for {} models.</title>"
    ).format(len(shown))
    return Markup('<svg class="chart" viewBox="0 0 {} {}" role="img">{}{}</svg>').format(
        TRADE_WIDTH, TRADE_HEIGHT, title, Markup("").join(parts)
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
    bottom, right = TRADE_HEIGHT - TRADE_BOTTOM, TRADE_WIDTH - TRADE_RIGHT
    parts = [rule.format(TRADE_LEFT, right, bottom, bottom)]
    for share in (0.0, 0.5, 1.0):
        y = TRADE_TOP + (bottom - TRADE_TOP) * share
        parts += [
            rule.format(TRADE_LEFT, right, y, y),
            tick.format(TRADE_LEFT - 6, y + 4, "end", f"{high - (high - low) * share:.1%}"),
        ]
    for share in (0.0, 0.1, 0.4, 1.0):
        x = TRADE_LEFT + (right - TRADE_LEFT) * math.sqrt(share)
        parts.append(tick.format(x, bottom + 18, "middle", percent(share * most, 2)))
    parts.append(tick.format(TRADE_LEFT, TRADE_HEIGHT - 8, "start", "rate of discriminatory samples (√ scale)"))
    return Markup("").join(parts)
