"""The HTTP interface for tests: a client, a table to send, a run that is done.   PYTEST_DONT_REWRITE

A test file that wants the fixtures says `pytest_plugins = ["tests.worlds.service", "tests.worlds.api"]`.
"""

import json
import shutil
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
from evenhand.service.api.app import create_app
from evenhand.service.settings import Service
from evenhand.service.storage.tables import Run
from tests.worlds.service import small_run

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


def told(text: str) -> list[tuple[str, int | None, Any]]:
    """The messages of a stream: kind, number, data."""
    messages = []
    for block in text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "event" in lines:
            number = int(lines["id"]) if "id" in lines else None
            messages.append((lines["event"], number, json.loads(lines["data"])))
    return messages
