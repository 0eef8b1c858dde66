"""What is wrong with a CSV file that cannot be read: the line and the remedy, without the values of people."""

import csv
import gzip
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

SEPARATORS = (",", ";", "\t", "|")
LONGEST_NAME = 60
ROW_OF_ARROW = re.compile(r"(got \d+): .*", re.DOTALL)  # Arrow says the whole row
CLOSE_IT = "Close it, or take it away; a quote within a value is written twice."


@dataclass(frozen=True)
class Row:
    """A row as its lines say it."""

    values: list[str]
    first: int  # lines, from 1
    last: int


def mistake_in_csv(path: Path, separator: str, reason: str) -> str:
    """The first mistake in words; where none is found, the reason that Arrow gave, without the row."""
    with (
        gzip.open(path, "rt", encoding="utf-8-sig", errors="replace", newline="")
        if path.suffix == ".gz"
        else path.open(encoding="utf-8-sig", errors="replace", newline="") as lines
    ):
        return _first_mistake(lines, separator) or ROW_OF_ARROW.sub(r"\1", reason) + "."


def _first_mistake(lines: Iterable[str], separator: str) -> str | None:
    reader = csv.reader(lines, delimiter=separator)
    header: list[str] = []
    line = 0
    try:
        for values in reader:
            row, line = Row(values, line + 1, reader.line_num), reader.line_num
            if not header and (wrong := wrong_separator(values, separator)):
                return wrong
            header = header or values
            if values and len(values) != len(header):  # empty lines are no rows
                return _open_quote(row, header) if row.last > row.first else _ragged(row, header, separator)
    except csv.Error as error:
        if "field limit" in str(error):  # of the module csv: far more than a value of a table
            return f'a quote (") in the row that starts on line {line + 1} is not closed. {CLOSE_IT}'
    return None


def wrong_separator(columns: list[str], separator: str) -> str | None:
    """What to say of a single column whose name holds another separator."""
    others = [sign for sign in SEPARATORS if sign != separator and len(columns) == 1 and sign in columns[0]]
    if not others:
        return None
    likely = max(others, key=columns[0].count)
    name = columns[0] if len(columns[0]) <= LONGEST_NAME else f"{columns[0][:LONGEST_NAME]}…"
    return (
        f"only one column was found, '{name}'. Is {_said(separator)} the separator? {_said(likely)} seems to be; "
        "give that one."
    )


def _open_quote(row: Row, header: list[str]) -> str:
    """A row of several lines is most likely one with a quote that another row closes."""
    over = [position for position, value in enumerate(row.values) if "\n" in value or "\r" in value]
    column = f", in the column '{header[over[0]][:LONGEST_NAME]}'," if over and over[0] < len(header) else ""
    return (
        f'a quote (") opens on line {row.first}{column} and is not closed there, so lines {row.first} to {row.last} '
        f"are read as one row. {CLOSE_IT}"
    )


def _ragged(row: Row, header: list[str], separator: str) -> str:
    many, columns = len(row.values), len(header)
    what = f"line {row.first} has {_counted(many, 'value')}, but the first line names {_counted(columns, 'column')}"
    remedy = (
        f'Put values that hold the separator {_said(separator)} in quotes ("…"), or take away what is too much.'
        if many > columns
        else "Add what is missing; an empty value needs its separator too."
    )
    return f"{what}. {remedy}"


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _said(separator: str) -> str:
    return "the tab" if separator == "\t" else f"'{separator}'"
