"""From a wish for a run to a run that waits: what it names must be there, fit together and be the project's own."""

import tomllib

from evenhand.data.dataset import load_schema
from evenhand.data.schema import Schema
from evenhand.errors import EvenhandError
from evenhand.service.api.context import Context
from evenhand.service.requests import Request, is_id, title_of
from evenhand.service.storage.tables import Run


def create_run(asked: Context, kind: str, request: Request, title: str | None = None, parent: str | None = None) -> Run:
    """A run that waits for a worker; what cannot work is refused now and not after a wait."""
    schema, data = _data(asked, request)
    schema.protected_indices(request.protected or schema.protected)
    model = _model(asked, request)
    title = _printable(title) or title_of(kind, request, data, model)
    return asked.service.runs.create(asked.project, kind, title, request.model_dump(mode="json"), parent)


def _printable(title: str | None) -> str:
    """A title on one line, without characters that a database or a page could stumble over."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in title or "").split())


def _data(asked: Context, request: Request) -> tuple[Schema, str]:
    """The schema of the data, and what people call it."""
    if not is_id(request.dataset):
        schema = load_schema(request.dataset)
        return schema, schema.title
    entry = asked.dataset(request.dataset)
    if entry.schema_text is None:
        raise EvenhandError(f"The table '{entry.name}' has no schema yet. Say first what its columns mean.")
    return Schema.parse(tomllib.loads(entry.schema_text), f"of '{entry.name}'", entry.schema_text), entry.name


def _model(asked: Context, request: Request) -> str | None:
    if request.model is None:
        if is_id(request.dataset):
            raise EvenhandError("A table of your own needs a model of your own: send one, and name its id as `model`.")
        return None
    entry = asked.model(request.model)
    if not asked.service.assets.is_described(entry):
        raise EvenhandError(f"The model '{entry.name}' lacks its .json, which says what the network looks like.")
    return entry.name
