"""The HTTP interface to runs: asked for, watched, repaired, measured, compared, deleted."""

from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from evenhand.service.api import watching
from evenhand.service.api.app import create_app
from evenhand.service.jobs import job_of
from evenhand.service.settings import Service
from tests.worlds.api import API, error, finished_run, sent, told
from tests.worlds.service import SMALL_AUDIT, small_run

pytest_plugins = ["tests.worlds.service", "tests.worlds.api"]


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
