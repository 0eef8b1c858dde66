"""From a wish for a run to a run that waits: what it names must be there, fit together and be the project's own."""

import tomllib
from typing import Any

from sqlalchemy.orm import Session

from evenhand.data.dataset import load_schema
from evenhand.data.schema import Schema
from evenhand.errors import EvenhandError
from evenhand.service.api.context import Context
from evenhand.service.api.errors import ApiError, otherwise
from evenhand.service.requests import Request, is_id, request_of, title_of
from evenhand.service.storage.tables import Run


def create_run(asked: Context, kind: str, request: Request, title: str | None = None, parent: Run | None = None) -> Run:
    """A run that waits for a worker; what cannot work is refused now and not after a wait.

    The run keeps the schema of its table: that of its parent, which it is about, else as it is now.
    """
    schema, text, data = _data(asked, request, parent)
    protected = request.protected or schema.protected
    schema.protected_indices(protected)
    schema.compared_within(request.within, protected)
    model = _model(asked, request)
    title = _printable(title) or title_of(kind, request, data, model)
    config = request.model_dump(mode="json")

    def hold(session: Session) -> None:
        asked.service.assets.hold(session, asked.project, config)
        if parent is not None and session.get(Run, parent.id, with_for_update={"read": True}) is None:
            raise EvenhandError(f"There is no run '{parent.id}' any more.")

    with otherwise("not-found"):
        return asked.service.runs.create(
            asked.project, kind, title, config, None if parent is None else parent.id,
            schema_text=text, asked_by=_asker(asked), check=hold,
        )  # fmt: skip


def resume_run(asked: Context, run_id: str) -> Run:
    """Let a run wait for a worker again, if what it needs is still there."""

    def hold(session: Session, run: Run) -> None:
        asked.service.assets.hold(session, asked.project, run.config)

    asked.run(run_id)
    with otherwise("conflict"):
        return asked.service.runs.resume(run_id, asked.project, check=hold)


def can_be_asked(run: Run) -> bool:
    """Whether a worker could do it: a run of a terminal may name files that only the terminal has."""
    try:
        request_of(run.kind, run.config)
    except EvenhandError:
        return False
    return True


def from_audit(asked: Context, run_id: str, kind: str) -> tuple[Run, dict[str, Any]]:
    """An audit that a repair or a measurement begins from, with its data, model and protected attributes."""
    audit = asked.run(run_id)
    if audit.kind != "audit":
        raise ApiError("conflict", f"The run {run_id} is a {audit.kind}. A {kind} begins from an audit.")
    if not can_be_asked(audit):
        raise ApiError(
            "conflict", f"The run {run_id} was made in a terminal, with files that the service does not have."
        )
    return audit, request_of("audit", audit.config).model_dump(include=set(Request.model_fields))


def _asker(asked: Context) -> str | None:
    return None if asked.person is None else asked.person.name


def _printable(title: str | None) -> str:
    """A title on one line, without characters that a database or a page could stumble over."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in title or "").split())


def _data(asked: Context, request: Request, parent: Run | None) -> tuple[Schema, str | None, str]:
    """The schema of the data, its text where it is not built in, and what people call the data."""
    if not is_id(request.dataset):
        schema = load_schema(request.dataset)
        return schema, None, schema.title
    entry = asked.dataset(request.dataset)
    same = parent is not None and parent.config.get("dataset") == request.dataset
    text = (parent.schema_text if parent is not None and same else None) or entry.schema_text
    if text is None:
        raise EvenhandError(f"The table '{entry.name}' has no schema yet. Say first what its columns mean.")
    return Schema.parse(tomllib.loads(text), f"of '{entry.name}'", text), text, entry.name


def _model(asked: Context, request: Request) -> str | None:
    if request.model is None:
        if is_id(request.dataset):
            raise EvenhandError("A table of your own needs a model of your own: send one, and name its id as `model`.")
        return None
    entry = asked.model(request.model)
    if not asked.service.assets.is_described(entry):
        raise EvenhandError(f"The model '{entry.name}' lacks its .json, which says what the network looks like.")
    return entry.name
