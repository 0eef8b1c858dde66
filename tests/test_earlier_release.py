"""What the release before wrote can be opened, with the figures it had, and its command lines are still understood."""

import html
import json
import re
import shlex
import shutil
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from fastapi.testclient import TestClient

import evenhand
from evenhand.service.api.app import create_app
from evenhand.service.settings import Settings
from evenhand.service.storage.database import upgrade
from tests.worlds.doc_blocks import parse_command
from tests.worlds.pages import Visitor
from tests.worlds.terminal import evenhand as command
from tests.worlds.terminal import findings_in

RELEASE = Path(__file__).parent / "fixtures" / "release_0_1"
STARTED_IN = "/tmp/release/there"
KILLED = "b0aad804"
PERCENT = re.compile(r"\d+\.\d+%")
PEOPLE = ("people.toml", "-p", "sex", "--model", "people-net.safetensors")
TEXTS = (
    "my.csv", "-p", "religion", "--model", "net.safetensors", "--text", "comment", "--label", "toxic", "--vectors",
    "vec.txt",
)  # fmt: skip
ABOUT = {"table": PEOPLE, "text": TEXTS}
RUNS: list[dict[str, Any]] = json.loads((RELEASE / "runs.json").read_text(encoding="utf-8"))
DONE = [run for run in RUNS if run["state"] == "done"]
both_kinds = pytest.mark.parametrize("kind", ["table", "text"])
every_done_run = pytest.mark.parametrize("run", DONE, ids=[f"{run['kind']}-{run['id'][:8]}" for run in DONE])


