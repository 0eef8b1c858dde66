"""Who may do what: every route, asked for by everybody, through real requests."""

import shutil
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from fastapi.testclient import TestClient
from starlette.requests import Request
from starlette.routing import Mount

from evenhand.files import read_json
from evenhand.runs.audit import audit
from evenhand.service.api import table_tasks
from evenhand.service.api.access import RULES
from evenhand.service.api.app import ROUTERS, create_app
from evenhand.service.api.guard import FILE_PATHS, Guard
from evenhand.service.jobs import figures_of
from evenhand.service.pages import PARTS, new_data, preview
from evenhand.service.storage.accounts import Person, person_of
from tests.people_world import PASSWORD, World, csrf_on, peopled
from tests.service_world import SMALL_AUDIT
from tests.test_service_api import TABLE

pytest_plugins = ["tests.service_world"]
API = "/api/v1"
BYTES = b"tree\n"


@dataclass(frozen=True)
class Row:
    """A request to a route: who may make it, what they get, and what others get who may do the same elsewhere."""

    route: str
    who: str
    status: int = 200
    elsewhere: int | None = None  # None: the same; 404: what it is about is not there for them
    address: str = ""  # where it is not the route's own
    send: Any = None  # JSON as a dictionary, bytes, or a form as a list of fields


def rows(who: str, *entries: tuple[Any, ...]) -> list[Row]:
    return [Row(entry[0], who, **dict(zip(("status", "elsewhere", "address", "send"), entry[1:], strict=False)))
            for entry in entries]  # fmt: skip


