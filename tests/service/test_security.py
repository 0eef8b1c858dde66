"""Requests that the service must refuse: from other sites, to other names, about other projects, too long, odd."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from evenhand.service.api.app import create_app
from evenhand.service.api.guard import COOKIE, host_of
from evenhand.service.settings import Service
from evenhand.service.storage.projects import ensure_project
from tests.worlds.api import API, error
from tests.worlds.hostile_files import ADDRESS, TABLE, nothing_left, send
from tests.worlds.service import SMALL_AUDIT, small_run

pytest_plugins = ["tests.worlds.service", "tests.worlds.api"]


def test_other_requests_are_short(open_service: Callable[..., Service]) -> None:
    service = open_service(max_request=1000)
    client = TestClient(create_app(service), base_url=ADDRESS)
    long = {"kind": "audit", "request": SMALL_AUDIT, "title": "x" * 2000}
    assert error(client.post(f"{API}/runs", json=long)) == (413, "too-large")
    headers = {"Content-Type": "application/json"}
    pieces = (part for part in [b'{"kind": "', *[b"x" * 500] * 4, b'"}'])
    assert error(client.post(f"{API}/runs", content=pieces, headers=headers)) == (413, "too-large")


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8321", "evil.example:8321",
        "127.0.0.1@evil.example", "[::1].evil", "", "169.254.169.254", "127.0.0.1:99999999", "localhost:",
        "127.0.0.1/x",
    ],
)  # fmt: skip
def test_other_host_names_are_refused(client: TestClient, host: str) -> None:
    for path in ("/", f"{API}/runs", "/metrics", "/static/page.css"):
        answer = client.get(path, headers={"Host": host})
        assert answer.status_code == 403


def test_names_of_this_machine_are_known() -> None:
    for host in ("localhost", "localhost:8321", "127.0.0.1:1", "LOCALHOST"):
        assert host_of(host) in ("localhost", "127.0.0.1")
    assert host_of("[::1]:8321") == "::1"


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Origin": "https://127.0.0.1:8321"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_changes_from_other_sites_are_refused(
    client: TestClient, sqlite_service: Service, headers: dict[str, str]
) -> None:
    run = small_run(sqlite_service)
    assert error(client.post(f"{API}/runs/{run.id}/cancel", json={}, headers=headers)) == (403, "forbidden")
    assert error(client.delete(f"{API}/runs/{run.id}", headers=headers)) == (403, "forbidden")
    assert error(send(client, "datasets", "people.csv", TABLE, **headers)) == (403, "forbidden")
    assert client.get(f"{API}/runs/{run.id}", headers=headers).json()["state"] == "queued"


def test_changes_from_our_own_pages_are_not(client: TestClient, sqlite_service: Service) -> None:
    run = small_run(sqlite_service)
    headers = {"Origin": ADDRESS, "Sec-Fetch-Site": "same-origin"}
    assert client.post(f"{API}/runs/{run.id}/cancel", json={}, headers=headers).json()["state"] == "cancelled"


@pytest.mark.parametrize(
    "kind", ["text/plain", "text/html", "", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
)
def test_what_a_page_elsewhere_can_send_is_refused(client: TestClient, sqlite_service: Service, kind: str) -> None:
    """A form or a simple request of another site needs no permission of the browser, so its type is refused."""
    body = json.dumps({"kind": "audit", "request": SMALL_AUDIT})
    answer = client.post(f"{API}/runs", content=body, headers={"Content-Type": kind})
    assert answer.status_code in (400, 403, 415)
    assert sqlite_service.runs.newest() == []


def test_forms_need_the_token_of_their_browser(client: TestClient, sqlite_service: Service) -> None:
    files = {"file": ("people.csv", TABLE)}
    address = f"{API}/datasets"
    assert error(client.post(address, files=files, data={"csrf": ""})) == (403, "forbidden")
    assert error(client.post(address, files=files)) == (403, "forbidden")
    client.cookies.set(COOKIE, "a" * 43)
    assert error(client.post(address, files=files)) == (403, "forbidden")
    assert error(client.post(address, files=files, data={"csrf": "b" * 43})) == (403, "forbidden")
    assert error(client.post(address, files=files, data={"csrf": "ä" * 43})) == (403, "forbidden")
    assert nothing_left(sqlite_service)
    answer = client.post(address, files=files, data={"csrf": "a" * 43, "name": "From a form"})
    assert answer.status_code == 201, answer.text
    assert answer.json()["name"] == "From a form"


def test_a_model_and_its_description_come_in_one_form(client: TestClient, tmp_path: Path) -> None:
    from evenhand.models.network import FeedForward, save_network

    save_network(FeedForward([13, 4, 2]), {}, tmp_path / "net")
    client.cookies.set(COOKIE, "a" * 43)
    files = {
        "file": ("net.safetensors", (tmp_path / "net.safetensors").read_bytes()),
        "description": ("net.json", (tmp_path / "net.json").read_bytes()),
    }
    answer = client.post(f"{API}/models", files=files, data={"csrf": "a" * 43})
    assert answer.json()["is_described"]
    inner = json.loads((tmp_path / "net.json").read_text()) | {"inner": {"model": "/etc/passwd"}}
    answer = client.put(f"{API}/models/{answer.json()['id']}/description", json=inner)
    assert error(answer) == (400, "invalid")


def test_pages_give_a_cookie_that_scripts_and_other_sites_do_not_get(client: TestClient) -> None:
    answer = client.get("/")
    assert answer.headers["content-type"].startswith("text/html")
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"{COOKIE}=")
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert "set-cookie" not in client.get("/").headers
    assert "set-cookie" not in TestClient(client.app, base_url=ADDRESS).get(f"{API}/runs").headers


@pytest.mark.parametrize("path", ["/", f"{API}/runs", f"{API}/nothing", "/nothing", "/healthz", f"{API}/openapi.json"])
def test_every_answer_has_the_headers(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert "access-control-allow-origin" not in headers


def test_refusals_have_the_headers_too(client: TestClient) -> None:
    answer = client.get("/", headers={"Host": "evil.example"})
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["x-request-id"]


def test_a_report_has_no_rights(client: TestClient, sqlite_service: Service) -> None:
    run = small_run(sqlite_service)
    folder = sqlite_service.home.run(run.id)
    folder.mkdir()
    (folder / "report.html").write_text("<script>alert(1)</script>")
    policy = client.get(f"{API}/runs/{run.id}/files/report.html").headers["content-security-policy"]
    assert policy.startswith("sandbox; default-src 'none'")
    assert "script" not in policy


def test_nothing_of_another_project_is_seen_or_touched(service: Service) -> None:
    client = TestClient(create_app(service), base_url=ADDRESS)
    ensure_project(service.database, "other")
    run = small_run(service, project="other").id
    data = service.assets.add_dataset("other", "theirs", [TABLE], "a.csv", 10**6).id
    model = service.assets.add_model("other", "theirs", [b"tree\n"], "a.txt", 10**6).id
    mine = small_run(service).id
    folder = service.home.run(run)
    folder.mkdir()
    (folder / "summary.json").write_text("{}")
    text = {"text": "x"}
    for method, path, body in [
        ("GET", f"runs/{run}", None),
        ("DELETE", f"runs/{run}", None),
        ("POST", f"runs/{run}/cancel", {}),
        ("POST", f"runs/{run}/resume", {}),
        ("POST", f"runs/{run}/repair", {}),
        ("POST", f"runs/{run}/measure", {}),
        ("GET", f"runs/{run}/events", None),
        ("GET", f"runs/{run}/events/stream", None),
        ("GET", f"runs/{run}/files", None),
        ("GET", f"runs/{run}/files/summary.json", None),
        ("GET", f"runs/{run}/findings", None),
        ("GET", f"runs/{run}/findings/values", None),
        ("GET", f"compare?a={mine}&b={run}", None),
        ("GET", f"compare?a={run}&b={mine}", None),
        ("GET", f"datasets/{data}", None),
        ("DELETE", f"datasets/{data}", None),
        ("GET", f"datasets/{data}/preview", None),
        ("GET", f"datasets/{data}/schema", None),
        ("PUT", f"datasets/{data}/schema", text),
        ("GET", f"datasets/{data}/columns", None),
        ("PUT", f"datasets/{data}/columns", text),
        ("POST", f"datasets/{data}/schema/infer", {"label": "ok"}),
        ("GET", f"models/{model}", None),
        ("DELETE", f"models/{model}", None),
        ("PUT", f"models/{model}/description", {}),
        ("POST", "runs", {"kind": "audit", "request": SMALL_AUDIT | {"dataset": data}}),
        ("POST", "runs", {"kind": "audit", "request": SMALL_AUDIT | {"model": model}}),
    ]:
        answer = (
            client.request(method, f"{API}/{path}", json=body)
            if body is not None
            else client.request(method, f"{API}/{path}")
        )
        assert error(answer) == (404, "not-found"), path
    for kind in ("datasets", "models"):
        assert client.get(f"{API}/{kind}").json()["entries"] == []
    assert [entry["id"] for entry in client.get(f"{API}/runs").json()["entries"]] == [mine]
    assert service.runs.get(run).state == "queued"


def test_every_route_that_names_something_is_in_the_table_above() -> None:
    """A route that is added later must be tried with an id of another project too."""
    source = Path(__file__).read_text().partition("def test_nothing_of_another_project")[2]
    described = create_description()
    # Users, projects and tokens belong to no project: tests/service/test_access.py tries those.
    kinds = tuple(f"{API}/{kind}/" for kind in ("runs", "datasets", "models"))
    named = [path for path in described["paths"] if "{" in path and path.startswith(kinds)]
    assert named
    for path in named:
        start, _, rest = path.removeprefix(f"{API}/").partition("/{")
        kind = {"runs": "{run}", "datasets": "{data}", "models": "{model}"}[start]
        end = rest.partition("}")[2].replace("{name}", "summary.json")
        assert f'"{start}/{kind}{end}"' in source, path
        for method in described["paths"][path]:
            assert f'("{method.upper()}", f"{start}/{kind}{end}"' in source, (method, path)


def create_description() -> dict[str, Any]:
    from fastapi import FastAPI

    from evenhand.service.api.app import ROUTERS

    app = FastAPI()
    for router in ROUTERS:
        app.include_router(router)
    return app.openapi()


@pytest.mark.parametrize("known_as", ["0" * 31, "0" * 33, "Z" * 32, "..", "%00" * 32, "0" * 31 + "%0a"])
def test_ids_are_ids(client: TestClient, known_as: str) -> None:
    for kind in ("runs", "datasets", "models"):
        assert client.get(f"{API}/{kind}/{known_as}").status_code in (200, 404, 422)
        assert client.delete(f"{API}/{kind}/{known_as}").status_code in (404, 405, 422)


@pytest.mark.parametrize("odd", ["a\0b", "\ud800", "a\u2028b", "\U0001f9d1" * 60, "{{7*7}}", "%s%n"])
def test_odd_characters_are_refused_or_kept_but_break_nothing(service: Service, odd: str) -> None:
    client = TestClient(create_app(service), base_url=ADDRESS)
    headers = {"Content-Type": "application/json"}
    wishes: list[dict[str, Any]] = [
        {"kind": "audit", "title": odd, "request": SMALL_AUDIT},
        {"kind": odd, "request": SMALL_AUDIT},
        {"kind": "audit", "request": SMALL_AUDIT | {"protected": [odd]}},
        {"kind": "audit", "request": SMALL_AUDIT | {odd: odd}},
        {"kind": "repair", "request": {"dataset": "census", "choose": odd}},
    ]
    for wish in wishes:
        answer = client.post(f"{API}/runs", content=json.dumps(wish), headers=headers)
        assert answer.status_code in (201, 400, 422), answer.text
        assert answer.json()
    assert all(run["title"].isprintable() for run in client.get(f"{API}/runs").json()["entries"])
    if "\ud800" not in odd:
        for path in ("runs", "datasets", "models"):
            assert client.get(f"{API}/{path}", params={"after": odd, "state": odd}).status_code in (400, 422)
