"""A search that is killed or stopped goes on from its last checkpoint and ends as if nothing had happened."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evenhand
from evenhand.data.schema import Schema
from evenhand.methods.registry import METHODS, make_method
from evenhand.runs.audit import Audit
from evenhand.runs.checkpoints import STATE, Checkpoints, News
from evenhand.search.checkpoint import State
from evenhand.search.recorder import Fresh
from evenhand.search.search import Limits, Progress, Search
from evenhand.search.space import TableSpace
from tests.worlds.checkpoints import DOMAINS, SETTINGS, Done, Killed, World, limited
from tests.worlds.schemas import classifier_of, dataset_of, network_of, schema_of
from tests.worlds.soak import SOAK

pytest_plugins = ["tests.worlds.checkpoints"]
RESUMABLE = sorted(name for name, entry in METHODS.items() if entry.method.resumable)
STEPPING = [name for name in RESUMABLE if name != "themis"]  # which draws batches


def check_equal(pieces: Done, whole: Done, rows_too: bool = True) -> None:
    """The same bytes and the same counts; a search that found nothing would show nothing."""
    assert whole.counted["findings"]["local"] > 0 or whole.counted["notes"]
    assert pieces.findings == whole.findings
    assert pieces.counted == whole.counted
    assert pieces.rows == whole.rows or not rows_too


@pytest.mark.parametrize("saved", [1, 14])
@pytest.mark.parametrize("method", RESUMABLE)
def test_a_killed_search_goes_on_and_equals_a_whole_one(
    world: Callable[..., World], method: str, saved: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evenhand.methods.themis.BATCH_ROWS", 50)  # so that it has more than one batch
    search = world(method=method)
    whole = search.whole()
    search.killed_after(saved)
    pieces = search.finished()
    check_equal(pieces, whole)
    assert (pieces.resumed, whole.resumed, len(search.heard("resumed"))) == (1, 0, 1)


def test_the_default_methods_can_go_on() -> None:
    assert set(RESUMABLE) >= {"margin", "probe", "adf", "eidig", "maft", "labels", "aequitas"}


@pytest.mark.soak
@pytest.mark.parametrize("method", STEPPING if SOAK else ["margin", "eidig", "aequitas"])
def test_a_search_that_is_killed_at_every_step(world: Callable[..., World], method: str) -> None:
    search = world(method=method, steps=9)
    whole = search.whole()
    search.killed_after(1)
    for _ in range(8):
        search.killed_after(2)  # the place where it began, and one step further
    pieces = search.finished()
    check_equal(pieces, whole)
    assert pieces.resumed == 9
    assert [news.step for news in search.heard("resumed")][1:] == list(range(1, 9))


def test_a_search_that_is_killed_before_its_next_step_is_where_it_was(world: Callable[..., World]) -> None:
    search = world()
    search.killed_after(3)
    search.killed_after(1)
    search.killed_after(1)
    assert [news.step for news in search.heard("resumed")] == [2, 2]


@pytest.mark.parametrize("method", ["margin", "adf"])
@pytest.mark.parametrize(
    ("settings", "stopped"),
    [
        ({"max_findings": 100}, "max-findings"),
        ({"max_rows": 1800}, "max-rows"),
        ({"max_rows": 1801, "chunk_rows": 16}, "max-rows"),
        ({"max_seconds": 600.0}, "completed"),
    ],
    ids=["findings", "rows", "rows in small chunks", "seconds"],
)
def test_budgets_count_what_came_before(
    world: Callable[..., World], method: str, settings: dict[str, Any], stopped: str
) -> None:
    search = world(method=method, steps=80, **settings)
    whole = search.whole()
    assert whole.counted["stopped"] == stopped
    search.killed_after(1)
    search.killed_after(2)
    check_equal(search.finished(), whole, rows_too="max_findings" not in settings)  # which end a little late


@pytest.mark.parametrize("method", ["margin", "eidig", "labels", "genetic"])
@pytest.mark.parametrize(
    ("schema", "protected", "classes"),
    [(limited(), "a1", 2), (schema_of(DOMAINS, 3), "a1,a3", 3), (schema_of([(0, 40)] * 12 + [(0, 1)]), "a12", 2)],
    ids=["limited", "many variants", "hashed keys"],
)
def test_other_spaces(world: Callable[..., World], method: str, schema: Schema, protected: str, classes: int) -> None:
    search = world(schema, protected, classes, method=method)
    whole = search.whole()
    search.killed_after(5)
    search.killed_after(9)
    check_equal(search.finished(), whole)


@pytest.mark.parametrize("method", ["margin", "aequitas", "genetic"])
def test_walks_in_several_blocks(world: Callable[..., World], method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TableSpace, "block_walks", 7)
    search = world(method=method, steps=6)
    whole = search.whole()
    for saved in (3, 5, 6):
        search.killed_after(saved)
    check_equal(search.finished(), whole)


def test_the_rest_may_be_done_in_other_chunks(world: Callable[..., World]) -> None:
    search = world()
    whole = search.whole()
    search.killed_after(4)
    search.killed_after(5, chunk_rows=7)
    check_equal(search.finished(chunk_rows=100), whole)
    assert len(search.heard("resumed")) == 2


def test_much_that_is_new_is_written_before_its_time(
    world: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evenhand.runs.checkpoints.SPILL_BYTES", 100)
    monkeypatch.setattr("evenhand.search.recorder.FLUSH_SAMPLES", 10)
    search = world()
    whole = search.whole()
    search.killed_after(6)
    assert len(list(search.checkpoints.glob("segment-*"))) > 6
    check_equal(search.finished(), whole)


def test_findings_from_before_are_not_told_again(world: Callable[..., World]) -> None:
    search = world()
    search.killed_after(8)
    before = sum(len(findings) for findings in search.told)
    total = sum(search.finished().counted["findings"].values())
    assert 0 < before < total
    assert sum(len(findings) for findings in search.told) == total


def test_what_was_said_to_be_saved_is_there(world: Callable[..., World]) -> None:
    search = world()
    search.killed_after(5)
    search.finished()
    last, (resumed,) = search.heard("saved")[4], search.heard("resumed")
    assert (resumed.step, resumed.total, resumed.findings) == (last.step, last.total, last.findings)
    assert "step 4 of 25" in resumed.text
    assert resumed.findings > 0


class MemoryKeeper:
    """Keeps a search in memory."""

    due = True

    def __init__(self) -> None:
        self.last: State | None = None
        self.seen: list[Fresh] = []

    def state(self) -> State | None:
        return self.last

    def fresh(self) -> Iterator[Fresh]:
        return iter(list(self.seen))

    def add(self, fresh: Fresh) -> None:
        self.seen.append(fresh)

    def save(self, state: State) -> None:
        self.last = state


def test_seconds_from_before_count() -> None:
    """A search that may take 40 seconds and took more before it was killed does no step more."""
    schema, keeper, rows = schema_of(DOMAINS), MemoryKeeper(), np.arange(30)
    data, model = dataset_of(schema, 30, 1), classifier_of(network_of(5, 2, 5))

    def search() -> Search:
        limits, space = Limits(4, 10, max_seconds=40.0), TableSpace(schema, ["a1"])
        sink = lambda findings: None  # noqa: E731
        return Search(model, space, make_method("margin"), seed=1, limits=limits, sink=sink, keeper=keeper)

    first = search().run(data.codes, rows)
    assert keeper.last is not None
    keeper.last.counters["passed"] += 50.0
    second = search().run(data.codes, rows)
    assert (first.stopped, second.stopped) == ("completed", "max-seconds")
    assert second.counts.tried < first.counts.tried
    assert sum(second.seconds.values()) >= 50.0


# Audits


@pytest.fixture
def audit(world: Callable[..., World]) -> Callable[..., Audit]:
    """The same world's audit."""
    made = world()

    def audited(out: str, checkpoints: Checkpoints | Path | None = None, **settings: Any) -> Audit:
        return evenhand.audit(
            made.data, "a1", model=made.model, out=made.folder / out, checkpoints=checkpoints, **SETTINGS | settings
        )

    return audited