RUN, DATA, MODEL = "/api/v1/runs/{run_id}", "/api/v1/datasets/{dataset_id}", "/api/v1/models/{model_id}"
USER, PROJECT = "/admin/users/{name}", "/admin/projects/{project_id}"
NOT_THERE, SAME, OWN = 404, None, ""
TABLE_OF_ACCESS = [
    *rows(
        "open",
        ("GET /healthz",),
        ("GET /readyz",),
        ("GET /sign-in",),
        ("POST /sign-in", 403, SAME, OWN, [("name", "{name}"), ("password", "wrong")]),
    ),
    *rows(
        "known",
        ("GET /api/v1/openapi.json",),
        ("GET /api/v1/me",),
        ("GET /api/v1/projects",),
        ("GET /api/v1/me/tokens",),
        ("DELETE /api/v1/me/tokens/{token_id}", 404),
    ),
    *rows(
        "signed in",
        ("POST /sign-out", 303, SAME, OWN, []),
        ("POST /project", 400, SAME, OWN, [("project", "nowhere")]),
        ("GET /account",),
        ("POST /account/password", 400, SAME, OWN, [("new", "a"), ("again", "b")]),
        ("POST /account/tokens", 400, SAME, OWN, [("days", "soon")]),
        ("POST /api/v1/me/tokens", 400, SAME, OWN, {"name": " ", "role": "viewer", "days": 1, "password": PASSWORD}),
        ("POST /account/tokens/{token_id}/revoke", 400, SAME, OWN, []),
    ),
    *rows(
        "viewer",
        ("GET /",),
        ("GET /runs",),
        ("GET /runs/{run_id}", 200, NOT_THERE),
        ("GET /runs/{run_id}/growth.json", 200, NOT_THERE),
        ("GET /runs/{run_id}/before_after.json", 200, NOT_THERE),
        ("GET /runs/{run_id}/rates.json", 200, NOT_THERE),
        ("GET /runs/{run_id}/report", 200, NOT_THERE),
        ("GET /runs/{run_id}/findings", 200, NOT_THERE),
        ("GET /compare", 200, 400, "/compare?a={run_id}&b={second_run}"),
        ("GET /compare.json", 200, SAME, "/compare.json?a={run_id}&b={second_run}"),
        ("GET /settings",),
        ("GET /api/v1/builtin",),
        ("GET /api/v1/datasets",),
        (f"GET {DATA}", 200, NOT_THERE),
        (f"GET {DATA}/preview", 200, NOT_THERE),
        (f"GET {DATA}/schema", 200, NOT_THERE),
        ("GET /api/v1/models",),
        (f"GET {MODEL}", 200, NOT_THERE),
        ("GET /api/v1/runs",),
        ("GET /api/v1/compare", 200, NOT_THERE, "/api/v1/compare?a={run_id}&b={second_run}"),
        (f"GET {RUN}", 200, NOT_THERE),
        (f"GET {RUN}/events", 200, NOT_THERE),
        (f"GET {RUN}/events/stream", 200, NOT_THERE),
        (f"GET {RUN}/files", 200, NOT_THERE),
        (f"GET {RUN}/files/{{name}}", 200, NOT_THERE, f"{RUN}/files/summary.json"),
        (f"GET {RUN}/findings", 200, NOT_THERE),
        (f"GET {RUN}/findings/values", 200, NOT_THERE),
    ),
    *rows(
        "auditor",
        ("GET /new",),
        ("POST /new/data", 400, SAME, OWN, []),
        ("GET /new/columns", 200, NOT_THERE, "/new/columns?data={dataset_id}"),
        ("POST /new/columns/label", 303, NOT_THERE, OWN, [("data", "{dataset_id}"), ("label", "ok")]),
        ("POST /new/columns/text", 303, NOT_THERE, OWN, [("data", "{dataset_id}"), ("text", "{schema}")]),
        ("POST /new/columns", 400, NOT_THERE, OWN, [("data", "{dataset_id}")]),
        ("GET /new/model", 200, NOT_THERE, "/new/model?data={dataset_id}&protected=sex"),
        ("POST /new/model", 400, NOT_THERE, OWN, [("data", "{dataset_id}"), ("protected", "sex")]),
        ("GET /runs/{run_id}/repair", 200, NOT_THERE),
        ("POST /runs/{run_id}/repair", 303, NOT_THERE, OWN, [("by", "average"), ("repeats", "1")]),
        ("GET /runs/{run_id}/measure", 200, NOT_THERE),
        ("POST /runs/{run_id}/measure", 400, NOT_THERE, OWN, []),
        ("POST /runs/{run_id}/cancel", 303, NOT_THERE, OWN, []),
        ("POST /runs/{run_id}/resume", 409, NOT_THERE, OWN, []),
        ("GET /runs/{run_id}/delete", 200, NOT_THERE),
        ("POST /runs/{run_id}/delete", 303, NOT_THERE, OWN, []),
        ("GET /settings/{kind}/{known_as}/delete", 200, NOT_THERE, "/settings/datasets/{dataset_id}/delete"),
        ("POST /settings/{kind}/{known_as}/delete", 303, NOT_THERE, "/settings/models/{model_id}/delete", []),
        ("POST /api/v1/datasets", 201, SAME, "/api/v1/datasets?filename=a.csv", TABLE),
        (f"DELETE {DATA}", 204, NOT_THERE),
        (f"POST {DATA}/schema/infer", 200, NOT_THERE, OWN, {"label": "ok"}),
        (f"PUT {DATA}/schema", 200, NOT_THERE, OWN, {"text": "{schema}"}),
        ("POST /api/v1/models", 201, SAME, "/api/v1/models?filename=a.txt", BYTES),
        (f"PUT {MODEL}/description", 400, NOT_THERE, OWN, {}),
        (f"DELETE {MODEL}", 204, NOT_THERE),
        ("POST /api/v1/runs", 201, SAME, OWN, {"kind": "audit", "request": SMALL_AUDIT}),
        (f"POST {RUN}/cancel", 200, NOT_THERE, OWN, {}),
        (f"POST {RUN}/resume", 409, NOT_THERE, OWN, {}),
        (f"DELETE {RUN}", 204, NOT_THERE),
        (f"POST {RUN}/repair", 201, NOT_THERE, OWN, {}),
        (f"POST {RUN}/measure", 201, NOT_THERE, OWN, {}),
    ),
    *rows(
        "admin",
        ("GET /metrics",),
        ("GET /admin/users",),
        (f"GET {USER}", 200),
        (f"GET {USER}/delete", 200),
        ("GET /admin/projects",),
        (f"GET {PROJECT}", 200),
        (f"GET {PROJECT}/delete", 200),
        ("GET /admin/log",),
        ("GET /api/v1/users",),
        ("GET /api/v1/projects/{project_id}/members", 200),
        ("GET /api/v1/log",),
    ),
    *rows(
        "admin, signed in",
        ("POST /admin/users", 400, SAME, OWN, [("name", "?")]),
        (f"POST {USER}", 303, SAME, OWN, [("do", "admin")]),
        (f"POST {USER}/password", 303, SAME, OWN, [("password", "a new long password")]),
        (f"POST {USER}/role", 303, SAME, OWN, [("project", "default"), ("role", "viewer")]),
        (f"POST {USER}/tokens/{{token_id}}/revoke", 303, SAME, OWN, []),
        (f"POST {USER}/delete", 303, SAME, OWN, []),
        ("POST /admin/projects", 400, SAME, OWN, [("name", "")]),
        (f"POST {PROJECT}", 303, SAME, OWN, [("name", "Renamed {project_id}")]),
        (f"POST {PROJECT}/role", 303, SAME, OWN, [("user", "{name}"), ("role", "auditor")]),
        (f"POST {PROJECT}/delete", 303, SAME, OWN, []),
        ("POST /api/v1/users", 400, SAME, OWN, {"name": "?", "password": "a long password"}),
        ("PATCH /api/v1/users/{name}", 200, SAME, OWN, {"disabled": True}),
        ("DELETE /api/v1/users/{name}", 204),
        ("POST /api/v1/projects", 400, SAME, OWN, {"name": " "}),
        ("PATCH /api/v1/projects/{project_id}", 200, SAME, OWN, {"name": "Another {project_id}"}),
        ("DELETE /api/v1/projects/{project_id}", 204),
        ("PUT /api/v1/projects/{project_id}/members/{name}", 200, SAME, OWN, {"role": "auditor"}),
    ),
]  # fmt: skip

