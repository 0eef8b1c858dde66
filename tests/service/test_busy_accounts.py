"""Accounts on a busy day: threads that are all taken, many who sign in at once, projects that go away meanwhile."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import Request
from sqlalchemy import select

from evenhand.service.api.identity import SESSION, check_access
from evenhand.service.storage.tables import SignIn
from tests.worlds.people import PASSWORD, World, csrf_on, peopled


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with peopled(tmp_path / "home") as world:
        yield world


def test_nobody_has_to_be_looked_up_for_what_is_open_to_all(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(*_: Any) -> None:
        raise AssertionError("every thread may be taken")

    monkeypatch.setattr("evenhand.service.api.identity.run_in_threadpool", busy)
    assert world.client().get("/healthz").status_code == 200
    assert world.client().get("/runs").status_code == 500  # this one would have waited for a thread


def test_when_too_many_wait_to_sign_in_another_one_is_sent_away(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenhand.service.pages.account.MOST_WAITING", 0)
    client = world.client()
    fields = {"csrf": csrf_on(client.get("/sign-in").text), "name": "olga", "password": PASSWORD, "next": "/"}
    answer = client.post("/sign-in", data=fields)
    assert answer.status_code == 429
    assert int(answer.headers["Retry-After"]) > 0
    assert "signed in" not in [action for action, _ in world.actions()]


def test_a_project_that_was_deleted_during_an_upload_is_not_found(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = world.service.assets.add_dataset

    def slowly(*arguments: Any) -> Any:
        world.service.projects.delete(world.other)
        return add(*arguments)

    browser = world.browser("otto")
    monkeypatch.setattr(world.service.assets, "add_dataset", slowly)
    headers = {"Content-Type": "application/octet-stream"}
    answer = browser.post("/api/v1/datasets?name=x&filename=x.csv", content=b"a,b\n1,2\n", headers=headers)
    assert (answer.status_code, answer.json()["error"]["what"]) == (404, "not-found")


@pytest.mark.parametrize("touch", [True, False])
def test_watching_is_no_use_of_a_sign_in(world: World, touch: bool) -> None:
    secret = world.service.accounts.sign_in("olga", PASSWORD, "here")
    with world.service.database.writing() as session:
        kept = session.scalars(select(SignIn)).one()
        kept.seen = before = datetime.now(UTC) - timedelta(minutes=90)
    scope = {
        "type": "http", "method": "GET", "path": "/runs", "query_string": b"", "app": world.app, "state": {},
        "headers": [(b"cookie", f"{SESSION}={secret}".encode())], "route": SimpleNamespace(path="/runs"),
        "scheme": "http", "server": ("127.0.0.1", 8321),
    }  # fmt: skip
    check_access(Request(scope), touch=touch)
    with world.service.database.reading() as session:
        seen = session.scalars(select(SignIn)).one().seen
    assert (seen > before) is touch
