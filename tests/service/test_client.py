"""The Python client against a real server: what it sends, reads, waits for and downloads."""

import socket
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import uvicorn
from bench.findings_pages import made_up_texts

from evenhand.errors import EvenhandError
from evenhand.service.api import watching
from evenhand.service.api.app import create_app
from evenhand.service.client import Client, RemoteEvent, ServiceError
from evenhand.service.settings import Service
from evenhand.service.storage.projects import Role
from tests.worlds.api import FINDINGS, TABLE, finished_run, told
from tests.worlds.people import peopled
from tests.worlds.service import SMALL_AUDIT, small_run
from tests.worlds.text_files import UserFiles
from tests.worlds.text_service import worked

pytest_plugins = ["tests.worlds.service", "tests.worlds.api", "tests.worlds.text_service"]

PATIENCE = 300.0  # seconds; only a broken test waits so long


@contextmanager
def served(service: Service) -> Iterator[str]:
    """The service on a free port of this machine."""
    config = uvicorn.Config(create_app(service), log_config=None, timeout_graceful_shutdown=2, ws="none")
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(PATIENCE)


def test_texts_and_a_model_directory_are_sent_and_audited(
    client: Client, sqlite_service: Service, text_files: UserFiles, tmp_path: Path
) -> None:
    with pytest.raises(ServiceError, match="'body'"):
        client.add_texts(text_files.data, "body", "toxic")
    assert list(client.datasets()) == []  # what cannot be used is not left there
    texts = client.add_texts(text_files.data, "comment", "toxic", favourable="not toxic")
    assert (texts.domain, texts.has_schema, texts.rows) == ("text", True, len(text_files.corpus))
    assert client.columns(texts.id)["classes"] == ["not toxic", "toxic"]
    folder = tmp_path / "my net"
    folder.mkdir()
    for name in ("net.safetensors", "net.json", "vec.txt"):
        (folder / name).write_bytes((text_files.folder / name).read_bytes())
    (folder / "notes.md").write_text("not sent")
    model = client.add_model(folder)
    assert model.name == "my net.zip"
    run = client.audit(texts.id, ["gender"], model=model.id, seeds=5, steps=2, encoder="none")
    worked(sqlite_service, run.id)
    findings = list(client.text_findings(run.id))
    assert len(findings) == (client.run(run.id).result or {})["findings"] > 0


@pytest.fixture
def client(sqlite_service: Service) -> Iterator[Client]:
    with served(sqlite_service) as address:
        yield Client(address)


def test_data_and_models_come_and_go(client: Client, tmp_path: Path) -> None:
    from evenhand.models.network import FeedForward, save_network

    (tmp_path / "people.csv").write_bytes(TABLE)
    data = client.add_dataset(tmp_path / "people.csv")
    assert (data.name, data.size, data.has_schema) == ("people.csv", len(TABLE), False)
    text = client.infer_schema(data.id, "ok", ["sex"])
    assert client.schema(data.id) == text
    assert client.set_schema(data.id, text)["rows"] == "120"
    assert client.dataset(data.id).has_schema

    save_network(FeedForward([2, 4, 2]), {}, tmp_path / "net")
    model = client.add_model(tmp_path / "net.safetensors", "A network")
    assert (model.name, model.is_described) == ("A network", True)
    run = client.audit(data.id, ["sex"], model=model.id, seeds=5)
    assert run.title == "Audit of A network on people.csv: sex"
    with pytest.raises(ServiceError, match="needs it") as raised:
        client.delete_dataset(data.id)
    assert (raised.value.status, raised.value.what) == (409, "conflict")
    client.cancel(run.id)
    client.delete_dataset(data.id)
    client.delete_model(model.id)
    assert (list(client.datasets()), list(client.models())) == ([], [])


def test_lists_are_read_to_their_end(client: Client, sqlite_service: Service) -> None:
    made = [small_run(sqlite_service, seed=number).id for number in range(53)]
    assert [run.id for run in client.runs()] == made[::-1]
    assert list(client.runs(state="done")) == []
    assert client.run(made[0]).created.tzinfo is not None


