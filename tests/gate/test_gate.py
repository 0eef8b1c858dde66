"""`evenhand gate`: the gate file, the exit codes, and nothing half-written."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.testing import CliRunner, Result

from evenhand.cli.gate import gate
from evenhand.errors import EvenhandError
from evenhand.gate.config import GateFile

DOCS = Path(__file__).parents[2] / "docs"
ALONE = "import typer; from evenhand.cli.gate import gate; app = typer.Typer(); app.command()(gate); app()"

MODELS = '''
"""Models of people.toml: sex, age, city."""
import torch

def linear(*weights):
    module = torch.nn.Linear(3, 2)
    module.weight.data = torch.tensor([[0.0] * 3, list(weights)])
    module.bias.data = torch.tensor([0.0, -3.5])
    return module

def blind():
    return linear(0.01, 1.0, 0.0)  # reads the sex, and decides by it never

def by_sex():
    return linear(1.0, 1.0, 0.0)  # differs at age code 3

def broken():
    raise RuntimeError("no weights")
'''
HELD = '[[check]]\nname = "blind"\ndata = "people.toml"\nmodel = "gate_models:blind"\n'
EXCEEDED = '[[check]]\nname = "by sex"\ndata = "people.toml"\nmodel = "gate_models:by_sex"\n'
NOT_SHOWN = HELD.replace('"blind"\n', '"few"\n', 1) + "max_rate = 0.001\n"
BROKEN = '[[check]]\nname = "broken"\ndata = "people.toml"\nmodel = "gate_models:broken"\n'
DEFAULTS = 'max_rate = 0.1\nprotected = ["sex"]\ninputs = "codes"\naccept_poor_model = true\n\n'


@pytest.fixture
def folder(schema_file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a gate file, with a table and models; the gate is run from elsewhere."""
    (schema_file.parent / "gate_models.py").write_text(MODELS)
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "gate_models", raising=False)
    return schema_file.parent


def run(folder: Path, text: str, *arguments: str, **environment: str) -> Result:
    (folder / "gate.toml").write_text(text)
    app = typer.Typer()
    app.command()(gate)
    return CliRunner().invoke(app, [str(folder / "gate.toml"), *arguments], env=environment)


@pytest.mark.parametrize(
    ("checks", "code"),
    [
        ([HELD], 0),
        ([HELD, EXCEEDED], 1),
        ([NOT_SHOWN], 1),
        ([NOT_SHOWN + 'undecided = "pass"\n'], 0),
        ([BROKEN, HELD], 2),
        ([BROKEN, EXCEEDED], 2),
    ],
)
def test_the_exit_code_says_how_it_ended(folder: Path, checks: list[str], code: int) -> None:
    done = run(folder, DEFAULTS + "\n".join(checks), "--json")
    assert done.exit_code == code
    summary = json.loads(done.stdout)
    assert summary["exit_code"] == code
    assert len(summary["checks"]) == len(checks)


def test_an_error_in_one_check_does_not_stop_the_others(folder: Path) -> None:
    done = run(folder, DEFAULTS + "\n".join([BROKEN, EXCEEDED, HELD]))
    assert done.exit_code == 2
    assert "ERROR: The model function gate_models:broken failed: RuntimeError: no weights" in done.stdout
    assert "EXCEEDED, with a warning: " in done.stdout
    assert re.search(r"A real person of the data, row \d+, as they are\.", done.stdout)
    assert re.search("HELD, with a warning: The accuracy of the model .* 0.00% of all 40 rows of people", done.stdout)


@pytest.mark.parametrize(("error", "words"), [(KeyError("surprise"), "KeyError: 'surprise'"), (SystemExit(0), "0")])
def test_an_error_that_nobody_foresaw_is_shown_with_its_trace(
    folder: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, words: str
) -> None:
    def surprise(*arguments: Any, **settings: Any) -> None:
        raise error  # as raised

    monkeypatch.setattr("evenhand.gate.run.run_check", surprise)
    done = run(folder, DEFAULTS + HELD + EXCEEDED)
    assert done.exit_code == 2
    assert len(re.findall(rf"ERROR: .*{re.escape(words)}", done.stdout)) == 2
    assert "raise error  # as raised" in done.stdout


