"""What may be asked of the service: an audit, a measurement, a repair. A run keeps its request as its configuration.

Data and models are named by the ids that they were given when they came in; paths, addresses and code are never named.
"""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from evenhand.data.dataset import builtin_names
from evenhand.errors import EvenhandError, unknown_name
from evenhand.measures.choice import parse_conditions
from evenhand.methods.names import ABOUT, AUTO
from evenhand.mistakes import ended, first_mistake

ID = re.compile("[0-9a-f]{32}")
TITLE_LENGTH = 200  # of the column in the database
Name = Annotated[str, Field(min_length=1, max_length=200)]
RepairName = Literal["augment", "certified", "pairing", "average", "blind", "all"]
Kind = Literal["audit", "measure", "repair"]
NOUNS = {"audit": "audit", "measure": "measurement", "repair": "repair"}


def _id_or_builtin(name: str) -> str:
    """An id, or the name of a data set that comes with the package."""
    if ID.fullmatch(name) or name in builtin_names():
        return name
    raise ValueError(f"it must be the id of an uploaded table or one of {', '.join(builtin_names())}")


def _known_method(name: str) -> str:
    if name == AUTO or name in ABOUT:
        return name
    raise ValueError(str(unknown_name("method", name, [AUTO, *ABOUT])).rstrip("."))


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


class Request(BaseModel):
    """What audits, measurements and repairs have in common."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    dataset: Annotated[str, AfterValidator(_id_or_builtin)] = Field(description="Id of a table, or a built-in name.")
    model: Annotated[str, Field(pattern=f"^{ID.pattern}$")] | None = Field(
        default=None, description="Id of a model; null for the network that comes with a built-in data set."
    )
    protected: Annotated[list[Name], Field(max_length=100)] = Field(
        default=[], description="Attributes to change, together; none: those that the schema marks."
    )
    seed: int = Field(default=0, ge=0, le=2**53, description="Decides all random choices.")
    inputs: Literal["codes", "values", "raw", "onehot", "standard"] | None = Field(
        default=None,
        description="How a model that reads a matrix wants it; null: as its file says, or what the labels bear out.",
    )
    output: Literal["auto", "logits", "probabilities"] = Field(default="auto", description="What the model returns.")
    threshold: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="Two classes: the last of label.values from this score on; null: what the model itself does.",
    )
    accept_poor_model: bool = Field(
        default=False, description="Go on where the model gives the labels no more often than always saying the same."
    )

    within: dict[Name, Annotated[float, Field(gt=0)]] = Field(
        default={},
        description="By protected number: compare people with themselves up to so far from their own value.",
    )

    def settings(self) -> dict[str, Any]:
        """What the run's function is given beside data, model and protected attributes."""
        return self.model_dump(exclude={"dataset", "model", "protected"})


class AuditRequest(Request):
    """Search a classifier for discriminatory pairs. The defaults are those of `evenhand audit`."""

    seeds: int = Field(default=1000, ge=1, le=1_000_000, description="Rows of the data to start from.")
    iterations: int = Field(default=10, ge=1, le=10_000, description="Global iterations per seed.")
    steps: int = Field(default=1000, ge=0, le=1_000_000, description="Local steps around each first finding.")
    method: Annotated[str, AfterValidator(_known_method)] = Field(default="auto", description="How to search.")
    max_seconds: float | None = Field(default=None, gt=0, le=1e7, description="Maximum time in seconds.")
    max_findings: int | None = Field(default=None, ge=1, le=2**53, description="Maximum number of findings.")
    max_rows: int | None = Field(
        default=None, ge=1, le=2**53, description="Maximum number of rows that the search asks the model about."
    )


class MeasureRequest(Request):
    """Measure how often a classifier decides otherwise because of protected attributes."""

    half_width: float = Field(default=0.005, gt=0, lt=0.5, description="Half the width of each interval.")
    confidence: float = Field(default=0.95, gt=0, lt=1, description="Of the intervals.")
    changes: int = Field(default=2, ge=1, le=1000, description="Attributes changed in the rows' neighbourhood.")


class RepairRequest(Request):
    """Make a model whose labels depend less, or not at all, on protected attributes."""

    by: Annotated[list[RepairName], Field(min_length=1, max_length=6)] = Field(
        default=["blind"], description="Ways to repair; the best by `choose` is kept."
    )
    share: float = Field(default=0.05, gt=0, le=1, description="augment: the share of findings to learn from.")
    vote: Literal["models", "own"] = Field(default="models", description="augment: who labels findings.")
    repeats: int = Field(default=5, ge=1, le=100, description="Networks trained for each repair.")
    strength: float | None = Field(default=None, gt=0, le=1e6, description="Of pairing and certified.")
    choose: Annotated[str | None, Field(max_length=500), AfterValidator(_are_conditions)] = Field(
        default=None, description="Conditions that the kept repair meets, as in `evenhand repair --choose`."
    )
    method: Annotated[str, AfterValidator(_known_method)] = Field(default="auto", description="Makes findings.")
    seeds: int = Field(default=1000, ge=1, le=1_000_000, description="Rows of the data to start from.")
    steps: int = Field(default=1000, ge=0, le=1_000_000, description="Local steps around each first finding.")
    epochs: int | None = Field(default=None, ge=1, le=10_000, description="Of training; null: the usual number.")
    half_width: float = Field(default=0.001, gt=0, lt=0.5, description="Half the width of each interval.")
    confidence: float = Field(default=0.95, gt=0, lt=1, description="Of the intervals.")

    def settings(self) -> dict[str, Any]:
        """The number of epochs is left to the training where it is not given."""
        settings = super().settings()
        if self.epochs is None:
            del settings["epochs"]
        return settings


REQUESTS: dict[str, type[Request]] = {"audit": AuditRequest, "measure": MeasureRequest, "repair": RepairRequest}


def request_of(kind: str, config: dict[str, Any]) -> Request:
    """A request from JSON, such as the configuration of a run; an error says which setting is wrong."""
    if kind not in REQUESTS:
        raise unknown_name("kind of run", kind, REQUESTS)
    try:
        return REQUESTS[kind].model_validate(config)
    except ValidationError as error:
        location, reason = first_mistake(error, REQUESTS[kind])
        place = ".".join(map(str, location)) or "request"
        raise EvenhandError(f"The setting '{place}' is wrong: {ended(reason)}") from error


def title_of(kind: str, request: Request, data: str, model: str | None = None) -> str:
    """How lists name a run: `data` and `model` are the names that people gave them."""
    what = ", ".join(request.protected) or "all protected attributes"
    by = f" by {', '.join(request.by)}" if isinstance(request, RepairRequest) and request.by else ""
    title = f"{NOUNS.get(kind, kind).capitalize()} of {model or 'the built-in network'} on {data}: {what}{by}"
    return title if len(title) <= TITLE_LENGTH else f"{title[: TITLE_LENGTH - 1]}…"
