"""Estimators, pipelines and functions of a data frame as models."""

import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import skops.io
import torch
from numpy.typing import NDArray
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_info

from evenhand.data.schema import Label
from evenhand.errors import EvenhandError
from evenhand.models.adapters.base import Adapter, class_order, scores_of
from evenhand.models.adapters.features.entries import FeatureEntry
from evenhand.models.adapters.frames import RawMatrix, in_one_thread, wrap_function
from evenhand.models.adapters.sklearn import open_skops, wrap_estimator
from evenhand.models.trial import conformance
from tests.worlds.adapters import codes_of, features_and_label, people

ESTIMATORS = {
    "histogram boosting": HistGradientBoostingClassifier(max_iter=8),
    "gradient boosting": GradientBoostingClassifier(n_estimators=8),
    "forest in threads": RandomForestClassifier(12, n_jobs=-1, random_state=0),
    "logistic": LogisticRegression(),
    "ridge": RidgeClassifier(),
    "calibrated": CalibratedClassifierCV(LogisticRegression(), cv=2),
}


def pipeline(model: Any, classes: int = 2) -> tuple[Pipeline, pd.DataFrame]:
    """A fitted pipeline on raw columns, and the rows it was fitted on."""
    features, label = features_and_label(classes)
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["sex", "job", "region_code"]),
        (StandardScaler(), ["age", "income"]),
        remainder="passthrough",
        sparse_threshold=0,
    )
    return make_pipeline(columns, model).fit(features, label), features


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("classes", [2, 3])
def test_pipelines_on_raw_columns_conform_and_keep_their_decisions(name: str, classes: int) -> None:
    model, features = pipeline(ESTIMATORS[name], classes)
    data = people(classes)
    found = conformance(wrap_estimator(data, model, None), data)
    assert not found.gradients
    labels = found.classifier.outputs(codes_of(data)).labels.numpy()
    assert np.array(data.schema.label.values)[labels].tolist() == model.predict(features).tolist()


@pytest.mark.parametrize("model", [LogisticRegression(), RidgeClassifier(), KNeighborsClassifier()])
def test_classes_are_the_schemas_in_its_own_order(model: Any) -> None:
    data = people()  # no, yes: sorted, as scikit-learn sorts its classes; now the other way round
    label = data.schema.label.model_copy(update={"values": ["yes", "no"]})
    turned = type(data)(data.schema.model_copy(update={"label": label}), data.codes, 1 - data.labels, data.train)
    fitted, features = pipeline(model)
    labels = conformance(wrap_estimator(turned, fitted, None), turned).classifier.outputs(codes_of(data)).labels
    assert np.array(["yes", "no"])[labels.numpy()].tolist() == fitted.predict(features).tolist()


def test_an_estimator_on_a_matrix_reads_numbers_and_codes() -> None:
    data = people()
    matrix = RawMatrix(data)(data.clipped)
    features, _ = features_and_label()
    raw = features[["age", "region_code", "income", "member"]].to_numpy(dtype=np.float64)
    assert np.array_equal(matrix[:, [0, 3, 4, 5]], raw)
    assert np.array_equal(matrix[:, [1, 2]], data.clipped[:, [1, 2]])
    model = DecisionTreeClassifier(max_depth=5).fit(matrix, data.labels)
    scores = wrap_estimator(data, model, None)(codes_of(data))
    assert torch.equal(scores, torch.tensor(model.predict_proba(matrix), dtype=torch.float32))
    conformance(wrap_estimator(data, model, None), data)


def test_inputs_say_which_matrix_an_estimator_reads() -> None:
    data = people()
    model = LogisticRegression().fit(data.clipped.astype(np.float64), data.labels)
    expected = torch.tensor(model.predict_proba(data.clipped), dtype=torch.float32)
    assert torch.equal(wrap_estimator(data, model, "codes")(codes_of(data)), expected)
    named = pd.DataFrame(data.clipped.astype(np.float64), columns=data.schema.names)[["income", "age", "sex"]]
    model = LogisticRegression().fit(named, data.labels)
    expected = torch.tensor(model.predict_proba(named), dtype=torch.float32)
    assert torch.equal(wrap_estimator(data, model, "codes")(codes_of(data)), expected)
    with pytest.raises(EvenhandError, match="names the 3 columns that it reads, and is given age"):
        wrap_estimator(data, model, "onehot")
    listed = [FeatureEntry(attribute=name, as_="code") for name in ("income", "age", "sex")]
    assert torch.equal(wrap_estimator(data, model, listed)(codes_of(data)), expected)