def test_results_are_read_page_by_page(
    client: Client,
    sqlite_service: Service,
    audited: Path,
    tmp_path: Path,
) -> None:
    run = finished_run(sqlite_service, audited)
    found = list(client.findings(run.id, sort="gap", page=7))
    assert len(found) == FINDINGS
    assert [one.gap for one in found] == sorted((one.gap for one in found), reverse=True)
    race = found[0].sample["race"]
    chosen = list(client.findings(run.id, values={"race": race}, least_gap=0.2, phase="local", page=2))
    wanted = [one for one in found if one.gap >= 0.2 and one.phase == "local" and one.sample["race"] == race]
    assert [one.row for one in chosen] == sorted(one.row for one in wanted)
    assert len(chosen) > 2
    assert set(client.files(run.id)) == {"findings.parquet", "report.html", "summary.json"}
    saved = client.download(run.id, "findings.parquet", tmp_path)
    assert saved.read_bytes() == (audited / "findings.parquet").read_bytes()
    with pytest.raises(ServiceError, match="nothing at this address"):
        client.download(run.id, "../evenhand.db", tmp_path / "stolen")
    assert not (tmp_path / "stolen").exists()
    assert client.compare(run.id, run.id)["settings"] == []
    repair = client.repair(run.id, ["blind"], repeats=1)
    assert (repair.kind, repair.parent) == ("repair", run.id)
    measure = client.measure(run.id, half_width=0.01)
    assert (measure.kind, measure.parent, measure.config["half_width"]) == ("measure", run.id, 0.01)
    client.delete(run.id)
    assert not sqlite_service.home.run(run.id).exists()


def test_pairs_of_texts_are_read_page_by_page(
    client: Client, sqlite_service: Service, audited: Path, tmp_path: Path
) -> None:
    table = made_up_texts(FINDINGS, 0)
    (folder := tmp_path / "texts").mkdir()
    pq.write_table(table, folder / "findings.parquet")
    run = finished_run(sqlite_service, folder)
    found = list(client.text_findings(run.id, sort="words", page=7))
    assert [one.l0 for one in found] == sorted(table["l0"].to_pylist())
    assert {one.text for one in found} == {*table["text"].to_pylist()}
    value, word = found[0].value, found[0].text.split()[-1]
    chosen = list(client.text_findings(run.id, value=value, contains=word.upper(), most_words=found[0].l0, page=1))
    assert [one.row for one in chosen] == [
        one.row for one in found if one.value == value and word in one.text and one.l0 <= found[0].l0
    ]
    with pytest.raises(EvenhandError, match="use text_findings"):
        next(client.findings(run.id))
    with pytest.raises(EvenhandError, match="use findings"):
        next(client.text_findings(finished_run(sqlite_service, audited).id))


def test_waiting_hands_on_every_event_once(client: Client, sqlite_service: Service) -> None:
    run = client.start("audit", **SMALL_AUDIT)
    claim = sqlite_service.runs.claim("a test")
    assert claim is not None
    with pytest.raises(EvenhandError, match="seconds: it is running"):
        client.wait(run.id, timeout=0.1, every=0.05)

    def work() -> None:
        for number in range(3):
            sqlite_service.runs.tell(claim, "pair", {"number": number})
            time.sleep(0.05)
        sqlite_service.runs.finish(claim, "failed", error="The model failed.")

    events: list[RemoteEvent] = []
    thread = threading.Thread(target=work)
    thread.start()
    ended = client.wait(run.id, timeout=PATIENCE, on_event=events.append, every=0.02)
    thread.join()
    assert (ended.state, ended.error, ended.is_over) == ("failed", "The model failed.", True)
    assert [event.kind for event in events] == ["queued", "started", "pair", "pair", "pair", "failed"]
    assert client.resume(run.id).state == "queued"


def test_errors_say_what_to_do(client: Client, tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="Did you mean 'sex'"):
        client.audit("census", ["sux"])
    with pytest.raises(EvenhandError, match="Cannot read"):
        client.add_dataset(tmp_path / "absent.csv")
    with pytest.raises(EvenhandError, match="is not the address"):
        Client("file:///etc/passwd")
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))  # nobody else can have the port, and nobody listens
        with pytest.raises(EvenhandError, match="does not answer"):
            Client(f"http://127.0.0.1:{deaf.getsockname()[1]}").run("0" * 32)


