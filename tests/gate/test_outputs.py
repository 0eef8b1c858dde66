"""What a gate writes for other tools: held to their schemas, whatever stands in names and messages."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest
from hypothesis import example, given
from hypothesis import settings as example_settings
from hypothesis import strategies as st
from lxml import etree
from scipy import stats

from evenhand.gate.check import run_check
from evenhand.gate.config import CheckEntry
from evenhand.gate.outcome import Outcome
from evenhand.gate.outputs.annotations import annotations
from evenhand.gate.outputs.junit import junit
from evenhand.gate.outputs.markdown import markdown, plain
from evenhand.gate.outputs.sarif import FINGERPRINT, sarif
from evenhand.gate.run import CheckRun, GateRun
from evenhand.settings import CheckSettings
from tests.worlds.gate import blind, by_sex, loans

SCHEMAS = Path(__file__).parent / "schemas"
JUNIT = etree.XMLSchema(etree.parse(SCHEMAS / "junit-4.xsd"))
SARIF = jsonschema.Draft202012Validator(json.loads((SCHEMAS / "sarif-2.1.0.json").read_text()))


def entry(name: str, line: int, **settings: Any) -> CheckEntry:
    told = CheckSettings(dataset="loans.toml", inputs="codes", accept_poor_model=True, **settings)
    return CheckEntry(name, "loans.toml", told, line)


def warned_outcome(check: CheckEntry, model: Any, sums: list[int]) -> Outcome:
    return run_check(model, loans(sums), name=check.name, failures=None, **check.said)


def outcome_of(check: CheckEntry, model: Any, sums: list[int]) -> Outcome:
    """As if the labels of this world, which are all the same, had borne the model out."""
    return replace(warned_outcome(check, model, sums), warnings=[])


@pytest.fixture(scope="module")
def checks() -> list[CheckRun]:
    """One check of each ending."""
    held, exceeded = entry("held", 3), entry("too much, by sex", 9, protected=["sex"])
    few, broken = entry("few", 15), entry("broken", 20)
    return [
        CheckRun(held, outcome_of(held, blind(), [5] * 400), seconds=0.25),
        CheckRun(exceeded, outcome_of(exceeded, by_sex(), [14] * 30 + [5] * 10)),
        CheckRun(few, outcome_of(few, blind(), [5] * 20)),
        CheckRun(broken, None, "There is no file model.onnx.", "a trace"),
    ]


@pytest.fixture(scope="module")
def gate_run(checks: list[CheckRun]) -> GateRun:
    return GateRun(Path("ci/gate.toml"), datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), checks)


def validate_junit(text: str) -> None:
    JUNIT.assertValid(etree.fromstring(text.encode()))


def test_junit_is_valid_and_says_how_each_check_ended(gate_run: GateRun) -> None:
    text = junit(gate_run)
    validate_junit(text)
    root = ElementTree.fromstring(text)
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("4", "2", "1")
    endings = {case.get("name"): [child.tag for child in case] for case in root.iter("testcase")}
    assert endings == {
        "held": ["system-out"],
        "too much, by sex": ["failure"],
        "few": ["failure"],
        "broken": ["error"],
    }
    failure = next(root.iter("failure"))
    assert failure.get("type") == "exceeded"
    assert "→ female: no" in (failure.text or "")
    facts = {item.get("name"): item.get("value") for item in root.findall("testsuite")[1].iter("property")}
    assert (facts["verdict"], facts["rate"], facts["samples"], facts["protected"]) == ("exceeded", "0.75", "40", "sex")
    assert "a trace" in (next(root.iter("error")).text or "")


def test_sarif_is_valid_and_points_at_the_checks(gate_run: GateRun) -> None:
    log = json.loads(sarif(gate_run))
    SARIF.validate(log)
    (run,) = log["runs"]
    results = run["results"]
    assert [result["ruleId"] for result in results] == ["rate-exceeded", "rate-not-shown", "check-error"]
    rules = run["tool"]["driver"]["rules"]
    assert all(rules[result["ruleIndex"]]["id"] == result["ruleId"] for result in results)
    places = [result["locations"][0]["physicalLocation"] for result in results]
    assert {place["artifactLocation"]["uri"] for place in places} == {"ci/gate.toml"}
    assert [place["region"]["startLine"] for place in places] == [9, 15, 20]
    assert len({result["partialFingerprints"][FINGERPRINT] for result in results}) == 3
    assert run["invocations"][0]["executionSuccessful"] is False


def test_the_schema_of_sarif_refuses_what_is_wrong(gate_run: GateRun) -> None:
    log = json.loads(sarif(gate_run))
    del log["runs"][0]["tool"]["driver"]["name"]
    with pytest.raises(jsonschema.ValidationError):
        SARIF.validate(log)


def test_a_fingerprint_stays_when_the_check_moves_or_its_rate_changes(checks: list[CheckRun]) -> None:
    def prints(run: GateRun) -> list[str]:
        (log,) = json.loads(sarif(run))["runs"]
        return [result["partialFingerprints"][FINGERPRINT] for result in log["results"]]

    now = datetime.now(UTC)
    moved = entry("too much, by sex", 90, protected=["sex"])
    later = CheckRun(moved, outcome_of(moved, by_sex(), [14] * 20 + [5] * 10))
    assert prints(GateRun(Path("gate.toml"), now, [checks[1]])) == prints(GateRun(Path("gate.toml"), now, [later]))


def test_annotations_are_one_line_each(gate_run: GateRun) -> None:
    lines = annotations(gate_run)
    assert [line.split(" ")[0] for line in lines] == ["::error", "::warning", "::error"]
    assert lines[0].startswith(
        "::error file=ci/gate.toml,line=9,title=evenhand%3A too much%2C by sex (exceeded)::EXCEEDED: 75.00%25 of all "
    )
    assert all("\n" not in line for line in lines)
    assert "%0Apair 1  income 7" in lines[0]


def test_markdown_has_a_row_for_each_check_and_the_pairs(gate_run: GateRun) -> None:
    text = markdown(gate_run)
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert rows[1:] == [
        "| held | held | 0.00% | 0.75% | 1% | 400 |",
        f"| too much, by sex | **exceeded** | 75.00% | {stats.beta.ppf(0.95, 31, 10):.2%} | 1% | 40 |",
        "| few | **not shown** | 0.00% | 13.91% | 1% | 20 |",
        "| broken | **error** |  |  | 1% |  |",
    ]
    assert "- female: no (score for ‘yes’ 37.8%)" in text
    assert "Some checks could not be made." in text


def test_the_sentence_of_the_summary_tells_held_from_not_shown(checks: list[CheckRun]) -> None:
    def sentence(*some: CheckRun) -> str:
        return markdown(GateRun(Path("gate.toml"), datetime.now(UTC), list(some))).splitlines()[2]

    held, exceeded, few, broken = checks
    let_pass = entry("few", 15, undecided="pass")
    passed = CheckRun(let_pass, outcome_of(let_pass, blind(), [5] * 20))
    assert sentence(held) == "All checks held."
    assert sentence(held, passed) == "1 of 2 checks could not be shown to hold, which is let pass; none is exceeded."
    assert sentence(held, few) == "1 of 2 checks could not be shown to hold; none is exceeded."
    assert sentence(held, few, exceeded) == "Some checks did not hold."
    assert sentence(exceeded, broken) == "Some checks could not be made."


def test_a_check_that_held_with_a_warning_says_so_in_every_output() -> None:
    held = entry("held", 3)
    check = CheckRun(held, warned_outcome(held, blind(), [5] * 400))
    run = GateRun(Path("gate.toml"), datetime.now(UTC), [check])
    assert check.passed
    assert run.exit_code == 0
    (result,) = json.loads(sarif(run))["runs"][0]["results"]
    SARIF.validate(json.loads(sarif(run)))
    assert (result["ruleId"], result["level"]) == ("model-warned", "warning")
    assert result["message"]["text"].startswith("held: HELD, with a warning: All rows have the same decision")
    (line,) = annotations(run)
    assert line.startswith("::warning file=gate.toml,line=3,title=evenhand%3A held (held)::HELD, with a warning: All")
    text = markdown(run)
    assert "All checks held, some of them with a warning about the model" in text
    assert "| held | **held, with a warning** |" in text
    validate_junit(junit(run))
    facts = {each.get("name"): each.get("value") for each in ElementTree.fromstring(junit(run)).iter("property")}
    assert str(facts["warnings"]).startswith("All rows have the same decision")


@pytest.mark.parametrize("write", [junit, sarif, markdown])
def test_the_same_run_is_written_the_same(gate_run: GateRun, write: Callable[[GateRun], str]) -> None:
    assert write(gate_run) == write(gate_run)


@example_settings(max_examples=50)
@given(st.text(min_size=1), st.text())
@example("a\r\nb, c: d%", "e\r\n\x00%0A")
def test_any_name_and_any_error_keep_to_the_formats(name: str, error: str) -> None:
    run = GateRun(Path("gate.toml"), datetime.now(UTC), [CheckRun(entry(name, 1), None, error)])
    text = junit(run)
    text.encode()
    validate_junit(text)
    SARIF.validate(json.loads(sarif(run)))
    (line,) = annotations(run)
    assert "\n" not in line
    assert "\r" not in line
    row = markdown(run).splitlines()[6]
    assert row.replace("\\|", "").count("|") == 7


def test_markdown_shows_marks_as_they_are() -> None:
    assert plain("a|b *c* <d> $e$ `f`\ng") == r"a\|b \*c\* \<d\> \$e\$ \`f\` g"
