"""The command line as a user meets it."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

from tests.worlds.commands import COMMAND, Shell, in_own_process

pytest_plugins = ["tests.worlds.commands"]
QUICK = ["--seeds", "40", "--steps", "30"]


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
def test_help_fits_80_columns_and_gives_examples(shell: Shell, arguments: list[str]) -> None:
    done = shell(*arguments, "--help")
    assert done.code == 0
    assert max(map(len, done.out.splitlines())) <= 80
    assert " ".join(["evenhand", *arguments]) in done.out.partition("Usage:")[2].partition("\n")[2]  # an example


def test_the_help_of_compare_names_all_methods(shell: Shell) -> None:
    from evenhand.methods.registry import METHODS, TEXT_METHODS

    text = re.sub(r" \([^)]*\)", "", shell("compare", "--help").words)
    tables, texts = re.findall(r"Methods for tables: (.*?);.*? For texts: (.*?)\. Examples", text)[0]
    assert tables.split(", ") == list(METHODS)
    assert texts.split(", ") == list(TEXT_METHODS)


def test_version() -> None:
    assert in_own_process("--version").out.startswith("evenhand 0.")


def test_an_audit(shell: Shell, tmp_path: Path) -> None:
    done = in_own_process("audit", "census", "--protected", "sex", *QUICK, "--out", str(tmp_path / "a"))
    assert done.code == 0
    assert "findings" in done.out
    assert "report.html" in done.out
    assert max(len(line.rstrip()) for line in done.out.splitlines() if str(tmp_path) not in line) <= 80
    assert "local steps 1/30" in done.error  # progress as plain lines, not on standard output
    assert "\x1b" not in done.out + done.error
    assert (tmp_path / "a" / "findings.parquet").is_file()
    again = shell("report", str(tmp_path / "a"), "--out", str(tmp_path / "again.html"))
    assert again.code == 0
    assert (tmp_path / "again.html").read_text() == (tmp_path / "a" / "report.html").read_text()


def test_json_is_json_and_quiet_is_quiet(shell: Shell, tmp_path: Path) -> None:
    done = shell("audit", "census", "-p", "sex", *QUICK, "--out", str(tmp_path), "--json", "--quiet")
    assert json.loads(done.out)["search"]["seeds"] == 40
    assert done.error == ""
    quiet = shell("audit", "census", "-p", "sex", *QUICK, "--out", str(tmp_path), "--quiet")
    assert (quiet.code, quiet.out, quiet.error) == (0, "", "")


def test_each_has_a_run_and_a_folder_of_its_own(shell: Shell, tmp_path: Path) -> None:
    arguments = ["audit", "census", "--protected", "race,sex", "--each", "--seeds", "20", "--steps", "5", "--json"]
    kept = json.loads(shell(*arguments).out)
    assert [summary["protected"] for summary in kept] == [["race"], ["sex"]]
    home = Path(os.environ["EVENHAND_HOME"])
    assert [summary["folder"] for summary in kept] == [str(home / "runs" / summary["run"]) for summary in kept]
    assert all((Path(summary["folder"]) / "report.html").is_file() for summary in kept)
    assert not list(tmp_path.iterdir())
    named = json.loads(shell(*arguments, "--out", "mine").out)
    assert [summary["folder"] for summary in named] == ["mine/race", "mine/sex"]
    assert "run" not in named[0]


def test_limits_are_said(shell: Shell, tmp_path: Path) -> None:
    done = shell("audit", "census", "-p", "sex", "--max-findings", "25", "--out", str(tmp_path))
    assert "stopped at the number of findings" in " ".join(done.out.split())
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
    shell: Shell, tmp_path: Path, arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "wrong_models", raising=False)
    (tmp_path / "wrong_models.py").write_text(
        "import torch\n"
        "def narrow(): return torch.nn.Linear(12, 2)\n"
        "def nan():\n    net = torch.nn.Linear(13, 2)\n    net.weight.data[:] = float('nan')\n    return net\n"
        "def broken(): return 1 / 0\n"
        "class BlackBox(torch.nn.Module):\n    def forward(self, x): return x.detach()[:, 7:9]\n"
        "blackbox = BlackBox\n"
    )
    done = shell(*arguments)
    assert done.code == 2, done.error
    assert message in done.error
    assert "Traceback" not in done.error
    assert done.out == ""
    assert [path.name for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".pyc"] == [
        "wrong_models.py"
    ]


def test_a_folder_that_cannot_be_written_to(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = shell("audit", "census", "-p", "sex", "--out", str(tmp_path / "file" / "x"))
    assert done.code == 2
    assert "Cannot write to" in done.error


def test_training_and_using_the_result(shell: Shell, tmp_path: Path, schema_file: Path) -> None:
    done = shell("train", str(schema_file), "--epochs", "2", "--out", str(tmp_path / "net"))
    assert done.code == 0
    assert "accuracy" in done.out
    assert "epoch 1 of " in done.error
    audit = shell(
        "audit",
        str(schema_file),
        "--model",
        str(tmp_path / "net.safetensors"),
        *QUICK,
        "--out",
        str(tmp_path / "a"),
        "--accept-poor-model",  # after two epochs it may know nothing
    )
    assert audit.code == 0, audit.error


def test_data_cards(shell: Shell) -> None:
    listed = shell("data", "list")
    assert "48,842 people" in listed.out
    shown = shell("data", "show", "census")
    assert max(len(line.rstrip()) for line in shown.out.splitlines()) <= 80
    for words in ("CC BY 4.0", "hours-per-week", "protected"):
        assert words in shown.out
    assert json.loads(shell("data", "show", "bank", "--json").out)["rows"] == 45_211


def test_a_comparison(shell: Shell, tmp_path: Path) -> None:
    done = shell(
        "compare", "census", "-p", "sex", "-m", "margin,labels", "-b", "seeds=30,steps=20", "--out", str(tmp_path)
    )
    assert done.code == 0, done.error
    assert "themis" in done.out
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".csv", ".html", ".json", ".md"]
    assert "census labels" in done.error


def test_other_methods_in_an_audit(shell: Shell, tmp_path: Path) -> None:
    for method in ("adf", "themis", "aequitas"):
        done = shell("audit", "census", "-p", "age", *QUICK, "--method", method, "--out", str(tmp_path / method))
        assert done.code == 0, done.error
        assert f"{method}: " in done.out
    rows = pd.read_parquet(tmp_path / "themis" / "findings.parquet")["seed_row"]
    assert (rows < 0).all()  # random samples start from no row
    assert "Started from a random sample" in (tmp_path / "themis" / "report.html").read_text()
    set_one = ["--method", "adf", "--set", "accept-failed=1.0"]
    done = shell("audit", "census", "-p", "age", *QUICK, *set_one, "--out", str(tmp_path / "set"), "--json", "-q")
    summary = json.loads(done.out)
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


def test_reports_of_folders_that_hold_no_audit(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_text("{}")
    done = shell("report", str(tmp_path))
    assert done.code == 2
    assert "does not hold an audit" in done.error


def test_names_with_brackets_are_printed_as_they_are(shell: Shell, tmp_path: Path) -> None:
    done = shell("audit", "census", "-p", "sex", *QUICK, "--out", str(tmp_path / "a [b] ü"))
    assert "a [b] ü/report.html" in done.out
    assert "[data set]" in shell("data", "show", "census").out
