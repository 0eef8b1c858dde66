"""The HTTP interface: every route does what it says, on SQLite and on PostgreSQL where the database matters."""

import io
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from bench.findings_pages import made_up
from fastapi.testclient import TestClient

from evenhand.data.dataset import load_schema
from evenhand.runs.findings import FindingsWriter, findings_file
from evenhand.search.space import TableSpace
from evenhand.service.api import watching
from evenhand.service.api.app import create_app
from evenhand.service.api.journal import LOGGER, JsonLines
from evenhand.service.jobs import job_of
from evenhand.service.settings import Service
from evenhand.service.storage.tables import Run
from tests.service_world import SMALL_AUDIT, small_run

pytest_plugins = ["tests.service_world"]
API = "/api/v1"
FINDINGS = 40
BYTES = {"Content-Type": "application/octet-stream"}
TABLE = ("age,sex,ok\n" + "".join(f"{20 + i % 40},{'mf'[i % 2]},{'yn'[i % 3 == 0]}\n" for i in range(120))).encode()


@pytest.fixture
def client(sqlite_service: Service) -> Iterator[TestClient]:
    with TestClient(create_app(sqlite_service), base_url="http://127.0.0.1:8321") as client:
        yield client


@pytest.fixture(scope="session")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as an audit leaves it, with made-up findings."""
    folder = tmp_path_factory.mktemp("audited")
    space = TableSpace(load_schema("census"), ["sex"], torch.device("cpu"))
    with findings_file(folder / "findings.parquet", lambda temporary: FindingsWriter(temporary, space)) as writer:
        writer.write(made_up(space, FINDINGS, 0))
    (folder / "report.html").write_text("<!doctype html><title>Report</title>")
    (folder / "summary.json").write_text("{}")
    return folder


def finished_run(service: Service, folder: Path) -> Run:
    """A run that is done, with the files of an audit."""
    run = small_run(service)
    claim = service.runs.claim("a test")
    assert claim is not None
    assert claim.run == run.id
    shutil.copytree(folder, service.home.run(run.id))
    service.runs.tell(claim, "pair", {"number": 1})
    service.runs.finish(claim, "done", {"findings": FINDINGS, "data_rate": {"rate": 0.1}})
    return service.runs.get(run.id)


def sent(client: TestClient, name: str = "people.csv", content: bytes = TABLE) -> str:
    answer = client.post(f"{API}/datasets", params={"filename": name, "name": "People"}, content=content, headers=BYTES)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def error(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["what"]


def test_built_in_data_sets_are_listed(client: TestClient) -> None:
    found = {entry["name"]: entry for entry in client.get(f"{API}/builtin").json()}
    assert {"bank", "census", "credit"} <= found.keys()
    assert found["census"]["protected"] == ["age", "race", "sex"]


def test_a_table_from_upload_to_schema(client: TestClient, sqlite_service: Service) -> None:
    import hashlib

    known_as = sent(client)
    shown = client.get(f"{API}/datasets/{known_as}").json()
    assert (shown["name"], shown["size"], shown["has_schema"]) == ("People", len(TABLE), False)
    assert shown["sha256"] == hashlib.sha256(TABLE).hexdigest()
    assert sqlite_service.assets.dataset_path(sqlite_service.assets.dataset(known_as)).read_bytes() == TABLE
    assert error(client.get(f"{API}/datasets/{known_as}/schema")) == (404, "not-found")

    preview = client.get(f"{API}/datasets/{known_as}/preview", params={"rows": 2}).json()
    assert preview == {"columns": ["age", "sex", "ok"], "rows": [["20", "m", "n"], ["21", "f", "y"]], "more_columns": 0}

    answer = client.post(f"{API}/datasets/{known_as}/schema/infer", json={"label": "ok", "steps": {"age": 5}})
    inferred = answer.json()
    assert answer.status_code == 200
    assert (inferred["rows"], inferred["labels"], inferred["protected"]) == (120, ["n", "y"], ["age", "sex"])
    assert inferred["protected_guessed"]

    corrected = inferred["text"].replace('name = "age"', 'name = "years"\ncolumn = "age"')
    answer = client.put(f"{API}/datasets/{known_as}/schema", json={"text": corrected})
    assert answer.json()["facts"]["rows"] == "120"
    assert client.get(f"{API}/datasets/{known_as}/schema").json()["text"] == corrected

    assert client.delete(f"{API}/datasets/{known_as}").status_code == 204
    assert error(client.get(f"{API}/datasets/{known_as}")) == (404, "not-found")
    assert list(sqlite_service.home.path.glob("datasets/*")) == []


def test_a_parquet_table_is_previewed(client: TestClient) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = io.BytesIO()
    pq.write_table(pa.table({"age": [1, None, 3], "words": ["x" * 1000, "b", "c"]}), file)
    known_as = sent(client, "people.parquet", file.getvalue())
    assert client.get(f"{API}/datasets/{known_as}").json()["rows"] == 3
    rows = client.get(f"{API}/datasets/{known_as}/preview").json()["rows"]
    assert rows == [["1", "x" * 200], [None, "b"], ["3", "c"]]


def test_mistakes_in_a_schema_are_named_and_nothing_changes(client: TestClient) -> None:
    known_as = sent(client)
    text = client.post(f"{API}/datasets/{known_as}/schema/infer", json={"label": "ok"}).json()["text"]
    for wrong, words in (
        (text.replace('kind = "number"', 'kind = "numbr"'), "kind"),
        (text.replace('file = "table.csv"', 'file = "/etc/passwd"'), "table.csv"),
        (text.replace('column = "ok"', 'column = "okay"'), "okay"),
        ("[", "TOML"),
    ):
        answer = client.put(f"{API}/datasets/{known_as}/schema", json={"text": wrong})
        assert answer.status_code == 400
        assert words in answer.json()["error"]["message"]
    assert client.get(f"{API}/datasets/{known_as}/schema").json()["text"] == text
    answer = client.post(f"{API}/datasets/{known_as}/schema/infer", json={"label": "okk"})
    assert answer.status_code == 400
    assert "Did you mean 'ok'" in answer.json()["error"]["message"]


def test_a_model_with_its_description(client: TestClient, tmp_path: Path) -> None:
    from evenhand.models.network import FeedForward, save_network

    save_network(FeedForward([13, 4, 2]), {"name": "a network"}, tmp_path / "net")
    content = (tmp_path / "net.safetensors").read_bytes()
    answer = client.post(f"{API}/models", params={"filename": "net.safetensors"}, content=content, headers=BYTES)
    assert answer.status_code == 201, answer.text
    known_as = answer.json()["id"]
    assert not answer.json()["is_described"]
    request = {"dataset": "census", "model": known_as, "protected": ["sex"]}
    refused = client.post(f"{API}/runs", json={"kind": "audit", "request": request})
    assert "lacks its .json" in refused.json()["error"]["message"]
    described = json.loads((tmp_path / "net.json").read_text())
    assert client.put(f"{API}/models/{known_as}/description", json=described).json()["is_described"]
    assert client.post(f"{API}/runs", json={"kind": "audit", "request": request}).status_code == 201
    assert [model["id"] for model in client.get(f"{API}/models").json()["entries"]] == [known_as]
    assert error(client.delete(f"{API}/models/{known_as}")) == (409, "conflict")


def test_lists_go_on_after_a_cursor(service: Service) -> None:
    client = TestClient(create_app(service), base_url="http://localhost")
    made = [small_run(service, seed=number).id for number in range(7)]
    seen: list[str] = []
    after = None
    while True:
        page = client.get(f"{API}/runs", params={"limit": 3} | ({} if after is None else {"after": after})).json()
        seen += [run["id"] for run in page["entries"]]
        after = page["next"]
        if after is None:
            break
    assert seen == made[::-1]
    for wrong in ("x", "2026-01-01", "AAAA", "ÿ", "MjAyNi0wMS0wMVQwMDowMDowMCBhYg=="):
        assert error(client.get(f"{API}/runs", params={"after": wrong}))[0] == 400


def test_a_run_from_wish_to_deletion(service: Service) -> None:
    client = TestClient(create_app(service), base_url="http://localhost")
    answer = client.post(f"{API}/runs", json={"kind": "audit", "request": SMALL_AUDIT})
    run = answer.json()
    assert answer.status_code == 201
    assert (run["state"], run["config"]["seeds"], run["config"]["iterations"]) == ("queued", 10, 2)
    assert run["title"] == "Audit of the built-in network on Census income (UCI Adult): sex"
    address = f"{API}/runs/{run['id']}"
    assert error(client.post(f"{address}/resume", json={})) == (409, "conflict")
    assert client.post(f"{address}/cancel", json={}).json()["state"] == "cancelled"
    assert client.post(f"{address}/resume", json={}).json()["state"] == "queued"
    assert service.runs.claim("a test") is not None
    assert error(client.delete(address)) == (409, "conflict")
    assert client.post(f"{address}/cancel", json={}).json()["state"] == "cancelling"
    kinds = [event["kind"] for event in client.get(f"{address}/events").json()["entries"]]
    assert kinds == ["queued", "cancelled", "queued", "started", "cancelling"]
    listed = client.get(f"{API}/runs", params={"state": "cancelling", "kind": "audit"}).json()["entries"]
    assert [entry["id"] for entry in listed] == [run["id"]]
    assert client.get(f"{API}/runs", params={"kind": "repair"}).json()["entries"] == []


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"protected": ["sux"]}, "Did you mean 'sex'"),
        ({"dataset": "0" * 32}, "There is no data set"),
        ({"model": "0" * 32}, "There is no model"),
        ({"dataset": "/etc/passwd"}, "must be the id"),
        ({"model": "os:system"}, "pattern"),
        ({"model": "http://127.0.0.1/"}, "pattern"),
        ({"method": "magic"}, "method"),
        ({"seeds": 0}, "seeds"),
        ({"unknown": 1}, "unknown"),
    ],
)
def test_a_wish_that_cannot_work_is_refused(client: TestClient, wrong: dict[str, Any], words: str) -> None:
    answer = client.post(f"{API}/runs", json={"kind": "audit", "request": SMALL_AUDIT | wrong})
    assert answer.status_code in (400, 404, 422)
    assert words in answer.json()["error"]["message"]
    assert client.get(f"{API}/runs").json()["entries"] == []


def test_a_table_of_ones_own_needs_schema_and_model(client: TestClient) -> None:
    known_as = sent(client)
    wish = {"kind": "audit", "request": {"dataset": known_as}}
    assert "no schema yet" in client.post(f"{API}/runs", json=wish).json()["error"]["message"]
    client.post(f"{API}/datasets/{known_as}/schema/infer", json={"label": "ok", "protected": ["sex"]})
    assert "model of your own" in client.post(f"{API}/runs", json=wish).json()["error"]["message"]


def test_findings_files_and_repair_of_an_audit(client: TestClient, sqlite_service: Service, audited: Path) -> None:
    run = finished_run(sqlite_service, audited)
    address = f"{API}/runs/{run.id}"
    result = client.get(address).json()["result"]
    page = client.get(f"{address}/findings", params={"sort": "gap", "limit": 3}).json()
    assert page["total"] == result["findings"] > 3
    gaps = [finding["gap"] for finding in page["entries"]]
    assert gaps == sorted(gaps, reverse=True)
    rest = client.get(f"{address}/findings", params={"sort": "gap", "limit": 500, "after": page["next"]}).json()
    assert len(page["entries"]) + len(rest["entries"]) == page["total"]
    values = client.get(f"{address}/findings/values").json()
    assert values["protected"] == ["sex"]
    for value in values["attributes"]["race"]:
        found = client.get(f"{address}/findings", params={"value": [f"race={value}", "sex=male"]}).json()
        assert found["entries"]
        assert all(finding["sample"]["race"] == value for finding in found["entries"])
    for wrong in ({"value": "race"}, {"value": "rice=White"}):
        assert error(client.get(f"{address}/findings", params=wrong)) == (400, "invalid")

    files = {entry["name"]: entry["size"] for entry in client.get(f"{address}/files").json()["entries"]}
    assert files.keys() == {"findings.parquet", "report.html", "summary.json"}
    for name in files:
        answer = client.get(f"{address}/files/{name}")
        assert answer.content == (audited / name).read_bytes()
        assert answer.headers.get("content-disposition", "").startswith("attachment") == (name != "report.html")
    assert error(client.get(f"{address}/files/findings.index")) == (404, "not-found")

    repair = client.post(f"{address}/repair", json={"by": ["blind"], "repeats": 1})
    assert repair.status_code == 201
    assert (repair.json()["kind"], repair.json()["parent"]) == ("repair", run.id)
    assert repair.json()["config"]["protected"] == ["sex"]
    assert error(client.post(f"{address}/repair", json={"by": ["magic"]})) == (400, "invalid")
    assert error(client.post(f"{API}/runs/{repair.json()['id']}/repair", json={})) == (409, "conflict")

    other = finished_run_with(sqlite_service, repair.json()["id"])
    both = client.get(f"{API}/compare", params={"a": run.id, "b": other}).json()
    assert both["a"]["id"] == run.id
    figures = {figure["name"]: figure for figure in both["figures"]}
    assert (figures["findings"]["a"], figures["findings"]["change"]) == (result["findings"], 3 - result["findings"])
    assert figures["data_rate.rate"]["b"] is None
    assert {"name": "by", "a": None, "b": ["blind"]} in both["settings"]

    assert client.delete(address).status_code == 204
    assert not sqlite_service.home.run(run.id).exists()


def test_a_measurement_of_an_audit(client: TestClient, sqlite_service: Service, audited: Path) -> None:
    run = finished_run(sqlite_service, audited)
    answer = client.post(f"{API}/runs/{run.id}/measure", json={"half_width": 0.02, "title": "How often"})
    made = answer.json()
    assert answer.status_code == 201
    assert (made["kind"], made["parent"], made["title"], made["place"]) == ("measure", run.id, "How often", "worker")
    assert (made["config"]["protected"], made["config"]["half_width"]) == (["sex"], 0.02)
    assert error(client.post(f"{API}/runs/{run.id}/measure", json={"half_width": 2})) == (400, "invalid")
    assert error(client.post(f"{API}/runs/{made['id']}/measure", json={})) == (409, "conflict")


def test_what_only_a_terminal_has_is_not_repaired_here(client: TestClient, sqlite_service: Service) -> None:
    config = SMALL_AUDIT | {"dataset": "people.toml", "model": "net.onnx", "terminal": {"folder": "/", "secret": False}}
    run = sqlite_service.runs.create("default", "audit", "people", config, place="terminal")
    for what in ("repair", "measure"):
        answer = client.post(f"{API}/runs/{run.id}/{what}", json={})
        assert error(answer) == (409, "conflict")
        assert "made in a terminal" in answer.json()["error"]["message"]


def test_a_run_keeps_the_schema_it_was_asked_for_with(client: TestClient, sqlite_service: Service) -> None:
    """What is changed later is for later runs; a repair or a measurement is about what the audit was about."""
    data = sent(client)
    address = f"{API}/datasets/{data}/schema"
    before = client.post(f"{address}/infer", json={"label": "ok", "protected": ["sex"]}).json()["text"]
    model = sqlite_service.assets.add_model("default", "trees", [b"tree\n"], "model.txt", 1 << 20).id
    request = {"dataset": data, "model": model}
    audit = client.post(f"{API}/runs", json={"kind": "audit", "request": request}).json()["id"]
    after = before.replace('name = "sex"', 'name = "gender"\ncolumn = "sex"')
    assert client.put(address, json={"text": after}).status_code == 200

    claim = sqlite_service.runs.claim("a test")
    assert claim is not None
    assert job_of(sqlite_service, claim, Path("x")).schema == before
    sqlite_service.runs.finish(claim, "done", {"findings": 3})
    for what in ("repair", "measure"):
        made = client.post(f"{API}/runs/{audit}/{what}", json={"protected": ["sex"]})
        assert made.status_code == 201, made.text
        assert sqlite_service.runs.get(made.json()["id"]).schema_text == before
    new = client.post(f"{API}/runs", json={"kind": "audit", "request": request | {"protected": ["gender"]}}).json()
    assert sqlite_service.runs.get(new["id"]).schema_text == after
    builtin = client.post(f"{API}/runs", json={"kind": "audit", "request": SMALL_AUDIT}).json()["id"]
    assert sqlite_service.runs.get(builtin).schema_text is None


HEAVY = ("torch", "pandas", "pyarrow", "sklearn", "scipy")
STARTED = f"""
import sys
from pathlib import Path
from fastapi.testclient import TestClient
from evenhand.service.api.app import create_app
from evenhand.service.settings import Settings
service = Settings(home=Path(sys.argv[1]), database=None).open()
with TestClient(create_app(service), base_url="http://127.0.0.1:8321") as client:
    run = client.post("/api/v1/runs", json={{"kind": "audit", "request": {{"dataset": "census"}}}}).json()["id"]
    for path in ("/", "/runs", f"/runs/{{run}}", "/new", "/new/columns?data=census", "/compare", "/api/v1/builtin"):
        assert client.get(path).status_code == 200, path
