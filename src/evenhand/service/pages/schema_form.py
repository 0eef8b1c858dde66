"""A schema as a form shows it, and what a person ticks there as changes of its text."""

import re
import tomllib
from collections.abc import Collection
from functools import lru_cache

from evenhand.data.attribute import Attribute
from evenhand.data.infer.schema_file import PASSES, value_text
from evenhand.data.schema import Schema
from evenhand.errors import EvenhandError

KINDS = {"category": "categories", "ordered": "categories in an order", "number": "number", "pass": "passed on"}
MOST_VALUES = 6
WHERE = "of this table"


@lru_cache(maxsize=64)  # every page about a run asks for it
def schema_of(text: str) -> Schema:
    """The schema that a text says, or an error that says line and column."""
    try:
        return Schema.parse(tomllib.loads(text), WHERE, text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise EvenhandError(f"The schema {WHERE} is not valid TOML: {error}.") from error


def attribute_row(attribute: Attribute) -> dict[str, str]:
    """An attribute as a row of the form."""
    return {
        "name": attribute.name,
        "title": attribute.title or attribute.name,
        "kind": KINDS[attribute.kind],
        "shown": values_words(attribute),
    }


def values_words(attribute: Attribute) -> str:
    """The values of an attribute in a few words."""
    low, high = attribute.domain
    if attribute.kind == "number":
        last = attribute.span[1]
        step = f" in steps of {attribute.step:g}" if attribute.step is not None else f", {last - low + 1:,} ranges"
        return f"{attribute.text(low)} to {attribute.text(last)}{step}{', or missing' if last < high else ''}"
    shown = [attribute.text(code) for code in range(low, min(high + 1, low + MOST_VALUES))]
    more = attribute.size - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more > 0 else "")


def set_aside(text: str, schema: Schema, columns: list[str]) -> list[tuple[str, str]]:
    """The columns that no search moves in, with the reason that stands in the schema's comments."""
    searched = {column for each in schema.attributes if each.kind != "pass" for column in each.raw_columns}
    used = searched | {schema.label.column, schema.split.column, schema.weight}
    comments = re.sub(r"\n#   (?=\S)", " ", text.partition("# Columns that are set aside:")[2])
    reasons = dict(re.findall(r'^# - "((?:[^"\\]|\\.)*)": (.*?)\.?$', comments, re.MULTILINE)) | _passed(text)
    return [(column, reasons.get(value_text(column)[1:-1], "")) for column in columns if column not in used]


def _passed(text: str) -> dict[str, str]:
    """By column, as TOML writes it: the comment above an attribute that passes."""
    block = r'((?:^# .*\n)+)\[\[attribute\]\]\nname = "(.*)"\n(?:column = "(.*)"\n)?(?:title = .*\n)?kind = "pass"$'
    found = re.findall(block, text, re.MULTILINE)
    return {
        column or name: re.sub(r"\n?# ", " ", comment).replace(PASSES, "").strip(" .\n")
        for comment, name, column in found
    }


def with_title(text: str, title: str) -> str:
    """An inferred schema with the name that people gave the data."""
    return re.sub(r"(?m)^name = .*$", lambda name: f"{name[0]}\ntitle = {value_text(title)}", text, count=1)


def with_choices(text: str, protected: Collection[str], favourable: str | None) -> str:
    """The text with these attributes protected and this label favourable; comments and all else stay as they are."""
    schema = schema_of(text)
    wanted = set(protected)
    parts = re.split(r"(?m)^(?=[ \t]*\[)", text)
    number = 0
    for place, part in enumerate(parts):
        if re.match(r"[ \t]*\[\[\s*attribute\s*\]\]", part):
            name = schema.attributes[number].name
            if (name in wanted) != schema.attributes[number].protected:
                parts[place] = _with_line(part, "protected", str(name in wanted).lower())
            number += 1
        elif re.match(r"[ \t]*\[\s*label\s*\]", part) and favourable not in (None, schema.label.favourable):
            parts[place] = _with_line(part, "favourable", value_text(favourable))
    changed = "".join(parts)
    return changed if _is_as_wanted(changed, wanted, favourable) else _refuse()


def _with_line(part: str, key: str, value: str) -> str:
    """A part of the file with `key = value`, in the place of such a line or below the heading."""
    line = f"{key} = {value}"
    found = re.compile(rf"(?m)^[ \t]*{key}[ \t]*=.*$")
    if found.search(part):
        return found.sub(lambda _: line, part, count=1)
    heading, newline, rest = part.partition("\n")
    return f"{heading}\n{line}{newline or chr(10)}{rest}"


def _is_as_wanted(text: str, protected: set[str], favourable: str | None) -> bool:
    try:
        schema = schema_of(text)
    except EvenhandError:
        return False
    return set(schema.protected) == protected and favourable in (None, schema.label.favourable)


def _refuse() -> str:
    raise EvenhandError("This schema is written in a way that ticks cannot change. Change it in its text below.")
