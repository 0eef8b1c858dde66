"""Whoever reads tables does not keep everybody else waiting."""

import logging
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from anyio import fail_after, run
from anyio.to_thread import current_default_thread_limiter
from fastapi.testclient import TestClient

from evenhand.errors import EvenhandError
from evenhand.service.api import table_tasks
from evenhand.service.api.app import create_app
from evenhand.service.settings import Service

pytest_plugins = ["tests.worlds.service"]

ADDRESS = "http://127.0.0.1:8321"
TABLE = b"sex,age,approved\n" + b"f,20,0\nm,30,1\n" * 20


@pytest.fixture
def client(sqlite_service: Service) -> Iterator[TestClient]:
    with TestClient(create_app(sqlite_service), base_url=ADDRESS) as client:
        yield client


@pytest.fixture
def preview(client: TestClient) -> str:
    """The address of the first rows of a table."""
    answer = client.post(
        "/api/v1/datasets",
        params={"filename": "x.csv"},
        content=TABLE,
        headers={"Content-Type": "application/octet-stream"},
    )
    return f"/api/v1/datasets/{answer.json()['id']}/preview"


@pytest.mark.parametrize("full", ["places", "time"])
def test_whoever_would_wait_too_long_is_asked_to_come_again(
    client: TestClient, preview: str, full: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_tasks, "AT_ONCE", threading.BoundedSemaphore(1))
    monkeypatch.setattr(table_tasks, "PLACES", threading.BoundedSemaphore(1))
    monkeypatch.setattr(table_tasks, "WAITING_SECONDS", 0.01)
    taken = table_tasks.PLACES if full == "places" else table_tasks.AT_ONCE
    with taken:
        answer = client.get(preview)
    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "5"
    assert answer.json()["error"]["what"] == "unavailable"
    assert "Try again in a few seconds" in answer.json()["error"]["message"]
    for _ in range(2):  # nobody keeps a place
        assert client.get(preview).status_code == 200


def test_a_fault_is_no_limit_and_only_the_log_says_it(
    sqlite_service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(table_tasks, "LOGGER", logging.getLogger("tests.table_tasks"))
    with caplog.at_level(logging.WARNING, "tests.table_tasks"), pytest.raises(EvenhandError) as raised:
        table_tasks.ask(sqlite_service.settings, "no task", tmp_path / "table.csv")
    assert "only the server's log says" in str(raised.value)
    assert "memory" not in str(raised.value)
    assert "KeyError" not in str(raised.value)
    (said,) = [record.__dict__["data"]["said"] for record in caplog.records]
    assert said.startswith("KeyError at table_tasks.py, line ")
    assert "no task" not in said  # what an error quotes may be somebody's value


@pytest.mark.parametrize(
    ("error", "short"),
    [
        (MemoryError(), True),
        (ImportError("failed to map segment from shared object"), True),
        (RuntimeError("can't start new thread"), True),
        (OSError(12, "Cannot allocate memory"), True),
        (OSError(5, "Input/output error"), False),
        (KeyError(0), False),
    ],
    ids=["memory", "library", "thread", "system", "disk", "fault"],
)
def test_want_of_memory_is_told_apart_from_a_fault(error: Exception, short: bool) -> None:
    wrapped = ValueError("of another layer")
    wrapped.__cause__ = error
    assert table_tasks._short_of_memory(error) == table_tasks._short_of_memory(wrapped) == short


def test_a_parquet_file_with_a_name_twice_is_shown_in_order(tmp_path: Path) -> None:
    pq.write_table(pa.table([["f"], [1], [2], ["yes"]], names=["sex", "a", "a", "y"]), tmp_path / "t.parquet")
    found = table_tasks.preview(tmp_path / "t.parquet", 5)
    assert found["columns"] == ["sex", "a", "a", "y"]
    assert found["rows"] == [["f", "1", "2", "yes"]]


def test_those_that_read_tables_leave_most_threads_to_others() -> None:
    at_work = [table_tasks.PLACES.acquire(blocking=False) for _ in range(20)]
    for _ in range(sum(at_work)):
        table_tasks.PLACES.release()
    assert 2 <= sum(at_work) <= 10  # of 40 threads


def test_the_process_says_that_it_answers_while_all_threads_are_taken(sqlite_service: Service) -> None:
    async def ask() -> int:
        limiter = current_default_thread_limiter()
        for number in range(int(limiter.total_tokens)):
            limiter.acquire_on_behalf_of_nowait(number)
        transport = httpx.ASGITransport(create_app(sqlite_service))
        with fail_after(60):
            async with httpx.AsyncClient(transport=transport, base_url=ADDRESS) as client:
                return (await client.get("/healthz")).status_code

    assert run(ask) == 200
