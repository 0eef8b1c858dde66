"""The columns and first rows of an uploaded table, read without reading the table."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

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
    """The columns and first rows of a file that never changes, read in a process with limits."""
    found = ask(settings, "preview", path, rows=ROWS, every_name=True)
    rows = [[_shown(value) for value in row[:MOST_COLUMNS]] for row in found["rows"]]
    return Preview(found["every_name"], rows)


def _shown(value: Any) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"
