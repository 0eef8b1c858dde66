"""A run that was not tested has no rate anywhere, and one with a warning says it first in every output."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import evenhand
from evenhand.cli.measure import tell as tell_measure
from evenhand.cli.repair import tell as tell_repair
from evenhand.cli.runs import _state
from evenhand.cli.tasks import TaskResult
from evenhand.report.card import card_run, render_section
from evenhand.report.card_file import new_card, updated_card
from evenhand.report.sentences import headline, is_not_tested, measured_parts, unread_text, within_words
from evenhand.runs.mlflow_log import metrics_of, tags_of
from evenhand.service.jobs import figures_of
from evenhand.service.storage.tables import Run
from evenhand.service.telling import FirstPairs
from tests.worlds.warned import DATA, dropping

pytest_plugins = ["tests.worlds.warned"]
NOT_READ = "The model does not read sex; this test cannot find anything."
LEFT_OUT = "The model does not read noise, which this test leaves out."
POOR = "The accuracy of the model on the data is"
WITHIN = "within 10 of their own age"


def page_of(result: Any) -> str:
    return str((result.folder / "report.html").read_text())


def test_an_audit_says_whether_it_tested(warned: dict[str, Any]) -> None:
    assert warned["not tested"].summary["status"] == "not tested"
    assert [warned[name].summary["status"] for name in ("partly", "poor")] == ["tested", "tested"]
    assert is_not_tested(warned["not measured"].summary)
    assert warned["not measured"].summary["status"] == "not tested"
    without = {name: value for name, value in warned["not measured"].summary.items() if name != "status"}
    assert is_not_tested(without)  # as an earlier version wrote it
    assert not is_not_tested(warned["partly measured"].summary)
    assert [part["protected"] for part in measured_parts(warned["partly measured"].summary)] == [["sex"]]


def test_what_python_shows_begins_with_the_warning(warned: dict[str, Any]) -> None:
    begins = {
        "not tested": "<evenhand audit: loans, not tested: " + NOT_READ,
        "not measured": "<evenhand measurement: Warning: " + NOT_READ,
        "partly": "<evenhand audit: Warning: " + LEFT_OUT,
        "partly measured": "<evenhand measurement: Warning: " + LEFT_OUT,
        "partly repaired": "<evenhand repair: Warning: " + LEFT_OUT,
        "poor": "<evenhand audit: Warning: " + POOR,
    }
    for name, words in begins.items():
        assert repr(warned[name]).startswith(words), repr(warned[name])
    assert "%;" not in repr(warned["not measured"])  # no rate
    assert "\n  not tested>" in repr(warned["not measured"])
    assert "sex, held_out: " in repr(warned["partly measured"])


def test_a_notebook_shows_the_warning_first_and_no_rate_of_what_was_not_tested(warned: dict[str, Any]) -> None:
    for name in ("not tested", "not measured", "partly", "partly measured", "partly repaired", "poor"):
        shown = re.sub("<style>.*?</style>", "", warned[name]._repr_html_(), flags=re.DOTALL)
        text = " ".join(re.sub("<[^>]+>", " ", shown).split())
        first = warned[name].summary["warnings"][0].replace("'", "&#39;")
        assert text.find(first) in range(40), text[:200]
    for name in ("not tested", "not measured"):
        assert "rates, with intervals" not in warned[name]._repr_html_()


def test_no_figures_of_what_was_not_tested_go_to_mlflow_but_the_differences_between_groups(
    warned: dict[str, Any],
) -> None:
    for name in ("not tested", "not measured"):
        summary = warned[name].summary
        figures = metrics_of(summary)
        assert not [figure for figure in figures if "rate" in figure or figure in ("findings", "generated")]
        [groups] = summary["groups"]
        assert figures["groups.sex.demographic_parity_difference"] == groups["demographic_parity_difference"] > 0.01
        assert tags_of(summary) == {"evenhand.status": "not tested", "evenhand.warnings": summary["warnings"][0]}
        assert NOT_READ in tags_of(summary)["evenhand.warnings"]
    assert tags_of(warned["poor"].summary)["evenhand.warnings"].startswith(POOR)
    assert metrics_of(warned["partly"].summary)["data_rate.all"] > 0
    assert tags_of(warned["within"].summary) == {"evenhand.status": "tested"}


@pytest.mark.parametrize("name", ["not tested", "not measured"])
def test_a_card_has_no_rate_of_what_was_not_tested(warned: dict[str, Any], name: str) -> None:
    run = card_run(warned[name].summary)
    section = render_section([run], "1")
    card = new_card(section, [run], "loans", None)
    again = updated_card(card, section, [run], None, None)
    assert again == card
    [model] = yaml.safe_load(card.split("---")[1])["model-index"]
    assert [result["metrics"] for result in model["results"]] == [[]]
    assert "### Not tested: changing sex" in section
    assert NOT_READ in section
    assert "0.00%" not in section


def test_what_lists_and_the_api_show_has_no_rate_of_what_was_not_tested(warned: dict[str, Any]) -> None:
    audit = figures_of("audit", warned["not tested"].summary)
    measured = figures_of("measure", warned["not measured"].summary)
    assert (audit["status"], measured["status"], measured["rates"]) == ("not tested", "not tested", [])
    assert not {"data_rate", "findings", "generated", "success_rate"} & set(audit)
    assert all(NOT_READ in figures["headline"] for figures in (audit, measured))
    assert figures_of("audit", warned["poor"].summary)["status"] == "tested"
    states = [_state(Run(state="done", result=figures)) for figures in (audit, measured)]
    assert states == ["done, not tested", "done, not tested"]
    assert _state(Run(state="done", result=figures_of("audit", warned["poor"].summary))) == "done, warned"
    assert _state(Run(state="done", result=figures_of("audit", warned["within"].summary))) == "done"


def test_a_measurement_prints_what_the_model_reads(warned: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    tell_measure(TaskResult(None, None, warned["partly measured"].summary), quiet=False, as_json=False)
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith(f"Warning: {LEFT_OUT}")
    assert "loans: who would get another decision" in said
    for words in ("does not read noise", "reads columns by name", "accuracy on data 9"):
        assert words in said
    assert said.index("accuracy on data") < said.index("rate of discriminatory samples, changing sex")


def test_a_repair_prints_its_warnings_first(warned: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    repair = warned["partly repaired"]
    tell_repair(TaskResult(None, repair.folder, repair.summary), quiet=False, as_json=False)
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith(f"Warning: {LEFT_OUT}")
    assert "Held-out people who would get another decision (held-out rows of loans): " in said


def test_pairs_leave_out_what_the_model_does_not_read(warned: dict[str, Any]) -> None:
    examples = warned["partly repaired"].summary["examples"]["now_alike_examples"]
    assert examples
    assert not [example for example in examples if "noise" in example["person"]]
    assert all("income" in example["person"] for example in examples)


def test_first_pairs_differ_in_what_was_changed_and_leave_out_what_is_not_read(tmp_path: Path) -> None:
    """The protected attribute that the model does not read comes first in the schema's order of what was asked for."""
    told: list[dict[str, Any]] = []
    pairs = FirstPairs(lambda event, **words: told.append(words))
    model = dropping(["age", "sex", "income"])
    evenhand.audit(
        DATA,
        ["region", "sex"],
        model=model,
        on_pairs=pairs,
        out=tmp_path,
        seeds=20,
        steps=5,
    )
    assert told
    for pair in told:
        assert "noise" not in pair["description"]
        for side in pair["sides"]:
            assert [value for value, _ in side["protected"]] in (["sex 1"], ["sex 2"])
        assert all(differs for side in pair["sides"] for _, differs in side["protected"])