class OnlyLabels:
    """What someone's own class may look like."""

    classes_ = np.array([0.0, 1.0, 2.0])

    def predict(self, frame: pd.DataFrame) -> NDArray[np.float64]:
        return np.asarray((frame["age"] > 30).astype(float) + (frame["age"] > 60), dtype=np.float64)


def test_an_object_with_nothing_but_predict_reads_the_raw_frame() -> None:
    data = people(3)
    labels = conformance(wrap_estimator(data, OnlyLabels(), None), data).classifier.outputs(codes_of(data)).labels
    assert np.array_equal(labels.numpy(), OnlyLabels().predict(features_and_label(3)[0]))


def test_columns_that_the_schema_lacks_are_named() -> None:
    data = people()
    features, label = features_and_label()
    frame = features[["age", "income"]].assign(height=1.8, shoe_size=44)
    with pytest.raises(EvenhandError, match=r"'height', 'shoe_size'.*It has: age, sex, job, region_code"):
        wrap_estimator(data, LogisticRegression().fit(frame, label), None)
    with pytest.raises(EvenhandError, match=r"2 columns without names.*6: age"):
        wrap_estimator(data, LogisticRegression().fit(frame[["age", "income"]].to_numpy(), label), None)


def test_classes_that_are_not_the_schemas_are_named() -> None:
    features, label = features_and_label()
    model = LogisticRegression().fit(features[["age"]], np.where(label == "yes", "granted", "refused"))
    with pytest.raises(EvenhandError, match=r"granted, refused.*no, yes"):
        wrap_estimator(people(), model, None)


@pytest.mark.parametrize("name", ["histogram boosting", "gradient boosting", "forest in threads", "calibrated"])
def test_a_file_of_skops_gives_the_model_back(name: str, tmp_path: Path) -> None:
    model, features = pipeline(ESTIMATORS[name])
    data = people()
    skops.io.dump(model, tmp_path / "model.skops")
    adapter = open_skops(data, tmp_path / "model.skops", None)
    expected = torch.tensor(model.predict_proba(features), dtype=torch.float32)
    assert torch.allclose(conformance(adapter, data).classifier.module(codes_of(data)), expected, atol=1e-6)


def my_own(frame: pd.DataFrame) -> pd.DataFrame:
    return frame


def test_types_that_are_not_trusted_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    features, label = features_and_label()
    numbers = features[["age", "income"]]
    model = make_pipeline(FunctionTransformer(my_own), LogisticRegression()).fit(numbers, label)
    skops.io.dump(model, tmp_path / "model.skops")
    name = f"{my_own.__module__}.my_own"
    with pytest.raises(EvenhandError, match=f'not trusted: {name}.*EVENHAND_TRUST="{name}"'):
        open_skops(people(), tmp_path / "model.skops", None)
    monkeypatch.setenv("EVENHAND_TRUST", f"a.b.C, {name}")
    assert open_skops(people(), tmp_path / "model.skops", None).about == "model.skops"


class Dangerous:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("inside_zip", [False, True])
def test_a_pickle_with_another_name_is_refused_and_not_run(tmp_path: Path, inside_zip: bool) -> None:
    trace, path = tmp_path / "trace", tmp_path / "model.skops"
    hostile = pickle.dumps(Dangerous(trace))
    if inside_zip:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("schema.json", hostile)
    else:
        path.write_bytes(hostile)
    with pytest.raises(EvenhandError, match=r"model\.skops"):
        open_skops(people(), path, None)
    assert not trace.exists()
    pickle.loads(hostile)  # it would have left a trace
    assert trace.exists()


def spoiled(model: Any, name: str, value: int) -> Any:
    """A boosted model with one node that points elsewhere."""
    nodes = model._predictors[0][0].nodes
    nodes[name][0] = value
    return model


@pytest.mark.parametrize(("name", "value"), [("left", 10_000), ("right", 0), ("feature_idx", 77)])
def test_trees_that_point_outside_are_refused(tmp_path: Path, name: str, value: int) -> None:
    data = people()
    model = HistGradientBoostingClassifier(max_iter=2).fit(RawMatrix(data)(data.clipped), data.labels)
    skops.io.dump(spoiled(model, name, value), tmp_path / "model.skops")
    with pytest.raises(EvenhandError, match="point outside"):
        open_skops(data, tmp_path / "model.skops", None)


def approval(frame: pd.DataFrame) -> NDArray[np.float64]:
    """One score: the probability of yes."""
    odds = frame["income"] / 2 + (frame["sex"] == "male") * 2 - frame["job"].isna() - 4
    return np.asarray(1 / (1 + np.exp(-odds)), dtype=np.float64)


