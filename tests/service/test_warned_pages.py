"""Pages of runs that were not tested or have a warning, and the settings that a form carries on."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evenhand.service.api.runs import compare
from evenhand.service.api.table_tasks import check
from evenhand.service.pages.words import on_the_form
from evenhand.service.settings import Service
from evenhand.service.storage.tables import Run
from tests.worlds.pages import Visitor, changed, finish, sound
from tests.worlds.service import SMALL_AUDIT

pytest_plugins = ["tests.worlds.service", "tests.worlds.pages", "tests.worlds.warned"]
NOT_READ = "The model does not read sex; this test cannot find anything."
LEFT_OUT = "The model does not read noise, which this test leaves out."
WITHIN = "within 10 of their own age"


@pytest.fixture
def done(sqlite_service: Service, warned: dict[str, Any]) -> Callable[[str], Run]:
    """Makes runs of the service from results, by their names."""

    def made(name: str) -> Run:
        kind = "measure" if "measured" in name else "repair" if "repaired" in name else "audit"
        return finish(sqlite_service, warned[name].folder, kind, name)

    return made


def test_an_audit_that_tested_nothing_has_no_figures(visitor: Visitor, done: Callable[[str], Run]) -> None:
    text = visitor.see(f"/runs/{done('not tested').id}")
    assert text.index("<strong>Not tested.</strong> " + NOT_READ) < text.index("did not test anything")
    assert "Groups by sex" in text
    for words in ("0.00%", "People in the data affected", "0 <small>of 0", "How findings grew", "whole budget"):
        assert words not in text, words
    assert "/measure" not in text
    listed = visitor.see("/runs")
    assert "not tested: the model does not read sex" in listed
    assert "0 findings" not in listed


def test_a_measurement_that_tested_nothing_has_no_rates(visitor: Visitor, done: Callable[[str], Run]) -> None:
    run = done("not measured")
    text = visitor.see(f"/runs/{run.id}")
    assert "This measurement did not test anything" in text
    assert "Nothing was measured before" not in text
    assert "0.00%" not in text
    assert visitor.client.get(f"/runs/{run.id}/rates.json?at=0").json()["groups"] == []
    assert visitor.client.get(f"/api/v1/runs/{run.id}").json()["result"]["status"] == "not tested"


def test_a_comparison_says_what_was_not_tested(visitor: Visitor, done: Callable[[str], Run]) -> None:
    one, other = done("not tested"), done("partly")
    text = visitor.see(f"/compare?a={one.id}&b={other.id}")
    assert "there is nothing to compare" in text
    assert text.index(NOT_READ) < text.index("Side by side")
    assert text.index(LEFT_OUT) < text.index("Side by side")
    assert re.search(r"People in the data affected</th><td>not tested</td><td>\d+\.\d\d%</td>", text)
    assert "/compare.json" not in text
    assert len(visitor.client.get(f"/compare.json?a={one.id}&b={other.id}").json()["groups"]) == 1
    rates = [figure for figure in compare(one, other, whole=True).figures if figure.name == "data_rate.rate"]
    assert [(figure.a, figure.change) for figure in rates] == [(None, None)]


def test_a_warning_stands_first_wherever_the_run_is_shown(visitor: Visitor, done: Callable[[str], Run]) -> None:
    run = done("partly")
    for page in ("", "/findings", "/measure", "/repair"):
        text = visitor.see(f"/runs/{run.id}{page}")
        assert f"<strong>Warning.</strong> {LEFT_OUT}" in text, page
        first = text.index("<strong>Warning.")
        assert all(first < text.index(tag, text.index("</h1>")) for tag in ("<form", "<dl") if tag in text), page
    assert "; with a warning" in visitor.see("/runs")
    assert "noise" not in text_of_cards(visitor.see(f"/runs/{run.id}/findings"))


def text_of_cards(page: str) -> str:
    cards = page.partition('<ol class="cards"')[2].partition("</ol>")[0]
    assert "income" in cards
    return cards


def test_a_limited_audit_says_so_with_both_figures(
    visitor: Visitor, done: Callable[[str], Run], warned: dict[str, Any]
) -> None:
    rates = warned["within"].summary["data_rate"]
    text = visitor.see(f"/runs/{done('within').id}")
    assert f"differ only in age, {WITHIN}, and the model" in text
    assert f"affected {WITHIN}</dt><dd>{rates['all']['rate']:.2%}" in text
    assert f"all values: {rates['all_values']['rate']:.2%}" in text
    assert "Rows of the data as they stand in the table" in text
    assert "rounded to its steps" not in text


def test_an_error_names_the_field_of_the_form(visitor: Visitor, sqlite_service: Service) -> None:
    error = "It is poor. To go on all the same: --accept-poor-model (in Python accept_poor_model=True)."
    run = sqlite_service.runs.create("default", "audit", "poor", SMALL_AUDIT)
    changed(sqlite_service, run.id, state="failed", error=error)
    text = visitor.see(f"/runs/{run.id}")
    assert "To go on all the same: tick “Continue with a poor model” below the model." in text
    assert "--accept-poor-model" not in text
    assert "Continue with a poor model" in visitor.see("/new/model?data=census&protected=sex")
    assert on_the_form("no option at all") == "no option at all"
    asked = "Say how it reads people: --inputs with one of codes, raw (in Python inputs=…)."
    assert on_the_form(asked) == "Say how it reads people: choose it at “What it reads”."


def test_the_message_is_the_one_that_the_form_translates() -> None:
    """The words are those of a real refusal, so that a change there is noticed here."""
    import evenhand
    from evenhand.errors import EvenhandError
    from tests.worlds.warned import DATA, poor

    with pytest.raises(EvenhandError) as refused:
        evenhand.audit(DATA, "sex", model=poor)
    assert "tick “Continue with a poor model”" in on_the_form(str(refused.value))


def test_a_limit_of_a_protected_number_is_asked_for(visitor: Visitor, sqlite_service: Service) -> None:
    form = visitor.see("/new/model?data=census&protected=age&protected=sex")
    assert 'name="within.age"' in form
    assert 'name="within.sex"' not in form
    assert "within." not in visitor.see("/new/model?data=census&protected=sex")
    fields = {"data": "census", "protected": ["age", "sex"], "model": "builtin", "effort": "quick", "output": "auto"}
    wrong = sound(visitor.send("/new/model", fields | {"within.age": "-3"}), 400)
    assert 'id="error-within-0">age: write a number above 0.' in wrong
    assert 'value="-3"' in wrong
    where = visitor.sent("/new/model", fields | {"within.age": "20"})
    assert sqlite_service.runs.get(where.removeprefix("/runs/")).config["within"] == {"age": 20.0}
    assert "20 of their own age" in visitor.see(where)
    none = visitor.sent("/new/model", fields | {"within.age": " "})
    assert sqlite_service.runs.get(none.removeprefix("/runs/")).config["within"] == {}


@pytest.mark.parametrize("task", ["audit", "measure"])
def test_changed_settings_begin_from_all_that_was_asked_for(
    visitor: Visitor, sqlite_service: Service, task: str
) -> None:
    fields = {
        "data": "census", "protected": ["age"], "model": "builtin", "task": task, "effort": "own", "seeds": "33",
        "steps": "44", "minutes": "2.5", "precision": "fine", "inputs": "codes", "output": "logits",
        "threshold": "0.3", "accept_poor_model": "yes", "within.age": "20",
    }  # fmt: skip
    first = sqlite_service.runs.get(visitor.sent("/new/model", fields).removeprefix("/runs/"))
    changed(sqlite_service, first.id, state="failed", error="no")
    [again] = re.findall(r'href="(/new/model[^"]*)">Change the settings', visitor.see(f"/runs/{first.id}"))
    page = visitor.see(again.replace("&amp;", "&"))
    sent = dict(re.findall(r'<input type="(?:number|hidden)"[^>]*? name="([^"]+)"[^>]*? value="([^"]*)"', page))
    sent |= dict(re.findall(r'<input type="(?:radio|checkbox)" name="([^"]+)" value="([^"]+)"[^>]* checked', page))
    for name in ("inputs", "output"):
        chosen = page.partition(f'<select id="{name}"')[2].partition("</select>")[0]
        sent |= {name: re.findall(r'value="([^"]*)" selected', chosen)[0]}
    del sent["csrf"]
    second = sqlite_service.runs.get(visitor.sent("/new/model", sent).removeprefix("/runs/"))
    assert second.config == first.config
    assert second.kind == first.kind


def test_every_rule_of_a_schema_is_a_fact(tmp_path: Path) -> None:
    text = (
        'name = "t"\nfile = "t.csv"\nlabel = { column = "y", values = ["a", "b"] }\n'
        '[[attribute]]\nname = "sex"\nkind = "category"\ncategories = ["f", "m"]\nprotected = true\n'
        '[[attribute]]\nname = "role"\nkind = "category"\ncategories = ["husband", "wife"]\n'
        '[[impossible]]\nsex = "f"\nrole = "husband"\n[[impossible]]\nsex = "m"\nrole = "wife"\n'
    )
    (tmp_path / "t.csv").write_text("sex,role,y\nf,husband,a\nm,wife,b\nm,husband,a\nf,wife,b\n")
    facts = check(tmp_path / "t.csv", text)["facts"]
    assert facts["impossible"].count("1 row") == 2, facts
    assert "husband" in facts["impossible"]
    assert "wife" in facts["impossible"]
