"""Files on their way in: as the body of a request, or in a form."""

from collections.abc import Callable
from typing import Any, TypeVar

from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile

from evenhand.service.api.context import Context
from evenhand.service.api.errors import ApiError
from evenhand.service.api.guard import is_form
from evenhand.service.storage.tables import DataFile, ModelFile
from evenhand.service.storage.uploads import TooLargeError, Upload, size_text

PIECE = 1 << 20
Kept = TypeVar("Kept", DataFile, ModelFile)
Keep = Callable[[str, Any, str], Kept]  # name, stream and file name
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
        raise TooLargeError(f"The description is larger than {size_text(most)}, which is the most that is taken.")


async def kept(
    request: Request, asked: Context, name: str | None, filename: str | None, limit: int, keep: Keep[Kept]
) -> Kept:
    """Receive a file, piece by piece, and keep it; nothing is left of one that is refused or cut off."""
    if is_form(request):
        return await _from_form(request, name, filename, keep)
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/octet-stream":
        raise ApiError("wrong-type", "Send the file as application/octet-stream, or in a form.")
    if not filename:
        raise ApiError("invalid", "Say what the file is called: ?filename=people.csv. Its ending says what it is.")
    upload = await run_in_threadpool(asked.service.assets.receive, limit)
    try:
        await _receive(request, upload)
        return await run_in_threadpool(keep, name or filename, upload, filename)
    except BaseException:
        upload.abandon()
        raise


async def _from_form(request: Request, name: str | None, filename: str | None, keep: Keep[Kept]) -> Kept:
    form = await request.form()
    file, said = form.get("file"), form.get("name")
    if not isinstance(file, UploadFile) or not file.filename:
        raise ApiError("invalid", "The form has no file. Choose one.")
    given = said if isinstance(said, str) and said.strip() else file.filename
    return await run_in_threadpool(keep, name or given, file.file, filename or file.filename)


async def _receive(request: Request, upload: Upload) -> None:
    """Write what comes to the disk, in a thread: disks are slow."""
    waiting = bytearray()
    async for chunk in request.stream():
        waiting += chunk
        if len(waiting) >= PIECE:
            await run_in_threadpool(upload.write, bytes(waiting))
            waiting.clear()
    await run_in_threadpool(upload.write, bytes(waiting))
