"""Signing in and out as a browser meets it, and what somebody else must not make of it."""

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import anyio
import pytest
from fastapi.testclient import TestClient

from evenhand.service.api import journal
from evenhand.service.api.app import create_app
from evenhand.service.api.guard import COOKIE
from evenhand.service.api.identity import SESSION, csrf_of
from evenhand.service.pages.account import local_path
from tests.worlds.pages import sound
from tests.worlds.people import PASSWORD, World, csrf_on, peopled
from tests.worlds.service import SMALL_AUDIT, small_run

API = "/api/v1"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with peopled(tmp_path / "home") as world:
        yield world


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The same for tests that leave it as it is."""
    with peopled(tmp_path_factory.mktemp("shared") / "home") as world:
        yield world


def sign_in(client: TestClient, name: str = "olga", password: str = PASSWORD, then: str = "/") -> Any:
    """Fill the form in, as its page has it."""
    page = client.get("/sign-in", params={"next": then})
    fields = {"csrf": csrf_on(page.text), "name": name, "password": password}
    fields["next"] = unescape(re.findall(r'name="next" value="([^"]*)"', page.text)[0])
    return client.post("/sign-in", data=fields)


def test_a_page_asks_to_sign_in_and_goes_on_where_one_wanted_to_go(shared: World) -> None:
    client = shared.client()
    wanted = client.get("/runs?state=done&kind=audit")
    assert (wanted.status_code, wanted.headers["location"]) == (
        303,
        "/sign-in?next=%2Fruns%3Fstate%3Ddone%26kind%3Daudit",
    )
    page = sound(client.get(wanted.headers["location"]))
    assert "<nav" not in page
    answer = sign_in(client, then="/runs?state=done&kind=audit")
    assert (answer.status_code, answer.headers["location"]) == (303, "/runs?state=done&kind=audit")
    assert "olga" in sound(client.get(answer.headers["location"]))
    assert client.get("/sign-in?next=/compare").headers["location"] == "/compare"


def test_programs_are_told_that_a_token_is_wanted(shared: World) -> None:
    for path in (f"{API}/runs", "/metrics"):
        answer = shared.client().get(path)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert answer.json()["error"]["what"] == "unauthenticated"


def test_the_cookie_is_for_this_site_and_not_for_scripts(shared: World) -> None:
    cookie = sign_in(shared.client()).headers["set-cookie"]
    assert cookie.startswith(f"{SESSION}=")
    parts = {part.strip().lower() for part in cookie.split(";")[1:]}
    assert parts == {"httponly", "path=/", "samesite=lax"}  # without a time: it ends with the browser


def test_over_tls_the_cookies_belong_to_this_host_alone(shared: World) -> None:
    client = TestClient(shared.app, base_url="https://127.0.0.1:8321", follow_redirects=False)
    assert f"__Host-{COOKIE}" in client.get("/sign-in").headers["set-cookie"]
    cookie = sign_in(client).headers["set-cookie"]
    assert cookie.startswith(f"__Host-{SESSION}=")
    assert {"secure", "path=/"} <= {part.strip().lower() for part in cookie.split(";")[1:]}
    assert client.get("/runs").status_code == 200
    plain = TestClient(shared.app, base_url="https://127.0.0.1:8321", follow_redirects=False)
    plain.cookies.set(SESSION, client.cookies[f"__Host-{SESSION}"])
    assert plain.get("/runs").status_code == 303  # a cookie that a page without TLS could have set


def test_wrong_names_and_wrong_passwords_look_the_same(shared: World) -> None:
    pages = [sign_in(shared.client(), *tried) for tried in (("olga", "wrong"), ("nobody", "wrong"), ("dora" * 25, "x"))]
    words = [re.sub(r'name="csrf" value="[^"]+"|id="name" name="name" value="[^"]+"', "", page.text) for page in pages]
    assert [page.status_code for page in pages] == [403, 403, 403]
    assert words[0] == words[1] == words[2]
    assert "The name or the password is wrong." in words[0]
    assert all("set-cookie" not in page.headers for page in pages)


def test_what_was_typed_is_escaped_and_the_password_is_not_shown_again(shared: World) -> None:
    answer = sign_in(shared.client(), '"><script>alert(1)</script>', "a secret that was typed")
    assert "a secret that was typed" not in sound(answer, 403)


def test_too_many_tries_have_to_wait(world: World) -> None:
    client = world.client()
    for _ in range(5):
        assert sign_in(client, password="wrong").status_code == 403
    answer = sign_in(client)
    assert answer.status_code == 429
    assert 0 < int(answer.headers["retry-after"]) <= 15 * 60
    assert "Too many wrong tries" in sound(answer, 429)
    assert client.get("/runs").status_code == 303
    assert sign_in(client, "vera").status_code == 303
    assert [action for action, _ in world.actions("olga")] == ["sign-in refused"] * 5


def test_a_planted_session_is_worth_nothing(shared: World) -> None:
    """Session fixation: whatever cookie comes with the sign-in, a new secret is handed out."""
    client = shared.client()
    client.cookies.set(SESSION, "planted" * 6, domain="127.0.0.1")
    assert sign_in(client).status_code == 303
    assert "planted" not in client.cookies[SESSION]
    thief = shared.client()
    thief.cookies.set(SESSION, "planted" * 6)
    assert thief.get("/runs").status_code == 303

    # A real sign-in of the thief's own, planted in the victim's browser: it ends when the victim signs in.
    thief = shared.browser("vera")
    victim = shared.client()
    victim.cookies.set(SESSION, thief.cookies[SESSION], domain="127.0.0.1")
    answer = victim.post(
        "/sign-in", data={"csrf": csrf_of(thief.cookies[SESSION], "default"), "name": "olga", "password": PASSWORD}
    )
    assert answer.status_code == 303
    assert thief.get("/runs").status_code == 303
    assert "olga" in victim.get("/account").text


def test_signing_out_ends_it_on_the_server(world: World) -> None:
    client = world.browser("olga")
    secret = client.cookies[SESSION]
    answer = client.post("/sign-out", data={"csrf": csrf_of(secret, "default")})
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")
    assert SESSION not in client.cookies
    copy = world.client()
    copy.cookies.set(SESSION, secret)
    assert copy.get("/runs").status_code == 303
    assert world.actions("olga")[0] == ("signed out", None)


@pytest.mark.parametrize(
    "address",
    [
        "//evil.example", "///evil.example", "/\\evil.example", "\\\\evil.example", "https://evil.example",
        "evil.example", "javascript:alert(1)", "/\t/evil.example", "/\n/evil.example", " //evil.example",
        "http:evil.example", "", "/sign-in", "/sign-out", "/a\\b", "/ü", "//", "@evil.example",
    ],
)  # fmt: skip
def test_no_link_leads_to_another_site_after_signing_in(shared: World, address: str) -> None:
    assert local_path(address) == "/"
    client = shared.client()
    fields = {"csrf": csrf_on(client.get("/sign-in").text), "name": "olga", "password": PASSWORD, "next": address}
    assert client.post("/sign-in", data=fields).headers["location"] == "/"
    assert client.get("/sign-in", params={"next": address}).headers["location"] == "/"


@pytest.mark.parametrize("address", ["/", "/runs?state=done", "/runs/0123#top", "/compare?a=//x&b=http://y"])
def test_pages_of_ours_are_gone_on_to(address: str) -> None:
    assert local_path(address) == address
    assert local_path(address + "x" * 3000) == "/"


def test_the_form_itself_needs_a_token(world: World) -> None:
    """Else a page elsewhere could sign somebody in as somebody else, and read what they then upload."""
    fields = {"name": "olga", "password": PASSWORD}
    assert world.client().post("/sign-in", data=fields).status_code == 403
    client = world.client()
    client.get("/sign-in")
    assert client.post("/sign-in", data=fields | {"csrf": "x" * 43}).status_code == 403
    elsewhere = {"Origin": "https://evil.example"}
    token = csrf_on(client.get("/sign-in").text)
    assert client.post("/sign-in", data=fields | {"csrf": token}, headers=elsewhere).status_code == 403
    assert SESSION not in client.cookies
    assert world.service.log.entries() == []


def test_a_token_of_a_form_belongs_to_one_sign_in(world: World) -> None:
    client = world.client()
    before = csrf_on(client.get("/sign-in").text)
    assert sign_in(client).status_code == 303
    run = small_run(world.service)
    theirs = csrf_of(world.browser("ada").cookies[SESSION], "default")
    again = csrf_of(world.browser("olga").cookies[SESSION], "default")
    for wrong in ("", "x", before, theirs, again, client.cookies[SESSION], client.cookies[COOKIE]):
        assert client.post(f"/runs/{run.id}/cancel", data={"csrf": wrong}).status_code == 403
    assert client.post(f"/runs/{run.id}/cancel").status_code in (403, 415)
    assert world.service.runs.get(run.id).state == "queued"
    own = csrf_on(client.get("/account").text)
    assert client.post(f"/runs/{run.id}/cancel", data={"csrf": own}).status_code == 303
    assert world.service.runs.get(run.id).state == "cancelled"


def test_scripts_need_the_token_too_but_programs_do_not(world: World) -> None:
    run = small_run(world.service)
    client = world.browser("olga")
    token = client.headers.pop("X-CSRF-Token")
    for headers in ({}, {"X-CSRF-Token": "x"}):
        assert client.post(f"{API}/runs/{run.id}/cancel", json={}, headers=headers).status_code == 403
        assert client.delete(f"{API}/runs/{run.id}", headers=headers).status_code == 403
    assert client.post(f"{API}/runs/{run.id}/cancel", json={}, headers={"X-CSRF-Token": token}).status_code == 200
    program = world.program("olga", "auditor")
    assert program.delete(f"{API}/runs/{run.id}").status_code == 204


def test_a_token_counts_more_than_a_cookie(shared: World) -> None:
    client = shared.browser("ada")
    secret = shared.service.accounts.add_token(shared.people["vera"], "default", "viewer", "mine", 1)[1]
    assert client.get(f"{API}/me", headers={"Authorization": f"Bearer {secret}"}).json()["name"] == "vera"
    assert client.get(f"{API}/me", headers={"Authorization": "Bearer evh_wrong"}).status_code == 401
    assert client.get(f"{API}/me", headers={"Authorization": "Basic YTpi"}).json()["name"] == "ada"  # a proxy's


def test_changes_take_effect_at_once(world: World) -> None:
    client, accounts = world.browser("olga"), world.service.accounts
    assert client.get("/new").status_code == 200
    accounts.set_role("olga", "default", "viewer")
    assert client.get("/new").status_code == 403
    accounts.set_role("olga", "default", None)
    page = sound(client.get("/runs"), 403)
    assert "Ask an admin" in page
    assert "Sign out" in page
    accounts.set_disabled("olga", True)
    assert client.get("/runs").headers["location"].startswith("/sign-in")


def test_a_viewer_sees_no_forms_that_they_may_not_use(world: World) -> None:
    world.service.assets.add_model("default", "trees", [b"tree\n"], "a.txt", 1 << 20)
    page = sound(world.browser("vera").get("/settings"))
    assert "trees" in page
    for word in ("/delete", "New audit", "Administration", str(world.service.home.path)):
        assert word not in page
        assert word in world.browser("ada").get("/settings").text


def test_one_looks_at_one_project_and_can_choose_another(world: World) -> None:
    world.service.accounts.set_role("olga", world.other, "viewer")
    mine, theirs = small_run(world.service), small_run(world.service, project=world.other)
    client = world.browser("olga")
    assert mine.id in client.get("/runs").text
    assert client.get(f"/runs/{theirs.id}").status_code == 404
    token = client.headers["X-CSRF-Token"]
    assert client.post("/project", data={"csrf": token, "project": world.other}).headers["location"] == "/"
    page = sound(client.get("/runs"))
    assert theirs.id in page
    assert mine.id not in page
    assert f'value="{world.other}" selected' in page
    assert client.get("/new").status_code == 403  # only a viewer there
    world.service.accounts.set_role("olga", world.other, None)
    assert mine.id in client.get("/runs").text


def test_a_form_is_about_the_project_that_its_page_was_about(world: World) -> None:
    """Else what was meant for one project happens in another that was chosen in another tab meanwhile."""
    world.service.accounts.set_role("olga", world.other, "auditor")
    run = small_run(world.service)
    client = world.browser("olga")
    form = {"csrf": csrf_on(client.get(f"/runs/{run.id}").text)}
    assert client.post("/project", data=form | {"project": world.other}).status_code == 303
    before = world.actions("olga")
    headers = {"Referer": f"http://127.0.0.1:8321/runs/{run.id}?x=1"}
    files = {"file": ("people.csv", b"a,b\n1,2\n")}
    for path, sent in ((f"/runs/{run.id}/cancel", None), ("/new/data", files), ("/account/password", None)):
        stale = client.post(path, data=form, headers=headers, files=sent)
        page = sound(stale, 409)
        assert "Another project was chosen meanwhile" in page
        assert "Nothing was changed" in page
        assert "Go back to the project default" in page
        assert f'name="next" value="/runs/{run.id}?x=1"' in page
    wish = {"kind": "audit", "request": SMALL_AUDIT}
    assert client.post(f"{API}/runs", json=wish, headers={"X-CSRF-Token": form["csrf"]}).status_code == 409
    assert world.service.assets.datasets() == []
    assert world.actions("olga") == before
    back = {"csrf": csrf_on(page), "project": "default", "next": f"/runs/{run.id}?x=1"}
    assert client.post("/project", data=back).headers["location"] == f"/runs/{run.id}?x=1"
    assert client.post(f"/runs/{run.id}/cancel", data=form).status_code == 303
    assert client.post("/project", data=form | {"project": world.other, "next": "//evil.example"}).status_code == 303
    world.service.accounts.set_role("olga", "default", None)
    assert "Go back" not in sound(client.post("/new/data", data=form), 409)  # there is no way back
    assert client.post("/sign-out", data=form).status_code == 303  # in whichever project


@pytest.mark.parametrize("end", ["sign-in", "role"])
def test_a_stream_ends_with_the_right_to_watch(world: World, monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    """With the sign-in, and with the role in its project, also where there is a role in another one."""
    world.service.accounts.set_role("vera", world.other, "viewer")
    monkeypatch.setattr(journal, "CHECK_SECONDS", 0.0)
    monkeypatch.setattr("evenhand.service.api.watching.HEARTBEAT_SECONDS", 0.0)
    run, client = small_run(world.service), world.browser("vera")
    path = f"{API}/runs/{run.id}/events/stream"
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
        "path": path, "raw_path": path.encode(), "query_string": b"", "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8321),
        "headers": [(b"host", b"127.0.0.1:8321"), (b"cookie", f"{SESSION}={client.cookies[SESSION]}".encode())],
    }  # fmt: skip
    messages: list[Any] = []

    def ended() -> None:
        if end == "sign-in":
            world.service.accounts.sign_out(client.cookies[SESSION])
        else:
            world.service.accounts.set_role("vera", "default", None)

    async def receive() -> Any:
        await anyio.sleep_forever()

    async def send(message: Any) -> None:
        messages.append(message)
        if len(messages) == 3:
            await anyio.to_thread.run_sync(ended)

    async def watch() -> None:
        with anyio.fail_after(120):
            await world.app(scope, receive, send)

    anyio.run(watch)
    assert messages[0]["status"] == 200
    assert messages[-1] == {"type": "http.response.body", "body": b"", "more_body": False}
    assert not any(message["body"] for message in messages[3:])  # nothing more is told
    assert not any(b"event: end" in message.get("body", b"") for message in messages)


def test_a_failure_is_a_page_for_people_and_json_for_programs(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("a secret detail")

    monkeypatch.setattr(world.service.runs, "newest", broken)
    client = world.browser("ada")
    failed = client.get("/runs")
    page = sound(failed, 500)
    assert "Something failed" in page
    assert failed.headers["x-request-id"] in page
    answer = client.get(f"{API}/runs")
    assert (answer.status_code, answer.json()["error"]["what"]) == (500, "internal")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    for text in (page, answer.text):
        assert "a secret detail" not in text


@pytest.mark.parametrize(
    ("names", "host", "status"),
    [
        ((), "audits.example.org", 200),
        ((), "not sound/", 403),
        (("audits.example.org",), "audits.example.org", 200),
        (("audits.example.org",), "AUDITS.example.org:443", 200),
        (("audits.example.org",), "127.0.0.1:8321", 200),
        (("audits.example.org",), "other.example.org", 403),
    ],
)
def test_a_service_with_names_answers_to_them_alone(
    tmp_path: Path, names: tuple[str, ...], host: str, status: int
) -> None:
    with peopled(tmp_path / "home", names=names) as world:
        assert world.client().get("/sign-in", headers={"Host": host}).status_code == status


def test_without_accounts_there_is_nothing_to_sign_in_to(tmp_path: Path) -> None:
    with peopled(tmp_path / "home", accounts=False) as world:
        client = TestClient(create_app(world.service), base_url="http://127.0.0.1:8321", follow_redirects=False)
        assert client.get("/sign-in").headers["location"] == "/"
        assert client.get("/account").status_code == 404
        assert client.get("/admin/users").status_code == 404
        assert client.get(f"{API}/me").json() == {
            "name": None, "admin": True, "project": "default", "role": "admin", "by_token": False
        }  # fmt: skip
        body = {"name": "eve", "password": "a long password", "admin": True}
        assert client.post(f"{API}/users", json=body).status_code == 409  # nobody plants an account for later
        token = csrf_on(client.get("/new").text)
        for path in ("/admin/users", "/admin/projects", "/account/tokens", "/account/password"):
            assert client.post(path, data=body | {"csrf": token, "days": "1"}).status_code == 404
        assert [user.name for user in world.service.accounts.users()] == sorted(world.people)
        assert client.get("/runs", headers={"Host": "audits.example.org"}).status_code == 403
