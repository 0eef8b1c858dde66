"""The paper's tables for tables of data, made again with very little, interrupted and resumed."""

import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evenhand.paper.driver import reproduce
from evenhand.paper.figures import TABLE_AUDITS, TableRow
from evenhand.paper.pages import PAGES, FinishedPage, make_page
from evenhand.paper.table_audits import TABLE_AUDIT_STUDY
from evenhand.paper.table_searches import TableAuditPlan

TINY = TableAuditPlan(
    seeds=40, steps=20, equal_seconds=0.5, equal_rows=9000, sg_starts=1, random_seeds=(0, 1), points=2
)
ROWS = [TableRow("credit", "age"), TableRow("credit", "sex"), TableRow("bank", "age")]


def test_an_interrupted_reproduction_keeps_whole_pairs_and_is_resumed(tmp_path: Path) -> None:
    study = replace(TABLE_AUDIT_STUDY, rows=ROWS, plan=TINY)

    def say(text: str) -> None:
        if text.startswith("credit/sex: equal time"):
            os.kill(os.getpid(), signal.SIGINT)

    (result,) = make_page(replace(PAGES["tables"], studies={"": study}), tmp_path, say=say).parts.values()
    assert [measured.row for measured in result.rows] == ROWS[:1]
    assert result.left_out == ROWS[1:]
    assert "left out: credit/sex, bank/age" in (tmp_path / "tables.md").read_text()
    # Only what is missing is measured now; what is there already comes from the file, to the last digit.
    said: list[str] = []
    two = replace(PAGES["tables"], studies={"": replace(study, rows=ROWS[:2])})
    (again,) = make_page(two, tmp_path, say=said.append).parts.values()
    assert said[0] == "resumed: 1 of 2 pairs are there already"
    assert not any(text.startswith("credit/age") for text in said)
    assert again.rows[0] == result.rows[0]
    assert again.left_out == []
    assert again.seconds > result.seconds
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tables.html", "tables.json", "tables.md"]


def test_reproduction_on_a_tiny_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every table of one pair, from real runs; figures of the paper stand beside ours."""
    pair = ROWS[0]
    monkeypatch.setattr("evenhand.paper.table_searches.FIGURE_ROW", pair)
    said: list[str] = []
    result = reproduce(replace(TABLE_AUDIT_STUDY, rows=[pair]), TINY, said.append)
    assert len(said) > 4
    measured = result.rows[0]
    assert measured.seeds == 40
    assert measured.paper_budget["adf"].findings > 0
    assert len(measured.margin) == len(measured.adf) == 2
    assert measured.curves["adf"][-1][0] == measured.curves["aequitas"][-1][0] == measured.starts
    assert measured.curves["adf"][1][2] >= measured.curves["adf"][0][2]
    assert all(outcome.model_rows <= TINY.equal_rows for outcome in measured.equal_work.values())
    assert {name for name in measured.local_findings if "few" in name} == {"aequitas few", "sg few", "adf few"}
    FinishedPage("Tables", {"": result}).write(tmp_path)
    text = (tmp_path / "tables.md").read_text()
    assert "(233,664)" in text  # the paper's ADF findings on credit/age
    assert "partners among the values 0–39" in text
    assert f"{measured.paper_budget['adf'].findings:,} (233,664)" in text
    assert len(result.tables()) == 9
    assert "<svg" in (tmp_path / "tables.html").read_text()
    assert json.loads((tmp_path / "tables.json").read_text())["pairs"][0]["pair"] == ["credit", "age"]


def test_the_papers_figures_add_up() -> None:
    """Checks on what was carried over: averages that the paper states in its text."""

    def mean_ratio(above: str, below: str) -> float:
        return float(np.mean([row[above] / row[below] for row in TABLE_AUDITS.values()]))

    assert len(TABLE_AUDITS) == 6
    assert mean_ratio("adf findings", "adf generated") == pytest.approx(0.4089, abs=5e-4)
    assert mean_ratio("aequitas findings", "aequitas generated") == pytest.approx(0.1822, abs=5e-4)
    assert mean_ratio("adf findings in 500 s", "adf generated in 500 s") == pytest.approx(0.428, abs=5e-3)
    assert mean_ratio("sg findings in 500 s", "sg generated in 500 s") == pytest.approx(0.415, abs=5e-3)
    assert mean_ratio("global adf", "global aequitas") - 1 == pytest.approx(7.94, abs=0.02)
    assert mean_ratio("seconds adf", "seconds aequitas") == pytest.approx(0.4897, abs=5e-3)
