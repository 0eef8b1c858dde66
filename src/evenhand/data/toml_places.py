"""Where things stand in a TOML file, so that an error can say its line and column.

`tomllib` says what a file means but not where. This reads a file that `tomllib` has accepted once more and notes the
place of each key, table and entry of a list; it need not find mistakes.
"""

import re
from contextlib import suppress
from typing import NamedTuple

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


class Place(NamedTuple):
    """A line and a column, both counted from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


def place_of(text: str, location: Location) -> Place | None:
    """Where a location stands; where it is absent, the innermost table that should hold it; None for the whole file."""
    offsets = _offsets(text)
    while location and location not in offsets:
        location = location[:-1]
    return place_at(text, offsets[location]) if location else None


def keys_at(text: str, location: Location) -> list[str]:
    """The keys of the table at a location."""
    depth = len(location)
    keys = [place[depth] for place in _offsets(text) if place[:depth] == location and len(place) == depth + 1]
    return [key for key in keys if isinstance(key, str)]


def _offsets(text: str) -> dict[Location, int]:
    reader = _Reader(text)
    with suppress(ValueError, IndexError):  # what was found so far will do: a lost place must not hide the error
        reader.read()
    return reader.offsets


def place_at(text: str, offset: int) -> Place:
    """The line and column of a character."""
    before = text[:offset]
    return Place(before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1)


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