def test_the_report_of_what_was_not_tested_is_short(warned: dict[str, Any]) -> None:
    page = page_of(warned["not tested"])
    assert page.index("<h1>Not tested for sex") < page.index(NOT_READ) < page.index("Groups by sex")
    for words in ("<dt>Method", "<dt>Budget", "<dt>Found in", "<h3>Method", "samples tried", "0.00%"):
        assert words not in page, words
    assert "<small>(" in page.partition("Groups by sex")[2]
    assert "sex and noise (its file or object names what it reads" in page
    assert unread_text({"a": "x", "b": "y", "c": "x"}) == "a and c (x); b (y)"


def test_the_groups_of_what_is_left_out_are_in_the_report(warned: dict[str, Any]) -> None:
    page = page_of(warned["partly"])
    assert page.index("findings when sex changes") < page.index(LEFT_OUT) < page.index("People affected")
    assert "Groups by noise" in page
    assert 'href="#groups"' in page


def test_people_are_said_to_be_checked_as_they_stand(warned: dict[str, Any]) -> None:
    page = page_of(warned["partly"])
    assert "People of the data are checked as they stand in the table. Generated samples have the values" in page
    assert "income in steps of 0.5" in page
    limits = card_run(warned["partly"].summary).limits
    assert any("People of the data are checked as they stand in the table." in limit for limit in limits)


def test_a_limited_figure_says_so_and_stands_beside_the_other(warned: dict[str, Any]) -> None:
    summary, page = warned["within"].summary, page_of(warned["within"])
    limited, everywhere = (f"{summary['data_rate'][name]['rate']:.2%}" for name in ("all", "all_values"))
    assert limited != everywhere
    head = " ".join(page.partition("<main>")[0].split())
    assert f"when age changes {WITHIN}: loans</h1>" in head
    assert re.search(rf"\({limited}; 95% interval .*? when nothing but age is changed, {WITHIN}\.", head)
    assert re.search(rf"Compared with all values, it is [\d,]+ of [\d,]+ \({everywhere};", head)
    assert f"<dt>People affected {WITHIN}</dt><dd>{limited}" in head
    assert f"all values: {everywhere}" in head
    assert f"changing age {WITHIN}: " in headline(summary)
    assert ("Protected, changed", f"age, {WITHIN}") in card_run(summary).facts


def test_a_limited_repair_says_so(warned: dict[str, Any]) -> None:
    summary, page = warned["within repaired"].summary, page_of(warned["within repaired"])
    assert within_words(summary) == WITHIN
    assert f"for whom another protected value {WITHIN} changes the decision" in page
    assert f"(held-out rows of loans, compared {WITHIN}): " in page
    assert f"equally likely, compared {WITHIN}: " in page
    assert within_words(warned["partly repaired"].summary) == ""


def test_of_very_many_attributes_only_some_are_named() -> None:
    many = {f"flag {number}": "nobody reads it" for number in range(200)}
    words = unread_text(many | {"noise": "its file says so"})
    assert words.startswith("flag 0, flag 1, ")
    assert words.endswith("flag 13 and 186 more (nobody reads it); noise (its file says so)")
