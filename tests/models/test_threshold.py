"""Labels are those of the model's own decision, or of a stated threshold, and a search sees the same ones."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV

import evenhand
from evenhand.errors import EvenhandError
from evenhand.models.adapters.base import people_codes
from evenhand.models.classifier import Classifier
from evenhand.runs.tried_model import TriedModel, try_model
from tests.worlds.verdict import NAMES, fitted, loans, matrix_of, raw_loans, target_of

FRAME, DATA = raw_loans(), loans()
TARGET, MATRIX = target_of(FRAME), matrix_of(FRAME)
CPU = torch.device("cpu")
FOREST = RandomForestClassifier(10, max_depth=4, random_state=0).fit(FRAME[NAMES], FRAME["approved"])
NETWORK = fitted(MATRIX, TARGET)


def subject(model: Any, **settings: Any) -> TriedModel:
    return try_model(DATA, model, ["sex"], CPU, accept_poor_model=True, **settings)


def labels_of(classifier: Classifier) -> NDArray[np.int64]:
    people = torch.tensor(people_codes(DATA, classifier.module), dtype=torch.float32)
    labels: NDArray[np.int64] = classifier.outputs(people).labels.numpy()
    return labels


@pytest.mark.parametrize("threshold", [0.2, 0.35, 0.8])
def test_a_fixed_threshold_of_the_model_itself_decides(threshold: float) -> None:
    model = FixedThresholdClassifier(LogisticRegression(max_iter=5000), threshold=threshold, pos_label="yes")
    model.fit(FRAME[NAMES], FRAME["approved"])
    found = subject(model)
    assert (labels_of(found.classifier) == (model.predict(FRAME[NAMES]) == "yes")).all()
    assert found.facts()["threshold"] == pytest.approx(threshold, abs=0.02)


def test_a_tuned_threshold_and_an_own_rule_decide() -> None:
    tuned = TunedThresholdClassifierCV(LogisticRegression(max_iter=5000), scoring="balanced_accuracy", cv=3)
    tuned.fit(FRAME[NAMES], FRAME["approved"])

    class Strict(RandomForestClassifier):  # type: ignore[misc]
        def predict(self, X: Any) -> Any:  # noqa: N803
            return np.where((self.predict_proba(X)[:, 1] > 0.6) & (np.asarray(X["noise"]) > 0), "yes", "no")

    strict = Strict(10, max_depth=4, random_state=0).fit(FRAME[NAMES], FRAME["approved"])
    for model in (tuned, strict):
        found = subject(model)
        assert (labels_of(found.classifier) == (model.predict(FRAME[NAMES]) == "yes")).all()


def test_a_model_that_takes_the_highest_score_has_no_threshold() -> None:
    assert subject(FOREST).classifier.threshold is None


@settings(max_examples=15)
@given(st.one_of(st.sampled_from(sorted(set(FOREST.predict_proba(FRAME[NAMES])[:, 1].tolist()) - {0.0, 1.0})),
                 st.floats(0.02, 0.98)))  # fmt: skip
def test_search_and_predict_agree_on_labels_at_any_threshold(threshold: float) -> None:
    said = FOREST.predict_proba(FRAME[NAMES])[:, 1] >= threshold
    found = subject(FOREST, threshold=threshold)
    assert (labels_of(found.classifier) == said).all()
    with torch.no_grad():
        scores = torch.softmax(NETWORK(torch.tensor(MATRIX, dtype=torch.float32)), dim=1)[:, 1]
    assert (labels_of(subject(NETWORK, inputs="raw", threshold=threshold).classifier)
            == (scores >= threshold).numpy()).mean() > 0.999  # fmt: skip


@pytest.mark.parametrize(("model", "inputs"), [(FOREST, None), (NETWORK, "raw")])
@pytest.mark.parametrize("threshold", [0.15, 0.7])
def test_both_members_of_findings_lie_on_the_two_sides_of_the_threshold(
    model: Any, inputs: str | None, threshold: float
) -> None:
    audit = evenhand.audit(DATA, "sex", model=model, inputs=inputs, threshold=threshold, seeds=40, steps=40)
    findings = audit.findings
    assert len(findings) > 20
    sample = np.where(findings["label"] == "yes", findings["score"], 1 - findings["score"])
    witness = np.where(findings["label"] == "yes", findings["witness_score"], 1 - findings["witness_score"])
    given_yes, witness_yes = (findings[name].to_numpy() == "yes" for name in ("label", "witness_label"))
    assert (given_yes != witness_yes).all()
    assert ((sample >= threshold - 1e-6) == given_yes).all()
    assert ((witness >= threshold - 1e-6) == witness_yes).all()
    for row in findings.head(50).itertuples():
        asked = [_asked(model, inputs, row, who) for who in ("sample", "witness")]
        assert [score >= threshold for score in asked] == [row.label == "yes", row.witness_label == "yes"]


def _asked(model: Any, inputs: str | None, row: Any, who: str) -> float:
    """The bare model's score of one member, from its codes by hand."""
    codes = dict(zip(audit_columns(), row[1:], strict=False))
    names = {name: codes[f"sample_code.{name}"] for name in NAMES}
    if who == "witness":
        names["sex"] = codes["witness_code.sex"]
    raw = {"age": names["age"] * 2, "sex": names["sex"] + 1, "region": [11, 25, 70][names["region"]],
           "income": names["income"] * 0.5, "noise": names["noise"]}  # fmt: skip
    frame = pd.DataFrame([raw])[NAMES]
    if inputs is None:
        return float(model.predict_proba(frame)[0, 1])
    with torch.no_grad():
        return float(torch.softmax(model(torch.tensor(frame.to_numpy(dtype=np.float32))), dim=1)[0, 1])


def audit_columns() -> list[str]:
    if not COLUMNS:
        COLUMNS.extend(evenhand.audit(DATA, "sex", model=FOREST, seeds=2, steps=1).findings.columns)
    return COLUMNS


COLUMNS: list[str] = []


@pytest.mark.parametrize(("threshold", "words"), [(0.0, "greater than 0"), (1.5, "less than 1")])
def test_a_threshold_is_a_share(threshold: float, words: str) -> None:
    with pytest.raises(EvenhandError, match=words):
        evenhand.audit(DATA, "sex", model=FOREST, threshold=threshold)
