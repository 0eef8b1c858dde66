"""Routes about models: sent, listed, described, deleted."""

import json
from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Request, Response
from starlette.datastructures import UploadFile

from evenhand.service.api.answers import ModelAnswer, Models
from evenhand.service.api.context import After, Asked, Context, Id, Limit, cursor_of, read_cursor
from evenhand.service.api.errors import documented
from evenhand.service.api.guard import is_form
from evenhand.service.api.uploading import BODY, check_description_size, kept
from evenhand.service.storage.tables import ModelFile

router = APIRouter(prefix="/api/v1", tags=["models"], responses=documented())


@router.post("/models", summary="Send a model", status_code=201, openapi_extra=BODY, responses=documented("no-room"))
async def add_model(
    request: Request,
    asked: Asked,
    name: Annotated[str | None, Query(max_length=200, description="How lists name it.")] = None,
    filename: Annotated[
        str | None,
        Query(
            max_length=500,
            description="Its ending says what it is: .safetensors, .skops, .onnx, .keras, .txt (LightGBM) or .ubj "
            "(XGBoost).",
        ),
    ] = None,
) -> ModelAnswer:
    """Only formats that hold no code. A .safetensors file needs its .json: field `description` of a form, or later."""
    service, limit = asked.service, asked.service.settings.model_limit
    description = await _description(request, asked.service.settings.max_request)

    def keep(name: str, stream: Any, filename: str) -> ModelFile:
        return service.assets.add_model(asked.project, name, stream, filename, limit, description)

    entry = await kept(request, asked, name, filename, limit, keep)
    request.app.state.figures.uploaded.labels("model").inc(entry.size)
    return _answer(asked, entry)


async def _description(request: Request, most: int) -> bytes | None:
    if not is_form(request):
        return None
    file = (await request.form()).get("description")
    if not isinstance(file, UploadFile) or not file.filename:
        return None
    content = await file.read(most + 1)
    check_description_size(content, most)
    return content


@router.get("/models", summary="List models, the newest first")
def list_models(asked: Asked, after: After = None, limit: Limit = 50) -> Models:
    """A page of the list."""
    found = asked.service.assets.models(asked.project, read_cursor(after), limit + 1)
    shown = found[:limit]
    return Models(
        entries=[_answer(asked, entry) for entry in shown], next=cursor_of(shown[-1]) if len(found) > limit else None
    )


@router.get("/models/{model_id}", summary="Show a model")
def show_model(asked: Asked, model_id: Id) -> ModelAnswer:
    """Its name, size and checksum."""
    return _answer(asked, asked.model(model_id))


@router.put("/models/{model_id}/description", summary="Add the description of a .safetensors file")
def describe_model(asked: Asked, model_id: Id, body: Annotated[dict[str, Any], Body()]) -> ModelAnswer:
    """The .json that evenhand wrote beside it."""
    asked.model(model_id)
    entry = asked.service.assets.describe_model(model_id, json.dumps(body).encode(), asked.project)
    return _answer(asked, entry)


@router.delete("/models/{model_id}", summary="Delete a model", status_code=204, responses=documented("conflict"))
def delete_model(asked: Asked, model_id: Id) -> Response:
    """Its files go too. Refused while a run that is not over needs it."""
    asked.model(model_id)
    asked.service.assets.delete_model(model_id, asked.project)
    return Response(status_code=204)


def _answer(asked: Context, entry: ModelFile) -> ModelAnswer:
    shown = {name: getattr(entry, name) for name in ModelAnswer.model_fields if name != "is_described"}
    return ModelAnswer(**shown, is_described=asked.service.assets.is_described(entry))
