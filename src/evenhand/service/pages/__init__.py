"""The pages: rendered here, readable without JavaScript, and mounted beside the HTTP interface."""

from pathlib import Path
from typing import Any

from fastapi import FastAPI, Response
from fastapi.staticfiles import StaticFiles

from evenhand.service.pages import comparing, exploring, lists, new_audit, new_data, repairing, run_pages
from evenhand.service.pages.view import problem_page
from evenhand.service.settings import Service

STATIC = Path(__file__).parent / "static"
PARTS = (lists, new_data, new_audit, run_pages, exploring, repairing, comparing)


class Static(StaticFiles):
    """Files of style and script; a browser keeps them, but asks each time whether they have changed."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        """The file, or word that it has not changed."""
        response = super().file_response(*args, **kwargs)
        response.headers["Cache-Control"] = "no-cache"
        return response


def add_pages(app: FastAPI, service: Service) -> None:  # noqa: ARG001 - routes find it with their request
    """Add all pages, and the files of style and script that they use."""
    app.state.problem_page = problem_page
    for part in PARTS:
        app.include_router(part.pages)
    app.mount("/static", Static(directory=STATIC), name="static")
