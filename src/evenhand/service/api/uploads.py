"""Routes about uploads: tables and texts with what their columns mean, and models."""

import json
import tomllib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Body, Query, Request, Response
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile

from evenhand.choices import Domain
from evenhand.data.dataset import builtin_names, load_schema
from evenhand.data.schema import Schema
from evenhand.service.api import table_tasks
from evenhand.service.api.answers import (
    AttributeAnswer,
    BuiltinAnswer,
    DatasetAnswer,
    JsonBody,
    ModelAnswer,
    Paged,
    PreviewAnswer,
    SchemaAnswer,
)
from evenhand.service.api.caller import After, Caller, CurrentCaller, Id, Limit, page_of, read_cursor
from evenhand.service.api.errors import ApiError, documented
from evenhand.service.api.guard import is_form
from evenhand.service.requests import CorpusFacts, TextColumns
from evenhand.service.storage.tables import DataFile, ModelFile
from evenhand.service.storage.uploads import LONGEST_SCHEMA, TooLargeError, Upload, check_schema, size_text
from evenhand.text import CORPORA, CORPUS_LABELS

PIECE = 1 << 20
MOST_UNPACKED = 2  # a zipped model may be as large as this many uploads once it is unpacked: weights hardly shrink
Stored = TypeVar("Stored", DataFile, ModelFile)
Store = Callable[[str, Any, str], Stored]  # name, stream and file name
BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["csrf", "file"],
                    "properties": {
                        "csrf": {"type": "string", "description": "The token of the page's cookie."},
                        "name": {"type": "string"},
                        "file": {"type": "string", "format": "binary"},
                    },
                }
            },
        },
    }
}


def check_description_size(content: bytes, most: int) -> None:
    """Refuse a description that is longer than any request without a file may be."""
    if len(content) > most:
        raise TooLargeError(f"The description is larger than {size_text(most)}, the largest size that is accepted.")


async def receive_file(
    request: Request, caller: Caller, name: str | None, filename: str | None, limit: int, store: Store[Stored]
) -> Stored:
    """Receive a file, piece by piece, and keep it; nothing is left of one that is refused or cut off."""
    if is_form(request):
        return await _from_form(request, name, filename, store)
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/octet-stream":
        raise ApiError("wrong-type", "Send the file as application/octet-stream, or in a form.")
    if not filename:
        raise ApiError("invalid", "Say what the file is called: ?filename=people.csv. Its ending says what it is.")
    upload = await run_in_threadpool(caller.service.assets.receive, limit)
    try:
        await _receive(request, upload)
        return await run_in_threadpool(store, name or filename, upload, filename)
    except BaseException:
        upload.abandon()
        raise


async def _from_form(request: Request, name: str | None, filename: str | None, store: Store[Stored]) -> Stored:
    form = await request.form()
    file, said = form.get("file"), form.get("name")
    if not isinstance(file, UploadFile) or not file.filename:
        raise ApiError("invalid", "The form has no file. Choose one.")
    given = said if isinstance(said, str) and said.strip() else file.filename
    return await run_in_threadpool(store, name or given, file.file, filename or file.filename)


async def _receive(request: Request, upload: Upload) -> None:
    """Write what comes to the disk, in a thread: disks are slow."""
    waiting = bytearray()
    async for chunk in request.stream():
        waiting += chunk
        if len(waiting) >= PIECE:
            await run_in_threadpool(upload.write, bytes(waiting))
            waiting.clear()
    await run_in_threadpool(upload.write, bytes(waiting))


data_router = APIRouter(prefix="/api/v1", tags=["data"], responses=documented())

Column = Annotated[str, Field(min_length=1, max_length=500)]
Size = Annotated[float, Field(gt=0, le=1e300)]


class InferRequest(JsonBody):
    """What is known about a table before its schema is inferred."""

    label: Column = Field(description="The column that the model predicts.")
    protected: Annotated[list[Column], Field(max_length=100)] | None = Field(
        default=None, description="Protected columns; null: guessed by their names."
    )
    favourable: str | None = Field(default=None, max_length=500, description="The favourable decision.")
    bins: int | None = Field(default=None, ge=2, le=1000, description="Numbers in so many bins of equally many rows.")
    widths: dict[Column, Size] = Field(default={}, description="Bins of a width, by column.")
    steps: dict[Column, Size] = Field(default={}, description="Steps in which numbers are searched, by column.")
    separator: str | None = Field(default=None, pattern="^[,;|\t]$", description="Of a CSV file; null: found out.")


