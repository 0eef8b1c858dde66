"""The application: routes, pages, what stands before them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import Depends, FastAPI
from fastapi.routing import APIRoute

import evenhand
from evenhand.service.api import accounts, administration, datasets, models, operations, results, runs, watching
from evenhand.service.api.errors import add_handlers
from evenhand.service.api.forms import check_form
from evenhand.service.api.guard import Guard
from evenhand.service.api.identity import identify
from evenhand.service.api.journal import Figures, Journal
from evenhand.service.api.record import Record
from evenhand.service.pages import add_pages
from evenhand.service.settings import Service

ROUTERS = (
    datasets.router, models.router, runs.router, watching.router, results.router, accounts.router,
    administration.router, operations.router,
)  # fmt: skip
ABOUT = """Search classifiers for individual discrimination, and repair them.

Requests that change something are sent as `application/json` (an empty object where there is nothing to say), files as
`application/octet-stream`. Errors are `{"error": {"what": …, "message": …}}`.

A service with accounts wants a token, which belongs to one project: `Authorization: Bearer evh_…`."""


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
    app.state.service, app.state.figures, app.state.watch = service, Figures(), watching.Watch()
    app.state.stopping = False
    add_handlers(app)
    for router in ROUTERS:
        app.include_router(router)
    add_pages(app, service)
    app.add_middleware(Record)
    app.add_middleware(Guard, settings=service.settings)
    app.add_middleware(Journal, figures=app.state.figures)  # added last: it stands before all others
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Streams end when the service does."""
    yield
    app.state.stopping = True


def _operation_name(route: APIRoute) -> str:
    return route.name
