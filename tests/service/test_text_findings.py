"""Browsing findings in texts: what a reading of the whole file gives; over HTTP, by the client and on the pages."""

import html
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from bench.findings_pages import made_up_texts
from fastapi.testclient import TestClient
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.errors import EvenhandError
from evenhand.service.api.app import create_app
from evenhand.service.findings import Filters, FindingInTexts, FindingsIndex
from evenhand.service.findings_index import Sort
from evenhand.service.settings import Settings
from tests.service.test_findings import all_rows
from tests.worlds.terminal import kept
from tests.worlds.text_files import write_user_files

pytest_plugins = ["tests.worlds.service", "tests.worlds.terminal", "tests.worlds.api"]

ROWS = 1500
SORTS: tuple[Sort, ...] = ("order", "gap", "similarity", "words")
STRINGS = ["100% sure", "a_b", "it's", 'say "so"', "ÉTÉ in Paris", "; DROP TABLE texts; --", "\\", "emoji 🙂"]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("texts") / "findings.parquet"
    table = made_up_texts(ROWS, 0)
    texts = [f"{text} {STRINGS[row % len(STRINGS)]}" for row, text in enumerate(table["text"].to_pylist())]
    table = table.set_column(table.schema.names.index("text"), "text", pa.array(texts))
    similarity = table["similarity"].to_pylist()
    similarity[3], similarity[4] = float("nan"), None
    place = table.schema.names.index("similarity")
    pq.write_table(table.set_column(place, "similarity", pa.array(similarity, pa.float32())), path, row_group_size=400)
    return path


@pytest.fixture(scope="module")
def frame(path: Path) -> pd.DataFrame:
    frame: pd.DataFrame = pq.read_table(path).to_pandas()
    return frame.astype(dict.fromkeys(("phase", "label", "witness_label", "value", "witness_value"), "object"))


def expected(frame: pd.DataFrame, filters: Filters, sort: Sort) -> list[int]:
    """The rows that match, looked at one by one."""
    gap = (frame["score"] - frame["witness_score"]).abs()
    keep = pd.Series(True, index=frame.index)
    for column, value in (
        ("label", filters.label), ("phase", filters.phase), ("value", filters.text_value),
        ("witness_value", filters.witness_value),
    ):  # fmt: skip
        if value is not None:
            keep &= frame[column] == value
    if filters.least_gap is not None:
        keep &= gap >= np.float32(filters.least_gap)
    if filters.most_words is not None:
        keep &= frame["l0"] <= filters.most_words
    if filters.contains is not None:
        both = [
            frame[column].str.lower().str.contains(filters.contains.lower(), regex=False)
            for column in ("text", "witness")
        ]
        keep &= both[0] | both[1]
    if sort == "order":
        return [int(row) for row in frame.index[keep]]
    by = {"gap": -gap, "similarity": -frame["similarity"].fillna(-2), "words": frame["l0"]}[sort]
    return [int(row) for row in by[keep].sort_values(kind="stable").index]


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_pages_are_what_a_reading_of_the_whole_file_gives(path: Path, frame: pd.DataFrame, data: st.DataObject) -> None:
    index = FindingsIndex.open(path)
    assert index.texts
    filters = Filters(
        label=data.draw(st.sampled_from([None, None, *index.words("label"), "no such label"])),
        phase=data.draw(st.sampled_from([None, "global", "local"])),
        least_gap=data.draw(st.none() | st.floats(0, 1)),
        text_value=data.draw(st.sampled_from([None, *index.words("value")])),
        witness_value=data.draw(st.sampled_from([None, *index.words("witness_value"), "' OR true --"])),
        most_words=data.draw(st.none() | st.integers(0, 12)),
        contains=data.draw(
            st.sampled_from([None, None, "e", "WORD1", "été", "%", "_", "'", '"', "\\", "🙂", "drop table"])
        ),
    )
    sort = data.draw(st.sampled_from(SORTS))
    limit = data.draw(st.integers(1, 400))
    wanted = expected(frame, filters, sort)
    page = index.page(filters, sort=sort, limit=limit)
    assert page.total == len(wanted)
    assert [finding.row for finding in page.rows] == wanted[:limit]
    if len(wanted) < 20 * limit:
        assert all_rows(index, filters, sort, limit) == wanted


def test_a_finding_says_what_its_row_says(path: Path, frame: pd.DataFrame) -> None:
    for sort in SORTS:
        for found in FindingsIndex.open(path).page(sort=sort, after=700, limit=20).rows:
            row = frame.iloc[found.row]
            assert found == FindingInTexts(
                row=found.row,
                seed_row=int(row["seed_row"]),
                gap=float(abs(row["score"] - row["witness_score"])),
                similarity=None if pd.isna(row["similarity"]) else float(row["similarity"]),
                **{name: row[name] for name in ("phase", "label", "witness_label", "value", "witness_value")},
                **{name: row[name] for name in ("original", "text", "witness")},
                **{
                    name: row[name].item() for name in ("step", "score", "witness_score", "l0", "l2", "jaccard", "bleu")
                },
            )