def test_a_model_that_ends_the_process_does_not_pass_the_gate(folder: Path) -> None:
    (folder / "gate_models.py").write_text(MODELS + "\ndef broken():\n    raise SystemExit(0)\n")
    done = run(folder, DEFAULTS + BROKEN + HELD)
    assert done.exit_code == 2
    assert "SystemExit" in done.stdout
    assert "HELD, with a warning: " in done.stdout


def test_an_error_outside_the_checks_is_no_exceeded_rate(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def surprise(*arguments: Any) -> str:
        raise KeyError("surprise")

    monkeypatch.setattr("evenhand.gate.outputs.junit.junit", surprise)
    done = run(folder, DEFAULTS + HELD, "--junit", str(folder / "junit.xml"))
    assert done.exit_code == 2
    assert "error: the gate failed: KeyError: 'surprise'" in done.stderr


def test_a_summary_page_that_cannot_be_written_hides_nothing(folder: Path) -> None:
    outputs = '[outputs]\njunit = "junit.xml"\n\n'
    done = run(folder, DEFAULTS + outputs + HELD, "--json", GITHUB_STEP_SUMMARY=str(folder))
    assert isinstance(done.exception, EvenhandError)  # the command ends with 2
    assert f"Cannot write to {folder}" in str(done.exception)
    assert json.loads(done.stdout)["exit_code"] == 0
    assert (folder / "junit.xml").is_file()


def test_a_failing_check_is_stored_beside_the_gate_file_and_replayed(folder: Path) -> None:
    strict = DEFAULTS + EXCEEDED + "max_rate = 0\n"
    assert run(folder, strict).exit_code == 1
    (stored,) = (folder / ".evenhand").iterdir()
    assert stored.name.startswith("by-sex-")
    again = run(folder, strict)
    assert again.exit_code == 1
    assert "replayed first" in again.stdout
    mended = strict.replace(":by_sex", ":blind")
    assert run(folder, mended).exit_code == 0
    assert not stored.exists()


def test_quiet_prints_nothing(folder: Path) -> None:
    done = run(folder, DEFAULTS + EXCEEDED, "--quiet")
    assert (done.exit_code, done.output) == (1, "")


def test_progress_goes_to_standard_error(folder: Path) -> None:
    done = run(folder, DEFAULTS + HELD, "--json")
    assert json.loads(done.stdout)["kind"] == "gate"
    assert "blind, rows of the data: 40 of 40" in done.stderr


def test_files_of_the_gate_are_beside_it_and_those_of_options_here(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path_factory.mktemp("here")
    monkeypatch.chdir(here)
    outputs = '[outputs]\njunit = "out/junit.xml"\nsarif = "out/gate.sarif"\n\n'
    run(folder, DEFAULTS + outputs + HELD, "--sarif", "own.sarif", "--markdown", "own.md")
    assert sorted(path.name for path in (folder / "out").iterdir()) == ["junit.xml"]
    assert sorted(path.name for path in here.iterdir()) == ["own.md", "own.sarif"]


def test_on_github_it_annotates_and_adds_to_the_summary(folder: Path) -> None:
    summary = folder / "summary.md"
    summary.write_text("before\n")
    done = run(folder, DEFAULTS + EXCEEDED, GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(summary))
    assert "::error file=" in done.stdout
    assert summary.read_text().startswith("before\n## evenhand gate\n")
    as_json = run(folder, DEFAULTS + EXCEEDED, "--json", GITHUB_ACTIONS="true")
    assert json.loads(as_json.stdout)["exit_code"] == 1
    assert "::error file=" in as_json.stderr
    assert "::error" not in run(folder, DEFAULTS + EXCEEDED).output
    assert "::error" in run(folder, DEFAULTS + EXCEEDED, "--annotations", "--quiet").output


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("max_rate = ", "is not valid TOML"),
        ("max_rate = 0.1", "has no checks"),
        ("check = 3", "has no checks"),
        (DEFAULTS + '[[check]]\ndata = "census"', "line 6, column 1: name: it is needed, but missing"),
        (
            DEFAULTS + HELD + "max_rat = 0.1",
            "line 10, column 1: max_rat: there is no setting called 'max_rat'; did you mean 'max_rate'?",
        ),
        ("max_rate = 2\n" + HELD, "line 1, column 1: max_rate: it must be less than 1"),
        (HELD + "search = { seeds = 0 }", "line 5, column 12: search.seeds: it must be greater"),
        (HELD + HELD, "found twice: blind"),
        (
            HELD + '\n[outputs]\nhtml = "x"',
            "line 7, column 1: html: there is no setting called 'html'; known: junit, sarif, markdown.",
        ),
        (HELD + "line = 3", "line 5, column 1: there is no such setting"),
        ("failures = 3\n" + HELD, "line 1, column 1: it must be the name of a folder"),
    ],
)
def test_a_wrong_gate_file_is_refused_with_the_place(folder: Path, text: str, words: str) -> None:
    (folder / "gate.toml").write_text(text)
    with pytest.raises(EvenhandError) as caught:
        GateFile.load(folder / "gate.toml")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("written", "words"),
    [(b'max_rate = 0.1\nname = "\xff"', "line 2, column 9 is not UTF-8"), (b"a = " + b"[" * 100_000, "too deep")],
)
def test_a_gate_file_that_cannot_be_read_is_refused(folder: Path, written: bytes, words: str) -> None:
    (folder / "gate.toml").write_bytes(written)
    with pytest.raises(EvenhandError, match=f"gate.toml is not valid TOML: .*{words}"):
        GateFile.load(folder / "gate.toml")


