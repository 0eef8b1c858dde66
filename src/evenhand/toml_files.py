"""TOML files that people write: reading them, and where things stand in them, so that an error can say line and column.

`tomllib` says what a file means but not where. This reads a file that `tomllib` has accepted once more and notes the
place of each key, table and entry of a list; it need not find mistakes.
"""

import re
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from evenhand.errors import EvenhandError

Location = tuple[int | str, ...]
BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
STRINGS = [  # multi-line strings first: they begin like empty ones
    re.compile(r'"""(?:[^\\]|\\.)*?"{3,5}', re.DOTALL),
    re.compile(r"'''.*?'{3,5}", re.DOTALL),
    re.compile(r'"(?:[^"\\]|\\.)*"'),
    re.compile(r"'[^']*'"),
]
PLAIN_VALUE = re.compile(r"[^,\]}#\n]*")


class FilePosition(NamedTuple):
    """A line and a column, both counted from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


def place_of(text: str, location: Location) -> FilePosition | None:
    """Where a location stands; where it is absent, the innermost table that should hold it; None for the whole file."""
    offsets = _offsets(text)
    while location and location not in offsets:
        location = location[:-1]
    return place_at(text, offsets[location]) if location else None


def keys_in_file(text: str, location: Location) -> list[str]:
    """The keys of the table at a location."""
    depth = len(location)
    keys = [place[depth] for place in _offsets(text) if place[:depth] == location and len(place) == depth + 1]
    return [key for key in keys if isinstance(key, str)]


def _offsets(text: str) -> dict[Location, int]:
    reader = _Reader(text)
    with suppress(ValueError, IndexError):  # what was found so far will do: a lost place must not hide the error
        reader.read()
    return reader.offsets


def place_at(text: str, offset: int) -> FilePosition:
    """The line and column of a character."""
    before = text[:offset]
    return FilePosition(before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1)


class _Reader:
    """One pass over the text."""

    def __init__(self, text: str) -> None:
        self.text, self.position = text, 0
        self.offsets: dict[Location, int] = {}
        self.tables: dict[Location, int] = {}  # how many entries each list of tables has so far

    def read(self) -> None:
        """Note the offset of each key, table and entry of a list."""
        table: Location = ()
        self._skip(BLANK)
        while self.position < len(self.text):
            if self.text[self.position] == "[":
                table = self._header()
            else:
                self._pair(table)
            self._skip(BLANK)

    def _header(self) -> Location:
        """[table] or [[list of tables]]; a name inside a list of tables means its last entry."""
        start = self.position
        many = self.text.startswith("[[", start)
        self.position += 2 if many else 1
        names = self._dotted_key()
        self._until("]]" if many else "]")
        location: Location = ()
        for name in names[:-1]:
            location = self._last_entry((*location, name))
        location = (*location, names[-1])
        if many:
            self.tables[location] = self.tables.get(location, 0) + 1
            self.offsets.setdefault(location, start)
        location = self._last_entry(location)
        self.offsets.setdefault(location, start)
        return location

    def _last_entry(self, location: Location) -> Location:
        return (*location, self.tables[location] - 1) if location in self.tables else location

    def _pair(self, table: Location) -> None:
        """A key and its value."""
        start = self.position
        for name in self._dotted_key():
            table = (*table, name)
            self.offsets.setdefault(table, start)
        self._until("=")
        self._value(table)

    def _dotted_key(self) -> list[str]:
        names = []
        while True:
            self._skip(BLANK)
            names.append(self._string() if self.text[self.position] in "\"'" else self._skip(BARE_KEY))
            self._skip(BLANK)
            if not self.text.startswith(".", self.position):
                return names
            self.position += 1

    def _value(self, location: Location) -> None:
        self._skip(BLANK)
        first = self.text[self.position]
        if first in "\"'":
            self._string()
        elif first == "[":
            self._entries(location, "]")
        elif first == "{":
            self._entries(location, "}")
        else:
            self._skip(PLAIN_VALUE)

    def _entries(self, location: Location, end: str) -> None:
        """The entries of a list or of an inline table."""
        self.position += 1
        number = 0
        self._skip(BLANK)
        while self.text[self.position] != end:
            if end == "]":
                self.offsets[*location, number] = self.position
                self._value((*location, number))
            else:
                self._pair(location)
            number += 1
            self._skip(BLANK)
            if self.text[self.position] == ",":
                self.position += 1
                self._skip(BLANK)
        self.position += 1

    def _string(self) -> str:
        """A quoted string without its quotes; escapes stay as written, since a key rarely has any."""
        for pattern in STRINGS:
            if pattern.match(self.text, self.position):
                return self._skip(pattern)[1:-1]
        raise ValueError(f"no string at {place_at(self.text, self.position)}")

    def _until(self, mark: str) -> None:
        self.position = self.text.index(mark, self.position) + len(mark)

    def _skip(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.text, self.position)
        if found is None:
            raise ValueError(f"unexpected text at {place_at(self.text, self.position)}")
        self.position = found.end()
        return found.group()


def read_toml(path: Path, what: str) -> tuple[dict[str, Any], str]:
    """The content of a file and its text, for `place_of`; `what` names the file in errors: "gate file"."""
    try:
        written = path.read_bytes()
    except OSError as error:
        raise EvenhandError(f"Cannot read the {what} {path}: {error.strerror}.") from error
    try:
        text = written.decode("utf-8").replace("\r\n", "\n")
        return tomllib.loads(text), text
    except UnicodeDecodeError as error:
        before = written[: error.start].decode("utf-8")
        reason = f"{place_at(before, len(before))} is not UTF-8"
    except tomllib.TOMLDecodeError as error:
        reason = str(error).replace("(at end of document)", f"(at {place_at(text, len(text.rstrip()))})")
    except RecursionError:
        reason = "its lists or tables lie too deep in one another"
    raise EvenhandError(f"The {what} {path} is not valid TOML: {reason}.")
