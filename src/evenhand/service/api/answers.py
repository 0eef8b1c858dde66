"""What the routes answer, and what all bodies of requests have in common."""

from datetime import datetime
from pathlib import PurePath
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from evenhand.choices import Domain
from evenhand.service.requests import TERMINAL, Kind
from evenhand.service.storage.runs import State
from evenhand.service.storage.tables import Run

Entry = TypeVar("Entry")


class JsonBody(BaseModel):
    """The body of a request; a field that is not known is a mistake, not a wish."""

    model_config = ConfigDict(extra="forbid")


class Listed(BaseModel, Generic[Entry]):
    """All there are."""

    entries: list[Entry]


class Paged(BaseModel, Generic[Entry]):
    """A page of a list, the newest first."""

    entries: list[Entry]
    next: str | None = Field(description="`after` of the next page; null: this is the last one.")


class FromEntry(BaseModel):
    """An answer that is read off an entry of the database."""

    model_config = ConfigDict(from_attributes=True, protected_namespaces=())


class DatasetAnswer(FromEntry):
    """An uploaded table, or uploaded texts."""

    id: str
    name: str
    file: str = Field(description="The service's own name of the file.")
    size: int = Field(description="In bytes.")
    sha256: str
    rows: int | None = Field(description="Where it is known.")
    created: datetime
    domain: Domain = Field(description="table or text")
    has_schema: bool = Field(description="Whether a run can use it: somebody has said what its columns mean.")


class ModelAnswer(FromEntry):
    """An uploaded model."""

    id: str
    name: str
    file: str
    size: int
    sha256: str
    created: datetime
    is_described: bool = Field(description="False for a .safetensors file whose .json has not come yet.")


class RunAnswer(FromEntry):
    """A run."""

    id: str
    kind: Kind
    title: str
    config: dict[str, Any] = Field(description="What was requested; of a terminal's run, its folder for admins only.")
    parent: str | None = Field(description="The audit that a repair or a measurement came from.")
    place: Literal["worker", "terminal"] = Field(description="Who does it: a worker, or a command in a terminal.")
    asked_by: str | None = Field(description="The name of an account; null where there are none.")
    state: State
    progress: dict[str, Any]
    result: dict[str, Any] | None
    error: str | None
    attempts: int
    created: datetime
    started: datetime | None
    finished: datetime | None


def run_answer(run: Run, *, whole: bool) -> RunAnswer:
    """A run as routes answer it. Where on the machine a terminal's run was made is for admins alone: `whole`."""
    shown = RunAnswer.model_validate(run)
    return shown if whole else shown.model_copy(update={"config": shown_config(run.config)})


def shown_config(config: dict[str, Any]) -> dict[str, Any]:
    """A configuration without the folder of a terminal, and without the way to its files."""
    if TERMINAL not in config:
        return config
    named = {name: file_name(config.get(name)) for name in ("dataset", "model")}
    return {name: value for name, value in (config | named).items() if name != TERMINAL}


def file_name(named: str | None) -> str | None:
    """What a file is called; addresses and Python's names (with a colon) are as they are."""
    return named if named is None or ":" in named else PurePath(named).name


class EventAnswer(FromEntry):
    """Something that happened to a run."""

    id: int
    at: datetime
    kind: str
    data: dict[str, Any]


class Events(BaseModel):
    """Events in the order in which they happened."""

    entries: list[EventAnswer]
    next: int = Field(description="The number of the last one; ask for those after it.")


class BuiltinAnswer(BaseModel):
    """A data set that comes with the package, with a network of its own."""

    name: str
    title: str
    domain: Domain
    attributes: list[str] = Field(description="Of a table; texts have none.")
    protected: list[str] = Field(description="Of texts: the attributes of the usual lexicon.")
    label: str
    labels: list[str]


class AttributeAnswer(BaseModel):
    """What a schema says about a column."""

    name: str
    column: str
    title: str
    kind: str
    size: int = Field(description="How many values its domain has.")
    protected: bool
    notes: list[str] = Field(description="What was decided when the schema was inferred.")


class SchemaAnswer(BaseModel):
    """What the columns of a table mean."""

    text: str = Field(description="TOML, to be read and corrected.")
    rows: int | None
    label: str
    labels: list[str]
    favourable: str | None
    protected: list[str]
    protected_guessed: bool = Field(description="By the names of columns, since none were given.")
    attributes: list[AttributeAnswer]
    set_aside: dict[str, str] = Field(description="Columns that no search moves in, and why, when it was inferred.")
    facts: dict[str, str] = Field(description="How it fits the table, when it was just checked.")


class PreviewAnswer(BaseModel):
    """The first rows of a table, as text."""

    columns: list[str]
    rows: list[list[str | None]]
    more_columns: int = Field(description="Columns that are not shown.")


class FileAnswer(BaseModel):
    """A file of a run."""

    name: str
    size: int


class AnyFindingAnswer(FromEntry):
    """What findings in a table and in texts have in common."""

    row: int
    phase: str
    seed_row: int | None
    step: int
    label: str
    witness_label: str
    score: float
    witness_score: float
    gap: float = Field(description="How far the two scores are apart.")


class FindingAnswer(AnyFindingAnswer):
    """One pair in a table, in words."""

    sample: dict[str, str]
    witness: dict[str, str] = Field(description="Its protected attributes; all others are as in the sample.")


class TextFindingAnswer(AnyFindingAnswer):
    """One pair of texts."""

    original: str = Field(description="The text of the corpus that the search started from.")
    text: str
    witness: str = Field(description="The text with other protected words.")
    value: str = Field(description="The protected value that the text names.")
    witness_value: str
    l0: int = Field(description="How many words differ from the original.")
    l2: float
    jaccard: float
    bleu: float
    similarity: float | None = Field(description="To the original, by a sentence encoder; null: not measured.")


class FindingsPage(BaseModel):
    """Some findings of an audit."""

    entries: list[FindingAnswer] | list[TextFindingAnswer] = Field(description="Pairs of a table, or of texts.")
    total: int = Field(description="Findings that the filters let through.")
    next: int | None = Field(description="`after` of the next page; null: this is the last one.")


class FindingsValues(BaseModel):
    """What findings can be filtered by."""

    rows: int
    attributes: dict[str, list[str]]
    protected: list[str]
    labels: list[str]
    phases: list[str]
    sorts: list[str]
    text_values: list[str] = Field(description="Protected values that texts name; none for tables.")
    witness_values: list[str]


class Figure(BaseModel):
    """A figure of two runs."""

    name: str
    a: float | None
    b: float | None
    change: float | None = Field(description="b - a.")


class ChangedSetting(BaseModel):
    """A setting in which two runs differ."""

    name: str
    a: Any
    b: Any


class ComparedRuns(BaseModel):
    """Two runs side by side."""

    a: RunAnswer
    b: RunAnswer
    settings: list[ChangedSetting]
    figures: list[Figure]


class Health(BaseModel):
    """Whether the service works."""

    status: Literal["ok", "unavailable"]
    problems: list[str] = []
