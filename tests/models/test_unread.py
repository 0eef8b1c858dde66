"""What a model does not read is found, left out and said; a test of what it does not read is not a pass."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import binomtest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

import evenhand
from evenhand.cli.main import app
from evenhand.errors import EvenhandError
from evenhand.gate.check import DiscriminationFound
from evenhand.gate.config import GateFile
from evenhand.gate.outputs.annotations import annotations
from evenhand.gate.outputs.junit import junit
from evenhand.gate.outputs.markdown import markdown
from evenhand.gate.outputs.sarif import sarif
from evenhand.gate.run import run_gate
from evenhand.models.unread import unread_attributes
from evenhand.runs.tried_model import TriedModel, try_model
from evenhand.search.space import TableSpace
from tests.worlds.verdict import NAMES, Logistic, files_in, loans, matrix_of, raw_loans, target_of

FRAME, DATA = raw_loans(), loans()
TARGET, MATRIX = target_of(FRAME), matrix_of(FRAME)
CPU = torch.device("cpu")
NOT_READ = "The model does not read sex; this test cannot find anything. Differences between groups: by "


def subject(model: Any, protected: list[str] | None = None, **settings: Any) -> TriedModel:
    return try_model(DATA, model, protected or ["sex"], CPU, **settings)


def without_sex() -> HistGradientBoostingClassifier:
    columns = [name for name in NAMES if name != "sex"]
    return HistGradientBoostingClassifier(max_iter=20, random_state=0).fit(FRAME[columns], FRAME["approved"])


def dropping(names: list[str]) -> Any:
    """A pipeline that was fitted on all columns and hands only some of them on."""
    kept = make_column_transformer((StandardScaler(), names), remainder="drop")
    return make_pipeline(kept, LogisticRegression()).fit(FRAME[NAMES], FRAME["approved"])


def test_declared_by_names_and_by_a_column_transformer() -> None:
    assert list(subject(without_sex()).unread) == ["sex"]
    found = subject(dropping(["age", "sex", "income"]))
    assert list(found.unread) == ["region", "noise"]
    assert "names what it reads" in found.unread["noise"]


def test_found_by_changing_them_on_rows() -> None:
    network = Logistic(np.array([0.05, 0.0, 0.02, 0.25, 0.0]), -5.5)
    found = subject(network, inputs="raw")
    assert list(found.unread) == ["sex", "noise"]
    assert found.unread["sex"] == "changing it in 3,000 rows never changed a score"


def test_what_matters_in_a_few_rows_only_is_read() -> None:
    rare = float(FRAME["income"].value_counts().index[-1])

    def rule(frame: pd.DataFrame) -> Any:
        merit = frame["age"] / 20 + frame["income"] / 4 - 4
        special = (frame["income"] == rare) & (frame["region"] == 70) & (frame["noise"] == 5)
        return 1 / (1 + np.exp(-(merit + special * (frame["sex"] == 2) * 5.0)))

    assert "sex" not in subject(rule).unread


def test_unread_attributes_are_neither_moved_nor_told_apart() -> None:
    space = TableSpace(DATA.schema, ["sex"], unread=["noise"])
    x = torch.tensor(DATA.codes[:5], dtype=torch.float32)
    other = x.clone()
    other[:, 4] = 5 - other[:, 4]
    assert (space.keys(x) == space.keys(other)).all()
    assert space.free.tolist() == [1, 0, 1, 1, 0]
    assert (space.move(x, torch.ones_like(x))[:, 4] == x[:, 4]).all()


def test_findings_are_unique_in_what_the_model_reads() -> None:
    model = dropping(["age", "sex", "income", "region"])
    audit = evenhand.audit(DATA, "sex", model=model, seeds=60, steps=60)
    codes = audit.findings[[f"sample_code.{name}" for name in ("age", "region", "income")]]
    assert len(codes) == len(codes.drop_duplicates()) > 100
    assert list(audit.summary["model"]["unread"]) == ["noise"]
    page = (audit.folder / "report.html").read_text()
    assert "Does not read" in page
    assert "noise" not in page.partition('id="attributes"')[2].partition("</table>")[0]


def test_an_audit_of_what_is_not_read_says_so_first_and_has_the_groups() -> None:
    model = without_sex()
    audit = evenhand.audit(DATA, "sex", model=model)
    assert audit.summary["status"] == "not tested"
    assert audit.summary["warnings"][0].startswith(NOT_READ)
    assert audit.summary["search"]["generated"]["total"] == 0
    assert len(audit.findings) == 0
    said = model.predict(FRAME[[name for name in NAMES if name != "sex"]])
    held_out = ~DATA.train
    [figures] = audit.summary["groups"]
    for group in figures["groups"]:
        there = (FRAME["sex"] == int(group["value"])).to_numpy() & held_out
        chosen = said[there] == "yes"
        assert group["selection"]["rate"] == pytest.approx(chosen.mean())
        interval = binomtest(int(chosen.sum()), len(chosen)).proportion_ci(0.95, "exact")
        assert group["selection"]["interval"] == pytest.approx([interval.low, interval.high])
        wrong = said[there] != FRAME["approved"].to_numpy()[there]
        assert group["error"]["rate"] == pytest.approx(wrong.mean())
    assert "not tested" in repr(audit)
    assert audit._repr_html_().index("cannot find anything") < audit._repr_html_().index("accuracy on data")
    page = (audit.folder / "report.html").read_text()
    assert page.index("<h1>Not tested") < page.index("cannot find anything") < page.index("<table")
    assert "Share of generated samples" not in page


def test_every_command_says_it_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import skops.io

    schema = files_in(tmp_path)
    monkeypatch.chdir(tmp_path)
    skops.io.dump(without_sex(), tmp_path / "model.skops")
    words = [schema, "-p", "sex", "--model", "model.skops"]
    done = CliRunner().invoke(app, ["audit", *words, "--out", "out"])
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("not tested")
    assert "The model does not read sex" in " ".join(done.stdout.split())[:80]
    card = CliRunner().invoke(app, ["card", "out"])
    assert "cannot find anything" in card.stdout
    assert "| changed | population" not in card.stdout
    measured = CliRunner().invoke(app, ["measure", *words, "--half-width", "0.1", "--out", "measured"])
    assert measured.stdout.startswith("Not tested: The model does not read sex"), measured.output
    shown = CliRunner().invoke(app, ["model", schema, "--model", "model.skops"])
    assert shown.stdout.startswith("warning")
    for command in ("compare", "repair"):
        done = CliRunner().invoke(app, [command, *words, *(["--by", "average"] if command == "repair" else [])])
        assert isinstance(done.exception, EvenhandError)
        assert "nothing to compare or to repair" in str(done.exception)


def test_a_gate_does_not_pass_what_it_did_not_test(tmp_path: Path) -> None:
    import skops.io

    files_in(tmp_path)
    skops.io.dump(without_sex(), tmp_path / "model.skops")
    (tmp_path / "gate.toml").write_text(
        '[[check]]\nname = "sex"\ndata = "loans.toml"\nmodel = "model.skops"\nundecided = "pass"\n'
    )
    run = run_gate(GateFile.load(tmp_path / "gate.toml"))
    assert (run.checks[0].status, run.exit_code) == ("not tested", 1)
    assert run.checks[0].sentence.startswith(NOT_READ)
    assert '<failure type="not tested"' in junit(run)
    assert json.loads(sarif(run))["runs"][0]["results"][0]["ruleId"] == "not-tested"
    assert "**not tested**" in markdown(run)
    assert annotations(run)[0].startswith("::error")
    with pytest.raises(DiscriminationFound, match="NOT TESTED: The model does not read sex"):
        evenhand.assert_fair(without_sex(), DATA, "sex", failures=None)


def test_where_some_are_not_read_the_others_are_tested() -> None:
    model = dropping(["age", "sex", "income", "region"])
    audit = evenhand.audit(DATA, ["sex", "noise"], model=model, seeds=30, steps=30)
    assert audit.summary["protected"] == ["sex"]
    [warning] = audit.summary["warnings"]
    assert warning.startswith("The model does not read noise, which this test leaves out. Differences between groups:")
    alone = evenhand.audit(DATA, ["sex"], model=model, seeds=30, steps=30)
    assert audit.summary["search"]["findings"] == alone.summary["search"]["findings"]


def test_a_model_of_protected_attributes_alone_is_tested() -> None:
    audit = evenhand.audit(
        DATA, "sex", model=lambda frame: np.where(frame["sex"] == 1, 0.2, 0.8), accept_poor_model=True, seeds=5, steps=5
    )
    assert audit.summary["data_rate"]["all"]["rate"] == 1.0


def test_rows_with_a_price_are_not_spent_on_attributes_that_are_not_protected() -> None:
    found = subject(without_sex())
    module: Any = found.classifier.module
    module.reads, found.classifier.affordable = None, 1000
    before = found.classifier.rows
    assert list(unread_attributes(found.classifier, DATA, ["sex"])) == ["sex"]
    assert found.classifier.rows - before < 1000


def test_what_matters_to_a_few_of_many_rows_is_read() -> None:
    """By chance none of these few would be among some thousand rows that are looked at."""
    rng, rows = np.random.default_rng(4), 7000
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 70, rows),
            "sex": rng.choice(["f", "m"], rows),
            "race": rng.choice(["a", "b", "c"], rows),
            "note": [f"a long note about person number {number} here" for number in range(rows)],
        }
    )

    def rule(people: pd.DataFrame) -> NDArray[Any]:
        few = people["note"].str.contains("number 69.[37] ") & (people["race"] == "a")
        return np.where((people["age"] + 3 * (people["sex"] == "m") > 44) ^ few, "yes", "no")

    frame["label"] = rule(frame)
    other = [rule(frame.assign(sex=sex, race=race)) != frame["label"] for sex in "fm" for race in "abc"]
    found = evenhand.audit(
        frame, ["sex", "race"], model=rule, label="label", seeds=2, steps=1, iterations=1, device="cpu"
    ).summary
    assert found["data_rate"]["all"]["discriminatory"] == np.any(other, axis=0).sum()
    assert found["protected"] == ["sex", "race"]
    assert found["warnings"] == []
