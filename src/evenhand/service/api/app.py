"""The application: its routes and pages, what stands before them, and whether it works."""

import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from prometheus_client import CONTENT_TYPE_LATEST
from sqlalchemy import func, select

import evenhand
from evenhand.errors import EvenhandError
from evenhand.service.api import accounts, results, runs, uploads, watching
from evenhand.service.api.answers import Health
from evenhand.service.api.errors import add_handlers, documented
from evenhand.service.api.guard import Guard
from evenhand.service.api.identity import check_form, identify
from evenhand.service.api.journal import ActionLog, Journal, Metrics
from evenhand.service.pages import add_pages
from evenhand.service.settings import Service
from evenhand.service.storage.database import check_revision
from evenhand.service.storage.runs import STATES
from evenhand.service.storage.tables import Run

LOGGER = logging.getLogger("evenhand.service")
router = APIRouter(tags=["operations"], responses=documented())
ROUTERS = (
    uploads.data_router, uploads.model_router, runs.router, watching.router, results.router, accounts.router,
    accounts.admin_router, router,
)  # fmt: skip
ABOUT = """Search classifiers for individual discrimination, and repair them.

Requests that change something are sent as `application/json` (an empty object where there is nothing to say), files as
`application/octet-stream`. Errors are `{"error": {"what": …, "message": …}}`.

A service with accounts wants a token, which belongs to one project: `Authorization: Bearer evh_…`."""


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
    figures, service = request.app.state.metrics, request.app.state.service
    with service.database.reading() as session:
        rows = session.execute(select(Run.state, func.count()).group_by(Run.state)).all()
    counts = {row[0]: row[1] for row in rows}
    for state in STATES:
        figures.runs.labels(state).set(counts.get(state, 0))
    return Response(figures.text(), media_type=CONTENT_TYPE_LATEST)


def create_app(service: Service) -> FastAPI:
    """The application over an opened service. It is the caller's to close the service afterwards."""
    app = FastAPI(
        title="evenhand",
        version=evenhand.__version__,
        description=ABOUT,
        openapi_url=None,  # a route of our own, so that it has a rule like any other
        docs_url=None,  # its page would come from another host
        redoc_url=None,
        redirect_slashes=False,  # there is one address for each thing
        dependencies=[Depends(identify), Depends(check_form)],
        generate_unique_id_function=_operation_name,
        lifespan=_lifespan,
    )
    app.state.service, app.state.metrics, app.state.watcher = service, Metrics(), watching.RunWatcher()
    app.state.stopping = False
    add_handlers(app)
    for part in ROUTERS:
        app.include_router(part)
    add_pages(app, service)
    app.add_middleware(ActionLog)
    app.add_middleware(Guard, settings=service.settings)
    app.add_middleware(Journal, metrics=app.state.metrics)  # added last: it stands before all others
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Streams end when the service does."""
    yield
    app.state.stopping = True


def _operation_name(route: APIRoute) -> str:
    return route.name
