"""Models that are given their columns otherwise than they learned from them: scaled elsewhere, in another order."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from torch import nn

import evenhand
from evenhand.data.dataset import Dataset
from evenhand.data.infer.schema import dataset_from, infer_file
from evenhand.errors import EvenhandError
from evenhand.models.misread import better_scaled
from evenhand.runs.tried_model import try_model

COLUMNS = ["balance", "score", "male"]
LEAST: dict[str, Any] = {"seeds": 2, "iterations": 1, "steps": 1, "device": "cpu"}


def people(rows: int = 1500) -> pd.DataFrame:
    """Numbers around zero, so that a model which wants them scaled still knows many labels without."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "balance": rng.integers(-40, 61, rows),
            "score": rng.integers(-20, 21, rows),
            "male": rng.integers(0, 2, rows),
        }
    )
    worth = (frame["balance"] - 10) / 29 + frame["score"] / 12 + 1.6 * (frame["male"] - 0.5)
    return frame.assign(approved=np.where(worth + rng.normal(0, 0.3, rows) > 0, "yes", "no"))


def data_of(frame: pd.DataFrame) -> Dataset:
    return dataset_from(frame, "approved", ["male"])


def discriminatory(predict: Any, frame: pd.DataFrame) -> int:
    """People whose label the other sex changes, by the bare model."""
    return int((predict(frame[COLUMNS].assign(male=0)) != predict(frame[COLUMNS].assign(male=1))).sum())


@pytest.mark.parametrize("scaler", [StandardScaler(), MinMaxScaler()], ids=["standard", "minmax"])
@pytest.mark.parametrize("named", [True, False], ids=["frame", "matrix"])
def test_an_estimator_that_learned_from_scaled_numbers_is_refused(scaler: Any, named: bool) -> None:
    frame = people()
    scaled = scaler.fit_transform(frame[COLUMNS].to_numpy(dtype=float))
    model = LogisticRegression(C=100).fit(pd.DataFrame(scaled, columns=COLUMNS) if named else scaled, frame["approved"])
    with pytest.raises(EvenhandError, match=r"scaled numbers|always saying|clearly better"):
        evenhand.audit(data_of(frame), "male", model=model, **LEAST)
    with pytest.raises(EvenhandError, match=r"scaled numbers|always saying|clearly better"):
        evenhand.assert_fair(model, data_of(frame), "male", max_rate=0.9, failures=None, search=False)


def test_what_it_would_know_is_said_and_it_may_be_accepted() -> None:
    frame = people()
    scaled = pd.DataFrame(StandardScaler().fit_transform(frame[COLUMNS].astype(float)), columns=COLUMNS)
    model = LogisticRegression(C=100).fit(scaled, frame["approved"])
    with pytest.raises(EvenhandError, match=r"numbers standardised \(mean 0, spread 1\) its accuracy on"):
        evenhand.audit(data_of(frame), "male", model=model, **LEAST)
    accepted = evenhand.audit(data_of(frame), "male", model=model, accept_poor_model=True, **LEAST)
    assert "learned from scaled numbers" in accepted.summary["warnings"][0]


def test_a_network_behind_stated_values_is_refused_too() -> None:
    frame = people()
    matrix = frame[COLUMNS].to_numpy(dtype=np.float32)
    scaled = (matrix - matrix.mean(0)) / matrix.std(0)
    regression = LogisticRegression(C=100).fit(scaled, frame["approved"])
    module = nn.Linear(3, 1)
    with torch.no_grad():
        module.weight.copy_(torch.tensor(regression.coef_, dtype=torch.float32))
        module.bias.copy_(torch.tensor(regression.intercept_, dtype=torch.float32))
    with pytest.raises(EvenhandError, match="learned from scaled numbers"):
        evenhand.audit(data_of(frame), "male", model=module, inputs="values", output="logits", **LEAST)


@pytest.mark.parametrize("scaler", [StandardScaler(), MinMaxScaler()], ids=["standard", "minmax"])
def test_scaling_that_is_part_of_the_model_is_fine(scaler: Any) -> None:
    frame = people()
    model = make_pipeline(scaler, LogisticRegression(C=100)).fit(frame[COLUMNS], frame["approved"])
    rate = evenhand.audit(data_of(frame), "male", model=model, **LEAST).summary["data_rate"]["all"]
    assert rate["discriminatory"] == discriminatory(model.predict, frame) > 0


def test_a_function_of_the_raw_frame_is_never_taken_for_scaled() -> None:
    """Also where it fails on numbers that are not whole: then it cannot have learned from scaled ones."""
    frame = people()

    def rule(rows: pd.DataFrame) -> NDArray[Any]:
        if rows["score"].dtype.kind != "i":
            raise TypeError("whole numbers only")
        worth = (rows["balance"] - 10) / 29 + rows["score"] / 12 + 1.6 * (rows["male"] - 0.5)
        return np.where(worth > 0, "yes", "no")

    data = data_of(frame)
    subject = try_model(data, rule, ["male"], torch.device("cpu"))
    assert better_scaled(subject.classifier, data) == ""
    assert subject.agreement["share"] > 0.8


