"""`evenhand serve` for others than this machine: what it refuses, and a real server with TLS and accounts."""

import re
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import typer
from typer.testing import CliRunner

from evenhand.cli.serve import serve
from evenhand.errors import EvenhandError
from evenhand.service.client import Client, ServiceError
from evenhand.service.settings import Service, Settings
from tests.worlds.people import PASSWORD, csrf_on
from tests.worlds.service import needs

pytest_plugins = ["tests.worlds.service"]
app = typer.Typer()
app.command()(serve)


@pytest.fixture(autouse=True)
def _own_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The user's own service must not be found, or made."""
    monkeypatch.setenv("EVENHAND_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("EVENHAND_DATABASE", raising=False)


def refused(*arguments: str) -> str:
    """Why a service does not start."""
    done = CliRunner().invoke(app, ["--port", "0", "--workers", "0", *arguments])
    assert isinstance(done.exception, EvenhandError), done.output
    return str(done.exception)


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[str, str]:
    """A certificate of 127.0.0.1 that signs itself, and its key."""
    files = str(tmp_path / "certificate.pem"), str(tmp_path / "key.pem")
    subprocess.run(
        [
            needs("openssl", "openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
            "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
            "-out", files[0], "-keyout", files[1],
        ],
        check=True, capture_output=True,
    )  # fmt: skip
    return files


@contextmanager
def serving(*arguments: str, scheme: str = "https") -> Iterator[str]:
    """A service in a process of its own; its address on this machine."""
    code = "import typer; from evenhand.cli.serve import serve; typer.run(serve)"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "--port", "0", "--workers", "0", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        found = re.search(rf"{scheme}://[0-9.]+:(\d+)", process.stdout.readline())
        assert found is not None, process.communicate()[1]
        yield f"{scheme}://127.0.0.1:{found[1]}"
    finally:
        process.kill()
        process.communicate()


def test_nobody_else_is_served_without_an_admin(tmp_path: Path, sqlite_service: Service) -> None:
    for arguments in (["--host", "0.0.0.0", "--plain-http"], ["--proxy"], ["--accounts"]):
        assert "evenhand users add NAME --admin" in refused(*arguments)
        assert "evenhand users add NAME --admin" in refused(*arguments, "--home", str(tmp_path / "new"))
        assert not (tmp_path / "new").exists()
    sqlite_service.accounts.add_user("olga", PASSWORD)  # somebody who is no admin is not enough
    assert "evenhand users add NAME --admin" in refused()


def test_passwords_do_not_travel_readable(sqlite_service: Service, tmp_path: Path) -> None:
    sqlite_service.accounts.add_user("ada", PASSWORD, admin=True)
    assert "--certificate and --key" in refused("--host", "0.0.0.0")
    assert "--certificate and --key" in refused("--host", "::", "--accounts")
    assert "needs its key" in refused("--host", "0.0.0.0", "--certificate", "chain.pem")
    assert "--host 127.0.0.1" in refused("--host", "0.0.0.0", "--plain-http", "--proxy")
    (tmp_path / "not.pem").write_text("nothing")
    for name in ("not.pem", "missing.pem"):
        path = str(tmp_path / name)
        assert "cannot be used" in refused("--host", "0.0.0.0", "--certificate", path, "--key", path)
    assert "not a host name" in refused("--name", "https://audits.example.org")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_accounts_are_on_as_soon_as_there_is_a_user(sqlite_service: Service, host: str) -> None:
    settings = sqlite_service.settings.model_copy(update={"host": host})
    settings.check_host()
    assert not sqlite_service.with_accounts().settings.accounts
    sqlite_service.accounts.add_user("ada", PASSWORD, admin=True)
    assert sqlite_service.with_accounts().settings.accounts


def test_a_proxy_makes_a_service_reachable() -> None:
    assert not Settings().is_reachable
    assert Settings(proxy=True).is_reachable
    assert Settings(host="0.0.0.0").is_reachable


def test_a_service_for_others(sqlite_service: Service, certificate: tuple[str, str]) -> None:
    """From the refusal to the first run with a token, over TLS."""
    ada = sqlite_service.accounts.add_user("ada", PASSWORD, admin=True)
    chain, key = certificate
    with serving("--host", "0.0.0.0", "--certificate", chain, "--key", key) as address:
        trusted = ssl.create_default_context(cafile=chain)
        with httpx.Client(base_url=address, verify=trusted, trust_env=False, timeout=300) as browser:
            assert browser.get("/runs").headers["location"] == "/sign-in?next=%2Fruns"
            assert browser.get("/healthz").json()["status"] == "ok"
            fields = {"csrf": csrf_on(browser.get("/sign-in").text), "name": "ada", "password": PASSWORD}
            answer = browser.post("/sign-in", data=fields, headers={"Origin": address, "X-Forwarded-For": "6.6.6.6"})
            assert answer.status_code == 303
            assert "__Host-evenhand_session" in answer.headers["set-cookie"]
            assert "Secure" in answer.headers["set-cookie"]
            assert "ada" in browser.get("/account").text
        with pytest.raises(EvenhandError, match="certificate"):
            Client(address, token="evh_x").run("0" * 32)
    # Nobody asked the service to believe in a proxy.
    assert [entry.address for entry in sqlite_service.log.entries(action="signed in")] == ["127.0.0.1"]
    assert sqlite_service.accounts.tokens(ada) == []


def test_a_service_behind_a_proxy(sqlite_service: Service) -> None:
    """The proxy on this machine says where requests come from, and that they came over TLS."""
    ada = sqlite_service.accounts.add_user("ada", PASSWORD, admin=True)
    name = "audits.example.org"
    said = {"Host": name, "X-Forwarded-For": "203.0.113.7", "X-Forwarded-Proto": "https"}
    with serving("--proxy", "--name", name, scheme="http") as address:
        with httpx.Client(base_url=address, trust_env=False, timeout=300, headers=said) as proxy:
            page = proxy.get("/sign-in")
            cookie = page.headers["set-cookie"].partition(";")[0]
            assert cookie.startswith("__Host-")
            fields = {"csrf": csrf_on(page.text), "name": "ada", "password": PASSWORD}
            headers = {"Cookie": cookie, "Origin": f"https://{name}"}
            answer = proxy.post("/sign-in", data=fields, headers=headers)
            assert answer.status_code == 303
            assert "Secure" in answer.headers["set-cookie"]
            assert proxy.get("/sign-in", headers={"Host": "evil.example"}).status_code == 403
        with pytest.raises(ServiceError, match="token") as raised:
            next(Client(address).runs())
        assert (raised.value.status, raised.value.what) == (401, "unauthenticated")
        secret = sqlite_service.accounts.add_token(ada, "default", "viewer", "mine", 1)[1]
        client = Client(address, token=secret)
        assert list(client.runs()) == []
        with pytest.raises(ServiceError, match="look at this project but not change it") as raised:
            client.audit("census", ["sex"])
        assert raised.value.status == 403
    assert [entry.address for entry in sqlite_service.log.entries(action="signed in")] == ["203.0.113.7"]
