"""Pages of findings: what a slow, obvious reading of the Parquet file gives, at any depth, filtered and sorted."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from bench.findings_pages import made_up
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.data.dataset import load_schema
from evenhand.errors import EvenhandError
from evenhand.runs.findings import FindingsWriter, findings_file, no_findings
from evenhand.search.space import TableSpace
from evenhand.service import findings as paging
from evenhand.service import findings_index
from evenhand.service.findings import Filters, Finding, FindingsIndex, Sort
from evenhand.service.findings_index import index_path, write_index

ROWS = 3000
SPACE = TableSpace(load_schema("census"), ["race", "sex"], torch.device("cpu"))


def write(path: Path, rows: int, seed: int = 0) -> Path:
    with findings_file(path, lambda temporary: FindingsWriter(temporary, SPACE)) as writer:
        writer.write(made_up(SPACE, rows, seed) if rows else no_findings(len(SPACE.sizes), 2))
    return path


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("findings") / "findings.parquet", ROWS)


@pytest.fixture(scope="module")
def frame(path: Path) -> pd.DataFrame:
    read: pd.DataFrame = pq.read_table(path).to_pandas()
    numbers = ("seed_row", "step", "score", "witness_score")
    for kind in ("sample", "witness"):
        for attribute in SPACE.schema.attributes:
            if f"{kind}_code.{attribute.name}" in read:
                read[f"{kind}.{attribute.name}"] = read[f"{kind}_code.{attribute.name}"].map(attribute.text)
    return read.astype({name: "object" for name in read.columns if name not in numbers})


def expected(frame: pd.DataFrame, filters: Filters, sort: Sort) -> list[int]:
    """The rows that match, looked at one by one."""
    gap = (frame["score"] - frame["witness_score"]).abs()
    keep = pd.Series(True, index=frame.index)
    for name, value in filters.values:
        own = frame[f"sample.{name}"] == value
        keep &= own | (frame[f"witness.{name}"] == value) if f"witness.{name}" in frame else own
    if filters.label is not None:
        keep &= frame["label"] == filters.label
    if filters.phase is not None:
        keep &= frame["phase"] == filters.phase
    if filters.least_gap is not None:
        keep &= gap >= np.float32(filters.least_gap)
    order = gap[keep].sort_values(ascending=False, kind="stable") if sort == "gap" else gap[keep]
    return [int(row) for row in order.index]


def all_rows(index: FindingsIndex, filters: Filters, sort: Sort, limit: int) -> list[int]:
    rows: list[int] = []
    after = None
    while True:
        page = index.page(filters, sort=sort, after=after, limit=limit)
        rows += [finding.row for finding in page.rows]
        assert len(page.rows) == limit or page.after is None
        after = page.after
        if after is None:
            return rows


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_pages_are_what_a_reading_of_the_whole_file_gives(path: Path, frame: pd.DataFrame, data: st.DataObject) -> None:
    index = FindingsIndex.open(path)
    names = data.draw(st.lists(st.sampled_from(["sex", "race", "age", "workclass"]), max_size=2))
    filters = Filters(
        tuple((name, data.draw(st.sampled_from(index.words(f"sample.{name}")))) for name in names),
        data.draw(st.sampled_from([None, *index.words("label"), "no such label"])),
        data.draw(st.sampled_from([None, "global", "local"])),
        data.draw(st.none() | st.floats(0, 1)),
    )
    sort: Sort = data.draw(st.sampled_from(["order", "gap"]))
    limit = data.draw(st.integers(1, 400))
    wanted = expected(frame, filters, sort)
    page = index.page(filters, sort=sort, limit=limit)
    assert page.total == len(wanted)
    assert [finding.row for finding in page.rows] == wanted[:limit]
    if len(wanted) < 40 * limit:
        assert all_rows(index, filters, sort, limit) == wanted


@pytest.mark.parametrize("sort", ["order", "gap"])
@pytest.mark.parametrize("short_look", [1, 100, 1 << 16])
def test_both_ways_of_looking_find_the_same(
    path: Path, frame: pd.DataFrame, sort: Sort, short_look: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paging, "SHORT_LOOK", short_look)
    filters = Filters((("race", "Black"),), least_gap=0.1)
    wanted = expected(frame, filters, sort)
    assert len(wanted) > 500
    assert all_rows(FindingsIndex.open(path), filters, sort, 97) == wanted


def test_a_page_begins_after_any_key(path: Path) -> None:
    index = FindingsIndex.open(path)
    assert [finding.row for finding in index.page(after=ROWS - 3).rows] == [ROWS - 2, ROWS - 1]
    assert index.page(after=ROWS).rows == []
    assert index.page(after=10**12, sort="gap").rows == []
    assert len(index.page(limit=10**6).rows) == paging.MOST_ROWS


def test_a_finding_says_what_its_row_says(path: Path, frame: pd.DataFrame) -> None:
    row = frame.iloc[1234]
    found = FindingsIndex.open(path).page(after=1233, limit=1).rows[0]
    assert found == Finding(
        row=1234,
        phase=row["phase"],
        seed_row=int(row["seed_row"]),
        step=int(row["step"]),
        label=row["label"],
        witness_label=row["witness_label"],
        score=float(row["score"]),
        witness_score=float(row["witness_score"]),
        gap=float(abs(row["score"] - row["witness_score"])),
        sample={name: row[f"sample.{name}"] for name in SPACE.schema.names},
        witness={name: row[f"witness.{name}"] for name in ("race", "sex")},
    )


def test_equal_gaps_stay_in_the_order_of_the_file_and_no_number_comes_last(tmp_path: Path) -> None:
    table = pq.read_table(write(tmp_path / "findings.parquet", 8))
    score = pa.array([0.5, np.nan, 0.9, 0.5, 0.9, 0.5, np.nan, 0.1], pa.float32())
    zeros = pa.array([0.0] * 8, pa.float32())
    columns = table.schema.names
    table = table.set_column(columns.index("score"), "score", score)
    pq.write_table(
        table.set_column(columns.index("witness_score"), "witness_score", zeros), tmp_path / "findings.parquet"
    )
    index = FindingsIndex.open(tmp_path / "findings.parquet")
    assert [finding.row for finding in index.page(sort="gap").rows] == [2, 4, 0, 3, 5, 7, 1, 6]
    sorts: tuple[Sort, Sort] = ("order", "gap")
    for sort in sorts:
        assert {finding.row for finding in index.page(Filters(least_gap=0.4), sort=sort).rows} == {0, 2, 3, 4, 5}
        assert index.page(Filters(least_gap=0.4), sort=sort).total == 5


def test_a_file_without_findings_has_an_empty_page(tmp_path: Path) -> None:
    index = FindingsIndex.open(write(tmp_path / "findings.parquet", 0))
    sorts: tuple[Sort, Sort] = ("order", "gap")
    for sort in sorts:
        page = index.page(Filters((("sex", "male"),), least_gap=0.5), sort=sort)
        assert (page.rows, page.total, page.after) == ([], 0, None)


def test_random_starts_have_no_row(tmp_path: Path) -> None:
    found = made_up(SPACE, 5, 0)
    found.seed[:] = [-1, 7, -2, 0, 70_000]
    with findings_file(tmp_path / "findings.parquet", lambda temporary: FindingsWriter(temporary, SPACE)) as writer:
        writer.write(found)
    page = FindingsIndex.open(tmp_path / "findings.parquet").page()
    assert [finding.seed_row for finding in page.rows] == [None, 7, None, 0, 70_000]


def test_many_row_groups_with_dictionaries_of_their_own(tmp_path: Path, path: Path, frame: pd.DataFrame) -> None:
    """Words are numbered anew in each group; the index must not mix the numbers up."""
    table = pq.read_table(path)
    plain = pa.table(
        {name: column.cast(_plain(column.type)) for name, column in zip(table.schema.names, table.columns, strict=True)}
    )
    plain = plain.replace_schema_metadata(table.schema.metadata)
    pq.write_table(plain, tmp_path / "findings.parquet", row_group_size=101)
    first, second = FindingsIndex.open(path), FindingsIndex.open(tmp_path / "findings.parquet")
    assert first.page(limit=500, after=700).rows == second.page(limit=500, after=700).rows
    filters = Filters((("race", "White"),))
    wanted = expected(frame, filters, "gap")
    assert len(wanted) > 500
    assert all_rows(second, filters, "gap", 400) == wanted


def _plain(kind: Any) -> Any:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def test_an_index_of_another_file_or_half_of_one_is_written_anew(tmp_path: Path) -> None:
    path = write(tmp_path / "findings.parquet", 50)
    FindingsIndex.open(path)
    write(path, 60, seed=1)
    assert FindingsIndex.open(path).page(limit=100).total == 60
    whole = index_path(path).read_bytes()
    for broken in (b"", b"short", whole[: len(whole) // 2], whole + b"more"):
        index_path(path).write_bytes(broken)
        assert FindingsIndex.open(path).page(limit=100).total == 60
    assert index_path(path).read_bytes() == whole


def test_a_failed_write_leaves_no_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "findings.parquet", 50)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(findings_index._Writer, "_append", full)
    with pytest.raises(EvenhandError, match="No space left"):
        write_index(path)
    assert [file.name for file in tmp_path.iterdir()] == ["findings.parquet"]


def test_wrong_names_and_files_are_refused(tmp_path: Path, path: Path) -> None:
    with pytest.raises(EvenhandError, match="Did you mean 'sex'"):
        FindingsIndex.open(path).page(Filters((("sux", "Male"),)))
    with pytest.raises(EvenhandError, match="no findings to show"):
        FindingsIndex.open(tmp_path / "findings.parquet")
    pq.write_table(pa.table({"text": ["a"], "score": [0.5]}), tmp_path / "findings.parquet")
    with pytest.raises(EvenhandError, match="does not hold findings in tables"):
        FindingsIndex.open(tmp_path / "findings.parquet")
