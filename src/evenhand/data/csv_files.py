"""CSV files: their separator, header and rows as text; and what is wrong with one, without the values of people."""

import codecs
import csv
import gzip
import io
import re
import warnings
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from evenhand.data.attribute import repeated
from evenhand.errors import EvenhandError, TableWarning

READABLE = "a CSV file (also .csv.gz), a .parquet file, or a folder that a Hugging Face dataset was saved to"
AS_UTF8 = "Save it as UTF-8 (in a spreadsheet: 'CSV UTF-8')."
FROM_WINDOWS = f"{AS_UTF8[:-2]}; a file from Windows: `iconv -f CP1252 -t UTF-8 OLD.csv > NEW.csv`)."
SEPARATORS = (",", ";", "\t", "|")
LONGEST_NAME = 60
END_BYTES = 4096  # white space behind the last value is less than that
ROW_OF_ARROW = re.compile(r"(got \d+): .*", re.DOTALL)  # Arrow says the whole row
CLOSE_IT = "Close it, or take it away; a quote within a value is written twice."


def is_csv(path: Path) -> bool:
    """Whether a table that is there is text, which has neither types nor missing values of its own."""
    return not path.is_dir() and path.suffix != ".parquet"


def read_csv(path: Path, separator: str) -> pa.Table:
    """A CSV file whose rows all have as many values as there are columns, of which there are several."""
    if len(separator) != 1 or not separator.isascii() or separator in '\r\n"':
        raise EvenhandError(f"The separator must be one ASCII character such as , or ; and not {separator!r}.")
    _first_bytes(path)
    try:
        table = _parse_csv(path, separator)
        wrong = _wrong_separator(table.column_names, separator) or _left_open(table, path)
    except (pa.ArrowInvalid, OSError, UnicodeDecodeError) as error:
        raise EvenhandError(f"Cannot read the table {path}: {_reason(error, path, separator)}") from error
    if wrong is not None:
        raise EvenhandError(f"Cannot read the table {path}: {wrong}")
    if note := repeated_names_note(table.column_names):
        warnings.warn(f"In the table {path}, {note}.", TableWarning, stacklevel=2)
    return table.rename_columns(unique_header(table.column_names))


def header_note(path: Path, separator: str) -> str | None:
    """What to say of columns that share a name in a CSV file that can be read; None where none do."""
    return repeated_names_note(_header(path, _parsing(separator)))


def _reason(error: Exception, path: Path, separator: str) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"the names of the columns, in its first line, are not written in UTF-8. {FROM_WINDOWS}"
    said = str(error).rstrip(".")
    if "invalid UTF8" in said and "Expected" not in said:  # with that word it quotes a row, which may say anything
        column = re.search(r"CSV column #(\d+)", said)
        where = f"values of column {int(column[1]) + 1}" if column else "values"
        return f"{where} are not written in UTF-8. {FROM_WINDOWS}"
    return f"{said}." if isinstance(error, OSError) else _mistake_in(path, separator, said)


def _parse_csv(path: Path, separator: str) -> pa.Table:
    parsing = _parsing(separator)
    as_text = dict.fromkeys(_header(path, parsing), pa.string())
    return pa.csv.read_csv(path, parse_options=parsing, convert_options=pa.csv.ConvertOptions(column_types=as_text))


def _parsing(separator: str) -> pa.csv.ParseOptions:
    return pa.csv.ParseOptions(delimiter=separator, newlines_in_values=True)


def _header(path: Path, parsing: pa.csv.ParseOptions) -> list[str]:
    with pa.csv.open_csv(path, parse_options=parsing) as reader:
        names: list[str] = reader.schema.names
    return names


def find_separator(path: Path) -> str:
    """The separator under which the first lines of a CSV file have the same number of fields, and the most of them."""
    start = _first_bytes(path).decode("utf-8-sig", errors="replace")
    return max(SEPARATORS, key=lambda separator: _agreement(start, separator))


def _first_bytes(path: Path) -> bytes:
    """The first bytes of a CSV file, if they can be text."""
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rb") as stream:
            start: bytes = stream.read(1 << 16)
    except (OSError, EOFError) as error:
        raise EvenhandError(f"Cannot read the table {path}: {error}.") from error
    if not start.strip():
        raise EvenhandError(f"The table {path} is empty. Its first line must name the columns; export it once more.")
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise EvenhandError(f"Cannot read the table {path}: it is written in UTF-16. {AS_UTF8}")
    if b"\0" in start:
        raise EvenhandError(f"{path} is no table that can be read: it must be {READABLE}.")
    return start