def kill_at(step: int) -> Callable[[News], None]:
    def on_news(news: News) -> None:
        if news.kind == "saved" and news.step == step:
            raise Killed

    return on_news


def test_an_audit_that_was_killed(audit: Callable[..., Audit], tmp_path: Path) -> None:
    checkpoints = tmp_path / "kept here"
    with pytest.raises(Killed):
        audit("pieces", Checkpoints(checkpoints, 0.0, kill_at(9)))
    pieces, whole = audit("pieces", checkpoints), audit("whole")
    assert (pieces.folder / "findings.parquet").read_bytes() == (whole.folder / "findings.parquet").read_bytes()
    assert pieces.summary["search"].pop("taken_up") == 1
    for timed in ("seconds", "model_share_of_time", "findings_per_second"):
        pieces.summary["search"].pop(timed), whole.summary["search"].pop(timed)
    for section in ("search", "config", "data_rate", "examples", "model"):
        assert pieces.summary[section] == whole.summary[section]
    assert not checkpoints.exists()


def stopping(phase: str, done: int) -> Callable[[Progress], None]:
    """Ctrl-C at a step."""

    def on_progress(progress: Progress) -> None:
        if (progress.phase, progress.done) == (phase, done):
            os.kill(os.getpid(), signal.SIGINT)

    return on_progress


