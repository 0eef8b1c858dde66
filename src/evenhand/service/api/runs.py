"""Routes about runs: requested, listed, cancelled, resumed, deleted, compared."""

import tomllib
from collections.abc import Iterator
from functools import partial
from pathlib import PurePath
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, SkipValidation, ValidationError
from sqlalchemy.orm import Session

from evenhand.choices import DEFAULT_LEXICON
from evenhand.data.dataset import load_schema
from evenhand.data.schema import Schema
from evenhand.errors import EvenhandError
from evenhand.service.api.answers import ChangedSetting, ComparedRuns, Figure, JsonBody, Paged, RunAnswer, run_answer
from evenhand.service.api.caller import After, Caller, CurrentCaller, Id, Limit, page_of, read_cursor
from evenhand.service.api.errors import ApiError, documented, errors_as
from evenhand.service.requests import (
    ID,
    NOUNS,
    REQUESTS,
    AuditRequest,
    Kind,
    MeasureRequest,
    RepairRequest,
    RunRequest,
    TextAuditRequest,
    TextMeasureRequest,
    TextRepairRequest,
    domain_of_config,
    is_id,
    request_of,
    shared_settings,
    title_of,
)
from evenhand.service.storage.log import one_line
from evenhand.service.storage.runs import State
from evenhand.service.storage.tables import Run
from evenhand.settings import KINDS
from evenhand.text import CORPORA

TEXT_MODELS = (".safetensors", ".zip")
NO_FIGURES = ("files", "data")  # of a result


def create_run(
    caller: Caller, kind: str, request: RunRequest, title: str | None = None, parent: Run | None = None
) -> Run:
    """A run that waits for a worker; what cannot work is refused now and not after a wait.

    The run keeps what was said about the columns of its data: what its parent knew, which it is about, else as it is
    now.
    """
    text, data = (
        _check_texts(caller, request, parent) if request.domain == "text" else _check_table(caller, request, parent)
    )
    model = _model(caller, request)
    title = one_line(title or "") or title_of(kind, request, data, model)
    config = request.model_dump(mode="json")

    def hold(session: Session) -> None:
        caller.service.assets.hold(session, caller.project, config)
        if parent is not None and session.get(Run, parent.id, with_for_update={"read": True}) is None:
            raise EvenhandError(f"There is no run '{parent.id}' any more.")

    with errors_as("not-found"):
        return caller.service.runs.create(
            caller.project, kind, title, config, None if parent is None else parent.id,
            schema_text=text, asked_by=_asker(caller), check=hold,
        )  # fmt: skip


def requeue_run(caller: Caller, run_id: str) -> Run:
    """Let a run wait for a worker again, if what it needs is still there."""

    def hold(session: Session, run: Run) -> None:
        caller.service.assets.hold(session, caller.project, run.config)

    caller.run(run_id)
    with errors_as("conflict"):
        return caller.service.runs.resume(run_id, caller.project, check=hold)


def worker_request(run: Run) -> RunRequest | None:
    """The request of a run that a worker could do; None: it was made in a terminal, with files only that has."""
    try:
        return request_of(run.kind, run.config)
    except EvenhandError:
        return None


def audit_settings(caller: Caller, run_id: str, kind: str) -> tuple[Run, dict[str, Any]]:
    """An audit that a repair or a measurement begins from, and what it passes on: data, model, protected attributes."""
    audit = caller.run(run_id)
    if audit.kind != "audit":
        raise ApiError("conflict", f"The run {run_id} is a {NOUNS[audit.kind]}. A {NOUNS[kind]} begins from an audit.")
    request = worker_request(audit)
    if request is None:
        raise ApiError(
            "conflict", f"The run {run_id} was made in a terminal, with files that the service does not have."
        )
    return audit, shared_settings(request, kind)


def _asker(caller: Caller) -> str | None:
    return None if caller.person is None else caller.person.name


