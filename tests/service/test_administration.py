"""What admins do with users and projects, what everybody does with tokens, and the log of all that."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from evenhand.service.api.app import create_app
from tests.worlds.pages import sound
from tests.worlds.people import ADDRESS, PASSWORD, World, csrf_on, peopled
from tests.worlds.service import SMALL_AUDIT, small_run

API = "/api/v1"
TABLE = b"age,sex,ok\n" + b"".join(
    b"%d,%s,%s\n" % (20 + i, b"mf"[i % 2 :][:1], b"yn"[i % 3 == 0 :][:1]) for i in range(60)
)
BYTES = {"Content-Type": "application/octet-stream"}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with peopled(tmp_path / "home") as world:
        yield world


class Visitor:
    """Somebody with a browser, who looks at pages and sends their forms."""

    def __init__(self, world: World, name: str) -> None:
        self.client = world.browser(name)

    def see(self, path: str, status: int = 200) -> str:
        return sound(self.client.get(path), status)

    def send(self, path: str, status: int = 303, **fields: str) -> str:
        """Send a form; where it leads, or the page that it comes back with."""
        token = csrf_on(self.client.get("/account").text)
        answer = self.client.post(path, data=fields | {"csrf": token})
        assert answer.status_code == status, answer.text
        return str(answer.headers["location"]) if status == 303 else sound(answer, status)


def test_an_admin_makes_a_user_who_can_work_at_once(world: World) -> None:
    ada = Visitor(world, "ada")
    assert "Add a user" in ada.see("/admin/users")
    where = ada.send("/admin/users", name="Ben", password=PASSWORD, project="default", role="viewer")
    assert where == "/admin/users/ben"
    assert "ben" in ada.see(where)
    ben = Visitor(world, "ben")
    ben.see("/runs")
    ben.see("/new", 403)
    ada.send(f"{where}/role", project="default", role="auditor")
    ben.see("/new")
    ada.send(f"{where}/role", project="default", role="")
    assert "no project yet" in ben.see("/runs", 403)
    assert "not a member of any project" in ben.see("/account")
    ada.send(where, do="admin")
    ben.see("/admin/users")
    ada.send(where, do="no-admin")
    ada.send(f"{where}/password", password="an entirely new one")
    assert ben.client.get("/account").status_code == 303  # signed out
    ada.send(where, do="disable")
    assert "Disabled" in ada.see(where)
    ada.send(where, do="enable")
    assert "This cannot be undone" in ada.see(f"{where}/delete")
    ada.send(f"{where}/delete")
    ada.see(where, 404)
    assert [action for action, subject in world.actions("ada") if subject == "ben"] == [
        "deleted a user", "changed a user", "changed a user", "set a password", "changed a user", "changed a user",
        "changed a role", "changed a role", "made a user",
    ]  # fmt: skip


def test_mistakes_come_back_with_what_was_typed_and_without_the_password(world: World) -> None:
    ada = Visitor(world, "ada")
    page = ada.send("/admin/users", 400, name="ben", password="zq7-typed", project="default", role="viewer")
    assert 'value="ben"' in page
    assert "zq7" not in page
    assert "at least 12" in ada.send("/admin/users", 400, name="ben", password="short")
    assert "already" in ada.send("/admin/users", 400, name="olga", password=PASSWORD)
    assert "no project" in ada.send("/admin/users", 400, name="ben", password=PASSWORD, project="x", role="viewer")
    assert "last admin" in ada.send("/admin/users/ada", 400, do="disable")
    assert "last admin" in ada.send("/admin/users/ada/delete", 409)
    ada.send("/admin/users/ada", 400, do="something else")
    ada.send("/admin/users/olga/role", 400, project="default", role="king")
    ada.send("/admin/users/olga/role", 400, project="nowhere", role="viewer")
    ada.see("/admin/users/nobody", 404)
    assert "ben" not in [user.name for user in world.service.accounts.users()]


def test_an_admin_makes_projects_with_members(world: World) -> None:
    ada, olga = Visitor(world, "ada"), Visitor(world, "olga")
    where = ada.send("/admin/projects", name="Loans <2026>")
    known_as = where.rpartition("/")[2]
    assert "Loans &lt;2026&gt;" in ada.see(where)
    assert "already" in ada.send("/admin/projects", 400, name="Loans <2026>")
    ada.send(f"{where}/role", user="olga", role="auditor")
    assert "Loans" in olga.see("/account")
    run = small_run(world.service, project=known_as)
    folder = world.service.home.run(run.id)
    folder.mkdir()
    olga.send("/project", project=known_as)
    assert run.id in olga.see("/runs")
    ada.send(f"{where}/role", user="olga", role="")
    olga.see(f"/runs/{run.id}", 404)
    ada.send(where, name="Credit")
    ada.send(f"{where}/role", 400, user="nobody", role="viewer")
    assert "Credit" in ada.see(f"{where}/delete")
    ada.send(f"{where}/delete")
    assert not folder.exists()
    ada.see(where, 404)
    assert "always there" in ada.send("/admin/projects/default/delete", 409)


def test_a_token_is_shown_once_and_works_until_it_is_revoked(world: World) -> None:
    olga = Visitor(world, "olga")
    wanted = {"name": "nightly", "project": "default", "role": "viewer", "days": "30"}
    assert "not your password" in olga.send("/account/tokens", 400, **wanted, password="wrong")
    assert "not your password" in olga.send("/account/tokens", 400, **wanted)
    assert world.service.accounts.tokens(world.people["olga"]) == []
    page = olga.send("/account/tokens", 200, **wanted, password=PASSWORD)
    secret = page.partition('class="secret">')[2].partition("<")[0]
    assert secret.startswith("evh_")
    assert secret not in olga.see("/account")
    program = world.with_token(secret)
    assert program.get(f"{API}/me").json() == {
        "name": "olga", "admin": False, "project": "default", "role": "viewer", "by_token": True
    }  # fmt: skip
    token = world.service.accounts.tokens(world.people["olga"])[0]
    Visitor(world, "vera").send(f"/account/tokens/{token.id}/revoke", 400)  # not hers
    assert program.get(f"{API}/runs").status_code == 200
    olga.send(f"/account/tokens/{token.id}/revoke")
    assert program.get(f"{API}/runs").status_code == 401
    assert "revoked" in olga.see("/account")
    assert world.actions("olga")[:2] == [("revoked a token", token.id), ("made a token", token.id)]
    for wrong in ({"days": "0"}, {"days": "400"}, {"days": "x"}, {"role": "admin"}, {"name": ""}, {"project": "no"}):
        fields = {"name": "x", "project": "default", "role": "viewer", "days": "3", "password": PASSWORD} | wrong
        olga.send("/account/tokens", 400, **fields)
    for _ in range(5):
        olga.client.post("/account/tokens", data=wanted | {"csrf": csrf_on(olga.see("/account")), "password": "wrong"})
    assert "Too many" in olga.send("/account/tokens", 429, **wanted, password=PASSWORD)


def test_an_admin_revokes_tokens_of_others(world: World) -> None:
    program = world.program("olga", "auditor")
    token = world.service.accounts.tokens(world.people["olga"])[0]
    ada = Visitor(world, "ada")
    assert token.id in ada.see("/admin/users/olga")
    ada.send(f"/admin/users/vera/tokens/{token.id}/revoke", 404)
    ada.send(f"/admin/users/olga/tokens/{token.id}/revoke")
    assert program.get(f"{API}/me").status_code == 401


def test_a_token_makes_no_tokens_and_revokes_itself_alone(world: World) -> None:
    """One that was stolen must not outlive itself, nor reach elsewhere, nor take others down with it."""
    world.service.accounts.set_role("olga", world.other, "auditor")
    program = world.program("olga", "viewer", days=10)

    wanted = {"name": "next", "days": 5, "password": PASSWORD}
    assert program.post(f"{API}/me/tokens", json=wanted).status_code == 403
    beside = world.service.accounts.add_token(world.people["olga"], "default", "viewer", "beside", 5)[0]
    assert program.delete(f"{API}/me/tokens/{beside.id}").status_code == 403
    elsewhere = world.service.accounts.add_token(world.people["olga"], world.other, "viewer", "there", 5)[0]
    listed = program.get(f"{API}/me/tokens").json()["entries"]
    assert {token["project"] for token in listed} == {"default"}
    assert program.delete(f"{API}/me/tokens/{elsewhere.id}").status_code == 404
    assert [entry["id"] for entry in program.get(f"{API}/projects").json()["entries"]] == ["default"]
    browser = world.browser("olga")
    assert len(browser.get(f"{API}/projects").json()["entries"]) == 2
    wide = {"name": "wide", "role": "auditor", "days": 366}
    assert browser.post(f"{API}/me/tokens", json=wide | {"password": "wrong"}).status_code == 403
    made = browser.post(f"{API}/me/tokens", json=wide | {"password": PASSWORD}).json()
    assert world.with_token(made["secret"]).get(f"{API}/me").json()["role"] == "auditor"
    assert program.delete(f"{API}/me/tokens/{listed[-1]['id']}").status_code == 204  # itself
    assert program.get(f"{API}/me").status_code == 401


def test_one_changes_ones_own_password(world: World) -> None:
    olga, elsewhere = Visitor(world, "olga"), Visitor(world, "olga")
    new = "a password of my own"
    assert "not your password" in olga.send("/account/password", 400, password="wrong", new=new, again=new)
    assert "differ" in olga.send("/account/password", 400, password=PASSWORD, new=new, again="other")
    assert "at least 12" in olga.send("/account/password", 400, password=PASSWORD, new="short", again="short")
    assert olga.send("/account/password", password=PASSWORD, new=new, again=new) == "/account?changed=password"
    assert "was changed" in olga.see("/account?changed=password")
    assert elsewhere.client.get("/account").status_code == 303
    for _ in range(4):
        olga.send("/account/password", 400, password="wrong", new=new, again=new)
    assert "Too many" in olga.send("/account/password", 429, password="wrong", new=new, again=new)


def test_the_interface_for_programs_does_the_same(world: World) -> None:
    """With the sign-in of a browser: a token lets nobody in."""
    ada = world.browser("ada")
    made = ada.post(f"{API}/users", json={"name": "ben", "password": PASSWORD})
    assert (made.status_code, made.json()["name"], made.json()["admin"]) == (201, "ben", False)
    assert "password" not in made.json()
    assert ada.patch(f"{API}/users/ben", json={"password": "ben", "admin": True}).status_code == 422
    assert ada.patch(f"{API}/users/ben", json={"admin": True}).json()["admin"]
    assert ada.patch(f"{API}/users/nobody", json={}).status_code == 404
    project = ada.post(f"{API}/projects", json={"name": "Loans"}).json()
    where = f"{API}/projects/{project['id']}/members"
    assert ada.put(f"{where}/vera", json={"role": "viewer"}).json()["entries"] == [{"name": "vera", "role": "viewer"}]
    assert ada.put(f"{where}/nobody", json={"role": "viewer"}).status_code == 404
    assert ada.put(f"{where}/vera", json={"role": "admin"}).status_code == 422
    assert ada.put(f"{where}/vera", json={"role": None}).json()["entries"] == []
    assert ada.patch(f"{API}/projects/{project['id']}", json={"name": "Credit"}).json()["name"] == "Credit"
    assert ada.delete(f"{API}/projects/{project['id']}").status_code == 204
    assert ada.delete(f"{API}/projects/default").status_code == 409
    assert ada.delete(f"{API}/users/ben").status_code == 204
    assert ada.delete(f"{API}/users/ada").status_code == 409
    assert ada.patch(f"{API}/users/ada", json={"disabled": True}).status_code == 409
    entry = ada.get(f"{API}/log", params={"limit": 1, "user": "ada", "action": "deleted a user"}).json()["entries"][0]
    assert (entry["subject"], entry["address"], entry["data"]) == ("ben", "testclient", {})
    first = ada.get(f"{API}/log", params={"limit": 2}).json()
    second = ada.get(f"{API}/log", params={"limit": 2, "after": first["next"]}).json()
    ids = [entry["id"] for entry in first["entries"] + second["entries"]]
    assert ids == sorted(ids, reverse=True)
    assert len(set(ids)) == 4


def test_what_changes_something_is_in_the_log(world: World) -> None:
    """Once each, by whom, in which project, with the id of what it was done to; what is refused is not."""
    olga = world.program("olga", "auditor")
    data = olga.post(f"{API}/datasets", params={"filename": "a.csv"}, content=TABLE, headers=BYTES).json()["id"]
    model = olga.post(f"{API}/models", params={"filename": "a.txt"}, content=b"tree\n", headers=BYTES).json()["id"]
    run = olga.post(f"{API}/runs", json={"kind": "audit", "request": SMALL_AUDIT}).json()["id"]
    folder = world.service.home.run(run)
    folder.mkdir()
    (folder / "summary.json").write_text("{}")
    assert olga.get(f"{API}/runs/{run}/files/summary.json").status_code == 200
    assert olga.post(f"{API}/runs/{run}/cancel", json={}).status_code == 200
    assert olga.post(f"{API}/runs/{run}/resume", json={}).status_code == 200
    assert olga.post(f"{API}/runs/{run}/resume", json={}).status_code == 409
    assert olga.get(f"{API}/runs").status_code == 200
    browser = Visitor(world, "olga")
    browser.send(f"/runs/{run}/cancel")
    browser.send(f"/runs/{run}/delete")
    browser.send(f"/settings/models/{model}/delete")
    assert olga.delete(f"{API}/datasets/{data}").status_code == 204
    assert world.program("vera", "viewer").delete(f"{API}/runs/{run}").status_code == 403
    entries = world.service.log.entries(user="olga", project="default")
    assert [(entry.action, entry.subject) for entry in reversed(entries)] == [
        ("uploaded data", data),
        ("uploaded a model", model),
        ("asked for a run", run),
        ("downloaded a file of a run", f"{run}/summary.json"),
        ("cancelled a run", run),
        ("resumed a run", run),
        ("cancelled a run", run),
        ("deleted a run", run),
        ("deleted an upload", f"models/{model}"),
        ("deleted an upload", data),
    ]
    assert world.actions("vera") == []
    page = Visitor(world, "ada").see("/admin/log?user=olga&action=deleted+a+run&project=default")
    assert page.count(run) == 1


def test_the_log_says_what_was_changed(world: World) -> None:
    """By pages and by the interface for programs alike; never a password."""
    browser, ada = world.browser("ada"), Visitor(world, "ada")
    where, members = "/admin/users/ben", f"{API}/projects/{world.other}/members/ben"
    ada.send("/admin/users", name="ben", password=PASSWORD, project="default", role="viewer")
    ada.send(f"{where}/role", project=world.other, role="auditor")
    ada.send(f"/admin/projects/{world.other}/role", user="ben", role="")
    ada.send(where, do="admin")
    ada.send(where, do="disable")
    ada.send(f"{where}/password", password="an entirely new one")
    assert browser.put(members, json={"role": "viewer"}).status_code == 200
    changes = {"admin": False, "disabled": False, "password": "yet another one"}
    assert browser.patch(f"{API}/users/ben", json=changes).status_code == 200
    assert browser.patch(f"{API}/projects/{world.other}", json={"name": "Loans"}).status_code == 200
    ada.send(f"/admin/projects/{world.other}", name="Credit")
    entries = [entry for entry in reversed(world.service.log.entries(user="ada")) if entry.action != "signed in"]
    assert [(entry.action, entry.subject, entry.project, entry.data) for entry in entries] == [
        ("made a user", "ben", "default", {"admin": False, "role": "viewer"}),
        ("changed a role", "ben", world.other, {"role": "auditor"}),
        ("changed a role", "ben", world.other, {"role": "none"}),
        ("changed a user", "ben", None, {"admin": True}),
        ("changed a user", "ben", None, {"disabled": True}),
        ("set a password", "ben", None, {"password": "set"}),
        ("changed a role", "ben", world.other, {"role": "viewer"}),
        ("changed a user", "ben", None, {"admin": False, "disabled": False, "password": "set"}),
        ("renamed a project", world.other, world.other, {"before": "Other", "name": "Loans"}),
        ("renamed a project", world.other, world.other, {"before": "Loans", "name": "Credit"}),
    ]
    page = ada.see("/admin/log?user=ada")
    assert "disabled: yes" in page
    assert "role: auditor" in page
    olga = Visitor(world, "olga")
    olga.send("/account/tokens", 200, name="nightly", project="default", role="viewer", days="30", password=PASSWORD)
    made = world.service.log.entries(user="olga", action="made a token")[0]
    assert (made.project, made.data) == ("default", {"role": "viewer", "days": 30, "name": "nightly"})
    token = made.subject
    program = world.program("olga", "auditor")
    assert program.post(f"{API}/runs", json={"kind": "audit", "request": SMALL_AUDIT}).status_code == 201
    used = next(one for one in world.service.accounts.tokens(world.people["olga"]) if one.id != token)
    asked = world.service.log.entries(user="olga", action="asked for a run")[0]
    assert asked.data == {"token": "a test", "token_id": used.id}
    ada.send(f"/admin/users/olga/tokens/{token}/revoke")
    revoked = world.service.log.entries(user="ada", action="revoked a token")[0]
    assert (revoked.subject, revoked.project, revoked.data) == (token, "default", {"name": "nightly", "of": "olga"})


def test_an_admin_is_told_what_a_new_password_ends(world: World) -> None:
    page = Visitor(world, "ada").see("/admin/users/olga")
    assert "olga is signed out everywhere, and all tokens of olga are revoked" in page
    assert "all your tokens are revoked" in Visitor(world, "olga").see("/account")


def test_a_log_that_cannot_be_written_stops_nobody(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("the log is full")

    run = small_run(world.service)
    monkeypatch.setattr(type(world.service.log), "note", broken)
    assert world.program("olga", "auditor").post(f"{API}/runs/{run.id}/cancel", json={}).status_code == 200


def test_the_log_is_read_a_page_at_a_time(world: World) -> None:
    for number in range(60):
        world.service.log.note("deleted a run", user="olga", subject=f"<b>{number}</b>")
    ada = Visitor(world, "ada")
    page = ada.see("/admin/log?user=olga")
    assert page.count("&lt;b&gt;") == 50
    older = page.partition('">Older')[0].rpartition('href="')[2].replace("&amp;", "&")
    assert ada.see(older).count("&lt;b&gt;") == 10


def test_without_accounts_the_log_is_kept_too(tmp_path: Path) -> None:
    with peopled(tmp_path / "home", accounts=False) as world:
        client = TestClient(create_app(world.service), base_url=ADDRESS)
        run = small_run(world.service)
        client.post(f"{API}/runs/{run.id}/cancel", json={})
        entry = client.get(f"{API}/log").json()["entries"][0]
        assert (entry["action"], entry["subject"], entry["user"]) == ("cancelled a run", run.id, None)
        assert run.id in sound(client.get("/admin/log"))


def test_a_run_knows_who_asked_for_it(world: World) -> None:
    made = world.program("olga", "auditor").post(f"{API}/runs", json={"kind": "audit", "request": SMALL_AUDIT}).json()
    assert world.service.runs.get(made["id"]).asked_by == "olga"