class SchemaText(JsonBody):
    """A schema that somebody wrote or corrected."""

    text: str = Field(max_length=LONGEST_SCHEMA, description="TOML.")


@data_router.get("/builtin", summary="List the data sets that come with the package")
def list_builtin() -> list[BuiltinAnswer]:
    """Each has a network of its own, so that it can be audited at once; corpora are downloaded on the server first."""
    from evenhand.text.lexicon import load_lexicon

    protected = list(load_lexicon().attributes)
    corpora = [
        BuiltinAnswer(
            name=name, title=title, domain="text", attributes=[], protected=protected, label="label",
            labels=list(CORPUS_LABELS),
        )
        for name, title in CORPORA.items()
    ]  # fmt: skip
    return [_builtin(load_schema(name)) for name in builtin_names()] + corpora


def _builtin(schema: Schema) -> BuiltinAnswer:
    return BuiltinAnswer(
        name=schema.name, title=schema.title, domain="table", attributes=schema.names, protected=schema.protected,
        label=schema.label.column, labels=schema.label.words or schema.label.values,
    )  # fmt: skip


@data_router.post(
    "/datasets", summary="Send a table, or texts", status_code=201, openapi_extra=BODY, responses=documented("no-room")
)
async def add_dataset(
    request: Request,
    caller: CurrentCaller,
    name: Annotated[str | None, Query(max_length=200, description="How lists name it.")] = None,
    filename: Annotated[
        str | None,
        Query(
            max_length=500,
            description="Its ending says what it is: .csv, .csv.gz or .parquet; texts: .csv, .tsv, .parquet or .jsonl.",
        ),
    ] = None,
    domain: Annotated[Domain, Query(description="text for a file of texts, each with one of two decisions.")] = "table",
) -> DatasetAnswer:
    """The file is the body of the request, or a field `file` of a form. It is counted and hashed on the way."""
    service, limit = caller.service, caller.service.settings.upload_limit

    def store(name: str, stream: Any, filename: str) -> DataFile:
        return service.assets.add_dataset(caller.project, name, stream, filename, limit, domain)

    entry = await receive_file(request, caller, name, filename, limit, store)
    request.app.state.metrics.uploaded.labels("table" if domain == "table" else "texts").inc(entry.size)
    return dataset_answer(entry)


@data_router.get("/datasets", summary="List tables and texts, the newest first")
def list_datasets(caller: CurrentCaller, after: After = None, limit: Limit = 50) -> Paged[DatasetAnswer]:
    """A page of the list."""
    found = caller.service.assets.datasets(caller.project, read_cursor(after), limit + 1)
    return page_of(found, limit, dataset_answer)


@data_router.get("/datasets/{dataset_id}", summary="Show a table or texts")
def show_dataset(caller: CurrentCaller, dataset_id: Id) -> DatasetAnswer:
    """Its name, size and checksum."""
    return dataset_answer(caller.dataset(dataset_id))


@data_router.delete(
    "/datasets/{dataset_id}", summary="Delete a table or texts", status_code=204, responses=documented("conflict")
)
def delete_dataset(caller: CurrentCaller, dataset_id: Id) -> Response:
    """Its file goes too. Refused while a run that is not over needs it."""
    caller.dataset(dataset_id)
    caller.service.assets.delete_dataset(dataset_id, caller.project)
    return Response(status_code=204)


@data_router.get("/datasets/{dataset_id}/preview", summary="Show the first rows of a table or of texts")
def preview_dataset(
    caller: CurrentCaller, dataset_id: Id, rows: Annotated[int, Query(ge=1, le=100)] = 10
) -> PreviewAnswer:
    """As text, without reading the rest."""
    return PreviewAnswer(**_task(caller, caller.dataset(dataset_id), "preview", rows=rows))


