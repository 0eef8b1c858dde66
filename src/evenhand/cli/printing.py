"""What commands print: facts and tables for people, JSON for programs."""

import json
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from evenhand.report.tables import Table


def print_facts(console: "Console", facts: list[tuple[str, str]]) -> None:
    """Names and values in two columns; text from data is never read as markup."""
    from rich.table import Table as RichTable
    from rich.text import Text

    shown = RichTable(show_header=False, box=None, padding=(0, 2, 0, 0))
    shown.add_column(style="bold", no_wrap=True)
    shown.add_column(overflow="fold")  # a long path is shown whole
    for name, value in facts:
        shown.add_row(Text(name), Text(value))
    console.print(shown)


def print_section(title: str, facts: "list[tuple[str, str]]") -> None:
    """Facts under a title."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    console.print(Text(title, style="bold"))
    print_facts(console, facts)


def print_tables(title: str, tables: "list[Table]", facts: "Sequence[tuple[str, str]]" = ()) -> None:
    """Print facts and tables with their remarks; text from data is never read as markup."""
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    console = Console(highlight=False, markup=False)
    console.print(Text(title, style="bold"))
    if facts:
        print_facts(console, list(facts))
    for table in tables:
        shown = RichTable(box=None, padding=(0, 1, 0, 0), pad_edge=False)
        for position, heading in enumerate(table.header):
            shown.add_column(Text(heading), justify="right" if position else "left")
        for row in table.rows:
            shown.add_row(*(Text(cell) for cell in row))
        console.print(Text(f"\n{table.title}", style="bold"))
        console.print(shown)
        for remark in table.remarks:
            console.print(Text(f"- {remark}"))


def print_rows(headings: Iterable[str], rows: "Sequence[Iterable[str]]", none: str = "") -> None:
    """A table; text from outside is never read as markup. `none` is said where there are no rows."""
    if none and not rows:
        typer.echo(none)
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in headings:
        table.add_column(Text(heading), overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    Console(highlight=False).print(table)


def print_json(content: Any) -> None:
    """For programs."""
    typer.echo(json.dumps(content, indent=2, ensure_ascii=False, default=_as_text))


def moment_text(moment: datetime | None) -> str:
    """For people, in the time zone of this machine."""
    return "" if moment is None else moment.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _as_text(value: Any) -> str:
    assert isinstance(value, datetime)
    return value.isoformat()
