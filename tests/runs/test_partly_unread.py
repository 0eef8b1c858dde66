"""Where a model reads some of the protected attributes: the others are not tested, and nothing passes for them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import evenhand
from evenhand.gate.check import run_check
from evenhand.gate.config import GateFile
from evenhand.gate.outcome import Outcome
from evenhand.gate.outputs.annotations import annotations
from evenhand.gate.outputs.junit import junit
from evenhand.gate.outputs.markdown import markdown
from evenhand.gate.outputs.sarif import sarif
from evenhand.gate.run import run_gate
from evenhand.gate.words import message
from evenhand.models.unread import unread_attributes
from evenhand.runs import tried_model as subject_module
from evenhand.runs.compare import compare
from evenhand.runs.measure_tables import tables_of
from tests.models.test_unread import dropping, without_sex
from tests.worlds.verdict import NAMES, files_in, loans, raw_loans

FRAME, DATA = raw_loans(), loans()
MODEL = dropping(["age", "sex", "income", "region"])  # it reads no noise
LEFT_OUT = "The model does not read noise, which this test leaves out. Differences between groups: by noise, ‘yes’"


def checked(protected: list[str], model: Any = MODEL, **settings: Any) -> Outcome:
    return run_check(model, DATA, protected, failures=None, **settings)


def true_rate() -> float:
    """Who gets another label with the other sex, by the bare model."""
    labels = [MODEL.predict(FRAME[NAMES].assign(sex=sex)) for sex in (1, 2)]
    return float((labels[0] != labels[1]).mean())


def largest_difference(name: str) -> float:
    """Between the shares of the attribute's groups that get a yes, among held-out rows."""
    rows = FRAME.assign(said=MODEL.predict(FRAME[NAMES]))[~DATA.train]
    selected = (rows["said"] == "yes").groupby(rows[name]).mean()
    return float(selected.max() - selected.min())


def test_a_gate_does_not_pass_for_an_attribute_that_was_not_tested() -> None:
    alone, both = checked(["sex"], max_rate=0.9), checked(["sex", "noise"], max_rate=0.9)
    assert (alone.verdict, alone.passed) == ("held", True)
    assert (both.verdict, both.passed, both.of_tested) == ("not tested", False, "held")
    assert both.rate == alone.rate
    assert both.rate is not None
    assert both.rate.share == pytest.approx(true_rate())
    assert (both.protected, both.untested) == (["sex"], ["noise"])
    said = message(both)
    assert said.startswith(f"NOT TESTED: {LEFT_OUT}")
    assert "At most 90% is allowed." in said
    assert "and noise was not: to check sex alone, name only that" in said
    assert 'protected = ["sex"]' in said
    assert not both.pairs


def test_what_is_tested_and_exceeds_is_exceeded() -> None:
    outcome = checked(["noise", "sex"], max_rate=0.001)
    assert true_rate() > 0.02
    assert (outcome.verdict, outcome.passed) == ("exceeded", False)
    assert f"EXCEEDED, with a warning: {LEFT_OUT}" in message(outcome)
    assert outcome.pairs


def test_undecided_is_not_tested_either_and_never_passes() -> None:
    rate = round(true_rate(), 4)
    outcome = checked(["sex", "noise"], max_rate=rate, undecided="pass")
    assert (outcome.verdict, outcome.of_tested, outcome.passed) == ("not tested", "not shown", False)
    assert f"do not show whether it is at most the {100 * rate:.6g}%" in message(outcome)
    assert checked(["sex"], max_rate=rate, undecided="pass").passed
    nothing = checked(["sex", "noise"], without_sex_but(), max_rate=0, search=False)
    assert (nothing.verdict, nothing.of_tested) == ("not tested", "held")
    assert "nor any" not in message(nothing)
    assert "None of all" in message(nothing)


def without_sex_but() -> Any:
    """Reads the sex in its scores and decides by it never."""
    model = without_sex()

    def score(frame: pd.DataFrame) -> Any:
        yes = model.predict_proba(frame[[name for name in NAMES if name != "sex"]].assign(noise=0))[:, 1]
        return np.where(yes > 0.5, 0.9, 0.1) + 0.01 * (frame["sex"] == 2)

    return score


def test_every_file_of_a_gate_says_it(tmp_path: Path) -> None:
    import skops.io

    files_in(tmp_path)
    skops.io.dump(MODEL, tmp_path / "model.skops")
    (tmp_path / "gate.toml").write_text(
        '[[check]]\nname = "both"\ndata = "loans.toml"\nmodel = "model.skops"\nmax_rate = 0.9\n'
        'protected = ["sex", "noise"]\nundecided = "pass"\n'
    )
    run = run_gate(GateFile.load(tmp_path / "gate.toml"))
    assert (run.checks[0].status, run.exit_code) == ("not tested", 1)
    assert '<failure type="not tested"' in junit(run)
    assert '<property name="untested" value="noise" />' in junit(run)
    assert json.loads(sarif(run))["runs"][0]["results"][0]["ruleId"] == "not-tested"
    assert "**not tested**" in markdown(run)
    assert annotations(run)[0].startswith("::error")
    assert run.as_dict()["checks"][0]["untested"] == ["noise"]


def test_every_command_has_the_differences_between_groups() -> None:
    audit = evenhand.audit(DATA, ["sex", "noise"], model=MODEL, seeds=10, steps=5).summary
    measured = evenhand.measure(DATA, ["sex", "noise"], model=MODEL, half_width=0.1).summary
    repaired = evenhand.repair(DATA, ["sex", "noise"], "average", model=MODEL, half_width=0.1, seeds=5, steps=5)
    compared = compare(DATA, ["sex", "noise"], ["themis"], model=MODEL, budget="rows=500", device="cpu")
    for warnings in (audit["warnings"], measured["warnings"], repaired.summary["warnings"], compared.warnings):
        assert len(warnings) == 1
        assert warnings[0].startswith(LEFT_OUT)
        assert f"{100 * largest_difference('noise'):.1f} percentage points" in warnings[0]
    [figures] = audit["groups"]
    assert figures["demographic_parity_difference"] == pytest.approx(largest_difference("noise"))


def test_a_measurement_has_no_rates_for_what_the_model_does_not_read() -> None:
    both, alone = (
        evenhand.measure(DATA, names, model=MODEL, half_width=0.05).summary for names in (["sex", "noise"], ["sex"])
    )
    assert [part["protected"] for part in both["measured"]] == [["sex"]]
    assert both["measured"] == alone["measured"]
    assert both["protected"] == ["sex"]
    titles = [table.title for table in tables_of(both)]
    assert not [title for title in titles if "changing noise" in title]
    assert "groups by noise" in titles  # group figures say something all the same


def test_an_effect_that_only_all_rows_show_takes_the_warning_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a trial on a part of the rows misses that an attribute is read, no output may say that it is not."""

    def missed(*given: Any) -> dict[str, str]:
        return unread_attributes(*given) | {"sex": "changing it in 3 rows never changed a score"}

    monkeypatch.setattr(subject_module, "unread_attributes", missed)
    audit = evenhand.audit(DATA, "sex", model=MODEL, seeds=5, steps=5).summary
    measured = evenhand.measure(DATA, "sex", model=MODEL, half_width=0.1).summary
    outcome = checked(["sex"], max_rate=0.9)
    assert audit["warnings"] == measured["warnings"] == outcome.warnings == []
    assert "sex" not in audit["model"]["unread"]
    assert audit["data_rate"]["all"]["rate"] == pytest.approx(true_rate())
    assert outcome.verdict == "held"