@data_router.post(
    "/datasets/{dataset_id}/schema/infer",
    summary="Infer what the columns of a table mean",
    responses=documented("conflict"),
)
def infer_schema(caller: CurrentCaller, dataset_id: Id, body: InferRequest) -> SchemaAnswer:
    """The schema is kept; read it and correct what is wrong."""
    entry = _data_of_kind(caller, dataset_id, "table")
    found = _task(caller, entry, "infer", name=_short_name(entry.name), **body.model_dump())
    caller.service.assets.set_schema(dataset_id, found["text"], caller.project)
    return schema_answer(found.pop("text"), **found)


@data_router.get(
    "/datasets/{dataset_id}/schema", summary="Show what the columns of a table mean", responses=documented("conflict")
)
def show_schema(caller: CurrentCaller, dataset_id: Id) -> SchemaAnswer:
    """The schema as text, and read."""
    entry = _data_of_kind(caller, dataset_id, "table")
    if entry.schema_text is None:
        raise ApiError("not-found", f"The table '{entry.name}' has no schema yet. Infer one, or send one.")
    return schema_answer(entry.schema_text, rows=entry.rows)


@data_router.put(
    "/datasets/{dataset_id}/schema", summary="Say what the columns of a table mean", responses=documented("conflict")
)
def set_schema(caller: CurrentCaller, dataset_id: Id, body: SchemaText) -> SchemaAnswer:
    """The schema is kept if it is right and fits the table; a mistake is named with its line and column."""
    entry = _data_of_kind(caller, dataset_id, "table")
    check_schema(body.text, entry.file)
    found = _task(caller, entry, "check", text=body.text)
    caller.service.assets.set_schema(dataset_id, body.text, caller.project)
    return schema_answer(body.text, **found)


@data_router.put(
    "/datasets/{dataset_id}/columns", summary="Say which columns of texts are which", responses=documented("conflict")
)
def set_columns(caller: CurrentCaller, dataset_id: Id, body: TextColumns) -> CorpusFacts:
    """They are kept if they fit the file, with what it holds: its classes, and who is mentioned in how many texts."""
    entry = _data_of_kind(caller, dataset_id, "text")
    found = CorpusFacts(**body.model_dump(), **_task(caller, entry, "check_texts", **body.model_dump()))
    caller.service.assets.set_columns(dataset_id, found.model_dump_json(), found.rows, caller.project)
    return found


@data_router.get(
    "/datasets/{dataset_id}/columns", summary="Show which columns of texts are which", responses=documented("conflict")
)
def show_columns(caller: CurrentCaller, dataset_id: Id) -> CorpusFacts:
    """With what the file holds."""
    entry = _data_of_kind(caller, dataset_id, "text")
    if entry.schema_text is None:
        raise ApiError("not-found", f"Nobody has said yet which columns of '{entry.name}' are which.")
    return CorpusFacts.model_validate_json(entry.schema_text)


def _data_of_kind(caller: Caller, dataset_id: str, domain: Domain) -> DataFile:
    """Data that are a table, or texts."""
    entry = caller.dataset(dataset_id)
    if entry.domain == domain:
        return entry
    words = "are texts: say their columns, not a schema" if domain == "table" else "are a table: it has a schema"
    raise ApiError("conflict", f"The data '{entry.name}' {words}.")


def dataset_answer(entry: DataFile) -> DatasetAnswer:
    """An entry as it is answered."""
    shown = {name: getattr(entry, name) for name in DatasetAnswer.model_fields if name != "has_schema"}
    return DatasetAnswer(**shown, has_schema=entry.schema_text is not None)


def schema_answer(
    text: str,
    *,
    rows: int | None,
    notes: dict[str, list[str]] | None = None,
    set_aside: dict[str, str] | None = None,
    protected_guessed: bool = False,
    facts: dict[str, str] | None = None,
) -> SchemaAnswer:
    """A schema as it is answered."""
    schema = Schema.parse(tomllib.loads(text), "of the data set", text)
    attributes = [
        AttributeAnswer(
            name=attribute.name, column=attribute.column, title=attribute.title, kind=attribute.kind,
            size=attribute.size, protected=attribute.protected, notes=(notes or {}).get(attribute.name, []),
        )
        for attribute in schema.attributes
    ]  # fmt: skip
    return SchemaAnswer(
        text=text, rows=rows, label=schema.label.column, labels=schema.label.values,
        favourable=schema.label.favourable, protected=schema.protected, protected_guessed=protected_guessed,
        attributes=attributes, set_aside=set_aside or {}, facts=facts or {},
    )  # fmt: skip


