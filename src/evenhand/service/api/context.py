"""Who asks, and for which project; what routes share."""

import base64
import binascii
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from fastapi import Depends, Path, Query, Request

from evenhand.service.api.errors import ApiError, otherwise
from evenhand.service.settings import DEFAULT_PROJECT, Service
from evenhand.service.storage.tables import DataFile, ModelFile, Run

ID = "[0-9a-f]{32}"


@dataclass(frozen=True)
class Context:
    """What a route may use. Everything is looked up within the project, so that no id of another one is ever found."""

    service: Service
    project: str

    def run(self, run_id: str) -> Run:
        """A run of the project."""
        with otherwise("not-found"):
            return self.service.runs.get(run_id, self.project)

    def dataset(self, dataset_id: str) -> DataFile:
        """A data set of the project."""
        with otherwise("not-found"):
            return self.service.assets.dataset(dataset_id, self.project)

    def model(self, model_id: str) -> ModelFile:
        """A model of the project."""
        with otherwise("not-found"):
            return self.service.assets.model(model_id, self.project)


def context_of(request: Request) -> Context:
    """Everybody works in the one project there is; accounts will choose it."""
    return Context(request.app.state.service, DEFAULT_PROJECT)


Asked = Annotated[Context, Depends(context_of)]
Id = Annotated[str, Path(pattern=f"^{ID}$", description="32 hexadecimal digits.")]
Limit = Annotated[int, Query(ge=1, le=200, description="The most entries of a page.")]
After = Annotated[str | None, Query(max_length=200, description="`next` of the page before.")]


def cursor_of(entry: Run | DataFile | ModelFile) -> str:
    """Where a list goes on after an entry."""
    return base64.urlsafe_b64encode(f"{entry.created.isoformat()} {entry.id}".encode()).decode()


def read_cursor(cursor: str | None) -> tuple[datetime, str] | None:
    """What `cursor_of` wrote."""
    if cursor is None:
        return None
    try:
        created, _, known_as = base64.b64decode(cursor.encode(), b"-_", validate=True).decode().partition(" ")
        moment = datetime.fromisoformat(created)
        if moment.tzinfo is None or not known_as.isalnum():
            raise ValueError(cursor)
    except (binascii.Error, ValueError) as error:
        raise ApiError("invalid", "`after` is not the `next` of a page.") from error
    return moment, known_as
