"""Charts as inline SVG, coloured by the page's own style, so that a report needs nothing but itself.

Names that come from data pass through `Markup.format`, which escapes them.
"""

import math
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

WIDTH, HEIGHT = 640, 330
TOP, RIGHT, BOTTOM, LEFT = 34, 150, 52, 6  # the right margin holds the names of the lines
LABEL_ROOM = 56  # two rows of text, at the size that a phone needs

Point = tuple[int, int, int]  # samples tried, unique generated, findings


def growth_points(summary: dict[str, Any]) -> list[Point]:
    """The points of a search's growth curve, the end of the search included."""
    search = summary["search"]
    end = (search["tried"], search["generated"]["total"], search["findings"]["total"])
    points = [(int(tried), int(generated), int(found)) for tried, generated, found in search["growth"]]
    return points if points and points[-1] == end else [*points, end]


def growth_chart(points: Sequence[Point]) -> Markup:
    """Unique samples and findings over samples tried, as two lines with their names at the ends."""
    points = [(0, 0, 0), *points]
    tried, generated, findings = points[-1]
    x_most, y_most = max(tried, 1), max(generated, 1)
    parts = [_grid(y_most), _axis(x_most)]
    heights = _apart([_height(count, y_most) for count in (generated, findings)])
    for column, name, height in zip((1, 2), ("generated", "findings"), heights, strict=True):
        places = " ".join(f"{_across(p[0], x_most):.1f},{_height(p[column], y_most):.1f}" for p in points)
        parts.append(Markup('<polyline class="line {}" points="{}"/>').format(name, places))
        parts.append(_line_name(name, points[-1][column], height))
    described = f"After {tried:,} samples tried: {generated:,} unique generated samples, {findings:,} findings."
    return Markup(
        '<svg class="chart" viewBox="0 0 {} {}" role="img" aria-labelledby="growth-title growth-desc">'
        '<title id="growth-title">Findings and generated samples over samples tried</title>'
        '<desc id="growth-desc">{}</desc>{}</svg>'
    ).format(WIDTH, HEIGHT, described, Markup("").join(parts))


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


def _axis(most: int) -> Markup:
    """Numbers below, and what they count."""
    mark = Markup('<text class="tick" x="{:.1f}" y="{}" text-anchor="{}">{}</text>')
    y = HEIGHT - BOTTOM + 22
    marks = [
        mark.format(_across(value, most), y, "middle" if value else "start", short_number(value))
        for value in ticks(most)
    ]
    name = mark.format(_across(most / 2, most), HEIGHT - 5, "middle", "samples tried")
    return Markup("").join([*marks, name])


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


def seeds_chart(curves: dict[str, list[Point]]) -> Markup:
    """Unique samples and findings over seeds explored, one small panel for each method, with scales of their own."""
    panels = [_seeds_panel(name, points) for name, points in curves.items() if points]
    return Markup("").join(panels)


def _seeds_panel(name: str, points: list[Point]) -> Markup:
    width, height, left, bottom, right = 380, 220, 10, 40, 130
    x_most, y_most = points[-1][0], max(max(generated for _, generated, _ in points), 1)

    def place(seeds: int, count: int) -> str:
        x = left + (width - left - right) * seeds / x_most
        return f"{x:.1f},{height - bottom - (height - bottom - 30) * count / y_most:.1f}"

    lines = [
        Markup('<polyline fill="none" stroke="{}" stroke-width="2" points="{}"/>').format(
            colour, " ".join(place(point[0], point[column]) for point in [(0, 0, 0), *points])
        )
        for column, colour in ((1, "#6b7fa3"), (2, "#b3261e"))
    ]
    names = [
        Markup('<text x="{}" y="{}" font-size="12" fill="{}">{} {:,}</text>').format(
            width - right + 4,
            max(14.0, float(place(0, points[-1][column]).split(",")[1]) + shift),
            colour,
            label,
            points[-1][column],
        )
        for column, colour, label, shift in ((1, "#6b7fa3", "samples", -2), (2, "#b3261e", "findings", 12))
    ]
    text = f"{name.upper()}: {points[-1][1]:,} unique samples and {points[-1][2]:,} findings after {x_most:,} seeds."
    return Markup(
        '<svg viewBox="0 0 {w} {h}" width="{w}" height="{h}" role="img"><title>{t}</title>'
        '<text x="{l}" y="16" font-size="13" fill="currentColor">{n}</text>'
        '<line x1="{l}" x2="{e}" y1="{b}" y2="{b}" stroke="currentColor" opacity=".4"/>'
        '<text x="{e}" y="{y}" font-size="12" text-anchor="end" fill="currentColor">{x:,} seeds explored</text>'
        "{p}</svg>"
    ).format(
        w=width,
        h=height,
        t=text,
        l=left,
        n=name.upper(),
        e=width - right,
        b=height - bottom,
        y=height - bottom + 18,
        x=x_most,
        p=Markup("").join([*lines, *names]),
    )