def _task(caller: Caller, entry: DataFile, task: str, **options: Any) -> dict[str, Any]:
    return table_tasks.ask(caller.service.settings, task, caller.service.assets.dataset_path(entry), **options)


def _short_name(name: str) -> str:
    """The schema's name for a table: that of the upload without the ending of its file."""
    return name.partition(".")[0].strip() or "table"


model_router = APIRouter(prefix="/api/v1", tags=["models"], responses=documented())


@model_router.post(
    "/models", summary="Send a model", status_code=201, openapi_extra=BODY, responses=documented("no-room")
)
async def add_model(
    request: Request,
    caller: CurrentCaller,
    name: Annotated[str | None, Query(max_length=200, description="How lists name it.")] = None,
    filename: Annotated[
        str | None,
        Query(
            max_length=500,
            description="Its ending says what it is: .safetensors, .skops, .onnx, .keras, .txt (LightGBM) or .ubj "
            "(XGBoost); of texts .safetensors or .zip (a Hugging Face directory, or a network with its word vectors).",
        ),
    ] = None,
) -> ModelAnswer:
    """Only formats that hold no code. A .safetensors file needs its .json: field `description` of a form, or later."""
    limit = caller.service.settings.model_limit
    description = await _description(request, caller.service.settings.max_request)

    def store(name: str, stream: Any, filename: str) -> ModelFile:
        return keep_model(caller, name, stream, filename, description)

    entry = await receive_file(request, caller, name, filename, limit, store)
    request.app.state.metrics.uploaded.labels("model").inc(entry.size)
    return _model_answer(caller, entry)


def keep_model(caller: Caller, name: str, stream: Any, filename: str, description: bytes | None) -> ModelFile:
    """Keep a model; a zip is looked into first, in a process with limits."""
    settings, assets = caller.service.settings, caller.service.assets

    def check_archive(path: Path) -> None:
        table_tasks.ask(settings, "check_archive", path, most=MOST_UNPACKED * settings.model_limit)

    return assets.add_model(caller.project, name, stream, filename, settings.model_limit, description, check_archive)


async def _description(request: Request, most: int) -> bytes | None:
    if not is_form(request):
        return None
    file = (await request.form()).get("description")
    if not isinstance(file, UploadFile) or not file.filename:
        return None
    content = await file.read(most + 1)
    check_description_size(content, most)
    return content


@model_router.get("/models", summary="List models, the newest first")
def list_models(caller: CurrentCaller, after: After = None, limit: Limit = 50) -> Paged[ModelAnswer]:
    """A page of the list."""
    found = caller.service.assets.models(caller.project, read_cursor(after), limit + 1)
    return page_of(found, limit, partial(_model_answer, caller))


@model_router.get("/models/{model_id}", summary="Show a model")
def show_model(caller: CurrentCaller, model_id: Id) -> ModelAnswer:
    """Its name, size and checksum."""
    return _model_answer(caller, caller.model(model_id))


@model_router.put("/models/{model_id}/description", summary="Add the description of a .safetensors file")
def describe_model(caller: CurrentCaller, model_id: Id, body: Annotated[dict[str, Any], Body()]) -> ModelAnswer:
    """The .json that evenhand wrote beside it."""
    caller.model(model_id)
    entry = caller.service.assets.describe_model(model_id, json.dumps(body).encode(), caller.project)
    return _model_answer(caller, entry)


@model_router.delete("/models/{model_id}", summary="Delete a model", status_code=204, responses=documented("conflict"))
def delete_model(caller: CurrentCaller, model_id: Id) -> Response:
    """Its files go too. Refused while a run that is not over needs it."""
    caller.model(model_id)
    caller.service.assets.delete_model(model_id, caller.project)
    return Response(status_code=204)


def _model_answer(caller: Caller, entry: ModelFile) -> ModelAnswer:
    shown = {name: getattr(entry, name) for name in ModelAnswer.model_fields if name != "is_described"}
    return ModelAnswer(**shown, is_described=caller.service.assets.is_described(entry))