service.close()
print([name for name in {HEAVY!r} if name in sys.modules])
"""


def test_the_server_needs_nothing_heavy(tmp_path: Path) -> None:
    """Models and tables are opened in other processes, so the server starts fast and stays small."""
    command = [sys.executable, "-c", STARTED, str(tmp_path / "home")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def finished_run_with(service: Service, run_id: str) -> str:
    claim = service.runs.claim("a test")
    assert claim is not None
    assert claim.run == run_id
    service.runs.finish(claim, "done", {"findings": 3})
    return run_id


def test_a_run_without_findings_says_so(client: TestClient, sqlite_service: Service) -> None:
    run = small_run(sqlite_service)
    assert error(client.get(f"{API}/runs/{run.id}/findings")) == (404, "not-found")
    assert client.get(f"{API}/runs/{run.id}/files").json() == {"entries": []}


def test_the_stream_tells_everything_and_ends(client: TestClient, sqlite_service: Service, audited: Path) -> None:
    run = finished_run(sqlite_service, audited)
    address = f"{API}/runs/{run.id}/events/stream"
    messages = told(client.get(address).text)
    assert [kind for kind, _, _ in messages] == ["queued", "started", "pair", "done", "progress", "end"]
    numbers = [number for _, number, _ in messages if number is not None]
    assert messages[4][2]["state"] == "done"
    again = told(client.get(address, headers={"Last-Event-ID": str(numbers[1])}).text)
    assert [number for _, number, _ in again if number is not None] == numbers[2:]
    assert told(client.get(address, headers={"Last-Event-ID": "x" * 50}).text) == messages
    assert error(client.get(f"{API}/runs/{'0' * 32}/events/stream")) == (404, "not-found")


def test_streams_end_when_the_service_does(sqlite_service: Service) -> None:
    app = create_app(sqlite_service)
    app.state.stopping = True
    run = small_run(sqlite_service)
    text = TestClient(app, base_url="http://localhost").get(f"{API}/runs/{run.id}/events/stream").text
    assert told(text) == []


def told(text: str) -> list[tuple[str, int | None, Any]]:
    """The messages of a stream: kind, number, data."""
    messages = []
    for block in text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "event" in lines:
            number = int(lines["id"]) if "id" in lines else None
            messages.append((lines["event"], number, json.loads(lines["data"])))
    return messages


def test_health_readiness_and_figures(client: TestClient, sqlite_service: Service) -> None:
    small_run(sqlite_service)
    assert client.get("/healthz").json()["status"] == "ok"
    assert client.get("/readyz").json() == {"status": "ok", "problems": []}
    client.get(f"{API}/runs/{'0' * 32}")
    text = client.get("/metrics").text
    assert 'evenhand_runs{state="queued"} 1.0' in text
    assert 'evenhand_http_requests_total{method="GET",route="/api/v1/runs/{run_id}",status="404"} 1.0' in text


def test_a_database_that_is_gone_is_said_and_comes_back(client: TestClient, sqlite_service: Service) -> None:
    file = sqlite_service.settings.home / "evenhand.db"
    sqlite_service.database.close()
    away = file.with_suffix(".away")
    file.rename(away)
    file.mkdir()
    answer = client.get(f"{API}/runs")
    assert error(answer) == (503, "unavailable")
    assert answer.headers["retry-after"] == "5"
    assert client.get("/healthz").status_code == 200
    assert client.get("/readyz").status_code == 503
    file.rmdir()
    away.rename(file)
    assert client.get(f"{API}/runs").status_code == 200
    assert client.get("/readyz").status_code == 200


def test_each_request_is_a_line_of_json_with_its_id(client: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger=LOGGER.name):
        first = client.get("/healthz", headers={"X-Request-Id": "from-a-proxy"})
        second = client.get(f"{API}/runs", headers={"X-Request-Id": 'bad id "\n'.strip()})
    assert first.headers["x-request-id"] == "from-a-proxy"
    lines = [json.loads(JsonLines().format(record)) for record in caplog.records if record.name == LOGGER.name]
    assert [(line["path"], line["status"]) for line in lines] == [("/healthz", 200), (f"{API}/runs", 200)]
    assert [line["request"] for line in lines] == ["from-a-proxy", second.headers["x-request-id"]]
    assert len(lines[1]["request"]) == 32


def test_a_failure_inside_says_no_details(
    sqlite_service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("the secret")

    monkeypatch.setattr(type(sqlite_service.runs), "newest", broken)
    answer = TestClient(create_app(sqlite_service), base_url="http://localhost").get(f"{API}/runs")
    assert error(answer) == (500, "internal")
    assert "secret" not in answer.text
    assert answer.headers["x-request-id"] in answer.json()["error"]["message"]
    assert "the secret" in caplog.text


def test_unknown_addresses_and_methods(client: TestClient) -> None:
    assert error(client.get(f"{API}/nothing")) == (404, "not-found")
    assert error(client.put(f"{API}/runs", json={})) == (405, "wrong-method")


def test_answers_about_the_watched_run_are_shared(
    client: TestClient, sqlite_service: Service, audited: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many people watch a run, it is looked up once in a while and not once for each."""
    run = finished_run(sqlite_service, audited)
    asked: list[str] = []
    kept = type(sqlite_service.runs).events

    def counted(self: Any, run_id: str, after: int = 0, limit: int = 500) -> Any:
        asked.append(run_id)
        return kept(self, run_id, after, limit)

    monkeypatch.setattr(type(sqlite_service.runs), "events", counted)
    client.get(f"{API}/runs/{run.id}/events/stream")
    first = len(asked)
    last = sqlite_service.runs.events(run.id)[-1].id
    asked.clear()
    monkeypatch.setattr(watching, "LOOK_SECONDS", 600.0)  # a slow machine is no failure
    for _ in range(3):
        client.get(f"{API}/runs/{run.id}/events/stream", params={"after": last})
    assert (first, len(asked)) == (2, 0)