# --- models that name their columns have one reading, or none ---


def test_a_named_model_that_cannot_read_the_rows_is_never_given_codes() -> None:
    """It was fitted on filled gaps, and the table has the gaps."""
    frame, rng = people(), np.random.default_rng(1)
    frame["debt"] = np.where(rng.random(len(frame)) < 0.25, np.nan, rng.integers(0, 9, len(frame)))
    for number in range(30):  # so many that swaps of columns are not tried
        frame[f"noise{number}"] = rng.integers(0, 3, len(frame))
    model = LogisticRegression(max_iter=2000).fit(frame.drop(columns="approved").fillna(5), frame["approved"])
    with pytest.raises(EvenhandError, match="contains NaN"):
        evenhand.audit(data_of(frame), "male", model=model, **LEAST)
    with pytest.raises(EvenhandError, match="contains NaN"):
        evenhand.assert_fair(model, data_of(frame), "male", max_rate=0.9, failures=None, search=False)


@pytest.mark.parametrize("inputs", ["codes", "values"])
def test_a_named_model_may_be_said_to_read_a_matrix(inputs: str) -> None:
    frame = people()
    data = data_of(frame)
    given = frame[COLUMNS] if inputs == "values" else pd.DataFrame(data.codes, columns=COLUMNS)
    model = RandomForestClassifier(20, max_depth=6, random_state=0).fit(given, frame["approved"])
    found = evenhand.audit(data, "male", model=model, inputs=inputs, **LEAST).summary["data_rate"]["all"]
    other = [model.predict(given.assign(male=value)) != model.predict(given) for value in (0, 1)]
    assert found["discriminatory"] == np.any(other, axis=0).sum() > 0


def test_a_function_that_dislikes_scaled_numbers_says_nothing(recwarn: pytest.WarningsRecorder) -> None:
    frame = people().assign(pay=np.random.default_rng(2).integers(1, 90, 1500))

    def rule(rows: pd.DataFrame) -> NDArray[Any]:
        return np.where(np.log(rows["pay"]) + 1.5 * rows["male"] + rows["score"] / 20 > 4, "yes", "no")

    frame["approved"] = rule(frame)
    evenhand.audit(data_of(frame), "male", model=rule, **LEAST)
    assert [str(each.message) for each in recwarn if "log" in str(each.message)] == []


def test_marks_in_a_column_of_numbers_are_spoken_of_first(tmp_path: Path) -> None:
    frame = people().astype({"score": str})
    frame.loc[::7, "score"] = "?"
    frame.to_csv(tmp_path / "people.csv", index=False)
    schema = tmp_path / "people.toml"
    schema.write_text(infer_file(tmp_path / "people.csv", "approved", ["male"]).toml, encoding="utf-8")

    def rule(rows: pd.DataFrame) -> NDArray[Any]:
        return np.where(rows["balance"] + 20 * rows["male"] + rows["score"].fillna(3) > 20, "yes", "no")

    found = evenhand.audit(str(schema), "male", model=rule, **LEAST).summary
    assert found["warnings"][0].startswith("In score the table marks missing numbers by text such as ‘?’.")


def test_an_audit_of_every_built_in_table_runs() -> None:
    for name in ("census", "bank", "credit"):
        assert evenhand.audit(name, "age", **LEAST).summary["data_rate"]["all"]["discriminatory"] > 0


def test_a_bare_rest_of_categories_that_are_numbers_has_an_example(tmp_path: Path) -> None:
    frame = people()
    frame["days"] = np.random.default_rng(3).choice([-1, -1, 3, 3, 3, 8], len(frame))
    frame.to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "people.toml").write_text(
        'name = "people"\nfile = "people.csv"\n[label]\ncolumn = "approved"\nvalues = ["no", "yes"]\n'
        '[[attribute]]\nname = "balance"\nkind = "number"\nstep = 1\ndomain = [-40, 60]\n'
        '[[attribute]]\nname = "male"\nkind = "category"\ncategories = [0, 1]\n'
        '[[attribute]]\nname = "days"\nkind = "category"\ncategories = ["*", "-1"]\n'
    )

    def rule(rows: pd.DataFrame) -> NDArray[Any]:
        return np.where(rows["balance"] + 15 * rows["male"] + 4 * rows["days"] > 20, "yes", "no")

    data = evenhand.load_dataset(str(tmp_path / "people.toml"))
    found = evenhand.audit(data, "male", model=rule, accept_poor_model=True, **LEAST | {"seeds": 20, "steps": 10})
    changed = rule(frame.assign(male=0)) != rule(frame.assign(male=1))
    assert found.summary["data_rate"]["all"]["discriminatory"] == changed.sum() > 0
    assert set(found.findings["sample.days"]) <= {-1, 3}