def _agreement(text: str, separator: str) -> tuple[int, int]:
    """How many of the first rows have as many fields as the header, and how many that are."""
    try:
        rows = [row for row, _ in zip(csv.reader(io.StringIO(text), delimiter=separator), range(21), strict=False)]
    except csv.Error:
        return 0, 0
    fields = len(rows[0]) if rows else 0
    return (sum(len(row) == fields for row in rows), fields) if fields > 1 else (0, fields)


def is_nameless(column: str) -> bool:
    """Whether a column has no name; `unique_header` gives it one of these."""
    return not column.strip() or re.fullmatch(r"Unnamed: \d+(\.\d+)*", column) is not None


def unique_header(header: list[str]) -> list[str]:
    """The columns' names, each once, as pandas makes them: age and age.1, and Unnamed: 2 for one without a name.

    So a model that was trained on what pandas read finds its columns by these names.
    """
    names = [name or f"Unnamed: {place}" for place, name in enumerate(header)]
    seen: Counter[str] = Counter()
    for place in sorted(range(len(header)), key=lambda place: not header[place]):  # those with a name keep it
        name = wanted = names[place]
        number = seen[wanted]
        while number:
            seen[wanted] = number + 1
            name = f"{wanted}.{number}"
            number = number + 1 if name in names else seen[name]
        names[place] = name
        seen[name] += 1
    return names


def repeated_names_note(header: list[str]) -> str | None:
    """What to say of columns that share a name in a header; None where none do."""
    names = unique_header(header)
    notes = []
    for name in repeated([name for name in header if name]):
        places = [place for place, column in enumerate(header) if column == name]
        read = ", ".join(f"'{names[place]}'" for place in places)
        notes.append(f"{len(places)} columns are called '{name}'; they are read as {read}, in their order")
    return "; ".join(notes) or None


@dataclass(frozen=True)
class CsvRow:
    """A row as its lines say it."""

    values: list[str]
    first: int  # lines, from 1
    last: int


def _mistake_in(path: Path, separator: str, reason: str) -> str:
    """The first mistake in words; where none is found, the reason that Arrow gave, without the row."""
    with (
        gzip.open(path, "rt", encoding="utf-8-sig", errors="replace", newline="")
        if path.suffix == ".gz"
        else path.open(encoding="utf-8-sig", errors="replace", newline="") as lines
    ):
        return _first_mistake(lines, separator) or ROW_OF_ARROW.sub(r"\1", reason) + "."


def _left_open(table: pa.Table, path: Path) -> str | None:
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
            row, line = CsvRow(values, line + 1, reader.line_num), reader.line_num
            if not header and (wrong := _wrong_separator(values, separator)):
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


def _wrong_separator(columns: list[str], separator: str) -> str | None:
    """What to say of a single column whose name holds another separator."""
    others = [sign for sign in SEPARATORS if sign != separator and len(columns) == 1 and sign in columns[0]]
    if not others:
        return None
    likely = max(others, key=columns[0].count)
    name = columns[0] if len(columns[0]) <= LONGEST_NAME else f"{columns[0][:LONGEST_NAME]}…"
    return (
        f"only one column was found, '{name}'. Is {_sign(separator)} the separator? {_sign(likely)} seems to be; "
        "give that one."
    )


def _open_quote(row: CsvRow, header: list[str]) -> str:
    """A row of several lines is most likely one with a quote that another row closes."""
    over = [position for position, value in enumerate(row.values) if "\n" in value or "\r" in value]
    column = f", in the column '{header[over[0]][:LONGEST_NAME]}'," if over and over[0] < len(header) else ""
    return (
        f"lines {row.first} to {row.last} are read as one row with {_count(len(row.values), 'value')}, but the first "
        f'line names {_count(len(header), "column")}. If they are not one row, a quote (") that opens on line '
        f"{row.first}{column} is not closed there. {CLOSE_IT}"
    )


def _ragged(row: CsvRow, header: list[str], separator: str) -> str:
    many, columns = len(row.values), len(header)
    what = f"line {row.first} has {_count(many, 'value')}, but the first line names {_count(columns, 'column')}"
    remedy = (
        f'Put values that hold the separator {_sign(separator)} in quotes ("…"), or take away what is too much.'
        if many > columns
        else "Add what is missing; an empty value needs its separator too."
    )
    return f"{what}. {remedy}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _sign(separator: str) -> str:
    return "the tab" if separator == "\t" else f"'{separator}'"
