"""Errors over HTTP: {"error": {"what": …, "message": …}} with a status that fits."""

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, cast

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from sqlalchemy.exc import DataError, DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from evenhand.errors import EvenhandError
from evenhand.mistakes import ended, mistake_text
from evenhand.service.storage.assets import InUseError
from evenhand.service.storage.passwords import SignInRefused, TooManyTries
from evenhand.service.storage.projects import NoSuchProject
from evenhand.service.storage.uploads import TooLargeError

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
What = Literal[
    "invalid", "unauthenticated", "forbidden", "not-found", "wrong-method", "conflict", "too-large", "wrong-type",
    "too-many", "internal", "unavailable", "no-room",
]  # fmt: skip
STATUS: dict[What, int] = {
    "invalid": 400, "unauthenticated": 401, "forbidden": 403, "not-found": 404, "wrong-method": 405, "conflict": 409,
    "too-large": 413, "wrong-type": 415, "too-many": 429, "internal": 500, "unavailable": 503, "no-room": 507,
}  # fmt: skip
PLAIN_FORMS = ("application/x-www-form-urlencoded", "text/plain")  # what no route of the API takes
FOR_PROGRAMS = ("/metrics", "/healthz", "/readyz")  # beside /api/
ProblemPage = Callable[[Request, int, str, str], Response]


class ErrorContent(BaseModel):
    """What went wrong."""

    what: What = Field(description="The kind of error, for programs.")
    message: str = Field(description="What was wrong and what to do, for people.")


class ErrorAnswer(BaseModel):
    """The answer to a request that was refused."""

    error: ErrorContent


class ApiError(EvenhandError):
    """An error whose kind is known where it is raised."""

    def __init__(self, what: What, message: str) -> None:
        super().__init__(message)
        self.what = what


class NoProjectError(ApiError):
    """Somebody is known, but is a member of no project."""

    def __init__(self, message: str) -> None:
        super().__init__("forbidden", message)


class ProjectChangedError(ApiError):
    """A form was made while another project was looked at; `project` is its id, where it can still be looked at."""

    def __init__(self, project: str | None) -> None:
        super().__init__(
            "conflict",
            "Another project was chosen meanwhile, perhaps in another tab, and this form was made before that. "
            "Nothing was changed.",
        )
        self.project = project


def documented(*what: What) -> dict[int | str, dict[str, Any]]:
    """The errors of a route for its description; those that every route has are added."""
    kinds: set[What] = {
        "invalid", "unauthenticated", "forbidden", "not-found", "too-large", "wrong-type", "unavailable", *what,
    }  # fmt: skip
    answers: dict[int | str, dict[str, Any]] = {
        STATUS[kind]: {"model": ErrorAnswer, "description": kind} for kind in kinds
    }
    return {422: {"model": ErrorAnswer, "description": "invalid"}} | answers


@contextmanager
def errors_as(what: What) -> Iterator[None]:
    """Give errors of the block a kind: what is looked for is not there, or not in the right state."""
    try:
        yield
    except (ApiError, InUseError, SignInRefused, TooLargeError):
        raise
    except EvenhandError as error:
        raise ApiError(what, str(error)) from error


def kind_of(error: EvenhandError) -> What:
    """What an error means to the caller."""
    if isinstance(error, ApiError):
        return error.what
    if isinstance(error, TooLargeError):
        return "too-large"
    if isinstance(error, NoSuchProject):
        return "not-found"
    if isinstance(error, InUseError):
        return "conflict"
    if isinstance(error, SignInRefused):
        return "too-many" if isinstance(error, TooManyTries) else "forbidden"
    cause = error.__cause__
    return "no-room" if isinstance(cause, OSError) and cause.errno in NO_ROOM else "invalid"


def answer(request: Request, status: int, what: What, message: str) -> Response:
    """An error as JSON, or as a page where the application has one and a person asked."""
    page: ProblemPage | None = getattr(request.app.state, "problem_page", None)
    path = request.scope["path"]  # not the URL: a Host header that is not sound makes none
    if page is not None and not path.startswith("/api/") and path not in FOR_PROGRAMS:
        return page(request, status, what, message)
    headers = {"WWW-Authenticate": "Bearer"} if what == "unauthenticated" else None
    return JSONResponse(error_content(what, message), status, headers)


