"""Who may do what: every route, asked for by everybody, through real requests."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient
from starlette.routing import Mount

from evenhand.service.api.access import RULES
from evenhand.service.api.app import ROUTERS, create_app
from evenhand.service.pages import PARTS
from tests.worlds.access import Things, callers, filled, things, world
from tests.worlds.access_table import API, CALLERS, TABLE_OF_ACCESS, Row, expected
from tests.worlds.people import PASSWORD, World, csrf_on

__all__ = ["callers", "things", "world"]  # fixtures


def token_for(client: TestClient, path: str) -> str:
    """The token of a form, as the page with the form has it."""
    page = client.get("/sign-in") if path == "/sign-in" else None
    return csrf_on(page.text) if page and page.status_code == 200 else client.headers.get("X-CSRF-Token", "")


def asked(client: TestClient, row: Row, names: dict[str, str]) -> int | str:
    """Make the request of a row; what came of it."""
    method, path = row.route.split(" ")
    address = filled(row.address or path, names)
    more: dict[str, Any] = {}
    if isinstance(row.send, dict):
        more = {"json": filled(row.send, names)}
    elif isinstance(row.send, bytes):
        more = {"content": row.send, "headers": {"Content-Type": "application/octet-stream"}}
    elif isinstance(row.send, list):
        more = {"data": filled(dict(row.send), names) | {"csrf": token_for(client, path)}}
    answer = client.request(method, address, **more)
    is_sign_in = answer.status_code == 303 and answer.headers["location"].startswith("/sign-in")
    return "sign in" if is_sign_in else answer.status_code


@pytest.mark.parametrize("row", TABLE_OF_ACCESS, ids=[row.route.replace("/", ".") for row in TABLE_OF_ACCESS])
def test_everybody_gets_what_the_table_says(
    row: Row, things: Things, callers: dict[str, Callable[[], TestClient]]
) -> None:
    """And nobody more: the row of the service's own table says the same."""
    assert RULES[row.route].who == row.who
    assert callers.keys() == CALLERS.keys()
    found = {}
    for name, come in callers.items():
        is_changed = not row.route.startswith("GET ") and (row.who == "open" or expected(row, name) in (200, 204, 303))
        found[name] = asked(come(), row, things.named(row, anew=is_changed))
    assert found == {name: expected(row, name) for name in CALLERS}


def test_every_route_is_in_both_tables(world: World) -> None:
    found: list[Any] = [route for part in (*ROUTERS, *(part.pages for part in PARTS)) for route in part.routes]
    routes = [f"{method} {route.path}" for route in found for method in route.methods]
    assert len(routes) > 90
    assert sorted(routes) == sorted(row.route for row in TABLE_OF_ACCESS) == sorted(RULES)
    # Older versions of FastAPI list the routes of the routers here too.
    plain: list[Any] = [route for route in world.app.router.routes if getattr(route, "path", None)]
    others = [route for route in plain if not any(route.path == one.path for one in found)]
    assert [(type(route), route.path) for route in others] == [(Mount, "/static")]


def test_a_route_without_a_rule_is_refused_to_everybody(world: World) -> None:
    app = create_app(world.service)

    @app.get("/forgotten")
    def forgotten() -> str:
        raise AssertionError("nobody may come here")

    there = replace(world, app=app)
    for client in (there.browser("ada"), there.program("ada", "admin"), there.client()):
        assert client.get("/forgotten").status_code == 403


def test_a_chart_says_nothing_about_another_project(world: World, things: Things) -> None:
    address = filled("/compare.json?a={run_id}&b={second_run}", things.kept)
    assert len(world.browser("vera").get(address).json()["groups"]) == 2
    assert world.browser("otto").get(address).json()["groups"] == []


def test_a_token_of_an_admin_reads_but_lets_nobody_in(world: World) -> None:
    """What it made would outlive it: another admin, another token, another password."""
    program = world.program("ada", "admin")
    for path in (f"{API}/users", f"{API}/log", f"{API}/projects/default/members", "/metrics"):
        assert program.get(path).status_code == 200
    body = {"name": "eve", "password": "a long password", "admin": True}
    assert program.post(f"{API}/users", json=body).status_code == 403
    assert program.patch(f"{API}/users/vera", json={"admin": True}).status_code == 403
    assert program.post(f"{API}/me/tokens", json={"name": "next", "days": 1, "password": PASSWORD}).status_code == 403
    assert "eve" not in [user.name for user in world.service.accounts.users()]
