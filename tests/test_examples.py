"""The examples run from beginning to end, as scripts and as notebooks would: cell by cell, in one process each."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
SCRIPTS = sorted(path.name for path in EXAMPLES.glob("*.py") if "# %%" in path.read_text(encoding="utf-8"))


def run(name: str, folder: Path) -> str:
    """What a script prints; warnings are errors here as in all tests."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(EXAMPLES.parent / "src")}
    command = [sys.executable, str(EXAMPLES / name)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr, done.stderr
    return done.stdout


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


def test_a_pipeline_is_audited(tmp_path: Path) -> None:
    said = run("audit_a_sklearn_pipeline.py", tmp_path)
    assert "findings among" in said
    assert "95% interval" in said
    assert (tmp_path / "census-sex.html").stat().st_size > 10_000


def test_a_gate_holds_and_is_exceeded(tmp_path: Path) -> None:
    said = run("gate_in_pytest.py", tmp_path)
    assert "NOT TESTED: The model does not read sex" in said
    assert "EXCEEDED" in said
    assert "→ female:" in said
    assert "1 failed, 1 passed" in said


def test_a_repair_is_compared(tmp_path: Path) -> None:
    assert "repaired: 0 findings" in run("repair_and_compare.py", tmp_path)
