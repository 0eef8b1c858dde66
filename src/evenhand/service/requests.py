"""What may be asked of the service: an audit, a measurement, a repair. A run keeps its request as its configuration.

Requests are made from the settings of the tasks (`evenhand/settings.py`): the same names, defaults and limits, less
what names files or machines. Data and models are named by the ids that they were given when they came in.
"""

import re
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, create_model, model_validator
from pydantic.fields import FieldInfo

from evenhand.choices import AUTO, Domain
from evenhand.data.dataset import builtin_names
from evenhand.errors import EvenhandError, unknown_name
from evenhand.measures.choice import parse_conditions
from evenhand.methods.names import ABOUT, TEXT_ABOUT
from evenhand.mistakes import ended, first_mistake
from evenhand.settings import (
    SETTINGS,
    AuditSettings,
    MeasureSettings,
    RepairSettings,
    TextAuditSettings,
    TextMeasureSettings,
    TextRepairSettings,
    option_of,
)
from evenhand.text import CORPORA

ID = re.compile("[0-9a-f]{32}")
TERMINAL = "terminal"  # in a configuration: what only a terminal can do, so that no worker takes it for its own
TITLE_LENGTH = 200  # of the column in the database
Name = Annotated[str, Field(min_length=1, max_length=200)]
Kind = Literal["audit", "measure", "repair"]
NOUNS = {"audit": "audit", "measure": "measurement", "repair": "repair"}


def _id_or_builtin(name: str) -> str:
    """An id, or the name of data that come with the package."""
    known = [*builtin_names(), *CORPORA]
    if ID.fullmatch(name) or name in known:
        return name
    raise ValueError(f"it must be the id of uploaded data or one of {', '.join(known)}")


def _known_method(name: str) -> str:
    if name == AUTO or name in ABOUT or name in TEXT_ABOUT:
        return name
    raise ValueError(str(unknown_name("method", name, [AUTO, *ABOUT, *TEXT_ABOUT])).rstrip("."))


def _are_conditions(text: str | None) -> str | None:
    try:
        if text is not None:
            parse_conditions(text)
    except EvenhandError as error:
        raise ValueError(str(error).rstrip(".")) from error
    return text


def is_id(name: str) -> bool:
    """Whether data are named by the id of an upload, and not built in."""
    return ID.fullmatch(name) is not None


def _may_be_null(info: FieldInfo) -> bool:
    return type(None) in getattr(info.annotation, "__args__", ()) or info.is_required()


class RunRequest(BaseModel):
    """What every request says: the data, the model, what is protected."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    dataset: Annotated[str, AfterValidator(_id_or_builtin)] = Field(description="Id of data, or a built-in name.")
    model: Annotated[str, Field(pattern=f"^{ID.pattern}$")] | None = Field(
        default=None, description="Id of a model; null for the network that comes with built-in data."
    )
    protected: Annotated[list[Name], Field(max_length=100)] = Field(
        default=[], description="Attributes to change, together; none: those that the schema marks."
    )
    domain: Domain = Field(default="table", description="What the data are; it need not be said.")

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, said: Any) -> Any:
        """A setting that is null and cannot be is as usual: release 0.1 kept requests so."""
        if not isinstance(said, dict):
            return said
        usual = {name for name, info in cls.model_fields.items() if not _may_be_null(info)}
        return {name: value for name, value in said.items() if value is not None or name not in usual}

    def given(self) -> dict[str, Any]:
        """What the run's task is told beside data, model and protected attributes."""
        return self.model_dump(exclude=set(RunRequest.model_fields))