def test_a_place_that_cannot_be_written_is_found_out_before_the_work(folder: Path) -> None:
    done = run(folder, DEFAULTS + BROKEN, "--junit", str(folder))
    assert isinstance(done.exception, EvenhandError)
    assert "is a folder" in str(done.exception)


def test_settings_of_a_check_go_before_those_at_the_top(folder: Path) -> None:
    (folder / "gate.toml").write_text(
        DEFAULTS
        + HELD
        + 'max_rate = 0.3\nconfidence = 0.9\npopulation = "uniform"\nsearch = false\nseed = 4\n'
        + EXCEEDED
        + "search = { seeds = 7, steps = 8 }\n"
    )
    first, second = GateFile.load(folder / "gate.toml").checks
    told, other = first.settings, second.settings
    assert (told.max_rate, told.confidence, told.population, told.search, told.seed) == (0.3, 0.9, "uniform", None, 4)
    assert (other.max_rate, other.protected) == (0.1, ["sex"])
    assert other.search is not None
    assert (other.search.seeds, other.search.steps) == (7, 8)
    assert (first.line, second.line) == (6, 15)
    assert first.data == str(folder / "people.toml")


def test_an_interrupt_leaves_nothing_behind(folder: Path) -> None:
    slow = "\nimport pathlib, time\ndef slow():\n    pathlib.Path('begun').touch()\n    time.sleep(600)\n"
    (folder / "gate_models.py").write_text(MODELS + slow)
    outputs = '[outputs]\njunit = "junit.xml"\n\n'
    (folder / "gate.toml").write_text(DEFAULTS + outputs + EXCEEDED + HELD.replace("blind", "slow"))
    before = {path.name for path in folder.iterdir()}
    command = [sys.executable, "-c", ALONE, "gate.toml"]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        deadline = time.monotonic() + 120
        while not (folder / "begun").exists():
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        os.kill(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert {path.name for path in folder.iterdir()} - before <= {".evenhand", "begun", "__pycache__"}


@pytest.mark.parametrize("name", ["github-actions.yml", "gitlab-ci.yml"])
def test_ready_workflow_files_call_the_gate(name: str) -> None:
    content = yaml.safe_load((DOCS / "ci" / name).read_text())
    commands = [text for text in _texts(content) if "evenhand gate" in text]
    assert commands
    words = commands[0].split("evenhand gate", 1)[1].split()
    known = set(CliRunner().invoke(_app(), ["--help"], env={"COLUMNS": "200"}).stdout.replace("│", " ").split())
    assert words[0].endswith(".toml")
    assert {word for word in words if word.startswith("--")} <= known


def _app() -> typer.Typer:
    app = typer.Typer(rich_markup_mode=None)
    app.command()(gate)
    return app


def _texts(content: Any) -> list[str]:
    """All texts in a YAML file."""
    if isinstance(content, dict):
        return [text for value in content.values() for text in _texts(value)]
    if isinstance(content, list):
        return [text for value in content for text in _texts(value)]
    return [content] if isinstance(content, str) else []
