"""Where the schema rounds numbers or fills them in, the rate in the data is about such rows, and that is said."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from evenhand.cli.audit import do_audit, tell
from evenhand.cli.kept import Done, Files
from evenhand.service.commands import Command

SCHEMA = """
name = "loans"
title = "Loans"
file = "loans.csv"
[label]
column = "granted"
values = ["no", "yes"]
[[attribute]]
name = "sex"
kind = "category"
protected = true
categories = ["f", "m"]
[[attribute]]
name = "income"
kind = "number"
step = 500
domain = [0, 20]
missing = { value = "", code = 4 }
"""
HOW = "with numbers rounded to their steps or filled in"


class BySex(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([2 * x[:, 0], 0 * x[:, 1] + 1], dim=1)


def audited(folder: Path, incomes: list[str]) -> Done:
    rows = [f"{'fm'[place % 2]},{income},no" for place, income in enumerate(incomes)]
    (folder / "loans.csv").write_text("\n".join(["sex,income,granted", *rows]) + "\n")
    (folder / "loans.toml").write_text(SCHEMA)
    options = {"seeds": 2, "steps": 2, "iterations": 1, "device": "cpu"}
    command = Command("audit", str(folder / "loans.toml"), ["sex"], "tests.test_rounded_rows:BySex", options)
    return do_audit(command, Files(folder / "out"), quiet=True)


def said(done: Done, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """What the terminal and the report say."""
    tell(done, texts=False)
    report = (done.files / "report.html").read_text(encoding="utf-8")
    return " ".join(capsys.readouterr().out.split()), report


def test_rounded_and_filled_rows_are_said_beside_their_rate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    terminal, report = said(audited(tmp_path, ["512.5", "1000", "", "2000", "499", "0"] * 4), capsys)
    assert f"; 12 rows {HOW}" in terminal
    sentence = (
        "Checked as the schema reads them (in 12 rows a number was rounded to the schema’s step, or filled in where it "
        "is missing, here and in all that follows), against every value of sex"
    )
    assert sentence in report
    assert "as they are" not in report


def test_nothing_is_said_where_all_numbers_are_those_of_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal, report = said(audited(tmp_path, ["500", "1000"] * 12), capsys)
    assert "in the data itself" in terminal
    assert HOW not in terminal
    assert "Checked as the schema reads them, against every value of sex" in report
