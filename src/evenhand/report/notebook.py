"""Results as a notebook shows them: facts, rates with intervals, a plot, a few pairs; no script, nothing fetched."""

from collections.abc import Iterable
from typing import Any

from markupsafe import Markup

from evenhand.report.charts import growth_chart, rate_bar, trade_chart
from evenhand.report.repair import repair_sentences
from evenhand.report.sentences import (
    example_lines,
    is_about_texts,
    is_not_tested,
    measured_parts,
    model_rows,
    rows_of,
    warning_rows,
)
from evenhand.report.tables import Table
from evenhand.report.words import interval_text, percent

PAIRS = 3
STYLE = Markup("""<style>
.evenhand table { border-collapse: collapse; margin: .5em 0; }
.evenhand th, .evenhand td { text-align: left; padding: .2em .8em .2em 0; vertical-align: top; }
.evenhand caption { text-align: left; font-weight: 600; padding-bottom: .3em; }
.evenhand .chart { max-width: 640px; width: 100%; height: auto; }
.evenhand .bars { width: 140px; height: 15px; }
.evenhand .bars .rate { fill: #b3261e; }
.evenhand .interval { stroke: currentColor; stroke-width: 2px; vector-effect: non-scaling-stroke; }
.evenhand text { font-size: 13px; fill: currentColor; }
.evenhand .grid, .evenhand .rule { stroke: currentColor; opacity: .2; }
.evenhand .line, .evenhand .front { fill: none; stroke-width: 2px; }
.evenhand .line.generated { stroke: #6b7fa3; } .evenhand .line.findings { stroke: #b3261e; }
.evenhand .front { stroke: currentColor; opacity: .4; }
.evenhand .dot { fill: #6b7fa3; } .evenhand .dot.beaten { fill: none; stroke: #6b7fa3; }
.evenhand .chosen { font-weight: 700; }
</style>""")


def audit_html(summary: dict[str, Any]) -> str:
    """An audit of a table or of texts."""
    facts, pairs = rows_of(summary), [example_lines(one) for one in summary["examples"][:PAIRS]]
    growth = [tuple(point) for point in summary["search"]["growth"]]
    rates = [] if is_not_tested(summary) else list(summary["data_rate"].values())
    return _shown(_facts("evenhand audit", facts), _rates(rates), growth_chart(growth) if growth else "", _pairs(pairs))


def measurement_html(title: str, summary: dict[str, Any], tables: list[Table]) -> str:
    """A measurement, with its rates as bars and its tables."""
    rates = [
        rate | {"population": f"changing {', '.join(measured['protected'])}: {rate['population']}"}
        for measured in measured_parts(summary)
        for rate in measured["populations"]
    ]
    facts = _facts(f"evenhand measurement. {title}", model_rows(summary))
    return _shown(_warnings(summary), facts, _rates(rates), *map(_table, tables))


def repair_html(summary: dict[str, Any]) -> str:
    """A repair: what it changed, all models that were compared, and what each costs."""
    return _shown(
        _warnings(summary),
        Markup("<p><strong>evenhand repair</strong></p>"),
        _list(repair_sentences(summary)),
        trade_chart(summary["rows"], summary["chosen"]),
        _table(_models_table(summary)),
    )


def _models_table(summary: dict[str, Any]) -> Table:
    """All models that a repair compared; of texts there are rates of held-out texts only."""
    rates = {"people": "people of the data", "uniform": "whole domain"}
    if is_about_texts(summary):
        rates = {"uniform": "held-out texts"}
    rows = [
        [
            row["name"] + (" (chosen)" if row["name"] == summary["chosen"] else ""),
            "–" if row["accuracy"] is None else f"{row['accuracy']:.2%}",
            *(_rate_cell(row[which]) for which in rates),
        ]
        for row in summary["rows"]
    ]
    return Table("all models", ["model", "accuracy, held out", *rates.values()], rows)


def _rate_cell(rate: dict[str, Any] | None) -> str:
    return "–" if rate is None else f"{percent(rate['rate'], 2)} ({interval_text(rate['interval'])})"


def _shown(*parts: Markup | str) -> str:
    return str(Markup('<div class="evenhand">{}{}</div>').format(STYLE, Markup("").join(parts)))


def _warnings(summary: dict[str, Any]) -> Markup:
    """What has to be known before any figure."""
    said = Markup("<p role='alert'><strong>{}.</strong> {}</p>")
    return Markup("").join(said.format(name.capitalize(), text) for name, text in warning_rows(summary))


def _facts(title: str, facts: Iterable[tuple[str, str]]) -> Markup:
    rows = Markup("").join(Markup("<tr><th>{}</th><td>{}</td></tr>").format(*fact) for fact in facts)
    return Markup("<table><caption>{}</caption>{}</table>").format(title, rows)


def _rates(rates: list[dict[str, Any]]) -> Markup:
    """Rates as bars, with a line for each interval."""
    if not rates:
        return Markup("")
    most = max(1e-9, *(rate["interval"][1] for rate in rates))
    row = Markup("<tr><th>{}</th><td>{}</td><td>{}</td><td>{}</td></tr>")
    rows = Markup("").join(
        row.format(
            rate["population"],
            percent(rate["rate"], 2),
            rate_bar(rate["rate"], rate["interval"], most),
            interval_text(rate["interval"]),
        )
        for rate in rates
    )
    return Markup("<table><caption>rates, with intervals of {:.0%}</caption>{}</table>").format(
        rates[0]["confidence"], rows
    )


def _pairs(pairs: list[list[str]]) -> Markup:
    """Pairs in words, each with what both share, what each gets, and where it comes from."""
    if not pairs:
        return Markup("")
    entries = Markup("").join(Markup("<li>{}{}</li>").format(pair[0], _list(pair[1:])) for pair in pairs)
    return Markup("<p><strong>clearest pairs</strong></p><ol>{}</ol>").format(entries)


def _list(lines: Iterable[str]) -> Markup:
    return Markup("<ul>{}</ul>").format(Markup("").join(Markup("<li>{}</li>").format(line) for line in lines))


def _table(table: Table) -> Markup:
    def row(kind: str, cells: list[str]) -> Markup:
        cell = Markup(f"<{kind}>{{}}</{kind}>")
        return Markup("<tr>{}</tr>").format(Markup("").join(cell.format(text) for text in cells))

    rows = [row("th", table.header), *(row("td", cells) for cells in table.rows)]
    remarks = _list(table.remarks) if table.remarks else Markup("")
    return Markup("<table><caption>{}</caption>{}</table>{}").format(table.title, Markup("").join(rows), remarks)
