"""Models that read raw columns: pipelines, boosters, functions, an endpoint. Each knows its own `predict`."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.svm import SVC

from bench.truth.endpoint import Endpoint
from bench.truth.world import Subject, World

Build = Callable[[World], Subject]


def logistic(world: World) -> Subject:
    """A pipeline with imputers, scaling and one-hot columns."""
    return estimator(world, pipeline(world, LogisticRegression(max_iter=400)))


def forest(world: World) -> Subject:
    """The same columns, and a forest; as a file of skops."""
    import skops.io

    model = pipeline(world, RandomForestClassifier(20, min_samples_leaf=4, random_state=0)).fit(world.x, world.y)
    skops.io.dump(model, world.folder / "model.skops")
    return Subject(_of(world, model.predict), world.folder / "model.skops")


def perceptron(world: World) -> Subject:
    """The same columns, and a network of scikit-learn's."""
    return estimator(world, pipeline(world, MLPClassifier((12,), max_iter=60, random_state=0)))


def support_vectors(world: World) -> Subject:
    """A support vector machine whose `predict` is not always what its probabilities say."""
    return estimator(world, pipeline(world, SVC(probability=True, random_state=0)))


def with_ties(world: World) -> Subject:
    """Two neighbours who often disagree: `predict` then takes the label that comes first in the alphabet."""
    return estimator(world, pipeline(world, KNeighborsClassifier(2)))


def ridge(world: World) -> Subject:
    """A classifier without probabilities."""
    return estimator(world, pipeline(world, RidgeClassifier()))


def typed_boosting(world: World) -> Subject:
    """Gradient boosting that reads pandas categories by themselves."""
    return estimator(world, HistGradientBoostingClassifier(max_iter=30, categorical_features="from_dtype"))


def trained_on_half(world: World) -> Subject:
    """A booster that has seen half of the rows, so that some values are new to it."""
    half = world.frame.iloc[: len(world.frame) // 2]
    return lightgbm_file(replace(world, frame=half))


def hist_boosting(world: World) -> Subject:
    """Gradient boosting that reads missing numbers as they are."""
    codes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-2)
    columns = make_column_transformer((codes, world.texts), remainder="passthrough")
    return estimator(world, make_pipeline(columns, HistGradientBoostingClassifier(max_iter=40, random_state=0)))


def estimator(world: World, model: Any) -> Subject:
    """An estimator that is fitted on the raw columns."""
    model.fit(world.x, world.y)
    return Subject(_of(world, model.predict), model)


def pipeline(world: World, last: Any) -> Any:
    """Imputed and scaled numbers, a column for each text; free text by its words."""
    free = [name for name in world.texts if world.frame[name].str.count(" ").mean() > 5]
    parts: list[tuple[Any, Any]] = [(make_pipeline(SimpleImputer(), StandardScaler()), world.numbers)]
    parts += [(CountVectorizer(min_df=5), name) for name in free]
    texts = [name for name in world.texts if name not in free]
    parts += [(OneHotEncoder(handle_unknown="ignore"), texts)] if texts else []
    return make_pipeline(make_column_transformer(*parts, sparse_threshold=0), last)


def lightgbm_file(world: World) -> Subject:
    """A booster as LightGBM saves it, trained on pandas categories; its classes are 0 and 1."""
    import lightgbm

    kinds = {name: pd.CategoricalDtype(sorted(world.frame[name].dropna().unique())) for name in world.texts}
    settings = {"objective": "binary", "verbose": -1, "num_threads": 1, "min_data_in_leaf": 5, "deterministic": True}
    booster = lightgbm.train(settings, lightgbm.Dataset(world.x.astype(kinds), world.class_codes), 40)
    booster.save_model(world.folder / "model.txt")

    def predict(frame: pd.DataFrame) -> NDArray[Any]:
        return world.labels(booster.predict(frame[world.reads].astype(kinds)) > 0.5)

    return Subject(predict, world.folder / "model.txt")


def booster_of_three(world: World) -> Subject:
    """A booster of LightGBM for several labels, in memory."""
    import lightgbm

    settings = {"objective": "multiclass", "num_class": len(world.classes), "verbose": -1, "num_threads": 1}
    booster = lightgbm.train(settings, lightgbm.Dataset(world.x[world.numbers], world.class_codes), 20)
    return Subject(lambda frame: world.labels(booster.predict(frame[world.numbers]).argmax(1)), booster)


def lightgbm_estimator(world: World) -> Subject:
    """LightGBM's wrapper for scikit-learn on numbers, with gaps."""
    import lightgbm

    return estimator(world, lightgbm.LGBMClassifier(n_estimators=30, verbose=-1, n_jobs=1))


