"""What evenhand says about people is what pandas and the bare model say; what is set up wrongly passes no gate.

The half of `python -m bench.truth` that needs no download.
"""

import tempfile
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from bench.truth import made_tables as made
from bench.truth import models
from bench.truth.brute import one_hot
from bench.truth.cases import MADE, RACE_GROUP
from bench.truth.judge import BUDGET, Case, audited, judge, raw_pairs, world_of
from bench.truth.set_ups import SET_UPS
from bench.truth.wrong import SetUp, judge_wrong
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import evenhand
from evenhand.data.infer.schema import infer_file
from tests.worlds.truth import LABELS, different, exact, labels, saved, scores, tables

pytestmark = pytest.mark.filterwarnings("ignore")  # the frameworks' own
TRUE = [
    "rare jobs × LightGBM file, categories",
    "gaps × hist boosting",
    "gaps × XGBoost file, categories",
    "odd steps × ONNX of a pipeline, columns",
    "odd steps × torch file, description",
    "odd steps × torch, one logit",
    "clean × Keras, one-hot",
    "free text × pipeline with words",
    "three labels × LightGBM, multiclass",
    "ties × two neighbours, yes first",
    "in memory, categories × hist boosting",
    "in memory, odd text × function of a frame",
    "one-hot, columns apart × function by position",
    "sector protected, gaps × logistic pipeline",
    "derived pair × logistic pipeline",
    "one-hot, by hand × forest, skops",
    "odd cells × fingerprint, passed",
    "headers twice × forest, skops",
]  # of bench.truth; the others are slower, or much the same
STOPPED = [
    "values, nothing stated",
    "values, codes stated",
    "columns in another order",
    "stopped early",
    "two of five classes swapped",
    "sex read for a few",
    "one of two not read",
    "within less than a step",
    "races in another order",
    "jobs in another order",
    "classes swapped in a network",
    "label.values in another order",
    "linear regression",
    "LightGBM regression",
    "ONNX regression",
    "sex unread by name",
    "sex read and dropped",
    "sex ignored by a function",
    "one-hot group unread",
    "two races in a row",
    "threshold tuned",
    "threshold 0.3 stated",
    "threshold nobody reaches",
    "weights",
    "NaN answers",
    "always the same answer",
    "labels by lot, with luck",
    "labels shuffled",
    "bools read as numbers",
    "endpoint swaps classes",
]
LEAST: dict[str, Any] = {"seeds": 1, "iterations": 1, "steps": 0, "seed": 0, "device": "cpu"}


@pytest.mark.parametrize("case", [case for case in MADE if case.name in TRUE], ids=lambda case: case.name)
def test_the_rate_is_that_of_brute_force_and_findings_are_true(case: Case, tmp_path: Path) -> None:
    judged = judge(case, tmp_path)
    assert not judged.crash
    assert not judged.refused
    assert (judged.said, judged.said_of) == (judged.true, judged.rows)
    assert (judged.at_gate, judged.measured) == (judged.true, judged.true)
    assert judged.true_findings == judged.findings


def test_what_cannot_be_read_is_refused_with_the_reason(tmp_path: Path) -> None:
    (case,) = [case for case in MADE if case.data == "cp1252"]
    assert "not written in UTF-8" in judge(case, tmp_path).refused


@pytest.mark.parametrize("set_up", [s for s in SET_UPS if s.name in STOPPED], ids=lambda set_up: set_up.name)
def test_a_wrong_set_up_is_refused_or_said_and_passes_no_gate(set_up: SetUp, tmp_path: Path) -> None:
    judged = judge_wrong(set_up, tmp_path)
    assert judged.right, f"audit: {judged.audit}; gate: {judged.gate}; {judged.reason}"


@settings(max_examples=12)
@given(table=tables())
def test_rare_categories_gaps_and_odd_steps_reach_the_model_as_they_are(table: pd.DataFrame) -> None:
    true = different(table)
    assume(table["approved"].nunique() == 2 and true > 0)
    with tempfile.TemporaryDirectory() as folder:
        path = saved(table, Path(folder))
        schema = path.with_suffix(".toml")
        schema.write_text(infer_file(path, "approved", ["sex"]).toml, encoding="utf-8")
        rate = evenhand.audit(str(schema), "sex", model=labels, **LEAST).summary["data_rate"]["all"]
    assert (rate["discriminatory"], rate["samples"]) == (true, len(table))


@settings(max_examples=6)
@given(table=tables())
def test_a_frame_in_memory_is_looked_at_as_it_is(table: pd.DataFrame) -> None:
    true = different(table)
    assume(table["approved"].nunique() == 2 and true > 0)
    rate = evenhand.audit(table, "sex", model=labels, label="approved", **LEAST).summary["data_rate"]["all"]
    assert (rate["discriminatory"], rate["samples"]) == (true, len(table))


@settings(max_examples=6)
@given(table=tables(), threshold=st.sampled_from([0.2, 0.3, 0.45, 0.7]))
def test_labels_are_those_of_the_threshold_that_is_stated(table: pd.DataFrame, threshold: float) -> None:
    true = different(table, threshold)
    table["approved"] = LABELS[exact(table, threshold)]
    assume(table["approved"].nunique() == 2 and true > 0)
    audit = evenhand.audit(table, "sex", model=scores, label="approved", threshold=threshold, **LEAST)
    assert audit.summary["data_rate"]["all"]["discriminatory"] == true


def test_nobody_of_the_findings_has_two_races(tmp_path: Path) -> None:
    case = Case("one-hot", "pipeline", made.one_hot_table, "approved", "Race", models.logistic,
                domains=[one_hot(RACE_GROUP)])  # fmt: skip
    path = case.table(tmp_path)
    world = world_of(case, path, pd.read_csv(path))
    audited(case, world, case.build(world))
    findings = pd.read_parquet(tmp_path / "out" / "findings.parquet")
    assert 0 < len(findings) <= BUDGET["max_findings"]
    for people in raw_pairs(world, findings):
        assert (people[RACE_GROUP].sum(axis=1) == 1).all()
        assert (people[["Sex_female", "Sex_male"]].sum(axis=1) == 1).all()


def test_the_names_above_are_those_of_the_bench() -> None:
    assert set(TRUE) <= {case.name for case in MADE}
    assert set(STOPPED) <= {set_up.name for set_up in SET_UPS}
