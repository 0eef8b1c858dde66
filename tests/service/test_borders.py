"""What a request may carry and what an answer may tell: proxies, sizes, odd ids and numbers, paths of the machine."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import text

from evenhand.service.api.app import create_app
from evenhand.service.api.guard import COOKIE
from evenhand.service.settings import Service
from tests.worlds.pages import sound
from tests.worlds.people import ADDRESS, World, peopled
from tests.worlds.service import SMALL_AUDIT, small_run

pytest_plugins = ["tests.worlds.service"]
API = "/api/v1"
HUGE = "9" * 5000
TERMINAL: dict[str, Any] = SMALL_AUDIT | {
    "dataset": "/home/vera/secret/people.toml", "model": "/home/vera/secret/net.onnx",
    "terminal": {"folder": "/home/vera/work", "secret": False, "texts": False},
}  # fmt: skip


@pytest.fixture
def client(sqlite_service: Service) -> Iterator[TestClient]:
    with TestClient(create_app(sqlite_service), base_url=ADDRESS, follow_redirects=False) as client:
        client.cookies.set(COOKIE, "a" * 43)
        yield client


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with peopled(tmp_path_factory.mktemp("borders") / "home", names=("audits.example.org",)) as world:
        yield world


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "Via"])
def test_without_accounts_nothing_comes_through_a_proxy(client: TestClient, header: str) -> None:
    """A proxy that somebody put before it would open it to everybody who reaches the proxy."""
    for path in ("/", f"{API}/runs", "/metrics"):
        answer = client.get(path, headers={header: "10.0.0.7"})
        assert answer.status_code == 403
        assert "evenhand serve --proxy" in answer.text


def test_with_accounts_a_proxy_is_welcome(world: World) -> None:
    headers = {"X-Forwarded-For": "10.0.0.7", "Via": "1.1 caddy"}
    assert world.browser("vera").get("/runs", headers=headers).status_code == 200


def test_what_readiness_says_does_not_name_the_database(
    client: TestClient, sqlite_service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    with sqlite_service.database.writing() as session:
        session.execute(text("update alembic_version set version_num = 'v9999'"))
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert "The tables of the database are not those of this version." in answer.text
    assert "sqlite" not in answer.text
    assert str(sqlite_service.home.path) not in answer.text
    told = [record.data["problem"] for record in caplog.records if record.message == "not ready"]  # type: ignore[attr-defined]
    assert len(told) == 1
    assert "evenhand.db" in told[0]


@pytest.mark.parametrize("odd", ["%00", "a%00b", "0" * 31 + "%00"])
def test_what_is_no_id_is_not_there(service: Service, odd: str) -> None:
    client = TestClient(create_app(service), base_url=ADDRESS, follow_redirects=False)
    client.cookies.set(COOKIE, "a" * 43)
    for path in (
        f"/runs/{odd}", f"/runs/{odd}/report", f"/runs/{odd}/repair", f"/settings/datasets/{odd}/delete",
        f"/settings/models/{odd}/delete", f"/new/columns?data={odd}",
    ):  # fmt: skip
        assert client.get(path).status_code == 404, path
    assert client.post(f"/runs/{odd}/cancel", data={"csrf": "a" * 43}).status_code == 404
    assert client.get(f"/compare?a={odd}&b={odd}").status_code == 400
    assert client.get(f"/compare.json?a={odd}").json()["groups"] == []


@pytest.mark.parametrize(
    "at", ["2026-01-01T00:00:00%2B00:00", "0001-01-01T00:00:00%2B14:00", "9999-12-31T23:59:59-14:00"]
)
@pytest.mark.parametrize("known_as", ["%00", "0" * 32])
def test_a_list_that_is_to_go_on_nowhere_begins_anew(service: Service, at: str, known_as: str) -> None:
    client = TestClient(create_app(service), base_url=ADDRESS)
    assert client.get(f"/runs?after={at}%20{known_as}").status_code == 200


def test_values_that_the_database_cannot_look_for_are_no_failure_of_the_service(service: Service) -> None:
    client = TestClient(create_app(service), base_url=ADDRESS)
    for path in (f"{API}/log?user=%00", f"{API}/log?project=%00", "/admin/log?user=%00"):
        assert client.get(path).status_code in (200, 400), path


def test_numbers_of_thousands_of_digits_are_mistakes(client: TestClient, sqlite_service: Service) -> None:
    """Python refuses to read them, and that must not look like a failure of the service."""
    run = small_run(sqlite_service)
    path = f"{API}/runs/{run.id}/events/stream"
    assert client.get(path, headers={"Last-Event-ID": HUGE}).status_code == 400
    assert client.get(f"{API}/runs", headers={"Content-Length": "1" * 5000}).status_code == 413
    claim = sqlite_service.runs.claim("a test")
    assert claim is not None
    sqlite_service.runs.finish(claim, "done", {})
    fields = {"csrf": "a" * 43, "by": "average"}
    for name in ("repeats", "seeds", "steps"):
        page = sound(client.post(f"/runs/{run.id}/repair", data=fields | {name: HUGE}), 400)
        assert "write a whole number" in page
    fields = {"csrf": "a" * 43, "precision": "usual", "confidence": "0.95"}
    assert "whole number" in sound(client.post(f"/runs/{run.id}/measure", data=fields | {"changes": HUGE}), 400)
    new = {"csrf": "a" * 43, "data": "census", "protected": "sex", "model": "builtin", "effort": "own", "seeds": HUGE}
    assert "whole number" in sound(client.post("/new/model", data=new | {"steps": "1"}), 400)


def test_a_description_is_read_no_further_than_a_request_may_be_long(
    client: TestClient, sqlite_service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sqlite_service.settings.__dict__, "max_request", 1000)
    long = json.dumps({"x": "y" * 2000}).encode()
    files = {"file": ("net.safetensors", b"\x08\0\0\0\0\0\0\0{}      "), "description": ("net.json", long)}
    answer = client.post(f"{API}/models", files=files, data={"csrf": "a" * 43})
    assert (answer.status_code, answer.json()["error"]["what"]) == (413, "too-large")
    assert "The description is larger than 1000 bytes" in answer.text
    form = {"csrf": "a" * 43, "data": "census", "protected": "sex", "model": "upload", "effort": "quick"}
    both = [("file", ("net.safetensors", b"\x08\0\0\0\0\0\0\0{}      ")), ("file", ("net.json", long))]
    assert "description is larger" in sound(client.post("/new/model", data=form, files=both), 400)
    assert sqlite_service.assets.models() == []


def test_each_thing_has_one_address(client: TestClient) -> None:
    for path in ("/runs/", f"{API}/runs/", "/compare/"):
        assert client.get(path).status_code == 404


def test_over_tls_browsers_are_told_to_stay_there(world: World) -> None:
    def asked(address: str) -> Any:
        return TestClient(world.app, base_url=address, follow_redirects=False).get("/sign-in").headers

    assert asked("https://audits.example.org")["strict-transport-security"] == "max-age=31536000"
    assert "strict-transport-security" not in asked("http://audits.example.org")
    assert "strict-transport-security" not in asked("https://localhost:8321")  # it would be said for every port


def test_a_token_sees_its_own_project_in_pages_too(world: World) -> None:
    world.service.accounts.set_role("olga", world.other, "viewer")
    assert "Other" in sound(world.browser("olga").get("/runs"))
    page = sound(world.program("olga", "auditor").get("/runs"))
    assert "Other" not in page
    assert world.other not in page


def test_where_a_terminal_worked_is_told_to_admins_alone(world: World) -> None:
    run = world.service.runs.create("default", "audit", "people, sex", TERMINAL, place="terminal")
    other = world.service.runs.create("default", "audit", "census, sex", SMALL_AUDIT)
    world.service.runs.cancel(run.id)
    paths = [
        f"{API}/runs/{run.id}", f"{API}/runs", f"{API}/compare?a={run.id}&b={other.id}", f"/runs/{run.id}", "/runs",
        f"{API}/runs/{run.id}/events/stream",
    ]  # fmt: skip
    for path in paths:
        answer = world.browser("olga").get(path)
        assert answer.status_code == 200
        assert "/home/vera" not in answer.text, path
    config = world.browser("olga").get(paths[0]).json()["config"]
    assert (config["dataset"], config["model"]) == ("people.toml", "net.onnx")
    assert "terminal" not in config
    assert world.browser("ada").get(paths[0]).json()["config"] == TERMINAL


def test_a_path_of_a_terminal_that_is_an_address_stays(tmp_path: Path) -> None:
    from evenhand.service.api.answers import shown_config

    for model in ("https://models.example.org/v1", "mine.models:load", None):
        assert shown_config(TERMINAL | {"model": model})["model"] == model
    assert shown_config(SMALL_AUDIT) == SMALL_AUDIT
    assert shown_config(TERMINAL | {"dataset": str(tmp_path / "a.csv")})["dataset"] == "a.csv"