# Role, whether it is elsewhere, whether it is a browser. None: not known at all.
CALLERS: dict[str, tuple[str, bool, bool] | None] = {
    "nobody": None,
    "viewer": ("viewer", False, True),
    "auditor": ("auditor", False, True),
    "admin": ("admin", False, True),
    "auditor of another project": ("auditor", True, True),
    "member of no project": ("", True, True),
    "disabled user": None,
    "token of a viewer": ("viewer", False, False),
    "token of an auditor": ("auditor", False, False),
    "viewer's token of an auditor": ("viewer", False, False),
    "token of an admin": ("admin", False, False),
    "token of another project": ("auditor", True, False),
    "admin's token of another project": ("admin", True, False),
    "expired token": None,
    "revoked token": None,
    "token of a disabled user": None,
    "made-up token": None,
}
RANK = {"": 0, "viewer": 1, "auditor": 2, "admin": 3}


def expected(row: Row, caller: str) -> int | str:
    """What a caller gets: a status, or the sign-in page."""
    known = CALLERS[caller]
    if row.who == "open":
        return 303 if row.route == "GET /sign-in" and known else row.status
    if known is None:
        return 401 if row.route.split(" ")[1].startswith((API, "/metrics")) else "sign in"
    role, is_elsewhere, is_browser = known
    who, _, in_person = row.who.partition(", ")
    if "signed in" in (who, in_person) and not is_browser:
        return 403
    if who in RANK and RANK[role] < RANK[who]:
        return 403
    if row.route == "POST /sign-out":
        return "sign in"
    return row.elsewhere if is_elsewhere and row.elsewhere is not None else row.status


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with pytest.MonkeyPatch.context() as patch, peopled(tmp_path_factory.mktemp("access") / "home") as world:

        def ask(_: Any, task: str, path: Path, **options: Any) -> Any:
            return table_tasks.TASKS[task](path, **options)  # in this process: there are hundreds of requests

        for place in (table_tasks, new_data, preview):
            patch.setattr(place, "ask", ask)
        yield world


def same(client: TestClient) -> TestClient:
    return client


