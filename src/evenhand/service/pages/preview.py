"""The columns and first rows of an uploaded table, read without reading the table."""

import csv
import gzip
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from evenhand.data.tables import find_separator
from evenhand.errors import EvenhandError
from evenhand.service.api.table_tasks import ask
from evenhand.service.settings import Settings

ROWS = 6
MOST_COLUMNS = 30
LONGEST_VALUE = 60


@dataclass(frozen=True)
class Preview:
    """Some rows, as texts."""

    all_columns: list[str]
    rows: list[list[str]]

    @property
    def columns(self) -> list[str]:
        """The columns that are shown."""
        return self.all_columns[:MOST_COLUMNS]

    @property
    def more_columns(self) -> int:
        """How many are not."""
        return len(self.all_columns) - len(self.columns)


@lru_cache(maxsize=100)
def preview_of(settings: Settings, path: Path) -> Preview:
    """The columns and first rows of a file that never changes; the rows are read in a process with limits."""
    columns = _columns(path)
    rows = ask(settings, "preview", path, rows=ROWS)["rows"]
    return Preview(columns, [[_shown(value) for value in row[:MOST_COLUMNS]] for row in rows])


def _columns(path: Path) -> list[str]:
    """All names, of which there may be more than the rows are shown with."""
    try:
        return _parquet_columns(path) if path.suffix == ".parquet" else _csv_columns(path)
    except (OSError, EOFError, UnicodeDecodeError, csv.Error) as error:
        raise EvenhandError(f"The table cannot be read: {error}. Save it as CSV in UTF-8, or as Parquet.") from error


def _csv_columns(path: Path) -> list[str]:
    stream = gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")  # noqa: SIM115 - closed below
    with stream:
        lines = iter(lambda: stream.readline(1 << 20).decode("utf-8-sig"), "")
        return next(csv.reader(lines, delimiter=find_separator(path)), [])


def _parquet_columns(path: Path) -> list[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return [str(name) for name in pq.read_schema(path).names]
    except pa.ArrowException as error:
        raise EvenhandError(f"The table cannot be read: {error}") from error


def _shown(value: Any) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"