def both(frame: pd.DataFrame) -> pd.DataFrame:
    yes = approval(frame)
    return pd.DataFrame({"yes": yes, "no": 1 - yes})


def words(frame: pd.DataFrame) -> Any:
    return np.where(approval(frame) > 0.5, "yes", "no")


@pytest.mark.parametrize("function", [approval, both, words])
def test_functions_of_a_data_frame_conform(function: Any) -> None:
    data = people()
    adapter = wrap_function(data, function, None)
    assert isinstance(adapter, Adapter)
    assert adapter.about == function.__name__
    labels = conformance(adapter, data).classifier.outputs(codes_of(data)).labels.numpy()
    assert np.array_equal(labels, approval(features_and_label()[0]) > 0.5)


def test_what_a_function_answers_wrongly_is_said() -> None:
    data = people()
    with pytest.raises(EvenhandError, match="returned nothing"):
        wrap_function(data, lambda frame: None, None)(codes_of(data))
    with pytest.raises(EvenhandError, match=r"shape \(599,\) to 600 rows"):
        wrap_function(data, lambda frame: approval(frame)[1:], None)(codes_of(data))
    with pytest.raises(EvenhandError, match="the label 'perhaps'"):
        wrap_function(data, lambda frame: ["perhaps"] * len(frame), None)(codes_of(data))


@pytest.mark.parametrize("values", [["0", "1"], ["no", "yes"], ["false", "true"], ["true", "false"], ["1", "0"]])
@pytest.mark.parametrize("kind", [bool, object])
def test_labels_that_are_true_and_false_are_read_as_such_classes_are(values: list[str], kind: type) -> None:
    label = Label(column="ok", values=values)
    answers: NDArray[Any] = np.array([True, False, True], dtype=kind)
    second = values[1] not in ("false", "0")
    assert scores_of(answers, 3, label).argmax(dim=1).tolist() == [int(answer == second) for answer in answers]
    assert scores_of(answers[:1], 1, label).argmax(dim=1).tolist() == [int(second)]
    order = class_order([False, True], label)
    assert order == ([0, 1] if second else [1, 0])


def test_counted_labels_are_the_schemas_in_its_order_unless_they_could_be_its_names() -> None:
    counts = np.array([1, 0, 2])
    assert scores_of(counts, 3, people(3).schema.label).argmax(dim=1).tolist() == [1, 0, 2]
    label = Label(column="ok", values=["2", "1", "4"])
    assert scores_of(counts[[0, 2]], 2, label).argmax(dim=1).tolist() == [1, 0]
    with pytest.raises(EvenhandError, match="the label '0', which is none of 2, 1, 4"):
        scores_of(counts, 3, label)


def test_a_tie_goes_to_the_models_own_first_class_and_a_hair_decides() -> None:
    label = people(3).schema.label  # no, later, yes
    votes = np.array([[0.5, 0.5, 0.0], [0.0, 0.5 - 1e-12, 0.5 + 1e-12], [0.2, 0.3, 0.5]])
    order = class_order(["later", "yes", "no"], label)
    scores = scores_of(votes, 3, label, order)
    assert [label.values[code] for code in scores.argmax(dim=1)] == ["later", "no", "no"]
    assert [label.values[code] for code in scores.log().argmax(dim=1)] == ["later", "no", "no"]
    assert torch.allclose(scores, torch.tensor(votes[:, order], dtype=torch.float32), atol=1e-5)


def test_threads_are_left_alone_where_their_number_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    numbers = [pool["num_threads"] for pool in in_one_thread(lambda question: threadpool_info())(None)]
    assert set(numbers) == {1}
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert in_one_thread(approval) is approval


@pytest.mark.parametrize(("name", "value"), [("children_left", 10_000), ("children_right", 0), ("feature", 77)])
@pytest.mark.parametrize("kind", [RandomForestClassifier, GradientBoostingClassifier])
def test_trees_of_forests_that_point_outside_are_refused(tmp_path: Path, kind: Any, name: str, value: int) -> None:
    data = people()
    model = kind(n_estimators=2, max_depth=2).fit(RawMatrix(data)(data.clipped), data.labels)
    getattr(np.ravel(model.estimators_)[1].tree_, name)[0] = value
    skops.io.dump(model, tmp_path / "model.skops")
    with pytest.raises(EvenhandError, match="point outside"):
        open_skops(data, tmp_path / "model.skops", None)
