"""Data as forms show it: by its id or built-in name, with its schema and first rows; ticks as changes of a schema."""

import re
import tomllib
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from evenhand.choices import Domain
from evenhand.data.attribute import Attribute
from evenhand.data.dataset import builtin_names, load_schema
from evenhand.data.infer.schema_file import PASSES, value_text
from evenhand.data.schema import Schema
from evenhand.errors import EvenhandError
from evenhand.service.api.answers import file_name
from evenhand.service.api.errors import ApiError, errors_as
from evenhand.service.api.table_tasks import ask
from evenhand.service.requests import TERMINAL, CorpusFacts, domain_of_config, is_id
from evenhand.service.settings import Service, Settings
from evenhand.service.storage.tables import DataFile, Run
from evenhand.text import CORPORA

KINDS = {"category": "categories", "ordered": "categories in an order", "number": "number", "pass": "passed on"}
MOST_VALUES = 6
WHERE = "of this table"
PREVIEW_ROWS = 6
MOST_COLUMNS = 30
LONGEST_VALUE = 60


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


@dataclass(frozen=True)
class ChosenData:
    """Data to audit; `file` is none where it is built in."""

    known_as: str
    name: str
    file: DataFile | None
    schema: Schema | None  # of a table, once it is known
    texts: CorpusFacts | None = None  # of uploaded texts, once it is known
    domain: Domain = "table"

    @property
    def is_ready(self) -> bool:
        """Whether it is known what the columns mean."""
        return self.schema is not None or self.texts is not None or (self.domain == "text" and self.file is None)


@cache
def _builtin(name: str) -> Schema:
    return load_schema(name)


def chosen_data(service: Service, known_as: str, project: str) -> ChosenData:
    """The data with this id or name."""
    if known_as in builtin_names():
        schema = _builtin(known_as)
        return ChosenData(known_as, schema.title, None, schema)
    if known_as in CORPORA:
        return ChosenData(known_as, CORPORA[known_as], None, None, domain="text")
    if not is_id(known_as):
        raise ApiError("not-found", f"There is no data set '{known_as[:80]}'. Choose one at step 1 of a new audit.")
    with errors_as("not-found"):
        file = service.assets.dataset(known_as, project)
    text = file.schema_text
    if file.domain == "text":
        facts = None if text is None else CorpusFacts.model_validate_json(text)
        return ChosenData(known_as, file.name, file, None, facts, "text")
    return ChosenData(known_as, file.name, file, None if text is None else schema_of(text))


def schema_of_run(service: Service, run: Run) -> Schema | None:
    """The schema that a run worked with; None where nothing has it any more, and for texts."""
    if domain_of_config(run.config) == "text":
        return None
    try:
        if run.schema_text is not None:
            return schema_of(run.schema_text)
        return chosen_data(service, str(run.config.get("dataset")), run.project).schema
    except EvenhandError:
        return None


def data_name(service: Service, run: Run) -> str:
    """What a run's data is called; it may have been deleted since, or be known to a terminal only."""
    if TERMINAL in run.config:
        return str(((run.result or {}).get("data") or {}).get("title") or file_name(run.config.get("dataset")))
    try:
        return chosen_data(service, str(run.config.get("dataset")), run.project).name
    except EvenhandError:
        return "data that were deleted"


def model_name(service: Service, run: Run) -> str:
    """What a run's model is called."""
    known_as = run.config.get("model")
    if known_as is None:
        return "the built-in network"
    if TERMINAL in run.config:
        return str(file_name((run.result or {}).get("model") or known_as))
    try:
        return service.assets.model(str(known_as), run.project).name
    except EvenhandError:
        return "a model that was deleted"


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
    found = ask(settings, "preview", path, rows=PREVIEW_ROWS, every_name=True)
    rows = [[_shown(value) for value in row[:MOST_COLUMNS]] for row in found["rows"]]
    return Preview(found["every_name"], rows)


def _shown(value: Any) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"
