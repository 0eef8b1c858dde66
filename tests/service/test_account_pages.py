"""Signing in, the account and the administration in a real browser: axe, dark and light, a phone, no scripts."""

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from tests.service.test_journey import DESKTOP, WAIT, Visit, browser
from tests.worlds.people import PASSWORD, World, peopled

pytest_plugins = ["tests.worlds.service"]
__all__ = ["browser"]  # a fixture


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with peopled(tmp_path / "home") as world:
        yield world


@pytest.fixture
def visit(browser: Any, world: World, tmp_path: Path) -> Iterator[Visit]:
    """A browser at the service, on a port of its own."""
    pictures = Path(os.environ.get("EVENHAND_SCREENSHOTS") or tmp_path / "pictures")
    pictures.mkdir(parents=True, exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(world.app, log_config=None, timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        context = browser.new_context(viewport=DESKTOP)
        page = context.new_page()
        page.set_default_timeout(WAIT)
        yield Visit(page, f"http://127.0.0.1:{listener.getsockname()[1]}", pictures)
        context.close()
        server.should_exit = True
        thread.join()


def sign_in(visit: Visit, name: str, password: str = PASSWORD) -> None:
    visit.page.get_by_label("Name").fill(name)
    visit.page.get_by_label("Password").fill(password)
    visit.page.get_by_role("button", name="Sign in").click()


def look(visit: Visit, name: str) -> None:
    """As `Visit.look`; and the page has no script, so it works without."""
    assert visit.page.locator("script").count() == 0
    visit.look(name)


def test_an_admin_lets_somebody_in(visit: Visit, world: World) -> None:
    page = visit.page
    visit.go("/admin/users")
    look(visit, "sign-in")
    sign_in(visit, "ada", "wrong")
    page.get_by_role("alert").wait_for()
    look(visit, "sign-in-refused")
    sign_in(visit, "ada")
    page.get_by_role("heading", name="Users").wait_for()
    look(visit, "users")

    page.get_by_label("Name").fill("ben")
    page.get_by_label("First password").fill(PASSWORD)
    page.get_by_label("Role").select_option("viewer")
    page.get_by_role("button", name="Add the user").click()
    page.get_by_role("heading", name="ben").wait_for()
    look(visit, "user")
    page.get_by_role("link", name="Projects").click()
    look(visit, "projects")
    page.get_by_role("link", name="Other").click()
    look(visit, "project")
    page.get_by_role("link", name="Log").click()
    page.get_by_role("cell", name="made a user").wait_for()
    look(visit, "log")

    page.get_by_role("button", name="Sign out").click()
    sign_in(visit, "ben")
    page.get_by_role("link", name="ben").click()
    page.get_by_role("textbox", name="Name").fill("My program")
    page.get_by_label("Your password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Make the token").click()
    secret = page.locator(".secret").inner_text()
    look(visit, "account")
    known = world.service.accounts.by_token(secret)
    assert known is not None
    assert (known[0].name, known[2]) == ("ben", "viewer")

    page.get_by_role("button", name="Sign out").click()
    sign_in(visit, "nina")
    page.get_by_role("heading", name="You have no project yet").wait_for()
    look(visit, "no-project")
