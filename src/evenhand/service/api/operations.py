"""Whether the service works, and figures about it, for whoever runs it."""

import logging
import os

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST
from sqlalchemy import func, select

from evenhand.errors import EvenhandError
from evenhand.service.api.answers import Health
from evenhand.service.api.errors import documented
from evenhand.service.settings import Service
from evenhand.service.storage.runs import STATES
from evenhand.service.storage.tables import Run
from evenhand.service.storage.upgrade import check_revision

LOGGER = logging.getLogger("evenhand.service")
router = APIRouter(tags=["operations"], responses=documented())


@router.get("/api/v1/openapi.json", include_in_schema=False)
def openapi(request: Request) -> JSONResponse:
    """The description of this HTTP interface."""
    return JSONResponse(request.app.openapi())


@router.get("/healthz", summary="Say that the process answers")
async def healthz() -> Health:
    """It looks at nothing else: a database that is gone is no reason to start the process again."""
    return Health(status="ok")


@router.get("/readyz", summary="Say whether requests can be answered", responses={503: {"model": Health}})
def readyz(request: Request, response: Response) -> Health:
    """The database answers and has the right tables, and the folder can be written to."""
    problems = problems_of(request.app.state.service)
    response.status_code = 503 if problems else 200
    return Health(status="unavailable" if problems else "ok", problems=problems)


def problems_of(service: Service) -> list[str]:
    """What keeps the service from working."""
    problems = []
    if not service.database.answers():
        problems.append("The database does not answer.")
    else:
        try:
            check_revision(service.database)
        except EvenhandError as error:  # it names the database, which is nobody's business here
            LOGGER.warning("not ready", extra={"data": {"problem": str(error)}})
            problems.append("The tables of the database are not those of this version. The service's log says more.")
    if not os.access(service.home.path, os.W_OK):
        problems.append("The folder of the service cannot be written to.")
    return problems


@router.get(
    "/metrics",
    summary="Show figures for Prometheus",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Figures."}},
)
def metrics(request: Request) -> Response:
    """Requests, their time, watchers, runs by state."""
    figures, service = request.app.state.figures, request.app.state.service
    with service.database.reading() as session:
        rows = session.execute(select(Run.state, func.count()).group_by(Run.state)).all()
    counts = {row[0]: row[1] for row in rows}
    for state in STATES:
        figures.runs.labels(state).set(counts.get(state, 0))
    return Response(figures.text(), media_type=CONTENT_TYPE_LATEST)
