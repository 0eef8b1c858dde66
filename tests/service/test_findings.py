"""Pages of findings: what a slow, obvious reading of the Parquet file gives, at any depth, filtered and sorted."""

import gc
import json
import random
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
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
from evenhand.service.findings import Filters, Finding, FindingsIndex
from evenhand.service.findings_index import MEANINGS, Sort, index_path, write_index

ROWS = 3000
SORTS: tuple[Sort, Sort] = ("order", "gap")
SPACE = TableSpace(load_schema("census"), ["race", "sex"], torch.device("cpu"))


def write(path: Path, rows: int, seed: int = 0) -> Path:
    path.parent.mkdir(exist_ok=True)
    with findings_file(path, lambda temporary: FindingsWriter(temporary, SPACE)) as writer:
        writer.write(made_up(SPACE, rows, seed) if rows else no_findings(len(SPACE.sizes), 2))
    return path


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("findings") / "findings.parquet", ROWS)


@pytest.fixture(scope="module")
def frame(path: Path) -> pd.DataFrame:
    return read(path)


def read(path: Path) -> pd.DataFrame:
    """All of a file, with the words that codes stand for."""
    frame: pd.DataFrame = pq.read_table(path).to_pandas()
    numbers = ("seed_row", "step", "score", "witness_score")
    for kind in ("sample", "witness"):
        for attribute in SPACE.schema.attributes:
            if f"{kind}_code.{attribute.name}" in frame:
                frame[f"{kind}.{attribute.name}"] = frame[f"{kind}_code.{attribute.name}"].map(attribute.text)
    return frame.astype({name: "object" for name in frame.columns if name not in numbers})


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


def test_pages_go_on_over_groups_of_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings_index, "LAYOUT", "BLOCK_SIZE 16384, ROW_GROUP_SIZE 2048")
    path = write(tmp_path / "findings.parquet", 20_000)
    frame = read(path)
    filters = Filters((("race", "Black"),), least_gap=0.1)
    for sort in SORTS:
        wanted = expected(frame, filters, sort)
        assert len(wanted) > 2048
        assert all_rows(FindingsIndex.open(path), filters, sort, 500) == wanted
        last = FindingsIndex.open(path).page(sort=sort, after=17_999, limit=500).rows
        assert [finding.row for finding in last] == expected(frame, Filters(), sort)[18_000:18_500]


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
    for sort in SORTS:
        assert {finding.row for finding in index.page(Filters(least_gap=0.4), sort=sort).rows} == {0, 2, 3, 4, 5}
        assert index.page(Filters(least_gap=0.4), sort=sort).total == 5


