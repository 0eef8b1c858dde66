"""Tables for people: Markdown, a terminal, a self-contained HTML page."""

from dataclasses import dataclass, field
from html import escape

STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 0 auto; padding: 1.5rem; }
h1 { font-size: 1.6rem; line-height: 1.25; } h2 { font-size: 1.1rem; margin-top: 2.5rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { white-space: nowrap; padding: .35rem .9rem .35rem 0; border-bottom: 1px solid #8886; text-align: right; }
td { vertical-align: top; }
th:first-child, td:first-child { text-align: left; }
th { font-weight: 600; }
p, li { max-width: 46rem; }
.chart { width: 24rem; max-width: 100%; height: auto; font-size: 22px; }
.chart text { fill: currentColor; } .chart .grid { stroke: #8886; } .chart .line { fill: none; stroke-width: 3px; }
.chart .line.generated { stroke: #6b7fa3; } .chart .line.findings { stroke: #b3261e; }
@media print { body { padding: 0; font-size: 9.5pt; } section { break-inside: avoid; } }
"""


@dataclass(frozen=True)
class Table:
    """A titled table with remarks beneath; all cells are text already."""

    title: str
    header: list[str]
    rows: list[list[str]]
    remarks: list[str] = field(default_factory=list)
    figure: str = ""  # an SVG that stands above the table on an HTML page


def markdown(title: str, tables: list[Table], intro: str = "") -> str:
    """A Markdown page."""
    parts = [f"# {title}", *([intro] if intro else [])]
    for table in tables:
        lines = [_row(table.header), " | ".join(["---", *["---:"] * (len(table.header) - 1)])]
        lines += [_row(row) for row in table.rows]
        parts += [f"## {table.title}", "\n".join(f"| {line} |" for line in lines)]
        parts += ["\n".join(f"- {remark}" for remark in table.remarks)] if table.remarks else []
    return "\n\n".join(parts) + "\n"


def _row(cells: list[str]) -> str:
    return " | ".join(cell.replace("|", "\\|") for cell in cells)


def html_page(title: str, tables: list[Table], intro: str = "") -> str:
    """One self-contained HTML page."""
    sections = "\n".join(_section(table) for table in tables)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{escape(title)}</h1>\n"
        f"{f'<p>{escape(intro)}</p>' if intro else ''}\n{sections}\n</main>\n</body>\n</html>\n"
    )


def _section(table: Table) -> str:
    header = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in table.header)
    rows = "\n".join(
        f'<tr><th scope="row">{escape(row[0])}</th>' + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:]) + "</tr>"
        for row in table.rows
    )
    remarks = "".join(f"<li>{escape(remark)}</li>" for remark in table.remarks)
    return (
        f"<section>\n<h2>{escape(table.title)}</h2>\n{table.figure}\n"
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(table.title)}"><table>\n'
        f"<thead><tr>{header}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table></div>\n"
        f"{f'<ul>{remarks}</ul>' if remarks else ''}\n</section>"
    )
