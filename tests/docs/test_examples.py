"""The examples run from beginning to end, as scripts and as notebooks would: cell by cell, each in its own folder."""

import ast
import json
import os
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(path.name for path in EXAMPLES.glob("*.py") if "# %%" in path.read_text(encoding="utf-8"))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[str], str]:
    """Runs a script; returns what it prints. Warnings are errors as in all tests."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(EXAMPLES)  # as Python does for a script

    def printed(name: str) -> str:
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    return printed


def test_there_are_three_notebooks() -> None:
    assert SCRIPTS == ["audit_a_sklearn_pipeline.py", "gate_in_pytest.py", "repair_and_compare.py"]


@pytest.mark.parametrize("name", SCRIPTS)
def test_cells_are_in_percent_format(name: str) -> None:
    """Text cells hold comments only, and code cells are valid Python by themselves."""
    for cell in (EXAMPLES / name).read_text(encoding="utf-8").split("\n# %%")[1:]:
        head, _, body = cell.partition("\n")
        if head.strip() == "[markdown]":
            assert body.strip()
            assert all(line.startswith("#") for line in body.splitlines() if line)
        else:
            assert head == ""
            compile(body, name, "exec")


def test_a_pipeline_is_audited(run: Callable[[str], str], tmp_path: Path) -> None:
    said = run("audit_a_sklearn_pipeline.py")
    assert "findings among" in said
    assert "95% interval" in said
    assert (tmp_path / "census-sex.html").stat().st_size > 10_000


def test_a_gate_holds_and_is_exceeded(tmp_path: Path) -> None:
    """In a process of its own, since it runs pytest."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(EXAMPLES.parent / "src")}
    command = [sys.executable, str(EXAMPLES / "gate_in_pytest.py")]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    said = done.stdout
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr, done.stderr
    assert "NOT TESTED: The model does not read sex" in said
    assert "EXCEEDED" in said
    assert "→ female:" in said
    assert "1 failed, 1 passed" in said


def test_a_repair_is_compared(run: Callable[[str], str]) -> None:
    assert "repaired: 0 findings" in run("repair_and_compare.py")


def test_the_notebook_runs_cell_by_cell_and_its_results_show_themselves() -> None:
    notebook = json.loads((EXAMPLES / "people.ipynb").read_text(encoding="utf-8"))
    assert (notebook["nbformat"], {cell["cell_type"] for cell in notebook["cells"]}) == (4, {"markdown", "code"})
    names: dict[str, Any] = {}
    shown = []
    for cell in notebook["cells"]:
        assert cell.get("outputs", []) == []  # made anew by everybody who runs it
        if cell["cell_type"] == "code":
            body = ast.parse("".join(cell["source"]))
            last = body.body[-1]
            exec(compile(ast.Module(body.body[:-1], []), "people.ipynb", "exec"), names)
            if isinstance(last, ast.Expr):
                shown.append(eval(compile(ast.Expression(last.value), "people.ipynb", "eval"), names))
            else:
                exec(compile(ast.Module([last], []), "people.ipynb", "exec"), names)
    assert [type(each).__name__ for each in shown[:4]] == ["Audit", "DataFrame", "Measurement", "Repair"]
    assert all("<" in each._repr_html_() for each in shown[:4])
    people, model = names["people"], names["model"]
    other = [model.predict(people.assign(sex=sex)) != model.predict(people) for sex in ("female", "male")]
    assert shown[0].summary["data_rate"]["all"]["discriminatory"] == np.any(other, axis=0).sum() > 0
    assert names["changed"] == 0
