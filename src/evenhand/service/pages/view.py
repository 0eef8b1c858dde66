"""How a page is made: templates, links, forms, and errors as pages of their own."""

from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.datastructures import FormData, UploadFile

import evenhand
from evenhand.service.api.context import Asked as InProject
from evenhand.service.api.context import Context
from evenhand.service.pages.words import FILTERS, STATE_WORDS
from evenhand.service.settings import Service
from evenhand.service.storage.tables import Run


@dataclass(frozen=True)
class View:
    """Who asks for a page, and what every page needs."""

    request: Request
    asked: Context

    @property
    def service(self) -> Service:
        """The storage."""
        return self.asked.service

    @property
    def project(self) -> str:
        """The project that the request is about."""
        return self.asked.project

    def run(self, run_id: str) -> Run:
        """A run of the request's project."""
        return self.asked.run(run_id)

    def page(self, template: str, /, *, section: str = "", status: int = 200, **values: Any) -> HTMLResponse:
        """A page from its template."""
        made = environment().get_template(f"{template}.html.j2")
        return HTMLResponse(made.render(section=section, csrf_token=self.request.state.csrf_token, **values), status)


def _view(request: Request, asked: InProject) -> View:
    return View(request, asked)


Asked = Annotated[View, Depends(_view)]


def link(path: str, **query: Any) -> str:
    """An address with a query; what is None or empty is left out."""
    given = {name: value for name, value in query.items() if value not in (None, "", [], ())}
    return f"{path}?{urlencode(given, doseq=True)}" if given else path


@cache
def environment() -> Environment:
    """All templates. Names come from people and from data, so everything is escaped."""
    made = Environment(
        loader=PackageLoader("evenhand.service.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= FILTERS
    made.globals |= {"link": link, "state_words": STATE_WORDS, "version": evenhand.__version__}
    return made


def see(address: str) -> RedirectResponse:
    """After a form: the page to look at next, by GET."""
    return RedirectResponse(address, status_code=303)


async def _form(request: Request) -> FormData:
    """The form, which was read and whose token was checked before any route was asked."""
    return await request.form()


Form = Annotated[FormData, Depends(_form)]


def text_of(form: FormData, name: str) -> str:
    """A field of a form as text; empty where it is not there."""
    value = form.get(name)
    return value.strip() if isinstance(value, str) else ""


def texts_of(form: FormData, name: str) -> list[str]:
    """All values of a field that may come several times."""
    return [value for value in form.getlist(name) if isinstance(value, str)]


def files_of(form: FormData, name: str) -> list[UploadFile]:
    """The files that were chosen; a browser sends one without a name where none was."""
    return [value for value in form.getlist(name) if isinstance(value, UploadFile) and value.filename]


def problem_page(request: Request, status: int, what: str, message: str) -> Response:  # noqa: ARG001
    """An error as a page."""
    heading = {404: "This page is not there", 500: "Something failed here", 503: "Please wait a moment"}
    text = (
        environment()
        .get_template("problem.html.j2")
        .render(section="", csrf_token="", heading=heading.get(status, "That did not work"), message=message)
    )
    return HTMLResponse(text, status)


def router() -> APIRouter:
    """A router for pages: not part of the described HTTP interface."""
    return APIRouter(include_in_schema=False, default_response_class=HTMLResponse)
