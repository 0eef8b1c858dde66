"""Measuring tables from end to end, through Python and through the command line."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

import evenhand
from evenhand.data.dataset import Dataset
from evenhand.errors import EvenhandError
from evenhand.measures.people import discriminatory_rows
from evenhand.models.network import FeedForward
from evenhand.runs.measure import Measurement, measure
from evenhand.search.space import TableSpace
from tests.worlds.commands import COMMAND, Shell
from tests.worlds.schemas import UNTRAINED, classifier_of, linear

pytest_plugins = ["tests.worlds.commands"]
COARSE = UNTRAINED | {"half_width": 0.1, "changes": 1}


@pytest.fixture(scope="module")
def sex(tmp_path_factory: pytest.TempPathFactory) -> Measurement:
    return measure("census", "sex", half_width=0.01, out=tmp_path_factory.mktemp("out"))


def test_the_summary_says_what_was_measured(sex: Measurement, census: Dataset, census_network: FeedForward) -> None:
    assert sex.folder is not None
    assert json.loads((sex.folder / "summary.json").read_text()) == sex.summary
    assert (sex.summary["kind"], sex.summary["stopped"]) == ("measure", "completed")
    [measured] = sex.summary["measured"]
    rates = {rate["name"]: rate for rate in measured["populations"]}
    assert list(rates) == ["uniform", "train", "held_out", "neighbourhood"]
    for name in ("uniform", "neighbourhood"):
        low, high = rates[name]["interval"]
        assert high - low <= 0.02
    hit = discriminatory_rows(classifier_of(census_network), TableSpace(census.schema, ["sex"]), census).hit
    assert rates["train"]["discriminatory"] + rates["held_out"]["discriminatory"] == hit.sum()
    assert (rates["train"]["samples"], rates["held_out"]["samples"]) == (32_561, 16_281)
    assert rates["held_out"]["direction"][0]["favoured"] == "male"
    assert "held_out" in repr(sex)


def test_each_attribute_and_all_together(schema_file: Path) -> None:
    found = measure(str(schema_file), "sex,city", model=linear([2.0, 1.0, 1.0], -5.0), **COARSE)
    assert [measured["protected"] for measured in found.summary["measured"]] == [["sex"], ["city"], ["sex", "city"]]
    single, other, both = (
        {rate["name"]: rate["rate"] for rate in measured["populations"]} for measured in found.summary["measured"]
    )
    assert both["held_out"] >= max(single["held_out"], other["held_out"])


def test_the_same_seed_gives_the_same_rates(schema_file: Path) -> None:
    def run(**settings: Any) -> list[object]:
        model = linear([2.0, 1.0, 1.0], -5.0)
        return list(measure(str(schema_file), model=model, **COARSE, **settings).summary["measured"])

    assert run() == run(chunk_rows=7)
    assert run() != run(seed=1)


def test_findings_of_an_earlier_audit(tmp_path: Path) -> None:
    audit = evenhand.audit("census", "sex", seeds=20, steps=20, out=tmp_path)
    assert len(audit.findings)
    same = measure("census", "sex", half_width=0.1, findings=tmp_path).summary["findings"]
    assert (same["rate"], same["samples"]) == (1.0, len(audit.findings))
    constant = linear([0.0] * 13, 1.0)
    other = measure("census", "sex", model=constant, **COARSE, findings=tmp_path).summary["findings"]
    assert other["rate"] == 0.0
    with pytest.raises(EvenhandError, match="are about census, not bank"):
        measure("bank", "age", half_width=0.1, findings=tmp_path)


def test_the_command_prints_tables_of_80_columns(shell: Shell, tmp_path: Path) -> None:
    done = shell("measure", "census", "-p", "race", "--half-width", "0.02", "--out", str(tmp_path / "m"))
    assert done.code == 0
    for words in ("whole domain", "held-out rows", "neighbourhood", "favoured most: ", "selection rate"):
        assert words in done.out
    assert "race, uniform" in done.error
    assert max(len(line.rstrip()) for line in done.out.splitlines() if str(tmp_path) not in line) <= 80
    assert json.loads((tmp_path / "m" / "summary.json").read_text())["kind"] == "measure"


def test_json_and_quiet(shell: Shell) -> None:
    done = shell("measure", "census", "-p", "sex", "--half-width", "0.02", "--json", "--quiet")
    assert (done.code, done.error) == (0, "")
    assert json.loads(done.out)["protected"] == ["sex"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--half-width", "0.5"], "'half-width' is 0.5"),
        (["--half-width", "0"], "'half-width' is 0"),
        (["--confidence", "1"], "'confidence' is 1"),
        (["-p", "sexx"], "Did you mean 'sex'?"),
        (["--changes", "13"], "Use 1 to 12 changes"),
        (["--texts", "5"], "--texts is for texts"),
        (["--findings", "/nowhere"], "/nowhere"),
    ],
)
def test_bad_input_is_said_in_words(arguments: list[str], says: str, shell: Shell) -> None:
    done = shell("measure", "census", *(arguments if "-p" in arguments else ["-p", "sex", *arguments]))
    assert done.code == 2
    assert done.error.startswith("error: ")
    assert says in done.error


def test_ctrl_c_keeps_what_is_measured(tmp_path: Path) -> None:
    arguments = ["measure", "census", "-p", "age", "--half-width", "0.00005", "--out", str(tmp_path)]
    process = subprocess.Popen(
        [*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    )
    assert process.stderr is not None
    assert "age, uniform" in process.stderr.readline()
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode == 130
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["stopped"] == "interrupted"
    assert summary["measured"][0]["populations"][0]["note"] == "wider than asked, since it was interrupted"


def test_it_is_exported() -> None:
    assert evenhand.measure is measure
    assert evenhand.Measurement is Measurement
