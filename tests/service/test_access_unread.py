"""What is refused unread: requests that are not allowed, and those that bring more than their route takes."""

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from fastapi.testclient import TestClient
from starlette.requests import Request

from evenhand.service.api.guard import FILE_PATHS, Guard
from tests.worlds.access import Things, callers, filled, things, world
from tests.worlds.access_table import TABLE_OF_ACCESS, expected
from tests.worlds.people import World, csrf_on

__all__ = ["callers", "things", "world"]  # fixtures


def unread(world: World, client: TestClient, method: str, path: str, kind: str) -> int:
    """The status of a request whose body must not be asked for."""
    headers = {"host": "127.0.0.1:8321", "content-type": kind, "content-length": "500000"}
    headers |= {name.lower(): value for name, value in client.headers.items() if name in ("authorization", "cookie")}
    headers["cookie"] = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
        "path": path, "raw_path": path.encode(), "query_string": b"filename=a.csv", "client": ("127.0.0.1", 1),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()], "server": ("127.0.0.1", 8321),
    }  # fmt: skip
    answers: list[Any] = []

    async def receive() -> Any:
        raise AssertionError("the body was asked for")

    async def send(message: Any) -> None:
        answers.append(message)

    async def ask() -> None:
        await world.app(scope, receive, send)

    anyio.run(ask)
    return int(answers[0]["status"])


TAKING = [row for row in TABLE_OF_ACCESS if row.route.startswith(("POST", "PUT", "PATCH")) and row.who != "open"]


@pytest.mark.parametrize("kind", ["multipart/form-data; boundary=x", "application/octet-stream", "application/json"])
@pytest.mark.parametrize("who", ["nobody", "viewer", "token of a viewer", "member of no project", "revoked token"])
def test_a_request_that_is_not_allowed_is_not_even_read(
    world: World, things: Things, callers: dict[str, Callable[[], TestClient]], who: str, kind: str
) -> None:
    """Else everybody could fill the disk or the memory with what is on its way to be refused."""
    client, names = callers[who](), things.kept | {"token_id": "0" * 32}
    refused = [row for row in TAKING if expected(row, who) in (401, 403, "sign in") and row.route != "POST /sign-out"]
    assert len(refused) > 20
    for row in refused:
        method, path = row.route.split(" ")
        address = filled((row.address or path).partition("?")[0], names)
        assert unread(world, client, method, address, kind) in (303, 401, 403), row.route


SMALL = [row.route for row in TABLE_OF_ACCESS if row.route.startswith(("POST", "PUT", "PATCH"))]
FOR_FILES = {f"POST {path}" for path in FILE_PATHS}


@pytest.mark.parametrize("kind", ["multipart/form-data; boundary=x", "application/octet-stream"])
def test_only_what_takes_a_file_takes_much(world: World, things: Things, kind: str) -> None:
    """Whoever asks, and whether they may: a request of 700 MB is refused by its length."""
    names = things.kept | {"token_id": "0" * 32, "known_as": "0" * 32, "kind": "models"}
    for route in SMALL:
        method, path = route.split(" ")
        guard = Guard(world.app, world.service.settings)
        scope = {"type": "http", "method": method, "path": filled(path, names), "headers": [
            (b"content-type", kind.encode())]}  # fmt: skip
        limit = guard.limit(Request(scope))
        if route in FOR_FILES:
            assert limit > 1 << 30
        elif "schema" in path or "/new/columns" in path:
            assert limit <= 16 << 20
        else:
            assert limit == world.service.settings.max_request


def test_a_sign_in_with_a_file_is_refused(world: World) -> None:
    """Files of forms go to the disk while they come; only a form that has a field for one takes one."""
    client = world.client()
    token = csrf_on(client.get("/sign-in").text)
    answer = client.post("/sign-in", data={"csrf": token, "name": "vera"}, files={"password": ("a", b"x" * 10)})
    assert answer.status_code == 400
    assert "Too many files" in answer.text
    answer = client.post("/sign-in", data={"csrf": token, "name": "x" * 100_000}, files={"file": ("", b"")})
    assert answer.status_code == 400