def test_a_file_without_findings_has_an_empty_page(tmp_path: Path) -> None:
    pq.write_table(made_up_texts(0, 0), tmp_path / "findings.parquet")
    index = FindingsIndex.open(tmp_path / "findings.parquet")
    assert (index.rows, index.texts, index.words("value")) == (0, True, [])
    for sort in SORTS:
        page = index.page(Filters(label="toxic", contains="x"), sort=sort)
        assert (page.rows, page.total, page.after) == ([], 0, None)


def test_texts_and_tables_have_filters_and_orders_of_their_own(path: Path, audited: Path) -> None:
    with pytest.raises(EvenhandError, match="Texts have no attribute 'sex'"):
        FindingsIndex.open(path).page(Filters((("sex", "male"),)))
    table = FindingsIndex.open(audited / "findings.parquet")
    for filters in (Filters(contains="x"), Filters(most_words=0), Filters(text_value="x"), Filters(witness_value="x")):
        with pytest.raises(EvenhandError, match="are in a table"):
            table.page(filters)
    with pytest.raises(EvenhandError, match="cannot be sorted by 'similarity'"):
        table.page(sort="similarity")


@pytest.fixture
def browser(here: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[TestClient, str]]:
    """A browser of a service that has an audit of texts, as the terminal keeps it; and the run's id."""
    monkeypatch.setenv("EVENHAND_CACHE", str(here / "cache"))
    files = write_user_files(here, "lstm")
    (here / "my.toml").write_text(
        'name = "mine"\n[[attribute]]\nname = "gender"\nvalues = ["man", "woman"]\n'
        'also = { man = ["he", "father", "boy", "men"], woman = ["she", "mother", "girl", "women"] }\n'
    )
    run = kept(
        "audit", "--data", files.data, "--text", "comment", "--label", "toxic", "--protected", "gender",
        "--encoder", "none", "--lexicon", "my.toml", "--vectors", "vec.txt", "--model", "net.safetensors",
        "--seeds", "12", "--steps", "6", "--iterations", "3",
    )["run"]  # fmt: skip
    service = Settings(home=here.parent / "home").open()
    with TestClient(create_app(service), base_url="http://127.0.0.1:8321") as client:
        yield client, run
    service.close()


def test_a_run_about_texts_is_browsed(browser: tuple[TestClient, str], here: Path) -> None:
    client, run = browser
    frame = pd.read_parquet(here.parent / "home" / "runs" / run / "findings.parquet")
    address = f"/api/v1/runs/{run}/findings"
    values = client.get(f"{address}/values").json()
    assert values["text_values"] == sorted({*frame["value"]})
    assert values["witness_values"] == sorted({*frame["witness_value"]})
    assert (values["attributes"], values["sorts"]) == ({}, ["order", "gap", "similarity", "words"])
    page = client.get(address, params={"sort": "words", "limit": 3, "text_value": "man"}).json()
    assert page["total"] == (frame["value"] == "man").sum() > 0
    assert [entry["l0"] for entry in page["entries"]] == sorted(frame["l0"][frame["value"] == "man"])[:3]
    assert {entry["text"] for entry in page["entries"]} <= {*frame["text"]}
    for wrong in ({"value": "gender=man"}, {"contains": ""}, {"most_words": -1}, {"sort": "bleu"}):
        assert client.get(address, params=wrong).status_code in (400, 422)

    seen = client.get(f"/runs/{run}").text
    assert f'href="/runs/{run}/findings"' in seen
    first = client.get(f"/runs/{run}/findings", params={"sort": "words"}).text
    assert f"<strong>{len(frame)} pairs</strong>" in re.sub(",", "", first)
    assert '<mark class="protected">' in first
    shown = re.sub(r"<[^>]*>", "", html.unescape(first))
    assert frame.iloc[frame["l0"].argsort(kind="stable").iloc[0]]["text"][:20] in shown
    word, most = frame["text"].iloc[0].split()[-1].lower(), int(frame["l0"].median())
    both = [frame[name].str.lower().str.contains(word, regex=False) for name in ("text", "witness")]
    wanted = int(((both[0] | both[1]) & (frame["l0"] <= most) & (frame["witness_value"] == "woman")).sum())
    asked = {"contains": word.upper(), "words": str(most), "witness": "woman", "value": "man"}
    found = client.get(f"/runs/{run}/findings", params=asked).text
    assert 0 < wanted < len(frame)
    assert f"<strong>{wanted} pair" in found
    assert f'value="{html.escape(word.upper())}"' in found
    assert "Write a number, 0 or more." in client.get(f"/runs/{run}/findings", params={"words": "many"}).text
