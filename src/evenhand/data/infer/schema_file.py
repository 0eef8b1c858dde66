"""A schema as a TOML file with comments, for a person to read and correct."""

import json
import re
import textwrap
from dataclasses import dataclass, field
from typing import Any

LINE = 118
PASSES = "A model that reads it is given it as it stands; no search changes it."  # said of a column


@dataclass(frozen=True)
class TomlTable:
    """A table of a TOML file and what is said above it."""

    content: dict[str, Any]
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class TomlSuggestion:
    """A line of a table that is commented out, for a person to fill in: its value as TOML, and what to do."""

    value: str
    hint: str


def schema_toml(
    top: TomlTable, label: TomlTable, split: TomlTable | None, attributes: list[TomlTable], remark: str,
    set_aside: dict[str, str],
) -> str:  # fmt: skip
    """The whole file: the table, the label, the split, the attributes, and the columns that are left out."""
    parts = [_section("", top), _section("[label]", label)]
    parts += [_section("[split]", split)] if split is not None else []
    parts += [_section("[[attribute]]", attribute) for attribute in attributes]
    parts.append(comment(remark))
    if set_aside:
        parts.append(comment("Columns that are set aside:") + "".join(_left_out(*entry) for entry in set_aside.items()))
    return "\n".join(parts)


def _section(header: str, described: TomlTable) -> str:
    lines = "".join(comment(note) for note in described.notes)
    lines += f"{header}\n" if header else ""
    return lines + "".join(_line(key, value) for key, value in described.content.items())


def _line(key: str, value: Any) -> str:
    if isinstance(value, TomlSuggestion):
        return comment(f"{value.hint}\n{key} = {value.value}")
    return f"{key} = {value_text(value)}\n"


def suggested_words(values: int) -> TomlSuggestion:
    """Words for codes, which mean nothing to a reader."""
    words = ", ".join(['"…"'] * values)
    return TomlSuggestion(f"[{words}]", "What the codes mean, in the same order, for reports to say:")


def _left_out(column: str, reason: str) -> str:
    name = quoted(column) if column.strip() else "a column"
    return comment(f"- {name}: {reason}.", hanging="  ")


def comment(text: str, hanging: str = "") -> str:
    """A text as comment lines; its own line breaks are kept."""
    lines: list[str] = []
    for line in text.splitlines():
        wrapped = textwrap.wrap(_printable(line), LINE - 2, subsequent_indent=hanging, break_on_hyphens=False)
        lines += wrapped or [""]
    return "".join(f"# {line}".rstrip() + "\n" for line in lines)


def _printable(text: str) -> str:
    """TOML forbids control characters, in comments too."""
    return "".join(character if character.isprintable() else " " for character in text)


def value_text(value: Any) -> str:
    """A value as TOML; long lists are broken into lines."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(key)} = {value_text(entry)}" for key, entry in value.items()) + " }"
    return _list_text([value_text(entry) for entry in value])


def _key(key: str) -> str:
    """A key of TOML, in quotes where it is not a plain word."""
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else quoted(key)


def _list_text(entries: list[str]) -> str:
    line = f"[{', '.join(entries)}]"
    if len(line) <= LINE - 20:
        return line
    lines, current = [], ""
    for entry in entries:
        if current and len(current) + len(entry) + 2 > LINE - 4:
            lines.append(current)
            current = ""
        current += f"{entry}, "
    return "[\n" + "".join(f"    {line.rstrip()}\n" for line in [*lines, current]) + "]"


def quoted(text: str) -> str:
    """A TOML string; JSON writes the same but for the delete character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