@pytest.fixture(scope="module")
def callers(world: World) -> dict[str, Callable[[], TestClient]]:
    """How each of them comes; a browser signs in anew each time, since a request may end its sign-in."""
    dora = world.browser("dora"), world.program("dora", "auditor")
    world.service.accounts.set_disabled("dora", True)
    programs = {
        "token of a viewer": world.program("vera", "viewer"),
        "token of an auditor": world.program("olga", "auditor"),
        "viewer's token of an auditor": world.program("olga", "viewer"),
        "token of an admin": world.program("ada", "admin"),
        "token of another project": world.program("otto", "auditor", world.other),
        "admin's token of another project": world.program("ada", "admin", world.other),
        "expired token": world.dead_token("olga", "expires"),
        "revoked token": world.dead_token("olga", "revoked"),
        "disabled user": dora[0],
        "token of a disabled user": dora[1],
        "made-up token": world.with_token("evh_" + "x" * 43),
    }
    people = {
        "viewer": "vera", "auditor": "olga", "admin": "ada", "auditor of another project": "otto",
        "member of no project": "nina",
    }  # fmt: skip
    made: dict[str, Callable[[], TestClient]] = {name: partial(same, client) for name, client in programs.items()}
    made |= {caller: partial(world.browser, name) for caller, name in people.items()}
    return made | {"nobody": world.client}


class Things:
    """What requests are about, by the name that addresses have for it."""

    def __init__(self, world: World, folder: Path) -> None:
        self.service, self.folder = world.service, folder
        self.schema = ""
        self.kept = {name: make() for name, make in self.makers().items()}

    def makers(self) -> dict[str, Callable[[], str]]:
        assets = self.service.assets
        return {
            "run_id": self.run,
            "second_run": self.run,
            "dataset_id": self.dataset,
            "schema": lambda: self.schema,
            "model_id": lambda: assets.add_model("default", "trees", [BYTES], "a.txt", 1 << 20).id,
            "name": lambda: self.person().name,
            "project_id": lambda: self.service.projects.add(f"Project {uuid.uuid4().hex[1:]}").id,
        }

    def run(self) -> str:
        """An audit that is done."""
        made = self.service.runs.create("default", "audit", "census, sex", SMALL_AUDIT)
        while (claim := self.service.runs.claim("a test")) is not None and claim.run != made.id:
            self.service.runs.finish(claim, "cancelled")  # asked for by an earlier request
        assert claim is not None
        shutil.copytree(self.folder, self.service.home.run(made.id))
        figures = figures_of("audit", read_json(self.folder / "summary.json"))
        self.service.runs.finish(claim, "done", figures)
        return made.id

    def dataset(self) -> str:
        """A table with a schema."""
        made = self.service.assets.add_dataset("default", "people", [TABLE], "people.csv", 1 << 20).id
        if not self.schema:
            path = self.service.home.dataset(made) / "table.csv"
            self.schema = table_tasks.infer(path, label="ok", favourable="y")["text"]
        self.service.assets.set_schema(made, self.schema)
        return made

    def person(self) -> Person:
        """A user whom nothing depends on."""
        return self.service.accounts.add_user(f"u{uuid.uuid4().hex}", "a long password", admin=True)

    def named(self, row: Row, *, anew: bool) -> dict[str, str]:
        """What a request names; anew where it will be changed."""
        words = f"{row.route} {row.address} {row.send}"
        names = dict(self.kept)
        if anew:
            names |= {name: make() for name, make in self.makers().items() if f"{{{name}}}" in words}
        if "{token_id}" in words:
            person = person_of(self.service.accounts.user(names["name"]))
            names["token_id"] = self.service.accounts.add_token(person, "default", "viewer", "theirs", 1)[0].id
        return names


@pytest.fixture(scope="module")
def things(world: World, tmp_path_factory: pytest.TempPathFactory) -> Things:
    folder = tmp_path_factory.mktemp("audited") / "audit"
    audit("census", ["sex"], out=folder, seeds=10, steps=5, iterations=2, seed=1)
    return Things(world, folder)


def filled(content: Any, names: dict[str, str]) -> Any:
    """A text, or JSON with texts in it, with names in braces replaced."""
    if isinstance(content, dict):
        return {key: filled(value, names) for key, value in content.items()}
    if not isinstance(content, str):
        return content
    for name, value in names.items():
        content = content.replace(f"{{{name}}}", value)
    return content


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