def test_a_wish_to_stop_leaves_a_checkpoint(audit: Callable[..., Audit], tmp_path: Path) -> None:
    """At any time, although none was due."""
    heard: list[News] = []
    kept = Checkpoints(tmp_path / "kept here", on_news=heard.append)
    stopped = audit("pieces", kept, on_progress=stopping("local", 6))
    assert stopped.summary["search"]["stopped"] == "interrupted"
    assert (kept.folder / STATE).is_file()
    pieces, whole = audit("pieces", kept), audit("whole")
    assert (pieces.folder / "findings.parquet").read_bytes() == (whole.folder / "findings.parquet").read_bytes()
    assert [(news.kind, news.step) for news in heard] == [("saved", 6), ("resumed", 6)]


def test_a_wish_to_stop_in_the_global_phase_leaves_none(audit: Callable[..., Audit], tmp_path: Path) -> None:
    """What it had found until then is not all that the global phase finds."""
    kept = Checkpoints(tmp_path / "kept here", 0.0)
    stopped = audit("pieces", kept, on_progress=stopping("global", 1))
    assert stopped.summary["search"]["stopped"] == "interrupted"
    assert not kept.folder.exists()


def test_a_short_audit_writes_nothing(
    audit: Callable[..., Audit], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evenhand.runs.checkpoints.write_arrays", pytest.fail)
    monkeypatch.setattr("evenhand.runs.checkpoints.write_sealed", pytest.fail)
    audit("pieces", tmp_path / "kept here")
    assert not (tmp_path / "kept here").exists()


def test_checkpoints_of_a_completed_audit_can_be_kept(audit: Callable[..., Audit], tmp_path: Path) -> None:
    """Until whoever asked has put the result where it belongs; if that fails, only the last steps are repeated."""
    heard: list[News] = []
    kept = Checkpoints(tmp_path / "kept here", 0.0, heard.append, keep=True)
    whole, again = audit("whole", kept), audit("again", kept)
    assert (again.folder / "findings.parquet").read_bytes() == (whole.folder / "findings.parquet").read_bytes()
    assert [news.step for news in heard if news.kind == "resumed"] == [24]


def test_sg_starts_from_the_beginning(audit: Callable[..., Audit], tmp_path: Path) -> None:
    pytest.importorskip("z3")
    assert not METHODS["sg"].method.resumable
    kept = Checkpoints(tmp_path / "kept here", 0.0, lambda news: pytest.fail(news.text))
    assert audit("sg", kept, method="sg", seeds=4, steps=2).summary["search"]["tried"]
