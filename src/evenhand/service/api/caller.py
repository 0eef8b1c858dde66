"""Who asks, and for which project; what routes share."""

import base64
import binascii
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Path, Query, Request

from evenhand.service.api.answers import Paged
from evenhand.service.api.errors import ApiError, errors_as
from evenhand.service.requests import ID, is_id
from evenhand.service.settings import Service
from evenhand.service.storage.projects import Person, Role, at_least
from evenhand.service.storage.tables import DataFile, ModelFile, Run, Token

Stored = TypeVar("Stored", Run, DataFile, ModelFile)
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Caller:
    """What a route may use. Everything is looked up within the project, so that no id of another one is ever found."""

    service: Service
    project: str  # empty for somebody who is a member of none
    person: Person | None = None  # nobody in particular where there are no accounts
    role: Role | None = "admin"  # in the project
    token: Token | None = None  # with which a program asks for the person

    def may(self, role: Role) -> bool:
        """Whether the caller may do what this role may."""
        return at_least(self.role, role)

    def run(self, run_id: str) -> Run:
        """A run of the project."""
        _check_id("run", run_id)
        with errors_as("not-found"):
            return self.service.runs.get(run_id, self.project)

    def dataset(self, dataset_id: str) -> DataFile:
        """A data set of the project."""
        _check_id("data set", dataset_id)
        with errors_as("not-found"):
            return self.service.assets.dataset(dataset_id, self.project)

    def model(self, model_id: str) -> ModelFile:
        """A model of the project."""
        _check_id("model", model_id)
        with errors_as("not-found"):
            return self.service.assets.model(model_id, self.project)


def _check_id(kind: str, known_as: str) -> None:
    """What is no id cannot be found; a database might not even be able to look for it."""
    if not is_id(known_as):
        shown = "".join(letter for letter in known_as[:80] if letter.isprintable())
        raise ApiError("not-found", f"There is no {kind} '{shown}'.")


def log_details(request: Request, *, subject: str | None = None, project: str | None = None, **details: Any) -> None:
    """Say for the log what was done: to what, in which project if not in that of the request, and how."""
    request.state.subject, request.state.target, request.state.details = subject, project, details


async def current_caller(request: Request) -> Caller:  # async: it never waits, and a thread would cost more than it
    """What was found out about the caller before the route was reached (see `identity`)."""
    caller = request.state.caller
    assert isinstance(caller, Caller)
    return caller


CurrentCaller = Annotated[Caller, Depends(current_caller)]
Id = Annotated[str, Path(pattern=f"^{ID.pattern}$", description="32 hexadecimal digits.")]
Limit = Annotated[int, Query(ge=1, le=200, description="The most entries of a page.")]
After = Annotated[str | None, Query(max_length=200, description="`next` of the page before.")]


def cursor_of(entry: Run | DataFile | ModelFile) -> str:
    """Where a list goes on after an entry."""
    return base64.urlsafe_b64encode(f"{entry.created.isoformat()} {entry.id}".encode()).decode()


def page_of(found: Sequence[Stored], limit: int, answer: Callable[[Stored], Answer]) -> Paged[Answer]:
    """A page of entries, of which one more was looked up than it shows: if it is there, another page follows."""
    shown = found[:limit]
    after = cursor_of(shown[-1]) if len(found) > limit else None
    return Paged[Any](entries=[answer(entry) for entry in shown], next=after)


def read_cursor(cursor: str | None) -> tuple[datetime, str] | None:
    """What `cursor_of` wrote."""
    if cursor is None:
        return None
    try:
        created, _, known_as = base64.b64decode(cursor.encode(), b"-_", validate=True).decode().partition(" ")
        return read_place(created, known_as)
    except (binascii.Error, ValueError) as error:
        raise ApiError("invalid", "`after` is not the `next` of a page.") from error


def read_place(created: str, known_as: str) -> tuple[datetime, str]:
    """A place in a list: when its entry was made, and the entry's id."""
    moment = datetime.fromisoformat(created)
    if moment.tzinfo is None or not is_id(known_as) or not 1970 <= moment.year < 9999:  # else no database has it
        raise ValueError(created)
    return moment, known_as
