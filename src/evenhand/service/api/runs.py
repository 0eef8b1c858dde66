"""Routes about runs: requested, listed, cancelled, resumed, deleted, compared."""

import tomllib
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy.orm import Session

from evenhand.data.dataset import load_schema
from evenhand.data.schema import Schema
from evenhand.errors import EvenhandError
from evenhand.service.api.answers import Comparison, Figure, RunAnswer, Runs, Setting, run_answer
from evenhand.service.api.context import ID, After, Asked, Context, Id, Limit, cursor_of, read_cursor
from evenhand.service.api.errors import ApiError, documented, otherwise
from evenhand.service.requests import (
    AuditRequest,
    Kind,
    MeasureRequest,
    RepairRequest,
    Request,
    is_id,
    request_of,
    title_of,
)
from evenhand.service.storage.runs import State
from evenhand.service.storage.tables import Run


def create_run(asked: Context, kind: str, request: Request, title: str | None = None, parent: Run | None = None) -> Run:
    """A run that waits for a worker; what cannot work is refused now and not after a wait.

    The run keeps the schema of its table: that of its parent, which it is about, else as it is now.
    """
    schema, text, data = _data(asked, request, parent)
    protected = request.protected or schema.protected
    schema.protected_indices(protected)
    schema.compared_within(request.within, protected)
    model = _model(asked, request)
    title = _printable(title) or title_of(kind, request, data, model)
    config = request.model_dump(mode="json")

    def hold(session: Session) -> None:
        asked.service.assets.hold(session, asked.project, config)
        if parent is not None and session.get(Run, parent.id, with_for_update={"read": True}) is None:
            raise EvenhandError(f"There is no run '{parent.id}' any more.")

    with otherwise("not-found"):
        return asked.service.runs.create(
            asked.project, kind, title, config, None if parent is None else parent.id,
            schema_text=text, asked_by=_asker(asked), check=hold,
        )  # fmt: skip


def requeue_run(asked: Context, run_id: str) -> Run:
    """Let a run wait for a worker again, if what it needs is still there."""

    def hold(session: Session, run: Run) -> None:
        asked.service.assets.hold(session, asked.project, run.config)

    asked.run(run_id)
    with otherwise("conflict"):
        return asked.service.runs.resume(run_id, asked.project, check=hold)


def can_be_asked(run: Run) -> bool:
    """Whether a worker could do it: a run of a terminal may name files that only the terminal has."""
    try:
        request_of(run.kind, run.config)
    except EvenhandError:
        return False
    return True


def from_audit(asked: Context, run_id: str, kind: str) -> tuple[Run, dict[str, Any]]:
    """An audit that a repair or a measurement begins from, with its data, model and protected attributes."""
    audit = asked.run(run_id)
    if audit.kind != "audit":
        raise ApiError("conflict", f"The run {run_id} is a {audit.kind}. A {kind} begins from an audit.")
    if not can_be_asked(audit):
        raise ApiError(
            "conflict", f"The run {run_id} was made in a terminal, with files that the service does not have."
        )
    return audit, request_of("audit", audit.config).model_dump(include=set(Request.model_fields))


def _asker(asked: Context) -> str | None:
    return None if asked.person is None else asked.person.name


