"""What makes the service fast gives what the slow, obvious way gives."""

import asyncio
import json
import os
import random
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st

from evenhand.service import findings, findings_index
from evenhand.service.api import watching
from evenhand.service.api.app import create_app
from evenhand.service.findings import Filters, FindingsIndex, Sort, rows_of
from evenhand.service.findings_index import MEANINGS, MOST_BITS, bytes_of_bits, packed
from evenhand.service.limits import STEPS_BACK
from evenhand.service.pages.view import FOLDER, static_address
from evenhand.service.server import _listen
from evenhand.service.settings import Service, Settings
from tests.worlds.service import small_run

pytest_plugins = ["tests.worlds.service"]

SORTS: tuple[Sort, Sort] = ("order", "gap")


@given(
    rows=st.integers(0, 700), share=st.floats(0, 1), start=st.integers(0, 800), most=st.integers(1, 50),
    short=st.sampled_from([1, 8, 64, 1 << 16]), seed=st.integers(0, 99),
)  # fmt: skip
def test_rows_with_a_bit_are_those_of_the_mask(
    rows: int, share: float, start: int, most: int, short: int, seed: int
) -> None:
    mask = np.random.default_rng(seed).random(rows) < share
    bits = packed(mask)
    assert (len(bits), len(bits) % 8) == (bytes_of_bits(rows), 0)
    before, findings.SHORT_LOOK = findings.SHORT_LOOK, short
    try:
        found = rows_of(bits, start, most)
    finally:
        findings.SHORT_LOOK = before
    assert found.tolist() == [row for row in range(start, rows) if mask[row]][:most]


def wide_file(path: Path, words: int, rows: int = 2000, statistics: bool = True) -> pd.DataFrame:
    """Findings whose protected attribute has so many values that it needs more than bits, and more than a byte."""
    draw = random.Random(words)
    names = [f"value {number}" for number in range(words)]
    score = np.random.default_rng(words).random((2, rows)).astype(np.float32).round(2)
    frame = pd.DataFrame(
        {
            "phase": draw.choices(["global", "local"], k=rows), "seed_row": draw.choices([-1, 3, 70_000], k=rows),
            "step": np.arange(rows, dtype=np.int32), "label": draw.choices(["no", "yes"], k=rows),
            "witness_label": draw.choices(["no", "yes"], k=rows), "score": score[0], "witness_score": score[1],
            "sample.town": draw.choices(names[: words // 2 + 1], k=rows),
            "witness.town": draw.choices(names[words // 3 :], k=rows), "sample.other": draw.choices("abc", k=rows),
        }
    )  # fmt: skip
    values = {"town": names, "other": list("abc")}
    stored = frame.rename(
        columns=lambda name: name.replace("sample.", "sample_code.").replace("witness.", "witness_code.")
    )
    for column in (name for name in map(str, stored.columns) if "_code." in name):
        known = values[column.partition(".")[2]]
        stored[column] = [known.index(value) for value in stored[column]]
    meanings = [{"name": name, "kind": "category", "categories": known} for name, known in values.items()]
    table = pa.Table.from_pandas(stored, preserve_index=False)
    table = table.replace_schema_metadata({MEANINGS: json.dumps(meanings)})
    pq.write_table(table, path, row_group_size=150, write_statistics=statistics)
    return frame


@pytest.mark.parametrize("words", [MOST_BITS, MOST_BITS + 1, 300])
def test_filters_by_bits_and_by_columns_find_the_same_rows(words: int, tmp_path: Path) -> None:
    frame = wide_file(tmp_path / "findings.parquet", words)
    index = FindingsIndex.open(tmp_path / "findings.parquet")
    assert ("sample.town" in index.layout.bits) == (words <= MOST_BITS)
    gap = (frame["score"] - frame["witness_score"]).abs()
    for town in ("value 0", f"value {words // 2}", f"value {words - 1}", "nowhere"):
        keep = (frame["sample.town"] == town) | (frame["witness.town"] == town)
        for other, least in ((None, None), ("b", None), ("b", 0.25), (None, 0.5)):
            values = (("town", town), *((("other", other),) if other else ()))
            kept = keep if other is None else keep & (frame["sample.other"] == other)
            kept = kept if least is None else kept & (gap >= np.float32(least))
            for sort in SORTS:
                wanted = gap[kept].sort_values(ascending=False, kind="stable") if sort == "gap" else gap[kept]
                page = index.page(Filters(values, least_gap=least), sort=sort, limit=500)
                assert page.total == len(wanted)
                assert [finding.row for finding in page.rows] == wanted.index[:500].tolist()


def test_numbers_are_kept_whether_or_not_the_file_says_their_range(tmp_path: Path) -> None:
    pages = []
    for statistics in (True, False):
        frame = wide_file(tmp_path / "findings.parquet", 10, rows=100, statistics=statistics)
        findings_index.write_index(tmp_path / "findings.parquet")
        pages.append(FindingsIndex.open(tmp_path / "findings.parquet").page(limit=100).rows)
    assert pages[0] == pages[1]
    assert [row.seed_row for row in pages[0]] == [None if seed < 0 else seed for seed in frame["seed_row"]]


def test_every_gap_splits_the_findings_where_it_should(tmp_path: Path) -> None:
    """The parts of the order that are told by a byte, and the one that a gap falls into."""
    frame = wide_file(tmp_path / "findings.parquet", 10, rows=777)
    index = FindingsIndex.open(tmp_path / "findings.parquet")
    gap = (frame["score"] - frame["witness_score"]).abs()
    for least in (0.01, 0.02, 0.37, 0.5, 0.83, 0.99, 1.0):
        wanted = gap[gap >= np.float32(least)].index.tolist()
        page = index.page(Filters(least_gap=least), limit=500)
        assert (page.total, [finding.row for finding in page.rows]) == (len(wanted), wanted[:500])


def test_an_open_page_survives_a_new_index(tmp_path: Path) -> None:
    """What is remembered about an index belongs to the file that it was read from."""
    path = tmp_path / "findings.parquet"
    wide_file(path, 10, rows=50)
    before = FindingsIndex.open(path)
    wide_file(path, 10, rows=60)
    assert FindingsIndex.open(path).page().total == 60
    assert before.page().total == 50


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
