"""`max_seconds` counts from the start of a command: what is checked by then is kept, and said to be a part."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import Tensor, nn

import evenhand
from evenhand.data.dataset import Dataset
from evenhand.measures import people
from evenhand.measures.people import row_batches
from evenhand.report.sentences import rows_of
from evenhand.runs import deadline as deadline_module
from evenhand.runs import table_subject, tried_model
from evenhand.runs.deadline import Deadline
from evenhand.search.search import Limits
from evenhand.search.space import TableSpace
from tests.worlds.doc_blocks import evenhand as command


class Clock:
    """A clock that goes on by a step each time a model is asked, and not otherwise."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now

    def __deepcopy__(self, memo: dict[int, Any]) -> "Clock":
        return self


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(deadline_module, "time", made)
    return made


LIMITS = Limits(max_seconds=100.0)


def test_the_time_before_counts_and_each_part_has_some(clock: Clock) -> None:
    clock.now = 1030.0
    limit = Deadline(100.0, started=1000.0)
    ended = limit.for_people(lambda: False)
    clock.now = 1064.9  # half of the seventy seconds that were left
    assert not ended()
    clock.now = 1065.0
    assert ended()
    assert limit.for_search(LIMITS).max_seconds == pytest.approx(35.0)
    assert replace(limit.for_search(LIMITS), max_seconds=100.0) == LIMITS


def test_a_limit_that_loading_used_up_leaves_a_little(clock: Clock) -> None:
    clock.now = 500.0
    limit = Deadline(100.0, started=0.0)
    ended = limit.for_people(lambda: False)
    assert not ended()
    clock.now = 510.0
    assert ended()
    assert limit.for_search(LIMITS).max_seconds == pytest.approx(10.0)


def test_without_a_limit_only_the_user_ends_it(clock: Clock) -> None:
    limit = Deadline(None)
    clock.now = 1e9
    assert limit.for_people(lambda: True)()
    assert not limit.for_people(lambda: False)()
    assert limit.for_search(LIMITS) is LIMITS
    assert limit.facts({"all": {"population": "a random part of the rows of census"}}) == {}


class SlowAge(nn.Module):
    """Says yes to men over 40, and takes its time: a second of the clock for each row."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock

    def forward(self, x: Tensor) -> Tensor:
        self.clock.now += len(x)
        return ((x[:, 0] >= 4) & (x[:, 8] == 1)).float()


def test_an_audit_whose_limit_ends_the_check_says_so(
    clock: Clock, census: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(people, "ROWS_AT_A_TIME", 16_000)
    model = SlowAge(clock)
    found = evenhand.audit(
        census,
        "sex",
        model=model,
        seeds=5,
        steps=5,
        max_seconds=100_000.0,
        output="probabilities",
        method="probe",
        inputs="codes",
        accept_poor_model=True,
        started=0.0,
    )
    rate = found.summary["data_rate"]["all"]
    assert rate["population"] == "a random part of the rows of census"
    assert 0 < rate["samples"] < len(census.codes)
    order = np.random.default_rng(0).permutation(len(census.codes))[: rate["samples"]]
    assert rate["discriminatory"] == (census.clipped[order, 0] >= 4).sum()
    assert found.summary["data_rate_stopped"] == "max-seconds"
    facts = dict(rows_of(found.summary))
    assert facts["in the data itself"].endswith("a random part of them, since the time limit ended the check")
    assert found.summary["config"]["max_seconds"] == 100_000.0


def test_no_rows_are_lost_between_batches(census: Dataset) -> None:
    space = TableSpace(census.schema, ["sex"])
    batches: list[Any] = list(row_batches(space, census))
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(census.codes)))
    sizes = [len(batch) for batch in batches]
    assert sizes[0] == 512 < max(sizes)
    assert all(size <= max(512, sum(sizes[:place]) // 4) for place, size in enumerate(sizes))


class SlowSex(nn.Module):
    """Says yes to rich men, and takes a hundredth of a second of the clock for each row."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock

    def forward(self, x: Tensor) -> Tensor:
        self.clock.now += len(x) / 100
        return ((x[:, 9] >= 5) & (x[:, 8] == 1)).float()


def test_a_slow_model_is_tried_on_fewer_rows_and_has_fewer_seeds(
    clock: Clock, census: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (tried_model, table_subject):
        monkeypatch.setattr(module, "time", clock)
    found = evenhand.audit(
        census, "sex", model=SlowSex(clock), seeds=2000, steps=5, iterations=2, max_seconds=100.0, started=0.0,
        inputs="codes", output="probabilities", method="probe", accept_poor_model=True,
    )  # fmt: skip
    assert found.summary["model"]["agreement"]["rows"] < 1000
    assert found.summary["search"]["seeds"] < 2000
    assert "the time limit left no more" in dict(rows_of(found.summary))["budget"]
    assert clock.now < 300.0


def test_the_command_counts_from_its_start(tmp_path: Path) -> None:
    words = ["audit", "census", "-p", "sex", "--steps", "100000000", "--max-seconds", "0.5"]
    assert command([*words, "--out", str(tmp_path / "a"), "--quiet"]) == 0
    summary = json.loads((tmp_path / "a" / "summary.json").read_text())
    assert summary["search"]["stopped"] == "max-seconds"
    assert summary["data_rate"]["all"]["samples"] > 0
