"""`evenhand runs show` in words: what was asked for, what came out, what happened."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from evenhand.cli.run_facts import event_words, result_words, settings_words
from evenhand.service.requests import request_of
from evenhand.service.storage.tables import Event

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def happened(*kinds: str, **data: Any) -> list[Event]:
    return [Event(at=NOON + timedelta(minutes=number), kind=kind, data=data) for number, kind in enumerate(kinds)]


def test_settings_that_are_usual_are_left_out() -> None:
    config = request_of("audit", {"dataset": "census", "protected": ["sex", "age"], "steps": 5}).model_dump()
    assert settings_words("audit", config) == "dataset: census\nprotected: sex, age\nsteps: 5"


def test_settings_of_a_terminal_are_shown_without_its_folder() -> None:
    config = {"dataset": "x.toml", "model": "m.py:f", "settings": {"rate": 0.5}, "terminal": {"folder": "/home/me"}}
    assert settings_words("audit", config) == "dataset: x.toml\nmodel: m.py:f\nsettings: rate 0.5"
    assert settings_words("a kind to come", {"seed": 0}) == "seed: 0"


def test_figures_are_short_and_files_are_not_told_twice() -> None:
    result = {
        "headline": "9 findings", "success_rate": 0.3103448275862069, "seconds": 86400.0, "data_rate": None,
        "data": {"name": "census", "rows": 48842}, "texts": True, "after": {"people": None}, "files": {"a.json": 4936},
    }  # fmt: skip
    assert result_words(result).splitlines() == [
        "9 findings",
        "success_rate: 0.3103",
        "seconds: 86400.0",
        "data: name census, rows 48842",
        "texts: yes",
        "after: people none",
    ]


def test_each_rate_is_a_line() -> None:
    rate = {"changed": ["sex"], "population": "train", "words": "1 of 4 (25.00%)", "rate": 0.25}
    assert result_words({"headline": "sex, train", "rates": [rate]}) == "sex, train: 1 of 4 (25.00%)"


def test_what_could_steer_a_terminal_is_written_out() -> None:
    assert settings_words("audit", {"dataset": "a\x1b[2Jb"}) == r'dataset: "a\u001b[2Jb"'


def test_pairs_in_a_row_are_one_line() -> None:
    lines = event_words(happened("pair", "pair", "pair", "done", "pair"))
    assert [words for _, words in lines] == ["pair (3 times)", "done", "pair"]
    assert lines[0][0] == NOON + timedelta(minutes=2)


@pytest.mark.parametrize(
    ("kind", "data", "words"),
    [
        ("started", {"worker": "vm, process 7", "attempt": 1}, "started by vm, process 7"),
        ("started", {"worker": "vm, process 7", "attempt": 2}, "started by vm, process 7, attempt 2"),
        ("note", {"text": "It was silent; it goes on."}, "note: It was silent; it goes on."),
        ("resumed", {"step": 3, "total": 10, "findings": 4}, "resumed at 3 of 10, with 4 findings"),
        ("queued", {"again": True}, "queued again"),
        ("queued", {}, "queued"),
        ("started", {}, "started"),
    ],
)
def test_events_have_words(kind: str, data: dict[str, Any], words: str) -> None:
    assert [said for _, said in event_words(happened(kind, **data))] == [words]
