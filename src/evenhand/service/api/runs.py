"""Routes about runs: asked for, listed, cancelled, taken up again, deleted, compared."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from evenhand.service.api import asking
from evenhand.service.api.answers import Comparison, RunAnswer, Runs, run_answer
from evenhand.service.api.comparing import compared
from evenhand.service.api.context import ID, After, Asked, Context, Id, Limit, cursor_of, read_cursor
from evenhand.service.api.errors import documented, otherwise
from evenhand.service.requests import AuditRequest, Kind, MeasureRequest, RepairRequest, request_of
from evenhand.service.storage.runs import State

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
    return run_answer(asking.create_run(asked, body.kind, body.request, body.title), whole=asked.may("admin"))


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
    return run_answer(asking.resume_run(asked, run_id), whole=asked.may("admin"))


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
    audit, same = asking.from_audit(asked, run_id, "repair" if kind == "repair" else "measurement")
    wishes: dict[str, Any] = body.model_dump(exclude={"title"})
    run = asking.create_run(asked, kind, request_of(kind, same | wishes), body.title, audit)
    return run_answer(run, whole=asked.may("admin"))
