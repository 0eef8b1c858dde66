"""The HTTP interface: tables and models, lists, health, failures; on PostgreSQL too where the database matters."""

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from evenhand.service.api.app import create_app
from evenhand.service.api.journal import LOGGER, JsonLines
from evenhand.service.settings import Service
from tests.worlds.api import API, BYTES, TABLE, error, sent
from tests.worlds.service import small_run

pytest_plugins = ["tests.worlds.service", "tests.worlds.api"]


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