@pytest.fixture
def release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the release's files, in which commands run and whose storage they use, upgraded as commands ask."""
    folder = tmp_path / "release"
    shutil.copytree(RELEASE, folder)
    for path in folder.rglob("*.json"):  # they name the data and the model by their paths
        path.write_text(path.read_text(encoding="utf-8").replace(STARTED_IN, str(folder)), encoding="utf-8")
    with sqlite3.connect(folder / "storage" / "evenhand.db") as database:  # runs go on where they were started
        database.execute("update runs set config = replace(config, ?, ?)", (STARTED_IN, str(folder)))
    database.close()
    storage = Settings(home=folder / "storage", database=None).storage()
    upgrade(storage.database)
    storage.close()
    monkeypatch.setenv("EVENHAND_HOME", str(folder / "storage"))
    monkeypatch.setenv("EVENHAND_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(folder)
    return folder


def summary_of(folder: Path) -> dict[str, Any]:
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    assert isinstance(summary, dict)
    return summary


def assert_has_figures_of(new: str, old: str) -> None:
    """Every percentage of the old text stands in the new one, as often."""
    assert PERCENT.findall(old)
    assert not Counter(PERCENT.findall(old)) - Counter(PERCENT.findall(new))


def same_text(page: str) -> str:
    """A page without its styles, whose widths and heights are no figures."""
    return re.sub(r"<style.*?</style>|<svg.*?</svg>|<[^>]*>", " ", page, flags=re.S)


@both_kinds
def test_audits_are_loaded(kind: str, release: Path) -> None:
    folder = release / f"{kind}_audit"
    audit = evenhand.Audit.load(folder)
    assert audit is not None
    assert audit.summary == summary_of(folder)
    pd.testing.assert_frame_equal(audit.findings, pd.read_parquet(folder / "findings.parquet"))
    assert len(audit.findings) == audit.summary["search"]["findings"]["total"] > 0


@both_kinds
def test_reports_are_written_again(kind: str, release: Path) -> None:
    command("report", f"{kind}_audit", "--out", "again.html")
    old = (RELEASE / f"{kind}_audit" / "report.html").read_text(encoding="utf-8")
    assert_has_figures_of(same_text((release / "again.html").read_text(encoding="utf-8")), same_text(old))


@both_kinds
def test_cards_have_the_same_figures(kind: str, release: Path) -> None:
    card = command("card", *(f"{kind}_{what}" for what in ("audit", "measure", "repair")))
    assert_has_figures_of(card, (release / f"card_{kind}.md").read_text(encoding="utf-8"))


@both_kinds
def test_findings_are_looked_at_again(kind: str, release: Path) -> None:
    precision = ("--half-width", "0.02") if kind == "table" else ()
    command("measure", *ABOUT[kind], *precision, "--findings", f"{kind}_audit", "--out", "again")
    old, new = summary_of(release / f"{kind}_measure"), summary_of(release / "again")
    assert new["findings"]["discriminatory"] == old["findings"]["discriminatory"] == old["findings"]["samples"]
    assert _counts(new) == _counts(old)


def _counts(measurement: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """Of each population: how many were discriminatory, of how many."""
    (measured,) = measurement["measured"]
    return {rate["name"]: (rate["discriminatory"], rate["samples"]) for rate in measured["populations"]}


def test_a_repaired_model_of_a_table_is_read(release: Path) -> None:
    model = evenhand.load_repaired(release / "table_repair" / "model.safetensors")
    people = pd.read_csv(release / "people.csv")
    swapped = people.assign(sex=people["sex"].map({"female": "male", "male": "female"}))
    assert (model.predict(people) == model.predict(swapped)).all()
    assert (model.predict(people) == people["approved"]).mean() > 0.8
    command("audit", *PEOPLE[:3], "--model", "table_repair/model.safetensors", "--seeds", "20", "--out", "repaired")
    assert summary_of(release / "repaired")["search"]["findings"]["total"] == 0


def test_a_repaired_model_of_texts_is_read(release: Path) -> None:
    command("measure", *TEXTS, "--model", "text_repair/model.safetensors", "--out", "repaired")
    old = {row["name"]: row for row in summary_of(release / "text_repair")["rows"]}["pairing"]["uniform"]
    assert _counts(summary_of(release / "repaired"))["held_out"] == (old["discriminatory"], old["samples"])


@pytest.mark.usefixtures("release")
def test_stored_runs_are_listed() -> None:
    command("storage", "upgrade")
    names = ("id", "project", "kind", "title", "parent", "state", "result", "error", "attempts", "place", "created")
    listed = json.loads(command("runs", "list", "--json"))
    said, expected = ([{name: run[name] for name in names} for run in runs] for runs in (listed, RUNS))
    assert said == expected
    assert "all is well" in command("storage", "check")


@every_done_run
def test_stored_runs_are_shown(run: dict[str, Any], release: Path) -> None:
    shown = json.loads(command("runs", "show", run["id"], "--json"))
    assert (shown["result"], shown["state"]) == (run["result"], "done")
    assert set(shown["files"]) >= {"summary.json"}
    assert run["title"].split(":")[0] in " ".join(command("runs", "show", run["id"][:8]).split())
    assert "evenhand" in command("card", run["id"][:8])
    if run["kind"] == "audit" and run["place"] == "terminal":
        command("report", run["id"][:8], "--out", "report.html")
        assert f"{run['result']['findings']:,}" in same_text((release / "report.html").read_text(encoding="utf-8"))


def test_an_audit_that_was_killed_is_resumed(release: Path) -> None:
    resumed = json.loads(command("runs", "resume", KILLED, "--json"))
    command("audit", "people.toml", "-p", "age", "--within", "age=10", "--model", "people-net.safetensors", "--seeds",
            "60", "--steps", "400", "--out", "whole")  # fmt: skip
    assert findings_in(resumed["folder"]) == findings_in(release / "whole")
    assert resumed["search"]["findings"] == summary_of(release / "whole")["search"]["findings"]


def test_the_service_shows_stored_runs(release: Path) -> None:
    service = Settings(home=release / "storage", database=None).open()
    with TestClient(create_app(service), base_url="http://127.0.0.1:8321") as client:
        visitor = Visitor(client)
        visitor.see("/")
        for run in RUNS:
            assert html.escape(run["title"]) in visitor.see(f"/runs/{run['id']}")
            if run["kind"] == "audit" and run["state"] == "done":
                visitor.see(f"/runs/{run['id']}/findings")
                found = client.get(f"/api/v1/runs/{run['id']}/findings").json()
                assert found["total"] == run["result"]["findings"]
    service.close()


def test_every_command_line_is_understood() -> None:
    refused = {}
    for line in (RELEASE / "commands.txt").read_text(encoding="utf-8").splitlines():
        try:
            parse_command(shlex.split(line))
        except Exception as error:  # whichever class of click's, bundled or not
            refused[line] = str(error)
    assert not refused


@pytest.mark.parametrize(
    ("earlier", "now"),
    [
        ("TextAudit", "Audit"),
        ("audit_text", "audit"),
        ("measure_table", "measure"),
        ("measure_text", "measure"),
        ("repair_table", "repair"),
        ("repair_text", "repair"),
    ],
)
def test_names_of_python_still_work(earlier: str, now: str) -> None:
    assert getattr(evenhand, earlier) is getattr(evenhand, now)
