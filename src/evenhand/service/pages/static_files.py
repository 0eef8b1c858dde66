"""Files of style and script, under addresses that change with what is in them, so that a browser asks for each once."""

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

from fastapi import Response
from fastapi.staticfiles import StaticFiles

FOLDER = Path(__file__).parent / "static"
FOREVER = "public, max-age=31536000, immutable"


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