def _printable(title: str | None) -> str:
    """A title on one line, without characters that a database or a page could stumble over."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in title or "").split())


def _data(asked: Context, request: Request, parent: Run | None) -> tuple[Schema, str | None, str]:
    """The schema of the data, its text where it is not built in, and what people call the data."""
    if not is_id(request.dataset):
        schema = load_schema(request.dataset)
        return schema, None, schema.title
    entry = asked.dataset(request.dataset)
    same = parent is not None and parent.config.get("dataset") == request.dataset
    text = (parent.schema_text if parent is not None and same else None) or entry.schema_text
    if text is None:
        raise EvenhandError(f"The table '{entry.name}' has no schema yet. Say first what its columns mean.")
    return Schema.parse(tomllib.loads(text), f"of '{entry.name}'", text), text, entry.name


def _model(asked: Context, request: Request) -> str | None:
    if request.model is None:
        if is_id(request.dataset):
            raise EvenhandError("A table of your own needs a model of your own: send one, and name its id as `model`.")
        return None
    entry = asked.model(request.model)
    if not asked.service.assets.is_described(entry):
        raise EvenhandError(f"The model '{entry.name}' lacks its .json, which says what the network looks like.")
    return entry.name


NO_FIGURES = ("files", "data")  # of a result


def compared(a: Run, b: Run, *, whole: bool) -> Comparison:
    """The comparison of two runs; `whole` as in `run_answer`."""
    one, other = run_answer(a, whole=whole), run_answer(b, whole=whole)
    settings = [
        Setting(name=name, a=one.config.get(name), b=other.config.get(name))
        for name in dict.fromkeys([*one.config, *other.config])
        if one.config.get(name) != other.config.get(name)
    ]
    return Comparison(a=one, b=other, settings=settings, figures=list(_figures(a, b)))


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


class _New(BaseModel):
    model_config = ConfigDict(extra="forbid")

    title: Title = None


class NewAudit(_New):
    """A search for discriminatory pairs."""

    kind: Literal["audit"]
    request: AuditRequest


class NewMeasure(_New):
    """A measurement of rates."""

    kind: Literal["measure"]
    request: MeasureRequest


class NewRepair(_New):
    """A repaired model."""

    kind: Literal["repair"]
    request: RepairRequest


NewRun = Annotated[NewAudit | NewMeasure | NewRepair, Field(discriminator="kind")]


class RepairWishes(BaseModel):
    """How to repair the model of an audit; what is left out has the defaults of a repair, or is as in the audit."""

    model_config = ConfigDict(extra="allow")

    title: Title = None
    by: list[str] = Field(default=["blind"], max_length=6, description="Ways to repair.")


class MeasureWishes(BaseModel):
    """How to measure the model of an audit: half_width, confidence, changes; what is left out is as usual."""

    model_config = ConfigDict(extra="allow")

    title: Title = None


@router.post("/runs", summary="Ask for a run", status_code=201, responses=documented())
def add_run(asked: Asked, body: NewRun) -> RunAnswer:
    """It waits until a worker takes it."""
    return run_answer(create_run(asked, body.kind, body.request, body.title), whole=asked.may("admin"))


@router.get("/runs", summary="List runs, the newest first")
def list_runs(
    asked: Asked,
    state: Annotated[State | None, Query(description="Only runs in this state.")] = None,
    kind: Annotated[Kind | None, Query(description="Only runs of this kind.")] = None,
    after: After = None,
    limit: Limit = 50,
) -> Runs:
    """A page of the list."""
    found = asked.service.runs.newest(asked.project, state=state, kind=kind, after=read_cursor(after), limit=limit + 1)
    shown = found[:limit]
    return Runs(
        entries=[run_answer(run, whole=asked.may("admin")) for run in shown],
        next=cursor_of(shown[-1]) if len(found) > limit else None,
    )


@router.get("/compare", summary="Compare two runs")
def compare_runs(
    asked: Asked,
    a: Annotated[str, Query(pattern=f"^{ID}$", description="The id of a run.")],
    b: Annotated[str, Query(pattern=f"^{ID}$", description="The id of another.")],
) -> Comparison:
    """The settings in which they differ, and their figures side by side."""
    return compared(asked.run(a), asked.run(b), whole=asked.may("admin"))


@router.get("/runs/{run_id}", summary="Show a run")
def show_run(asked: Asked, run_id: Id) -> RunAnswer:
    """What was asked for, where it stands, and its figures when it is done."""
    return run_answer(asked.run(run_id), whole=asked.may("admin"))


@router.post("/runs/{run_id}/cancel", summary="Cancel a run")
def cancel_run(asked: Asked, run_id: Id) -> RunAnswer:
    """At once where it waits, soon where it runs; one that is over stays as it is. Send an empty JSON body."""
    asked.run(run_id)
    return run_answer(asked.service.runs.cancel(run_id, asked.project), whole=asked.may("admin"))


@router.post("/runs/{run_id}/resume", summary="Take a run up again", responses=documented("conflict"))
def resume_run(asked: Asked, run_id: Id) -> RunAnswer:
    """For one that failed or was cancelled. Send an empty JSON body."""
    return run_answer(requeue_run(asked, run_id), whole=asked.may("admin"))


@router.delete("/runs/{run_id}", summary="Delete a run", status_code=204, responses=documented("conflict"))
def delete_run(asked: Asked, run_id: Id) -> Response:
    """Its files go too. One that runs has to be cancelled first."""
    asked.run(run_id)
    with otherwise("conflict"):
        asked.service.delete_run(run_id, asked.project)
    return Response(status_code=204)


@router.post(
    "/runs/{run_id}/repair", summary="Repair the model of an audit", status_code=201, responses=documented("conflict")
)
def repair_run(asked: Asked, run_id: Id, body: RepairWishes) -> RunAnswer:
    """The same data, model and protected attributes; the other settings are those of a repair."""
    return _from_audit(asked, run_id, "repair", body)


@router.post(
    "/runs/{run_id}/measure", summary="Measure the model of an audit", status_code=201, responses=documented("conflict")
)
def measure_run(asked: Asked, run_id: Id, body: MeasureWishes) -> RunAnswer:
    """How often it decides otherwise: the same data, model and protected attributes."""
    return _from_audit(asked, run_id, "measure", body)


def _from_audit(asked: Context, run_id: str, kind: Kind, body: RepairWishes | MeasureWishes) -> RunAnswer:
    audit, same = from_audit(asked, run_id, "repair" if kind == "repair" else "measurement")
    wishes: dict[str, Any] = body.model_dump(exclude={"title"})
    run = create_run(asked, kind, request_of(kind, same | wishes), body.title, audit)
    return run_answer(run, whole=asked.may("admin"))