def xgboost_file(world: World) -> Subject:
    """A booster as XGBoost saves it, with categories of its own and gaps in numbers."""
    import xgboost

    kinds = {name: pd.CategoricalDtype(sorted(world.frame[name].dropna().unique())) for name in world.texts}

    def matrix(frame: pd.DataFrame, labels: Any = None) -> Any:
        return xgboost.DMatrix(frame[world.reads].astype(kinds), labels, enable_categorical=True)

    settings = {"objective": "binary:logistic", "nthread": 1, "max_depth": 4}
    booster = xgboost.train(settings, matrix(world.x, world.class_codes), 30)
    booster.save_model(world.folder / "model.ubj")
    return Subject(
        lambda frame: world.labels(booster.predict(matrix(frame)) > 0.5),
        world.folder / "model.ubj",
    )


def xgboost_estimator(world: World) -> Subject:
    """XGBoost's wrapper for scikit-learn on numbers, with gaps."""
    import xgboost

    return estimator(world, xgboost.XGBClassifier(n_estimators=25, max_depth=4, n_jobs=1))


def function(answer: Callable[[pd.DataFrame], Any]) -> Build:
    """A function of a data frame, which is its own bare model."""

    def approve(frame: pd.DataFrame) -> NDArray[Any]:
        return np.asarray(answer(frame))

    return lambda world: Subject(approve, approve)


def by_date_and_text(frame: pd.DataFrame) -> NDArray[Any]:
    """A rule that reads a date, an identifier and a text itself."""
    years, odd = 2024 - pd.to_datetime(frame["joined"]).dt.year, frame["id"].str[1:].astype(int) % 2
    merit = years / 8 + frame["age"] / 40 + odd / 2 + (frame["sex"] == "male") * 0.8 + frame["comment"].str.len() / 40
    return np.where(merit > 4.1, "yes", "no")


def endpoint(world: World) -> Subject:
    """A pipeline behind an address on this machine."""
    model = pipeline(world, LogisticRegression(max_iter=400)).fit(world.x, world.y)
    order = [list(model.classes_).index(value) for value in world.classes]

    def scores(rows: list[dict[str, Any]]) -> list[list[float]]:
        frame = pd.DataFrame(rows, columns=world.reads).astype(dict(world.x.dtypes))
        return [[float(score) for score in row] for row in model.predict_proba(frame)[:, order]]

    server = Endpoint(scores)
    return Subject(_of(world, model.predict), server.url, close=server.close)


def tuned_threshold(threshold: float) -> Build:
    """A pipeline whose `predict` has a threshold of its own."""

    def build(world: World) -> Subject:
        from sklearn.model_selection import FixedThresholdClassifier

        inner = pipeline(world, LogisticRegression(max_iter=400))
        return estimator(
            world, FixedThresholdClassifier(inner, threshold=threshold, pos_label=sorted(set(world.y))[-1])
        )

    return build


def _of(world: World, predict: Callable[[Any], Any]) -> Callable[[pd.DataFrame], Any]:
    """A `predict` that is given the columns that the model was fitted on."""
    return lambda frame: predict(frame[world.reads])


def by_position(frame: pd.DataFrame) -> NDArray[Any]:
    """Reads columns by where they stand: two races, age, three races, income."""
    cells = frame.drop(columns=["sex", "approved"], errors="ignore").to_numpy(dtype=float)
    worth = cells[:, 6] / 900 + cells[:, 2] / 40 + cells[:, 5] * 1.2 - cells[:, 1] + (frame["sex"] == "male") * 0.8
    return np.where(worth > 3.6, "yes", "no")


def by_marks(frame: pd.DataFrame) -> NDArray[Any]:
    """Tells apart what is easily taken for the same: empty text and none, 007 and 7, the number of a category."""
    marks = (
        frame["mark"].map({"": 1.0, "NA": -0.7, "None": 0.4, "007": 0.9, "7": -0.9}).fillna(0.1).to_numpy(dtype=float)
    )
    branch = frame["branch"].map(lambda text: len(text) + int(text[-1]) / 5 if isinstance(text, str) else -9.0)
    kinds = frame["kind"].cat.codes.to_numpy() / 25
    flags = frame["flag"].astype(object).map({True: 0.8, False: 0.0}).fillna(-0.6).to_numpy(dtype=float)
    worth = frame["income"] / 900 + marks + branch.to_numpy(dtype=float) / 4 + kinds + flags
    return np.where(worth + (frame["sex"] == "male") * 0.8 > 5.2, "yes", "no")
