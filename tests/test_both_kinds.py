"""What can be done with a table can be done with texts: every feature, on both kinds of data.

A row of this table is a function of a `Kind`; each is run on a table with its network and on texts with theirs.
"""

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import evenhand
from evenhand.choices import Domain
from evenhand.errors import EvenhandError
from evenhand.runs.checkpoints import Checkpoints, News
from evenhand.service.findings import Filters, FindingsIndex
from evenhand.settings import repeat_of
from tests.worlds.commands import Shell
from tests.worlds.text_files import write_user_files

pytest_plugins = ["tests.worlds.commands"]
pytestmark = pytest.mark.usefixtures("own_cache")


@dataclass(frozen=True)
class Kind:
    """A table or a corpus, an attribute that its model discriminates by, and what makes each task small."""

    domain: Domain
    data: str
    protected: str
    settings: dict[str, Any]  # of every task
    audit: dict[str, Any]
    measure: dict[str, Any]
    repair: dict[str, Any]
    compare: dict[str, Any]

    def options(self, task: str) -> list[str]:
        """The settings of a task as options of its command."""
        given = self.settings | getattr(self, task)
        return [word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", str(value))]


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> dict[Domain, Kind]:
    files = write_user_files(tmp_path_factory.mktemp("mine"))
    texts = {name: value for name, value in files.options.items() if name != "encoder"}
    small = {"seeds": 12, "iterations": 3, "steps": 6}
    few = {"seeds": 10, "steps": 4}
    return {
        "table": Kind(
            "table", "credit", "sex", {}, small, {"half_width": 0.05},
            {"by": "average", "half_width": 0.05, **few}, {"methods": "adf", "budget": "seeds=5,steps=3"},
        ),
        "text": Kind(
            "text", files.data, "religion", texts, {"encoder": "none", **small}, {"texts": 200},
            {"by": "average", "texts": 20, "mentioning": 20, **few},
            {"methods": "boundary,random", "budget": "seeds=5,steps=3"},
        ),
    }  # fmt: skip


@pytest.fixture(params=["table", "text"])
def kind(request: pytest.FixtureRequest, kinds: dict[Domain, Kind]) -> Kind:
    return kinds[request.param]


def audited(kind: Kind, **more: Any) -> evenhand.Audit:
    return evenhand.audit(kind.data, kind.protected, **kind.settings, **kind.audit, **more)


def test_an_audit_has_findings_rates_and_a_report_that_can_be_written_again(kind: Kind, tmp_path: Path) -> None:
    found = audited(kind, out=tmp_path / "audit")
    summary = found.summary
    assert (summary["domain"], summary["status"], summary["protected"]) == (kind.domain, "tested", [kind.protected])
    assert len(found.findings) == summary["search"]["findings"]["total"] > 0
    assert all(0 <= rate["rate"] <= 1 and rate["samples"] > 0 for rate in summary["data_rate"].values())
    again = evenhand.Audit.load(tmp_path / "audit")
    assert again.summary == summary
    assert again.report(tmp_path / "again.html").read_text() == (tmp_path / "audit" / "report.html").read_text()
    assert repr(found).startswith("<evenhand audit: ")
    assert "<table" in found._repr_html_()


def test_the_command_of_a_report_does_the_same_again(kind: Kind, tmp_path: Path, shell: Shell) -> None:
    found = audited(kind, out=tmp_path / "first")
    words = shlex.split(repeat_of(found.summary))
    assert shell(*words[1:], "--out", str(tmp_path / "second"), "--quiet") == (0, "", "")
    first, second = ((tmp_path / name / "findings.parquet").read_bytes() for name in ("first", "second"))
    assert first == second


class Killed(Exception):  # noqa: N818 - it stands for the end of a process
    """The process of an audit ends, without a word."""


@pytest.mark.parametrize("saved", [1, 3])
def test_a_killed_audit_goes_on_from_its_checkpoint(kind: Kind, saved: int, tmp_path: Path) -> None:
    """The file of findings is that of an audit in one piece, byte for byte."""
    news: list[News] = []

    def on_news(one: News) -> None:
        news.append(one)
        if [entry.kind for entry in news].count("saved") == saved:
            raise Killed

    whole = audited(kind)
    with pytest.raises(Killed):
        audited(kind, checkpoints=Checkpoints(tmp_path / "kept", 0.0, on_news), out=tmp_path / "audit")
    heard: list[News] = []
    rest = audited(kind, checkpoints=Checkpoints(tmp_path / "kept", 0.0, heard.append), out=tmp_path / "audit")
    assert heard[0].kind == "resumed"
    assert rest.summary["search"]["taken_up"] == 1
    files = [(audit.folder / "findings.parquet").read_bytes() for audit in (whole, rest)]
    assert files[0] == files[1]
    assert rest.summary["examples"] == whole.summary["examples"]


def test_a_checkpoint_of_other_settings_is_refused(kind: Kind, tmp_path: Path) -> None:
    def stop(one: News) -> None:
        if one.kind == "saved":
            raise Killed

    with pytest.raises(Killed):
        audited(kind, checkpoints=Checkpoints(tmp_path / "kept", 0.0, stop))
    heard: list[News] = []
    audited(kind, seed=1, checkpoints=Checkpoints(tmp_path / "kept", 0.0, heard.append))
    assert heard[0].kind == "refused"
    assert "of another search (other settings)" in heard[0].text


def test_pairs_are_said_in_words_as_they_are_found(kind: Kind) -> None:
    said: list[dict[str, Any]] = []
    found = audited(kind, on_pairs=lambda findings, words: said.extend(words(row) for row in range(len(findings))))
    assert len(said) == len(found.findings)
    for pair in said:
        one, other = pair["sides"]
        assert one["label"] != other["label"]


def test_a_measurement_has_rates_directions_and_earlier_findings(kind: Kind, tmp_path: Path) -> None:
    found = audited(kind, out=tmp_path / "audit")
    measured = evenhand.measure(
        kind.data, kind.protected, findings=tmp_path / "audit", **kind.settings, **kind.measure
    ).summary
    assert (measured["domain"], measured["stopped"]) == (kind.domain, "completed")
    [part] = measured["measured"]
    assert part["protected"] == [kind.protected]
    assert all(rate["interval"][0] <= rate["rate"] <= rate["interval"][1] for rate in part["populations"])
    assert measured["findings"]["discriminatory"] == measured["findings"]["samples"] == len(found.findings)


def test_a_repair_by_construction_leaves_nothing_to_find(kind: Kind, tmp_path: Path) -> None:
    repaired = evenhand.repair(kind.data, kind.protected, **kind.settings, **kind.repair, out=tmp_path / "repair")
    assert repaired.summary["chosen"] == "average"
    rows = {row["name"]: row for row in repaired.summary["rows"]}
    assert rows["average"]["uniform"]["discriminatory"] == 0
    assert rows["original"]["uniform"]["discriminatory"] > 0
    model = str(tmp_path / "repair" / "model.safetensors")
    again = audited(Kind(**vars(kind) | {"settings": kind.settings | {"model": model}}))
    assert again.summary["search"]["findings"]["total"] == 0
    assert "<table" in repaired._repr_html_()


def test_methods_are_compared_under_the_same_counters(kind: Kind, tmp_path: Path) -> None:
    found = evenhand.compare(kind.data, kind.protected, **kind.settings, **kind.compare, out=tmp_path)
    wanted = kind.compare["methods"].split(",")
    assert [outcome.method for outcome in found.outcomes][-len(wanted) :] == wanted
    assert all(outcome.findings == outcome.global_findings + outcome.local_findings for outcome in found.outcomes)
    written = json.loads((tmp_path / "comparison.json").read_text())
    assert (written["domain"], written["seeds"]) == (kind.domain, 5)
    assert found.title in (tmp_path / "comparison.md").read_text()


def test_a_check_fails_and_keeps_the_pairs_that_it_shows(kind: Kind, tmp_path: Path) -> None:
    """What a test and a gate say of a limit that the model does not keep to; next time the pairs come first."""
    settings = {name: value for name, value in kind.settings.items() if name != "model"}
    given = settings | {"max_rate": 0.0, "failures": tmp_path / "failures", "search": False, "name": "limit"}
    for _ in range(2):
        with pytest.raises(evenhand.DiscriminationFound) as caught:
            evenhand.assert_fair(kind.settings.get("model"), kind.data, kind.protected, **given)
        outcome = caught.value.outcome
        assert outcome.verdict == "exceeded"
        assert len(outcome.pairs) > 0
    assert outcome.replayed.stored == outcome.replayed.still > 0


def test_a_card_says_what_was_tested(kind: Kind, tmp_path: Path, shell: Shell) -> None:
    audited(kind, out=tmp_path / "audit")
    code, card, errors = shell("card", str(tmp_path / "audit"), "--with-people")
    assert (code, errors) == (0, "")
    assert kind.protected in card
    assert "evenhand audit " in card


def test_findings_are_browsed(kind: Kind, tmp_path: Path) -> None:
    """Filtered and ordered by the service's pages; counted again by pandas."""
    found = audited(kind, out=tmp_path / "audit")
    frame: pd.DataFrame = found.findings
    browsed = FindingsIndex.open(tmp_path / "audit" / "findings.parquet")
    assert (browsed.rows, browsed.texts) == (len(frame), kind.domain == "text")
    page = browsed.page(Filters(phase="local"), sort="gap", limit=5)
    assert page.total == (frame["phase"] == "local").sum()


def test_the_commands_keep_their_runs_and_show_them(kind: Kind, shell: Shell) -> None:
    for task in ("audit", "measure", "repair"):
        code, out, errors = shell(task, kind.data, "-p", kind.protected, *kind.options(task), "--json", "--quiet")
        assert (code, errors) == (0, "")
        run = json.loads(out)["run"]
        shown = json.loads(shell("runs", "show", run, "--json")[1])
        assert (shown["kind"], shown["state"]) == (task, "done")
        assert run in [listed["id"] for listed in json.loads(shell("runs", "list", "--json")[1])]


def test_the_comparison_has_a_command(kind: Kind, shell: Shell, tmp_path: Path) -> None:
    words = ["compare", kind.data, "-p", kind.protected, *kind.options("compare"), "--out", str(tmp_path / "c")]
    code, out, _ = shell(*words)
    assert code == 0
    assert "Findings and work" in out


def test_the_same_mistake_gets_the_same_answer(kind: Kind) -> None:
    with pytest.raises(EvenhandError, match="The setting 'seeds' is 0: it must be greater than or equal to 1"):
        audited(Kind(**vars(kind) | {"audit": kind.audit | {"seeds": 0}}))
    with pytest.raises(EvenhandError, match=f"Did you mean '{kind.protected}'"):
        evenhand.audit(kind.data, f"{kind.protected}x", **kind.settings)
