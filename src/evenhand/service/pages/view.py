"""How a page is made: templates, links, forms, files of style and script, the question before a deletion, errors."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, urlencode, urlsplit

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.staticfiles import StaticFiles
from jinja2 import ChoiceLoader, Environment, PackageLoader, PrefixLoader, StrictUndefined

import evenhand
from evenhand.errors import EvenhandError
from evenhand.files import read_json
from evenhand.service.api.caller import Caller, CurrentCaller
from evenhand.service.pages.forms import number_limits
from evenhand.service.pages.words import FILE_WORDS, FILTERS, STATE_WORDS
from evenhand.service.storage.runs import OVER
from evenhand.service.storage.tables import Project, Run

FOLDER = Path(__file__).parent / "static"
FOREVER = "public, max-age=31536000, immutable"
HIDDEN_FILES = ("findings.index",)
HEADINGS = {
    403: "You may not do this", 404: "This page is not there", 409: "That cannot be done now", 429: "Please wait",
    500: "Something failed here", 503: "Please wait a moment",
}  # fmt: skip


@cache
def _mark(name: str) -> str:
    return hashlib.sha256((FOLDER / name).read_bytes()).hexdigest()[:16]


def static_address(name: str) -> str:
    """Where pages find a file as it is now."""
    return f"/static/{name}?{_mark(name)}"


class Static(StaticFiles):
    """A browser keeps a file that was asked for with its mark; without one it asks each time whether it has changed."""

    def __init__(self) -> None:
        super().__init__(directory=FOLDER)

    def file_response(self, full_path: Any, stat_result: Any, scope: Any, status_code: int = 200) -> Response:
        """The file, or word that it has not changed."""
        response = super().file_response(full_path, stat_result, scope, status_code)
        marked = scope["query_string"].decode("latin-1") == _mark(Path(full_path).relative_to(FOLDER).as_posix())
        response.headers["Cache-Control"] = FOREVER if marked else "no-cache"
        return response


@dataclass(frozen=True, kw_only=True)
class View(Caller):
    """The caller of a page, with what every page needs."""

    request: Request

    def summary(self, run: Run) -> dict[str, Any] | None:
        """The summary of a run that is over; None where it is not there. One that was stopped may have one too."""
        path = self.service.home.run(run.id) / "summary.json"
        try:
            return read_json(path) if run.state in OVER and path.is_file() else None
        except EvenhandError:
            return None

    def files(self, run: Run) -> dict[str, int]:
        """The files of a run that is over with their sizes, the report first."""
        folder = self.service.home.run(run.id)
        if run.state not in OVER or not folder.is_dir():
            return {}
        found = [path for path in folder.iterdir() if path.is_file() and path.name not in HIDDEN_FILES]
        order = list(FILE_WORDS)
        found.sort(key=lambda path: (order.index(path.name) if path.name in order else len(order), path.name))
        return {path.name: path.stat().st_size for path in found if not path.name.startswith(".")}

    def page(self, template: str, /, *, section: str = "", status: int = 200, **values: Any) -> HTMLResponse:
        """A page from its template."""
        made = environment().get_template(f"{template}.html.j2")
        return HTMLResponse(made.render(_frame(self.request, self) | {"section": section} | values), status)


def _frame(request: Request, caller: Caller | None) -> dict[str, Any]:
    """What every template knows. `may("auditor")` says whether the caller may do what an auditor may."""
    accounts = request.app.state.service.settings.accounts
    frame = {
        "csrf_token": request.state.csrf_token, "may": caller.may if caller else lambda _: not accounts,
        "accounts_on": accounts, "signed_in_as": None, "at_project": "", "choices": [],
    }  # fmt: skip
    if caller is not None and caller.person is not None:
        frame |= {"signed_in_as": caller.person.name, "at_project": caller.project}
        theirs = [project for project, _ in caller.service.accounts.projects_of(caller.person)]
        # A token knows its own project only.
        frame["choices"] = [one for one in theirs if caller.token is None or one.id == caller.project]
    return frame


async def _current_view(request: Request, caller: CurrentCaller) -> View:
    return View(**vars(caller), request=request)


CurrentView = Annotated[View, Depends(_current_view)]


def link(path: str, **query: Any) -> str:
    """An address with a query; what is None or empty is left out."""
    given = {name: value for name, value in query.items() if value not in (None, "", [], ())}
    return f"{path}?{urlencode(given, doseq=True)}" if given else path


@cache
def environment() -> Environment:
    """All templates. Names come from people and from data, so everything is escaped."""
    made = Environment(
        loader=ChoiceLoader(
            [
                PackageLoader("evenhand.service.pages"),
                PrefixLoader({"report": PackageLoader("evenhand.report", ".")}),  # the card of a pair
            ]
        ),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= FILTERS
    made.globals |= {
        "link": link,
        "number_limits": number_limits,
        "static": static_address,
        "state_words": STATE_WORDS,
        "version": evenhand.__version__,
    }
    return made


def redirect(address: str) -> RedirectResponse:
    """After a form: the page to look at next, by GET."""
    return RedirectResponse(address, status_code=303)


def problem_page(request: Request, status: int, what: str, message: str) -> Response:
    """An error as a page; for somebody who has to sign in first, the page to do so."""
    if what == "unauthenticated":
        query = request.scope["query_string"].decode("latin-1")
        here = quote(request.scope["path"]) + (f"?{query}" if query else "")
        return redirect(link("/sign-in", next=here if request.method == "GET" and here != "/" else None))
    caller: Caller | None = getattr(request.state, "caller", None)
    no_project = status == 403 and caller is not None and caller.person is not None and not caller.project
    frame = _frame(request, caller if status < 500 else None)  # where the database is away its page must not need it
    made = environment().get_template("problem.html.j2")
    words = "You have no project yet" if no_project else HEADINGS.get(status, "That did not work")
    values = {"section": "", "heading": words, "message": message, "back_to": _back_to(request, frame["choices"])}
    return HTMLResponse(made.render(frame | values), status)


def _back_to(request: Request, choices: list[Project]) -> dict[str, Any] | None:
    """The project and the page of a form that came after another project was chosen (see `identity`)."""
    wanted = getattr(request.state, "form_project", None)
    project = next((one for one in choices if one.id == wanted), None)
    if project is None:
        return None
    came_from = urlsplit(request.headers.get("referer", ""))  # only an address of ours is gone on to, see `local_path`
    return {"project": project, "page": came_from.path + (f"?{came_from.query}" if came_from.query else "")}


def router() -> APIRouter:
    """A router for pages: not part of the described HTTP interface."""
    return APIRouter(include_in_schema=False, default_response_class=HTMLResponse)


@dataclass(frozen=True)
class Deletion:
    """What may be deleted, and what that means."""

    section: str  # of the pages, where one is again when it is done
    page: str  # the thing's own address; the question is asked below it
    name: str
    consequence: str
    back: str | None = None  # where "Keep it" leads; None: to its page

    def ask(self, view: View, error: str | None = None) -> Response:
        """The question, with what stood in the way the last time."""
        return view.page(
            "delete", section=self.section, status=409 if error else 200, name=self.name, error=error,
            consequence=self.consequence, address=f"{self.page}/delete", back=self.back or self.page,
        )  # fmt: skip

    def do(self, view: View, act: Callable[[], object]) -> Response:
        """Delete it; where that cannot be done, the question once more with the reason."""
        try:
            act()
        except EvenhandError as error:
            return self.ask(view, str(error))
        return redirect(self.section)
