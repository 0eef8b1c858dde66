"""The pages: rendered here, readable without JavaScript, and mounted beside the HTTP interface."""

from anyio import CapacityLimiter
from fastapi import FastAPI

from evenhand.service.pages import (
    account,
    administration,
    comparing,
    exploring,
    follow_ups,
    lists,
    new_audit,
    new_data,
    run_pages,
)
from evenhand.service.pages.view import Static, problem_page
from evenhand.service.settings import Service

PARTS = (
    lists, new_data, new_audit, run_pages, exploring, follow_ups, comparing, account, administration,
)  # fmt: skip


def add_pages(app: FastAPI, service: Service) -> None:  # noqa: ARG001 - routes find it with their request
    """Add all pages, and the files of style and script that they use."""
    app.state.problem_page = problem_page
    app.state.signing_in = CapacityLimiter(1)
    for part in PARTS:
        app.include_router(part.pages)
    app.mount("/static", Static(), name="static")
