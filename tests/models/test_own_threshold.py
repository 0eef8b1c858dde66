"""A threshold that a tuned classifier names is taken exactly, about whichever class, wherever the classifier stands."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import fbeta_score, make_scorer
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, TunedThresholdClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import evenhand
from evenhand.data.schema import Label
from evenhand.models.adapters.sklearn import own_threshold, wrap_estimator
from evenhand.models.decisions import threshold_between
from tests.worlds.verdict import NAMES, loans, raw_loans

FRAME = raw_loans()
LABEL = loans().schema.label
BACKWARDS = Label(column=LABEL.column, values=LABEL.values[::-1])
X, Y = FRAME[NAMES], FRAME["approved"]
QUICK: dict[str, Any] = {"seeds": 10, "steps": 3, "half_width": 0.05}


def fixed(threshold: Any, pos_label: str | None = None, **options: Any) -> Any:
    return FixedThresholdClassifier(
        LogisticRegression(max_iter=5000), threshold=threshold, pos_label=pos_label, **options
    )


def tuned(favoured: str) -> Any:
    scorer = make_scorer(fbeta_score, beta=2, pos_label=favoured)
    return TunedThresholdClassifierCV(LogisticRegression(max_iter=5000), scoring=scorer, cv=3)


WHERE: dict[str, Callable[[Any], Any]] = {
    "alone": lambda model: model,
    "last in a pipeline": lambda model: make_pipeline(StandardScaler(), model),
    "the best of a search": lambda model: GridSearchCV(model, {"estimator__C": [0.1, 1.0]}, cv=2),
    "in a pipeline in a search": lambda model: GridSearchCV(
        make_pipeline(StandardScaler(), model), {"fixedthresholdclassifier__estimator__C": [0.1, 1.0]}, cv=2
    ),
}


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize(("pos_label", "cut"), [(None, 0.3), ("yes", 0.3), ("no", 0.7)])
def test_it_is_that_of_the_last_class_exactly(where: str, pos_label: str | None, cut: float) -> None:
    model = WHERE[where](fixed(0.3, pos_label)).fit(X, Y)
    assert own_threshold(model, LABEL) == cut
    assert own_threshold(model, BACKWARDS) == pytest.approx(1 - cut)
    scores = model.predict_proba(X)
    for label in (LABEL, BACKWARDS):
        stated, last = own_threshold(model, label), label.values[-1]
        assert stated is not None
        by_hand = scores[:, list(model.classes_).index(last)] >= stated
        assert (by_hand == (model.predict(X) == last)).all()
        assert 0 < by_hand.sum() < len(by_hand)


@pytest.mark.parametrize("favoured", ["yes", "no"])
def test_a_tuned_one_is_where_its_labels_change(favoured: str) -> None:
    model = tuned(favoured).fit(X, Y)
    stated = own_threshold(model, LABEL)
    assert stated == (model.best_threshold_ if favoured == "yes" else 1 - model.best_threshold_) != 0.5
    assert ((model.predict_proba(X)[:, 1] >= stated) == (model.predict(X) == "yes")).all()


def test_one_about_margins_is_put_as_a_probability() -> None:
    model = FixedThresholdClassifier(LinearSVC(), threshold=0.4).fit(X, Y)
    stated = own_threshold(model, LABEL)
    assert stated is not None
    probability = 1 / (1 + np.exp(-model.decision_function(X)))
    assert ((probability >= stated) == (model.predict(X) == "yes")).all()


def test_models_that_name_none() -> None:
    about_margins = fixed(0.4, response_method="decision_function").fit(X, Y)
    for model in (LogisticRegression(max_iter=5000).fit(X, Y), fixed("auto").fit(X, Y), about_margins):
        assert own_threshold(model, LABEL) is None
    assert wrap_estimator(loans(), fixed(0.3).fit(X, Y), None).own_threshold == 0.3


def test_one_that_the_labels_do_not_bear_out_is_not_taken() -> None:
    scores = torch.linspace(0, 1, 11)
    assert threshold_between(scores, (scores >= 0.25).long(), 0.28) == 0.28
    assert threshold_between(scores, (scores >= 0.25).long(), 0.6) == pytest.approx(0.25)
    on_it = torch.tensor([0.1, 0.3 - 1e-8, 0.9])  # float32 may lie on either side
    assert threshold_between(on_it, torch.tensor([0, 0, 1]), 0.3) == 0.3


def test_the_average_of_such_a_model_decides_at_its_threshold() -> None:
    model = fixed(0.3).fit(X, Y)
    result = evenhand.repair(loans(), "sex", "average", model=model, accept_poor_model=True, **QUICK)
    assert result.summary["model"]["threshold"] == 0.3
    scores = result.predict_proba(FRAME)[:, 1]
    assert (result.predict(FRAME) == np.where(scores >= 0.3, "yes", "no")).all()
