"""Repaired models predict for raw data frames what the repair judged: each kind, in memory and from files."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from torch import Tensor, nn

import evenhand
from evenhand.data.dataset import Dataset, encode
from evenhand.data.schema import Schema
from evenhand.errors import EvenhandError
from evenhand.models.network import FeedForward
from evenhand.repairs.table_training import CrossEntropy, Material, Recipe, fit
from evenhand.runs.repair import Repair
from evenhand.search.space import TableSpace
from tests.worlds.adapters import people_schema, raw_people
from tests.worlds.repair import row_of

QUICK: dict[str, Any] = {"seeds": 10, "steps": 3, "epochs": 3, "repeats": 1, "half_width": 0.05}
NUMBERS = ["age", "income", "region_code"]


def messy(classes: int = 2) -> pd.DataFrame:
    """Incomes between two steps, and a job that the schema calls other."""
    frame, rng = raw_people(classes), np.random.default_rng(5)
    frame["income"] += rng.choice([0.0, 0.11, 0.07], len(frame))
    frame["job"] = frame["job"].mask(rng.random(len(frame)) < 0.05, "astronaut")
    return frame


@cache
def data_of(classes: int = 2, typed_label: bool = False) -> Dataset:
    """The messy people; with a typed label the table says 0 and 1."""
    content = people_schema(classes).model_dump(mode="json", by_alias=True, exclude_unset=True)
    content["attribute"][2]["categories"][3] = ["teacher", "*"]
    frame = messy(classes)
    if typed_label:
        frame["approved"] = (frame["approved"] == "yes").astype(int)
        content["label"] = {"column": "approved", "values": ["0", "1"]}
    return encode(Schema.parse(content, where="the test"), frame)


def frame_of(data: Dataset, held_out: bool = True) -> pd.DataFrame:
    """The raw rows without the label, as a user has them."""
    assert data.frame is not None
    rows = data.frame[~data.train] if held_out else data.frame[data.train]
    return rows.drop(columns="approved")


def labels_of(data: Dataset, held_out: bool = True) -> NDArray[Any]:
    assert data.frame is not None
    return data.frame["approved"].to_numpy()[~data.train if held_out else data.train]


@cache
def pipeline(classes: int = 2, typed_label: bool = False) -> Any:
    """Linear in numbers that are not rounded, with the rare job as a category of its own."""
    data = data_of(classes, typed_label)
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["sex", "job"]), (StandardScaler(), [*NUMBERS, "member"])
    )
    return make_pipeline(columns, LogisticRegression(C=10)).fit(frame_of(data, False), labels_of(data, False))


def averaged_by_hand(
    scores: Callable[[pd.DataFrame], NDArray[Any]], data: Dataset, rows: pd.DataFrame | None = None
) -> NDArray[np.float64]:
    """(n, classes) the mean score over both sexes, weighted as they are among the training rows; by pandas alone."""
    frame, male = frame_of(data) if rows is None else rows, (frame_of(data, False)["sex"] == "male").mean()
    return np.asarray((1 - male) * scores(frame.assign(sex="female")) + male * scores(frame.assign(sex="male")))


def check_predictions(result: Repair, data: Dataset) -> None:
    """The accuracy on held-out rows is the one that was judged."""
    said, frame = result.predict(frame_of(data)), frame_of(data)
    row = row_of(result.summary, result.summary["chosen"])
    assert (said == labels_of(data)).mean() == row["accuracy"]
    scores = result.predict_proba(frame)
    assert scores.shape == (len(frame), len(result.classes_))
    assert (result.classes_[scores.argmax(axis=1)] == said).all()
    if row["people"]["discriminatory"] == 0:
        for sex in ("female", "male"):
            assert (result.predict(frame.assign(sex=sex)) == said).all()


@cache
def network() -> FeedForward:
    data = data_of()
    material = Material(data, TableSpace(data.schema, ["sex"]), (6, 8, 2), Recipe(epochs=10))
    return fit(material, CrossEntropy()).eval()


@pytest.mark.parametrize("by", ["blind", "average", "pairing", "certified", "augment"])
def test_networks_of_ours(by: str, tmp_path: Path) -> None:
    data = data_of()
    result = evenhand.repair(data, "sex", by, model=network(), out=tmp_path, share=0.5, vote="own", **QUICK)
    check_predictions(result, data)
    again = evenhand.load_repaired(tmp_path)
    assert (again.predict(frame_of(data)) == result.predict(frame_of(data))).all()
    assert (again.predict_proba(frame_of(data)) == result.predict_proba(frame_of(data))).all()


@pytest.mark.parametrize("classes", [2, 3])
def test_the_average_of_a_pipeline_is_that_of_the_bare_one_on_raw_rows(classes: int) -> None:
    data, model = data_of(classes), pipeline(classes)
    result = evenhand.repair(data, "sex", "average", model=model, **QUICK)
    check_predictions(result, data)
    expected = averaged_by_hand(model.predict_proba, data)[:, [list(model.classes_).index(c) for c in result.classes_]]
    assert np.allclose(result.predict_proba(frame_of(data)), expected, atol=1e-5)
    assert (result.predict(frame_of(data)) == result.classes_[expected.argmax(axis=1)]).all()
    assert (model.predict(frame_of(data)) != result.predict(frame_of(data))).any()  # there was something to repair


class OneHotNetwork(nn.Module):
    """Reads standardised numbers and a column for each category; men are favoured."""

    def forward(self, x: Tensor) -> Tensor:
        merit = x[:, 0] + x[:, 2] * 1.2 + x[:, -3]
        return torch.stack([torch.zeros_like(merit), merit], dim=1)


def score(frame: pd.DataFrame) -> Any:
    """A function that reads an income to the last digit."""
    return 1 / (1 + np.exp(-(frame["income"] - 4.6 + (frame["sex"] == "male") + (frame["job"] == "astronaut"))))


def second(function: Callable[[pd.DataFrame], Any]) -> Callable[[pd.DataFrame], NDArray[Any]]:
    """Both scores from that of the second class."""
    return lambda frame: np.column_stack([1 - function(frame), function(frame)])


def test_the_average_of_a_function() -> None:
    data = data_of()
    result = evenhand.repair(data, "sex", "average", model=score, **QUICK)
    check_predictions(result, data)
    expected = averaged_by_hand(second(score), data)
    assert np.allclose(result.predict_proba(frame_of(data)), expected, atol=1e-5)


def test_the_average_of_a_torch_module_that_is_scaled_by_the_training_rows() -> None:
    """One row alone is scaled as in company: by the table, not by itself."""
    data = data_of()
    result = evenhand.repair(data, "sex", "average", model=OneHotNetwork(), inputs="standard", output="logits", **QUICK)
    check_predictions(result, data)
    together = result.predict_proba(frame_of(data)[:5])
    alone = [result.predict_proba(frame_of(data)[place : place + 1])[0] for place in range(5)]
    assert np.allclose(together, alone, atol=1e-6)


@pytest.mark.parametrize("framework", ["lightgbm", "xgboost"])
def test_the_average_of_boosters(framework: str) -> None:
    boosting = pytest.importorskip(framework)
    data = data_of()
    train = frame_of(data, False)[["age", "income"]].assign(male=(frame_of(data, False)["sex"] == "male").astype(int))
    kind = boosting.LGBMClassifier if framework == "lightgbm" else boosting.XGBClassifier
    model = kind(n_estimators=10, random_state=0, n_jobs=1).fit(train, (labels_of(data, False) == "yes").astype(int))

    def ask(frame: pd.DataFrame) -> Any:
        return model.predict_proba(frame[["age", "income"]].assign(male=(frame["sex"] == "male").astype(int)))

    result = evenhand.repair(data, "sex", "average", model=ask, **QUICK)
    check_predictions(result, data)
    assert np.allclose(result.predict_proba(frame_of(data)), averaged_by_hand(ask, data), atol=1e-5)


def test_the_average_of_a_keras_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    keras = pytest.importorskip("keras")
    data = data_of()
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.layers.Input((6,)), keras.layers.Dense(2, "softmax")])
    merit = np.array([1 / 30, 1.5, 0, 0, 0.25 / 3, 1])  # of the codes
    model.layers[0].set_weights([np.column_stack([0 * merit, merit]), np.array([0, -5.1])])
    result = evenhand.repair(data, "sex", "average", model=model, inputs="codes", **QUICK)
    check_predictions(result, data)


def test_a_file_predicts_what_was_judged_also_beside_its_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    skops = pytest.importorskip("skops.io")
    monkeypatch.chdir(tmp_path)
    data = data_of()
    forest = RandomForestClassifier(5, max_depth=4, random_state=0)
    forest.fit(frame_of(data, False)[NUMBERS], labels_of(data, False))
    skops.dump(forest, "forest.skops")
    result = evenhand.repair(data, "region", "average", model="forest.skops", out="fixed", **QUICK)
    said = result.predict(frame_of(data))
    assert (said == labels_of(data)).mean() == row_of(result.summary, "average")["accuracy"]
    Path("forest.skops").unlink()
    with pytest.raises(EvenhandError, match="is not there"):
        evenhand.load_repaired("fixed")
    again = evenhand.load_repaired("fixed", data=data.frame)
    assert (again.predict(frame_of(data)) == said).all()
    elsewhere = [again.predict(frame_of(data).assign(region_code=code)) for code in (11, 20, 35)]
    assert all((labels == said).all() for labels in elsewhere)


def test_labels_have_the_type_of_the_table(tmp_path: Path) -> None:
    data = data_of(typed_label=True)
    result = evenhand.repair(data, "sex", "average", model=pipeline(typed_label=True), **QUICK)
    assert result.classes_.tolist() == [0, 1]
    assert result.predict(frame_of(data)).dtype.kind == "i"
    check_predictions(result, data)


def test_a_frame_needs_no_label_and_may_write_its_values_as_text(tmp_path: Path) -> None:
    """As a CSV file that is read without types has them; what was fitted to numbers is given numbers."""
    data = data_of()
    result = evenhand.repair(data, "sex", "average", model=pipeline(), **QUICK)
    frame = frame_of(data)
    path = tmp_path / "rows.csv"
    frame.to_csv(path, index=False)
    as_text = pd.read_csv(path, dtype="str")
    as_text["member"] = as_text["member"].str.lower()  # as the schema writes it
    assert np.allclose(result.predict_proba(as_text), result.predict_proba(frame), atol=1e-6)
    assert result.predict(frame[:0]).shape == (0,)
    assert result.predict_proba(frame[:0]).shape == (0, 2)
    one = frame[3:4].assign(income=7.77, job="diver")  # a value and a job that no row of the table has
    expected = averaged_by_hand(pipeline().predict_proba, data, one)
    assert np.allclose(result.predict_proba(one), expected, atol=1e-5)


def test_rows_to_predict_need_neither_weights_nor_a_split(tmp_path: Path) -> None:
    """The table has both, the repair is judged on that split with these weights, and newcomers have none of them."""
    data, rng = data_of(), np.random.default_rng(3)
    content = data.schema.model_dump(mode="json", by_alias=True, exclude_unset=True)
    content |= {"weight": "counts", "split": {"column": "part", "train": "train"}}
    frame = messy().assign(counts=rng.integers(1, 5, len(messy())), part=rng.choice(["train", "test"], len(messy())))
    own = encode(Schema.parse(content, where="the test"), frame)
    assert np.array_equal(own.train, (frame["part"] == "train").to_numpy())
    result = evenhand.repair(own, "sex", "average", model=pipeline(), **QUICK)
    test = frame[frame["part"] == "test"]
    said = result.predict(test.drop(columns=["approved", "counts", "part"]))
    right = np.average(said == test["approved"], weights=test["counts"])
    assert row_of(result.summary, "average")["accuracy"] == pytest.approx(right)
    assert "the table's own split" in result.summary["split"]
    before = row_of(result.summary, "original")["people"]
    men, women = (pipeline().predict(test.assign(sex=sex)) for sex in ("male", "female"))
    assert before["rate"] == pytest.approx(np.average(men != women, weights=test["counts"]))


class Cautious:
    """Says yes from a score of 0.7 on, as its own predict does; reads raw columns."""

    def __init__(self, classes: int = 2) -> None:
        self.pipeline = pipeline(classes)
        self.classes_, self.feature_names_in_ = self.pipeline.classes_, self.pipeline.feature_names_in_

    def predict_proba(self, frame: pd.DataFrame) -> Any:
        return self.pipeline.predict_proba(frame)

    def predict(self, frame: pd.DataFrame) -> Any:
        return np.where(self.predict_proba(frame)[:, 1] >= 0.7, "yes", "no")


def test_the_average_keeps_to_a_threshold_that_is_stated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    skops = pytest.importorskip("skops.io")
    monkeypatch.chdir(tmp_path)
    data, model = data_of(), pipeline()
    skops.dump(model, "model.skops")
    result = evenhand.repair(data, "sex", "average", model="model.skops", threshold=0.7, out="cut", **QUICK)
    expected = np.where(averaged_by_hand(model.predict_proba, data)[:, 1] >= 0.7, "yes", "no")
    said = result.predict(frame_of(data))
    assert (said == expected).all()
    assert (said == labels_of(data)).mean() == row_of(result.summary, "average")["accuracy"]
    assert (evenhand.load_repaired("cut", data.frame).predict(frame_of(data)) == said).all()
    before = row_of(result.summary, "original")["people"]["discriminatory"]
    yes = [model.predict_proba(frame_of(data).assign(sex=sex))[:, 1] >= 0.7 for sex in ("male", "female")]
    assert before == (yes[0] != yes[1]).sum() > 0


def test_the_average_of_a_model_with_a_decision_of_its_own() -> None:
    data = data_of()
    result = evenhand.repair(data, "sex", "average", model=Cautious(), **QUICK)
    said = result.predict(frame_of(data))
    assert (said == labels_of(data)).mean() == row_of(result.summary, "average")["accuracy"]
    mean = averaged_by_hand(pipeline().predict_proba, data)[:, 1]
    far = np.abs(mean - 0.7) > 0.02  # the cut that its labels show lies between two people
    assert (said[far] == np.where(mean >= 0.7, "yes", "no")[far]).all()
    assert (result.predict(frame_of(data).assign(sex="male")) == said).all()


@pytest.mark.parametrize("by", ["blind", "pairing", "average"])
def test_networks_keep_to_a_threshold_that_is_stated(by: str, tmp_path: Path) -> None:
    data = data_of()
    result = evenhand.repair(data, "sex", by, model=network(), threshold=0.7, out=tmp_path, **QUICK)
    said, scores = result.predict(frame_of(data)), result.predict_proba(frame_of(data))
    assert (said == np.where(scores[:, 1] >= 0.7, "yes", "no")).all()
    assert (said != np.where(scores[:, 1] >= 0.5, "yes", "no")).any()
    assert (said == labels_of(data)).mean() == row_of(result.summary, result.summary["chosen"])["accuracy"]
    assert row_of(result.summary, "original")["certified"] is None  # bounds are about the highest score
    assert (evenhand.load_repaired(tmp_path).predict(frame_of(data)) == said).all()


def test_a_model_that_cannot_be_trained_again_is_averaged_unless_something_else_is_asked_for() -> None:
    data = data_of()
    foreign = evenhand.repair(data, "sex", model=pipeline(), **QUICK)
    assert foreign.summary["chosen"] == "average"
    assert foreign.summary["config"]["by"] == ["average"]
    assert any(note.startswith("Repaired by average: Pipeline is not a network") for note in foreign.summary["notes"])
    expected = averaged_by_hand(pipeline().predict_proba, data)[:, [list(pipeline().classes_).index("yes")]]
    assert np.allclose(foreign.predict_proba(frame_of(data))[:, 1:], expected, atol=1e-5)
    own = evenhand.repair(data, "sex", model=network(), **QUICK)
    assert own.summary["chosen"] == "blind"
    assert own.summary["notes"] == []
    with pytest.raises(EvenhandError, match=r'blind would train .* --by average \(in Python by="average"\) is'):
        evenhand.repair(data, "sex", "blind", model=pipeline(), **QUICK)


def test_an_audit_of_an_average_says_why_there_are_no_gradients_and_what_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skops = pytest.importorskip("skops.io")
    monkeypatch.chdir(tmp_path)
    skops.dump(pipeline(), "model.skops")
    evenhand.repair(data_of(), "sex", "average", model="model.skops", out="fixed", **QUICK)
    few: dict[str, Any] = {"seeds": 5, "steps": 3}
    before = evenhand.audit(data_of(), "age", model="model.skops", **few).summary["model"]
    after = evenhand.audit(data_of(), "age", model="fixed/model.safetensors", **few).summary["model"]
    assert after["no_gradients"] == before["no_gradients"]
    assert after["inputs"] == before["inputs"] == {"reading": "columns by name", "settled_by": "file"}
    assert after["unread"]["sex"] == "it is a mean over all its values"


def test_what_cannot_be_predicted_is_said(tmp_path: Path) -> None:
    data = data_of()
    result = evenhand.repair(data, "sex", "blind", model=network(), out=tmp_path, **QUICK)
    with pytest.raises(EvenhandError, match="no column 'income'"):
        result.predict(frame_of(data).drop(columns="income"))
    with pytest.raises(EvenhandError, match="'south' is not among the categories of 'region'"):
        result.predict(frame_of(data).assign(region_code="south"))
    with pytest.raises(EvenhandError, match="Give a pandas"):
        result.predict(np.zeros((3, 6)))  # type: ignore[arg-type]
    with pytest.raises(EvenhandError, match="holds no repaired model"):
        evenhand.load_repaired(tmp_path / "nowhere")
    nothing = evenhand.repair(data, "sex", "blind", model=network(), choose="accuracy_loss<=-1", **QUICK)
    with pytest.raises(EvenhandError, match="no model to ask"):
        nothing.predict(frame_of(data))
