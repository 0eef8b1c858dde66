"""What makes the service fast gives what the slow, obvious way gives."""

import asyncio
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from evenhand.service.api import watching
from evenhand.service.api.app import create_app
from evenhand.service.limits import STEPS_BACK
from evenhand.service.pages.view import FOLDER, static_address
from evenhand.service.server import _listen
from evenhand.service.settings import Service, Settings
from tests.worlds.service import small_run

pytest_plugins = ["tests.worlds.service"]


def told(text: str) -> list[int]:
    """The numbers of the events in a stream."""
    return [int(line.removeprefix("id: ")) for line in text.splitlines() if line.startswith("id: ")]


@pytest.mark.parametrize("most", [2, 3, 500])
def test_whoever_joins_late_is_told_every_event_once(
    most: int, sqlite_service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "MOST_EVENTS", most)
    run = small_run(sqlite_service)
    claim = sqlite_service.runs.claim("a worker")
    assert claim is not None
    for number in range(7):
        sqlite_service.runs.tell(claim, "pair", {"number": number})
    sqlite_service.runs.finish(claim, "done", {})
    every = [event.id for event in sqlite_service.runs.events(run.id)]
    client = TestClient(create_app(sqlite_service), base_url="http://localhost")
    for after in (0, every[0], every[4], every[-1]):
        answer = client.get(f"/api/v1/runs/{run.id}/events/stream", params={"after": after})
        assert told(answer.text) == [number for number in every if number > after]
        assert answer.text.count("event: progress\n") == 1


def test_all_watchers_are_sent_the_run_as_the_api_shows_it(sqlite_service: Service) -> None:
    run = small_run(sqlite_service)
    sqlite_service.runs.cancel(run.id)
    client = TestClient(create_app(sqlite_service), base_url="http://localhost")
    shown = client.get(f"/api/v1/runs/{run.id}").json()
    for _ in range(2):
        stream = client.get(f"/api/v1/runs/{run.id}/events/stream").text
        assert json.loads(stream.partition("event: progress\ndata: ")[2].partition("\n")[0]) == shown


def test_style_and_script_are_kept_for_as_long_as_they_stay_the_same(sqlite_service: Service) -> None:
    client = TestClient(create_app(sqlite_service), base_url="http://localhost")
    for file in FOLDER.iterdir():
        answer = client.get(static_address(file.name))
        assert answer.content == file.read_bytes()
        assert "immutable" in answer.headers["cache-control"]
    for path in ("/static/page.css", "/static/page.css?0000000000000000"):
        assert client.get(path).headers["cache-control"] == "no-cache"
    assert static_address("page.css") in client.get("/").text


def test_answers_do_not_wait_for_more_to_send(tmp_path: Path) -> None:
    """Nagle's algorithm would hold the end of an answer back until the other side has said that it has the rest."""
    options: list[Any] = []

    async def accept(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted = writer.get_extra_info("socket")
        options.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    async def connect() -> None:
        listening = _listen(Settings(home=tmp_path, database=None, port=0))
        async with await asyncio.start_server(accept, sock=listening):
            reader, writer = await asyncio.open_connection(*listening.getsockname())
            await reader.read()
            writer.close()
            await writer.wait_closed()

    asyncio.run(connect())
    assert len(options) == 1
    assert options[0] != 0


BACK = """
import os
from pathlib import Path
from evenhand.service.limits import let_others_go_first
group = Path("/proc/self/autogroup")
before = os.nice(0), group.read_text() if group.exists() else ""
let_others_go_first()
print(os.nice(0) - before[0], (group.read_text() if group.exists() else "") != before[1])
"""
WEIGHS_SESSIONS = Path("/proc/sys/kernel/sched_autogroup_enabled")


@pytest.mark.parametrize("own", [True, False], ids=["own session", "session of others"])
def test_a_search_lets_answers_go_first(own: bool) -> None:
    if os.nice(0) + STEPS_BACK > 19:
        pytest.skip("these tests run at the end of the queue already")

    def said() -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-c", BACK], start_new_session=own, capture_output=True, text=True, check=True
        )
        steps, changed = done.stdout.split()
        return int(steps), changed

    assert said()[0] == STEPS_BACK
    if not own:
        assert said() == (STEPS_BACK, "False")
    elif os.geteuid() == 0 and WEIGHS_SESSIONS.exists():
        # Where root may not do all, the system lets it be said ten times a second, by all processes together.
        wanted = (STEPS_BACK, str(WEIGHS_SESSIONS.read_text().strip() == "1"))
        assert wanted in (said() for _ in range(20))