def _printable(title: str | None) -> str:
    """A title on one line, without characters that a database or a page could stumble over."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in title or "").split())


def _check_table(caller: Caller, request: RunRequest, parent: Run | None) -> tuple[str | None, str]:
    """The text of the schema where the data are not built in, and what people call them; mistakes are refused."""
    if is_id(request.dataset):
        text, name = _uploaded(caller, request, parent)
        schema = Schema.parse(tomllib.loads(text), f"of '{name}'", text)
    else:
        schema = load_schema(request.dataset)
        text, name = None, schema.title
    protected = request.protected or schema.protected
    schema.protected_indices(protected)
    schema.compared_within(getattr(request, "within", {}), protected)
    return text, name


def _check_texts(caller: Caller, request: RunRequest, parent: Run | None) -> tuple[str | None, str]:
    """The same for texts: which columns are which, and their name."""
    from evenhand.text.lexicon import load_lexicon

    lexicon = load_lexicon(getattr(request, "lexicon", DEFAULT_LEXICON))
    for name in request.protected:
        lexicon.attribute(name)
    return _uploaded(caller, request, parent) if is_id(request.dataset) else (None, CORPORA[request.dataset])


def _uploaded(caller: Caller, request: RunRequest, parent: Run | None) -> tuple[str, str]:
    """What is known about the columns of uploaded data, and what people call them."""
    entry = caller.dataset(request.dataset)
    if entry.domain != request.domain:
        raise EvenhandError(f"The data '{entry.name}' are {KINDS[entry.domain]}, and not what the request is about.")
    same = parent is not None and parent.config.get("dataset") == request.dataset
    text = (parent.schema_text if parent is not None and same else None) or entry.schema_text
    if text is None:
        raise EvenhandError(f"The data '{entry.name}' have no schema yet. Say first what their columns mean.")
    return text, entry.name


def _model(caller: Caller, request: RunRequest) -> str | None:
    if request.model is None:
        if is_id(request.dataset):
            raise EvenhandError("Data of your own need a model of your own: send one, and name its id as `model`.")
        return None
    entry = caller.model(request.model)
    suffix = PurePath(entry.file).suffix
    if suffix not in TEXT_MODELS if request.domain == "text" else suffix == ".zip":
        raise EvenhandError(f"The model '{entry.name}' ({suffix}) does not read {KINDS[request.domain]}.")
    if not caller.service.assets.is_described(entry):
        raise EvenhandError(f"The model '{entry.name}' lacks its .json, which says what the network looks like.")
    return entry.name


def compare(a: Run, b: Run, *, whole: bool) -> ComparedRuns:
    """The comparison of two runs; `whole` as in `run_answer`."""
    one, other = run_answer(a, whole=whole), run_answer(b, whole=whole)
    settings = [
        ChangedSetting(name=name, a=one.config.get(name), b=other.config.get(name))
        for name in dict.fromkeys([*one.config, *other.config])
        if one.config.get(name) != other.config.get(name)
    ]
    return ComparedRuns(a=one, b=other, settings=settings, figures=list(_figures(a, b)))


def _figures(a: Run, b: Run) -> Iterator[Figure]:
    first, second = dict(_numbers(a.result or {})), dict(_numbers(b.result or {}))
    for name in dict.fromkeys([*first, *second]):
        one, other = first.get(name), second.get(name)
        yield Figure(name=name, a=one, b=other, change=None if one is None or other is None else other - one)


def _numbers(content: dict[str, Any], above: str = "") -> Iterator[tuple[str, float]]:
    """All numbers of a result with the way to them: data_rate.rate; those of lists by what the entries are about."""
    for name, value in content.items():
        if name in NO_FIGURES:
            continue
        if isinstance(value, dict):
            yield from _numbers(value, f"{above}{name}.")
        elif name == "rates" and isinstance(value, list):
            for rate in value:
                yield f"{above}rate.{'+'.join(rate['changed'])}.{rate['population']}", float(rate["rate"])
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield f"{above}{name}", float(value)


router = APIRouter(prefix="/api/v1", tags=["runs"], responses=documented())

Title = Annotated[str | None, Field(min_length=1, max_length=200, description="How lists name it; null: made up.")]


class _New(JsonBody):
    title: Title = None


class NewAudit(_New):
    """A search for discriminatory pairs."""

    kind: Literal["audit"]
    request: SkipValidation[AuditRequest | TextAuditRequest]


class NewMeasure(_New):
    """A measurement of rates."""

    kind: Literal["measure"]
    request: SkipValidation[MeasureRequest | TextMeasureRequest]


class NewRepair(_New):
    """A repaired model."""

    kind: Literal["repair"]
    request: SkipValidation[RepairRequest | TextRepairRequest]


NewRun = Annotated[NewAudit | NewMeasure | NewRepair, Field(discriminator="kind")]


class RepairOfAudit(BaseModel):
    """How to repair the model of an audit; what is left out has the defaults of a repair, or is as in the audit."""

    model_config = ConfigDict(extra="allow")

    title: Title = None
    by: list[str] = Field(default=[], max_length=6, description="Ways to repair; none: what is usual for the model.")


class MeasurementOfAudit(BaseModel):
    """How to measure the model of an audit: half_width, confidence, changes; what is left out is as usual."""

    model_config = ConfigDict(extra="allow")

    title: Title = None


@router.post("/runs", summary="Ask for a run", status_code=201, responses=documented())
def add_run(caller: CurrentCaller, body: NewRun) -> RunAnswer:
    """It waits until a worker takes it. What a request may say depends on the data: a table, or texts."""
    request = _request(caller, body.kind, body.request)
    return run_answer(create_run(caller, body.kind, request, body.title), whole=caller.may("admin"))


def _request(caller: Caller, kind: str, content: Any) -> RunRequest:
    """The request as it was sent, read as one about a table or about texts; mistakes are those of the body."""
    given = content if isinstance(content, dict) else {}
    dataset, domain = str(given.get("dataset")), domain_of_config(given)
    if is_id(dataset):
        domain = caller.dataset(dataset).domain
    try:
        return REQUESTS[kind][domain].model_validate(content)
    except ValidationError as error:
        mistakes = [entry | {"loc": ("body", kind, "request", *entry["loc"])} for entry in error.errors()]
        raise RequestValidationError(mistakes) from error


@router.get("/runs", summary="List runs, the newest first")
def list_runs(
    caller: CurrentCaller,
    state: Annotated[State | None, Query(description="Only runs in this state.")] = None,
    kind: Annotated[Kind | None, Query(description="Only runs of this kind.")] = None,
    after: After = None,
    limit: Limit = 50,
) -> Paged[RunAnswer]:
    """A page of the list."""
    found = caller.service.runs.newest(
        caller.project, state=state, kind=kind, after=read_cursor(after), limit=limit + 1
    )
    return page_of(found, limit, partial(run_answer, whole=caller.may("admin")))


@router.get("/compare", summary="Compare two runs")
def compare_runs(
    caller: CurrentCaller,
    a: Annotated[str, Query(pattern=f"^{ID.pattern}$", description="The id of a run.")],
    b: Annotated[str, Query(pattern=f"^{ID.pattern}$", description="The id of another.")],
) -> ComparedRuns:
    """The settings in which they differ, and their figures side by side."""
    return compare(caller.run(a), caller.run(b), whole=caller.may("admin"))


@router.get("/runs/{run_id}", summary="Show a run")
def show_run(caller: CurrentCaller, run_id: Id) -> RunAnswer:
    """What was requested, its state, and its figures when it is done."""
    return run_answer(caller.run(run_id), whole=caller.may("admin"))


@router.post("/runs/{run_id}/cancel", summary="Cancel a run")
def cancel_run(caller: CurrentCaller, run_id: Id) -> RunAnswer:
    """At once where it waits, soon where it runs; one that is over stays as it is. Send an empty JSON body."""
    caller.run(run_id)
    return run_answer(caller.service.runs.cancel(run_id, caller.project), whole=caller.may("admin"))


@router.post("/runs/{run_id}/resume", summary="Take a run up again", responses=documented("conflict"))
def resume_run(caller: CurrentCaller, run_id: Id) -> RunAnswer:
    """For one that failed or was cancelled. Send an empty JSON body."""
    return run_answer(requeue_run(caller, run_id), whole=caller.may("admin"))


@router.delete("/runs/{run_id}", summary="Delete a run", status_code=204, responses=documented("conflict"))
def delete_run(caller: CurrentCaller, run_id: Id) -> Response:
    """Its files go too. One that runs has to be cancelled first."""
    caller.run(run_id)
    with errors_as("conflict"):
        caller.service.delete_run(run_id, caller.project)
    return Response(status_code=204)


@router.post(
    "/runs/{run_id}/repair", summary="Repair the model of an audit", status_code=201, responses=documented("conflict")
)
def repair_run(caller: CurrentCaller, run_id: Id, body: RepairOfAudit) -> RunAnswer:
    """The same data, model and protected attributes; the other settings are those of a repair."""
    return _from_audit(caller, run_id, "repair", body)


@router.post(
    "/runs/{run_id}/measure", summary="Measure the model of an audit", status_code=201, responses=documented("conflict")
)
def measure_run(caller: CurrentCaller, run_id: Id, body: MeasurementOfAudit) -> RunAnswer:
    """How often it decides otherwise: the same data, model and protected attributes."""
    return _from_audit(caller, run_id, "measure", body)


def _from_audit(caller: Caller, run_id: str, kind: Kind, body: RepairOfAudit | MeasurementOfAudit) -> RunAnswer:
    audit, settings = audit_settings(caller, run_id, kind)
    chosen: dict[str, Any] = body.model_dump(exclude={"title"})
    run = create_run(caller, kind, request_of(kind, settings | chosen), body.title, audit)
    return run_answer(run, whole=caller.may("admin"))
