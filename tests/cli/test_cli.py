"""The command line as a user meets it."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pytest

from tests.worlds.doc_blocks import evenhand as in_process

COMMAND = [sys.executable, "-c", "from evenhand.cli.main import main; main()"]
QUICK = ["--seeds", "40", "--steps", "30"]


def evenhand(*arguments: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=os.environ | {"COLUMNS": "80", "NO_COLOR": "1"} | environment,
        timeout=300,
    )


class Done(NamedTuple):
    """How a command ended, and what it printed."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., Done]]:
    """Runs a command in this process and an empty folder: for what no process of its own is needed."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    yield lambda *arguments: Done(in_process(list(arguments)), *capsys.readouterr())
    sys.modules.pop("wrong_models", None)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["audit"],
        ["train"],
        ["report"],
        ["data"],
        ["data", "list"],
        ["data", "show"],
        ["compare"],
        ["measure"],
        ["model"],
        ["gate"],
        ["card"],
        ["schema"],
        ["schema", "infer"],
        ["schema", "check"],
        ["repair"],
        ["reproduce", "tables"],
    ],
)
def test_help_fits_80_columns_and_gives_examples(here: Callable[..., Done], arguments: list[str]) -> None:
    done = here(*arguments, "--help")
    assert done.returncode == 0
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "evenhand " in done.stdout


def test_the_help_of_compare_names_all_methods() -> None:
    from evenhand.methods.registry import METHODS

    text = " ".join(evenhand("compare", "--help").stdout.split())
    listed = re.sub(r" \([^)]*\)", "", text.split("Methods: ")[1].split(". Examples")[0])
    assert listed.rstrip(".").split(", ") == list(METHODS)


def test_version() -> None:
    assert evenhand("--version").stdout.startswith("evenhand 0.")


def test_an_audit(tmp_path: Path) -> None:
    done = evenhand("audit", "census", "--protected", "sex", *QUICK, "--out", str(tmp_path / "a"))
    assert done.returncode == 0
    assert "findings" in done.stdout
    assert "report.html" in done.stdout
    assert max(len(line.rstrip()) for line in done.stdout.splitlines() if str(tmp_path) not in line) <= 80
    assert "local steps 1/30" in done.stderr  # progress as plain lines, not on standard output
    assert "\x1b" not in done.stdout + done.stderr
    assert (tmp_path / "a" / "findings.parquet").is_file()
    again = evenhand("report", str(tmp_path / "a"), "--out", str(tmp_path / "again.html"))
    assert again.returncode == 0
    assert (tmp_path / "again.html").read_text() == (tmp_path / "a" / "report.html").read_text()


def test_json_is_json_and_quiet_is_quiet(tmp_path: Path) -> None:
    done = evenhand("audit", "census", "-p", "sex", *QUICK, "--out", str(tmp_path), "--json", "--quiet")
    assert json.loads(done.stdout)["search"]["seeds"] == 40
    assert done.stderr == ""
    quiet = evenhand("audit", "census", "-p", "sex", *QUICK, "--out", str(tmp_path), "--quiet")
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "")


def test_each_has_a_run_and_a_folder_of_its_own(tmp_path: Path) -> None:
    arguments = ["audit", "census", "--protected", "race,sex", "--each", "--seeds", "20", "--steps", "5", "--json"]
    kept = json.loads(evenhand(*arguments, cwd=tmp_path).stdout)
    assert [summary["protected"] for summary in kept] == [["race"], ["sex"]]
    home = Path(os.environ["EVENHAND_HOME"])
    assert [summary["folder"] for summary in kept] == [str(home / "runs" / summary["run"]) for summary in kept]
    assert all((Path(summary["folder"]) / "report.html").is_file() for summary in kept)
    assert not list(tmp_path.iterdir())
    named = json.loads(evenhand(*arguments, "--out", "mine", cwd=tmp_path).stdout)
    assert [summary["folder"] for summary in named] == ["mine/race", "mine/sex"]
    assert "run" not in named[0]


def test_limits_are_said(tmp_path: Path) -> None:
    done = evenhand("audit", "census", "-p", "sex", "--max-findings", "25", "--out", str(tmp_path))
    assert "stopped at the number of findings" in " ".join(done.stdout.split())
    assert len(pd.read_parquet(tmp_path / "findings.parquet")) == 25


def test_control_c_keeps_what_was_found(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "audit", "census", "-p", "age", "--steps", "100000000", "--out", str(tmp_path)],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "local" in line:
            break
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "interrupted; what was found until then is kept" in " ".join(out.split())
    assert str(tmp_path) in out
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["search"]["stopped"] == "interrupted"
    assert len(pd.read_parquet(tmp_path / "findings.parquet")) == summary["search"]["findings"]["total"] > 0
    assert not list(tmp_path.glob(".*"))


BLACK_BOX = ["--model", "wrong_models:blackbox", "--inputs", "codes", "--accept-poor-model"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["audit", "cencus"], "Did you mean 'census'"),
        (["audit", "census", "-p", "gender"], "There is no attribute of census called 'gender'"),
        (["audit", "census", "-p", "sexx"], "Did you mean 'sex'"),
        (["audit", "census", "-p", "sex", "--seeds", "0"], "'seeds' is 0"),
        (["audit", "census", "-p", "sex", "--method", "addf"], "Did you mean 'adf'"),
        (["audit", "census", "-p", "sex", "--set", "caution"], "--set needs NAME=VALUE"),
        (["audit", "census", "-p", "sex", "--set", "speed=3"], "no setting of method margin called 'speed'"),
        (["compare", "census", "-p", "sex", "-m", "adf,nothing"], "There is no method 'nothing'"),
        (["compare", "census", "-p", "sex", "--budget", "rows=0"], "is not one"),
        (["compare", "census", "-p", "sex", "-m", "adf,eidig", *BLACK_BOX], "need gradients"),
        (["audit", "census", "-p", "sex", "--model", "nothing"], "is not a model"),
        (["audit", "census", "-p", "sex", "--model", "wrong_models:narrow"], "13 columns"),
        (["audit", "census", "-p", "sex", "--model", "wrong_models:nan"], "NaN"),
        (["audit", "census", "-p", "sex", "--model", "wrong_models:broken"], "failed: ZeroDivisionError"),
        (["audit", "census", "-p", "sex", "--device", "cuda:7"], "CUDA"),
        (["audit", "census", "-p", "sex", "--out", "/proc/nowhere"], "Cannot write to /proc/nowhere"),
        (["audit", "absent.toml"], "Cannot read the schema"),
        (["train", "nothing"], "There is no data set 'nothing'"),
        (["report", "nowhere"], "There is no folder nowhere"),
        (["data", "show", "bonk"], "Did you mean 'bank'"),
    ],
)
def test_mistakes_end_with_a_message_and_exit_code_2(
    here: Callable[..., Done], tmp_path: Path, arguments: list[str], message: str
) -> None:
    (tmp_path / "wrong_models.py").write_text(
        "import torch\n"
        "def narrow(): return torch.nn.Linear(12, 2)\n"
        "def nan():\n    net = torch.nn.Linear(13, 2)\n    net.weight.data[:] = float('nan')\n    return net\n"
        "def broken(): return 1 / 0\n"
        "class BlackBox(torch.nn.Module):\n    def forward(self, x): return x.detach()[:, 7:9]\n"
        "blackbox = BlackBox\n"
    )
    done = here(*arguments)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert [path.name for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".pyc"] == [
        "wrong_models.py"
    ]


def test_a_folder_that_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = evenhand("audit", "census", "-p", "sex", "--out", str(tmp_path / "file" / "x"))
    assert done.returncode == 2
    assert "Cannot write to" in done.stderr


def test_training_and_using_the_result(tmp_path: Path, schema_file: Path) -> None:
    done = evenhand("train", str(schema_file), "--epochs", "2", "--out", str(tmp_path / "net"))
    assert done.returncode == 0
    assert "accuracy" in done.stdout
    assert "epoch   1" in done.stderr
    audit = evenhand(
        "audit",
        str(schema_file),
        "--model",
        str(tmp_path / "net.safetensors"),
        *QUICK,
        "--out",
        str(tmp_path / "a"),
        "--accept-poor-model",  # after two epochs it may know nothing
    )
    assert audit.returncode == 0, audit.stderr


def test_data_cards() -> None:
    listed = evenhand("data", "list")
    assert "48,842 people" in listed.stdout
    shown = evenhand("data", "show", "census")
    assert max(len(line.rstrip()) for line in shown.stdout.splitlines()) <= 80
    for words in ("CC BY 4.0", "hours-per-week", "protected"):
        assert words in shown.stdout
    assert json.loads(evenhand("data", "show", "bank", "--json").stdout)["rows"] == 45_211


def test_a_comparison(tmp_path: Path) -> None:
    done = evenhand(
        "compare", "census", "-p", "sex", "-m", "margin,labels", "-b", "seeds=30,steps=20", "--out", str(tmp_path)
    )
    assert done.returncode == 0, done.stderr
    assert "themis" in done.stdout
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".csv", ".html", ".json", ".md"]
    assert "census labels" in done.stderr


def test_other_methods_in_an_audit(tmp_path: Path) -> None:
    for method in ("adf", "themis", "aequitas"):
        done = evenhand("audit", "census", "-p", "age", *QUICK, "--method", method, "--out", str(tmp_path / method))
        assert done.returncode == 0, done.stderr
        assert f"{method}: " in done.stdout
    rows = pd.read_parquet(tmp_path / "themis" / "findings.parquet")["seed_row"]
    assert (rows < 0).all()  # random samples start from no row
    assert "Started from a random sample" in (tmp_path / "themis" / "report.html").read_text()
    set_one = ["--method", "adf", "--set", "accept-failed=1.0"]
    done = evenhand("audit", "census", "-p", "age", *QUICK, *set_one, "--out", str(tmp_path / "set"), "--json", "-q")
    summary = json.loads(done.stdout)
    assert summary["config"]["settings"] == {"accept_failed": 1.0}
    assert summary["folder"] == str(tmp_path / "set")


def test_control_c_while_the_people_of_the_data_are_checked(tmp_path: Path) -> None:
    """Many variants: the check of all people takes long, shows progress and can be stopped."""
    process = subprocess.Popen(
        [*COMMAND, "audit", "census", "-p", "age,race,sex,native-country", "--out", str(tmp_path / "a")],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "rows of the data" in line:
            break
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=300)
    assert process.returncode == 130
    summary = json.loads((tmp_path / "a" / "summary.json").read_text())
    assert summary["search"]["stopped"] == "interrupted"
    assert 0 < summary["data_rate"]["all"]["samples"] < 48_842
    assert summary["data_rate"]["all"]["population"] == "a random part of the rows of census"


def test_reports_of_folders_that_hold_no_audit(tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_text("{}")
    done = evenhand("report", str(tmp_path))
    assert done.returncode == 2
    assert "does not hold an audit" in done.stderr


def test_names_with_brackets_are_printed_as_they_are(tmp_path: Path) -> None:
    done = evenhand("audit", "census", "-p", "sex", *QUICK, "--out", str(tmp_path / "a [b] ü"))
    assert "a [b] ü/report.html" in done.stdout
    assert "[data set]" in evenhand("data", "show", "census").stdout
