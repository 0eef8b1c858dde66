"""What is wrong with a CSV file that cannot be read: the line and the remedy, without the values of people."""

import csv
import gzip
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

SEPARATORS = (",", ";", "\t", "|")
LONGEST_NAME = 60
END_BYTES = 4096  # white space behind the last value is less than that
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


def left_open(table: "pa.Table", path: Path) -> str | None:
    """What to say of a table whose last value was not closed: Arrow takes all lines to the end of the file for it."""
    last = table.column(table.num_columns - 1)[-1].as_py() if table.num_rows and table.num_columns else None
    if last is None or "\n" not in last.strip() or _ends_with_a_quote(path):
        return None
    column = table.column_names[-1][:LONGEST_NAME]
    many = last.strip().count("\n") + 1
    return (
        f"a quote (\") in the last column, '{column}', is not closed: the last {many:,} lines are one value. {CLOSE_IT}"
    )


def _ends_with_a_quote(path: Path) -> bool:
    end = b""
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as stream:
        while piece := stream.read(1 << 20):
            end = (end + piece)[-END_BYTES:]
    return end.rstrip().endswith(b'"')


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
            return (
                f"a value in the row that starts on line {line + 1} is longer than {csv.field_size_limit():,} "
                f'characters. Most likely a quote (") is not closed. {CLOSE_IT}'
            )
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
        f"lines {row.first} to {row.last} are read as one row with {_counted(len(row.values), 'value')}, but the first "
        f'line names {_counted(len(header), "column")}. If they are not one row, a quote (") that opens on line '
        f"{row.first}{column} is not closed there. {CLOSE_IT}"
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