def test_a_file_without_findings_has_an_empty_page(tmp_path: Path) -> None:
    index = FindingsIndex.open(write(tmp_path / "findings.parquet", 0))
    for sort in SORTS:
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
    for broken in (b"", b"short", whole[: len(whole) // 2], whole + b"more", b"an index of an earlier release" * 1000):
        index_path(path).write_bytes(broken)
        assert FindingsIndex.open(path).page(Filters(label="<=50K"), sort="gap", limit=100).rows


def test_an_index_of_an_earlier_layout_is_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "findings.parquet", 50)
    with monkeypatch.context() as earlier:
        earlier.setattr(findings_index, "VERSION", findings_index.VERSION - 1)
        write_index(path)
    before = index_path(path).stat().st_ino
    assert FindingsIndex.open(path).rows == 50
    assert index_path(path).stat().st_ino != before


def test_damage_within_an_index_is_met_and_mended(tmp_path: Path) -> None:
    """What a page does not read is not looked at; what it reads has a checksum."""
    path = write(tmp_path / "findings.parquet", 100_000)
    page = FindingsIndex.open(path).page(Filters((("race", "Black"),)), sort="gap")
    whole = index_path(path).read_bytes()
    damaged = 0
    for start in range(len(whole) // 10, len(whole), len(whole) // 10):
        index_path(path).write_bytes(whole[:start] + b"x" * 70_000 + whole[start + 70_000 :])
        with suppress(EvenhandError):
            assert FindingsIndex.open(path).page(Filters((("race", "Black"),)), sort="gap") == page
            continue
        damaged += 1
        assert FindingsIndex.open(path).page(Filters((("race", "Black"),)), sort="gap") == page
    assert damaged


@pytest.mark.parametrize("by_duckdb", [True, False])
def test_a_failed_write_leaves_no_index(by_duckdb: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "findings.parquet", 50)

    def full(*_: Any) -> None:
        if by_duckdb:
            raise duckdb.IOException("Could not write: No space left on device")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(findings_index._Writer, "_coded", full)
    with pytest.raises(EvenhandError, match="No space left") as raised:
        write_index(path)
    assert isinstance(raised.value.__cause__, OSError)  # by which the service tells a full disk
    assert [file.name for file in tmp_path.iterdir()] == ["findings.parquet"]


def test_a_page_takes_no_threads_and_reads_no_other_file(path: Path) -> None:
    index = FindingsIndex.open(path)
    before = threading.active_count(), len(list(Path("/proc/self/task").iterdir()))
    index.page(Filters(least_gap=0.5), sort="gap")
    assert (threading.active_count(), len(list(Path("/proc/self/task").iterdir()))) == before
    for sql in ("SELECT * FROM read_parquet(?)", "SELECT * FROM read_text(?)", "ATTACH ? AS other"):
        with pytest.raises(duckdb.PermissionException):
            index.connection.cursor().execute(sql, [str(path)])
    with pytest.raises(duckdb.Error, match="locked"):
        index.connection.cursor().execute("SET enable_external_access = true")


def test_many_people_can_ask_at_once(path: Path, frame: pd.DataFrame) -> None:
    index = FindingsIndex.open(path)
    races = index.words("sample.race")

    def asked(number: int) -> bool:
        filters = Filters((("race", races[number % len(races)]),), least_gap=number / 100)
        index.totals.clear()
        wanted = expected(frame, filters, "gap")
        page = index.page(filters, sort="gap", limit=30)
        return page.total == len(wanted) and [finding.row for finding in page.rows] == wanted[:30]

    with ThreadPoolExecutor(8) as people:
        assert all(people.map(asked, range(60)))


def test_only_some_files_stay_open(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{number}" / "findings.parquet", 10) for number in range(paging.MOST_OPEN + 2)]
    indexes = [FindingsIndex.open(path) for path in paths]
    assert all(index.page().total == 10 for index in indexes)  # those that were closed for others too
    del indexes
    shutil.rmtree(tmp_path / f"{paging.MOST_OPEN}")  # one that is open
    FindingsIndex.open(paths[-1])
    gc.collect()
    links = [str(file.readlink()) for file in Path("/proc/self/fd").iterdir() if file.is_symlink()]
    held = [name for name in links if name.startswith(str(tmp_path))]
    assert held
    assert len(held) < paging.MOST_OPEN
    assert not [name for name in held if "deleted" in name]


def test_wrong_names_and_files_are_refused(tmp_path: Path, path: Path) -> None:
    with pytest.raises(EvenhandError, match="Did you mean 'sex'"):
        FindingsIndex.open(path).page(Filters((("sux", "Male"),)))
    with pytest.raises(EvenhandError, match="no findings to show"):
        FindingsIndex.open(tmp_path / "findings.parquet")
    pq.write_table(pa.table({"text": ["a"], "score": [0.5]}), tmp_path / "findings.parquet")
    with pytest.raises(EvenhandError, match="does not hold findings that can be paged"):
        FindingsIndex.open(tmp_path / "findings.parquet")


def wide_file(path: Path, words: int, rows: int = 2000, statistics: bool = True) -> pd.DataFrame:
    """Findings whose protected attribute has so many values that it needs more than a byte."""
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


@pytest.mark.parametrize(("words", "integers"), [(10, ["UTINYINT"]), (300, ["SMALLINT"]), (300, [])])
def test_attributes_may_have_any_number_of_values(
    words: int, integers: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {name: findings_index.INTEGERS[name] for name in integers}  # none: as wide as in the file
    monkeypatch.setattr(findings_index, "INTEGERS", known)
    frame = wide_file(tmp_path / "findings.parquet", words)
    index = FindingsIndex.open(tmp_path / "findings.parquet")
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
        write_index(tmp_path / "findings.parquet")
        pages.append(FindingsIndex.open(tmp_path / "findings.parquet").page(limit=100).rows)
    assert pages[0] == pages[1]
    assert [row.seed_row for row in pages[0]] == [None if seed < 0 else seed for seed in frame["seed_row"]]


def test_every_gap_splits_the_findings_where_it_should(tmp_path: Path) -> None:
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


HOSTILE = [
    "Town", "town", "sample_code.town", 'x"; DROP TABLE by_order; --', "it's", "a.b", "c0", "row", "rowid", "gap",
    "label", "file_row_number", "%s {} ?", "ÅÄÖ\u202e", " ", "select",
]  # fmt: skip


def test_columns_may_have_any_name_and_values_any_word(tmp_path: Path) -> None:
    path = tmp_path / "findings.parquet"
    wide_file(path, 10, rows=60)
    table = pq.read_table(path)
    columns = {name: table[name] for name in table.schema.names if "_code." not in name}
    words = ["'; DROP TABLE about; --", 'a "quoted" one', "NULL", "ünï\u0000code", "?"]
    draw = np.random.default_rng(0)
    codes = {name: draw.integers(0, len(words), (2, 60)).astype(np.int32) for name in HOSTILE}
    for name, (own, other) in codes.items():
        columns |= {f"sample_code.{name}": pa.array(own), f"witness_code.{name}": pa.array(other)}
    meanings = [{"name": name, "kind": "category", "categories": words} for name in HOSTILE]
    pq.write_table(pa.table(columns).replace_schema_metadata({MEANINGS: json.dumps(meanings)}), path)
    index = FindingsIndex.open(path)
    assert index.attributes == index.protected == HOSTILE
    for row in index.page(limit=60).rows:
        assert isinstance(row, Finding)
        assert row.sample == {name: words[codes[name][0][row.row]] for name in HOSTILE}
        assert row.witness == {name: words[codes[name][1][row.row]] for name in HOSTILE}
    for name in HOSTILE:
        for code, word in enumerate(words):
            found = index.page(Filters(((name, word),)), limit=60)
            assert [row.row for row in found.rows] == np.flatnonzero((codes[name] == code).any(axis=0)).tolist()
    for filters in (Filters(label="' OR true --"), Filters(phase='"'), Filters((("row", "0 OR true"),))):
        assert index.page(filters).total == 0