def error_content(what: What, message: str) -> dict[str, Any]:
    """The JSON of an error; half of a character, which a request may quote, cannot be sent back."""
    return {"error": {"what": what, "message": message.encode("utf-8", "replace").decode()}}


def add_handlers(app: FastAPI) -> None:
    """Turn exceptions into answers."""
    app.add_exception_handler(EvenhandError, _on_evenhand_error)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(OperationalError, _on_database)
    app.add_exception_handler(PoolTimeout, _on_database)
    app.add_exception_handler(DBAPIError, _on_database)
    app.add_exception_handler(OSError, _on_os_error)


def _on_evenhand_error(request: Request, error: Exception) -> Response:
    what = kind_of(cast("EvenhandError", error))
    if isinstance(error, ProjectChangedError):
        request.state.form_project = error.project  # to which the page about it leads back
    about = _about_type(request, PLAIN_FORMS) if what == "forbidden" else ""
    response = answer(request, STATUS[what], what, f"{error}{about}")
    if isinstance(error, TooManyTries):
        response.headers["Retry-After"] = str(error.seconds)
    return response


def _on_invalid(request: Request, error: Exception) -> Response:
    first = cast("RequestValidationError", error).errors()[0]
    about_all = first["loc"] == ("body",)
    return answer(request, 422, "invalid", _mistake_words(first) + (_about_type(request) if about_all else ""))


def _mistake_words(mistake: dict[str, Any]) -> str:
    """A mistake that pydantic found, in a sentence."""
    kind, more = mistake["type"], mistake.get("ctx", {})
    if kind == "json_invalid":
        return f"The body is not valid JSON: {more['error']} (at character {int(mistake['loc'][-1]) + 1})."
    if kind == "union_tag_not_found":  # a body is told apart from others by one field
        return f"{more['discriminator']} is missing: the body needs this field."
    if kind == "union_tag_invalid":
        return (
            f"{more['discriminator']} is wrong: it is '{str(more['tag'])[:200]}'. Use one of {more['expected_tags']}."
        )
    place = ".".join(str(part) for part in mistake["loc"][1:]) or str(mistake["loc"][0])
    return f"'{place[:200]}' is wrong: {ended(mistake_text(mistake, [])[:500])}"


def _about_type(request: Request, only: tuple[str, ...] = ()) -> str:
    """For a program that sent no JSON to the API, as curl does unless it is told to: what it should say.

    `only`: nothing about other types than these, where it need not be the type that is wrong.
    """
    sent = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if request.method in ("GET", "HEAD", "DELETE") or not request.scope["path"].startswith("/api/"):
        return ""
    words = " Programs send application/json as Content-Type, or application/octet-stream for files"
    fits = sent in ("", "application/json") or bool(only and sent not in only)
    return "" if fits else f"{words}; this was {sent[:80]}."


def _on_http(request: Request, error: Exception) -> Response:
    if isinstance(error.__cause__, EvenhandError):  # raised while FastAPI was reading the request
        return _on_evenhand_error(request, error.__cause__)
    raised = cast("HTTPException", error)
    by_status: dict[int, What] = {status: what for what, status in STATUS.items()}
    what = by_status.get(raised.status_code, "invalid" if raised.status_code < 500 else "internal")
    words = {"not-found": "There is nothing at this address.", "wrong-method": "This address has no such method."}
    response = answer(request, raised.status_code, what, words.get(what, str(raised.detail)))
    response.headers.update(raised.headers or {})
    return response


def _on_database(request: Request, error: Exception) -> Response:
    if isinstance(error, DataError):  # such as a NUL, which PostgreSQL neither keeps nor looks for
        return answer(request, 400, "invalid", "The request has a value that the database cannot keep or look for.")
    if isinstance(error, DBAPIError) and not isinstance(error, OperationalError) and not error.connection_invalidated:
        raise error
    response = answer(request, 503, "unavailable", "The database does not answer. Try again in a moment.")
    response.headers["Retry-After"] = "5"
    return response


def _on_os_error(request: Request, error: Exception) -> Response:
    if cast("OSError", error).errno not in NO_ROOM:
        raise error
    return answer(request, 507, "no-room", "The disk is full. Delete runs or data that are no longer needed.")