class TextColumns(BaseModel):
    """Which columns of uploaded texts are which."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: Annotated[str, Field(min_length=1, max_length=500, description="The column with the texts.")] = "text"
    label: Annotated[str, Field(min_length=1, max_length=500, description="The column with the decisions.")] = "label"
    split: Annotated[str, Field(min_length=1, max_length=500)] | None = Field(
        default=None, description="A column that says train or test; null: a fixed fifth is test."
    )
    favourable: Annotated[str, Field(max_length=500)] | None = Field(
        default=None, description="The decision that is good for the author; null: not said."
    )


class CorpusFacts(TextColumns):
    """Which columns of texts are which, and what the file holds."""

    rows: int
    held_out: int = Field(description="Texts that no model is trained on.")
    empty: int = Field(description="Texts without a word.")
    classes: list[str]
    mentions: dict[str, int] = Field(description="By protected attribute: texts that seem to mention it.")


# What the service is stricter about than a command line, whose user can only harm himself.
STRICTER: dict[str, Any] = {
    "method": Annotated[str, AfterValidator(_known_method)],
    "choose": Annotated[str | None, Field(max_length=500), AfterValidator(_are_conditions)],
    "by": Annotated[list[Literal["augment", "certified", "pairing", "blind", "average", "all"]], Field(max_length=6)],
    "inputs": Literal["codes", "values", "raw", "onehot", "standard"] | None,
    "within": dict[Name, Annotated[float, Field(gt=0)]],
    "lexicon": Literal["evenhand", "paper"],
    "network": Literal["lstm", "gru"] | None,
}


def _request(name: str, task: Kind, domain: Domain) -> Any:
    """The request of a task, made from its settings."""
    settings = SETTINGS[task][domain]
    fields = {
        own: _field(own, info)
        for own, info in settings.model_fields.items()
        if own not in RunRequest.model_fields and not option_of(info).local
    }
    fields["domain"] = Literal[domain], Field(default=domain, description="What the data are; it need not be said.")
    if domain == "text":
        few = 1 if task != "measure" else 100
        fields["protected"] = (
            Annotated[list[Name], Field(min_length=1, max_length=few)],
            Field(description="Attributes of the lexicon to change."),
        )
    return create_model(name, __base__=RunRequest, __doc__=f"Asks for {(settings.__doc__ or '').lower()}", **fields)  # type: ignore[call-overload]


def _field(name: str, info: FieldInfo) -> tuple[Any, Any]:
    """A setting as a field of a request: its type with its limits, its default and its meaning."""
    option = option_of(info)
    limits = [entry for entry in info.metadata if entry is not option]
    kind = STRICTER.get(name) or (Annotated[info.annotation, *limits] if limits else info.annotation)
    if option.most is not None:
        kind = Annotated[kind, Field(le=option.most)]
    return kind, Field(default=info.get_default(), description=option.help)


if TYPE_CHECKING:  # what they are made of, for whoever reads the types

    class AuditRequest(RunRequest, AuditSettings):
        """Asks for an audit of a classifier of a table."""

    class MeasureRequest(RunRequest, MeasureSettings):
        """Asks for a measurement of a classifier of a table."""

    class RepairRequest(RunRequest, RepairSettings):
        """Asks for a repair of a classifier of a table."""

    class TextAuditRequest(RunRequest, TextAuditSettings):
        """Asks for an audit of a classifier of texts."""

    class TextMeasureRequest(RunRequest, TextMeasureSettings):
        """Asks for a measurement of a classifier of texts."""

    class TextRepairRequest(RunRequest, TextRepairSettings):
        """Asks for a repair of a classifier of texts."""

else:
    AuditRequest = _request("AuditRequest", "audit", "table")
    MeasureRequest = _request("MeasureRequest", "measure", "table")
    RepairRequest = _request("RepairRequest", "repair", "table")
    TextAuditRequest = _request("TextAuditRequest", "audit", "text")
    TextMeasureRequest = _request("TextMeasureRequest", "measure", "text")
    TextRepairRequest = _request("TextRepairRequest", "repair", "text")

REQUESTS: dict[str, dict[Domain, type[RunRequest]]] = {
    "audit": {"table": AuditRequest, "text": TextAuditRequest},
    "measure": {"table": MeasureRequest, "text": TextMeasureRequest},
    "repair": {"table": RepairRequest, "text": TextRepairRequest},
}


def request_of(kind: str, config: dict[str, Any]) -> RunRequest:
    """A request from JSON, such as the configuration of a run; an error says which setting is wrong."""
    if kind not in REQUESTS:
        raise unknown_name("kind of run", kind, REQUESTS)
    request = REQUESTS[kind][domain_of_config(config)]
    try:
        return request.model_validate(config)
    except ValidationError as error:
        location, reason = first_mistake(error, request)
        place = ".".join(map(str, location)) or "request"
        raise EvenhandError(f"The setting '{place}' is wrong: {ended(reason)}") from error


def domain_of_config(config: dict[str, Any]) -> Domain:
    """What the data of a configuration are: as it says, else texts where they are a built-in corpus."""
    return "text" if config.get("domain") == "text" or config.get("dataset") in CORPORA else "table"


def shared_settings(request: RunRequest, kind: str) -> dict[str, Any]:
    """What a run of another kind about the same data and model is asked too: all but what belongs to its task."""
    own, other = REQUESTS[kind][request.domain].model_fields, {"seeds", "steps", "method", "iterations"}
    return {name: value for name, value in request.model_dump().items() if name in own and name not in other}


def title_of(kind: str, request: RunRequest, data: str, model: str | None = None) -> str:
    """How lists name a run: `data` and `model` are the names that people gave them."""
    return title_words(kind, request.protected, getattr(request, "by", []), data, model)


def title_words(kind: str, protected: list[str], by: list[str], data: str, model: str | None) -> str:
    """The title of a run, cut where it is too long for a list."""
    what = ", ".join(protected) or "all protected attributes"
    how = f" by {', '.join(by)}" if by else ""
    title = f"{NOUNS.get(kind, kind).capitalize()} of {model or 'the built-in network'} on {data}: {what}{how}"
    return title if len(title) <= TITLE_LENGTH else f"{title[: TITLE_LENGTH - 1]}…"