def test_a_live_run_is_watched_over_a_real_connection(sqlite_service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events come while the run goes on, with comments in between; a browser that comes back misses nothing."""
    monkeypatch.setattr(watching, "HEARTBEAT_SECONDS", 0.2)
    monkeypatch.setattr(watching, "LOOK_SECONDS", 0.05)
    run = small_run(sqlite_service)
    with served(sqlite_service) as address:
        stream = f"{address}/api/v1/runs/{run.id}/events/stream"
        with urllib.request.urlopen(stream, timeout=PATIENCE) as answer:
            assert answer.headers["Content-Type"].startswith("text/event-stream")
            queued = until(answer, lambda text: "event: queued" in text and ": still here" in text)
            claim = sqlite_service.runs.claim("a test")
            assert claim is not None
            sqlite_service.runs.beat(claim, {"phase": "global", "done": 3})
            until(answer, lambda text: '"done": 3' in text)
            sqlite_service.runs.tell(claim, "pair", {"words": "one\ntwo"})
            until(answer, lambda text: "event: pair" in text)
        sqlite_service.runs.finish(claim, "done", {"findings": 1})
        last = max(number for _, number, _ in told(queued) if number is not None)
        again = urllib.request.Request(stream, headers={"Last-Event-ID": str(last)})
        with urllib.request.urlopen(again, timeout=PATIENCE) as answer:
            messages = told(answer.read().decode())
    assert [kind for kind, _, _ in messages if kind != "progress"] == ["started", "pair", "done", "end"]
    assert [data["data"] for kind, _, data in messages if kind == "pair"] == [{"words": "one\ntwo"}]
    assert messages[-2][2]["result"] == {"findings": 1}


def until(answer: Any, enough: Callable[[str], bool]) -> str:
    """What comes until there is enough of it; a connection that is silent for too long fails."""
    text = ""
    while not enough(text):
        line = answer.readline().decode()
        assert line, f"the stream ended: {text}"
        text += line
    return text


def test_a_download_that_breaks_off_leaves_no_file(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def half() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(10_000)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")

        thread = threading.Thread(target=half)
        thread.start()
        with pytest.raises(EvenhandError):
            Client(f"http://127.0.0.1:{server.getsockname()[1]}").download(
                "0" * 32, "report.html", tmp_path / "report.html"
            )
        thread.join()
    assert list(tmp_path.iterdir()) == []


def test_a_token_is_sent_and_not_carried_elsewhere() -> None:
    seen: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def redirecting() -> None:
            connection, _ = server.accept()
            with connection:
                seen.append(connection.recv(10_000))
                connection.sendall(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.2/\r\nContent-Length: 0\r\n\r\n")

        thread = threading.Thread(target=redirecting)
        thread.start()
        with pytest.raises(ServiceError) as raised:
            Client(f"http://127.0.0.1:{server.getsockname()[1]}", token="secret").run("0" * 32)
        thread.join()
    assert raised.value.status == 302
    assert b"Authorization: Bearer secret" in seen[0]


def test_what_a_service_with_accounts_refuses_is_said(tmp_path: Path) -> None:
    with peopled(tmp_path / "home") as world, served(world.service) as address:

        def client(role: Role, project: str = "default", name: str = "ada") -> Client:
            made = world.service.accounts.add_token(world.people[name], project, role, "a program", 1)
            return Client(address, token=f" {made[1]}\n")

        run = client("auditor").audit("census", ["sex"], seeds=1)
        assert client("viewer").run(run.id).state == "queued"
        for token, words in ((None, "no token was given"), ("evh_wrong", "not known, or it has expired")):
            with pytest.raises(ServiceError, match=words) as raised:
                Client(address, token=token).run(run.id)
            assert (raised.value.status, raised.value.what) == (401, "unauthenticated")
            assert "token=" in str(raised.value)
        with pytest.raises(ServiceError, match="but not change it") as raised:
            client("viewer").cancel(run.id)
        assert (raised.value.status, raised.value.what) == (403, "forbidden")
        with pytest.raises(ServiceError) as raised:
            client("auditor", world.other, "otto").run(run.id)
        assert raised.value.status == 404


@pytest.mark.parametrize("token", ["", " ", "evh_\nX-Other: 1", "evh_ü"])
def test_what_cannot_be_a_token_is_not_sent(token: str) -> None:
    with pytest.raises(EvenhandError, match="token"):
        Client(token=token)
