"""Models that are not what they are taken for, and tables that do not belong to them."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import TunedThresholdClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from torch import nn

from bench.truth import made_tables as made
from bench.truth import models
from bench.truth.endpoint import Endpoint
from bench.truth.networks import trained
from bench.truth.world import Subject, World

COLUMNS = "age sex income member"


def nothing(frame: pd.DataFrame) -> NDArray[Any]:
    """Stands where no label can be right."""
    raise AssertionError(f"nobody asks about {len(frame)} rows")


def stated(build: models.Build, **settings: Any) -> models.Build:
    """A model with other settings than it needs."""
    return lambda world: replace(build(world), settings=settings)


def unnamed(change: Callable[[NDArray[np.float32]], NDArray[np.float32]]) -> models.Build:
    """An estimator that was fitted on a matrix without names, changed in some way."""

    def build(world: World) -> Subject:
        matrix = change(world.matrix(world.frame, "values"))
        return Subject(nothing, make_pipeline(StandardScaler(), LogisticRegression()).fit(matrix, world.y))

    return build


def scaled_elsewhere(matrix: NDArray[np.float32]) -> NDArray[np.float32]:
    """Columns with mean 0 and deviation 1, made by a step that did not come with the model."""
    return np.asarray((matrix - matrix.mean(0)) / matrix.std(0), dtype=np.float32)


def swapped_network(world: World) -> Subject:
    """A network whose first score is for the second label."""
    module = trained(world.matrix(world.frame, "values"), 1 - world.class_codes)
    return Subject(nothing, module, {"inputs": "values"})


def swapped_booster(world: World) -> Subject:
    """A booster that counts the labels from the other end."""
    import lightgbm

    x = world.x.astype(dict.fromkeys(world.texts, "category"))
    booster = lightgbm.train({"objective": "binary", "verbose": -1}, lightgbm.Dataset(x, 1 - world.class_codes), 20)
    return Subject(nothing, booster)


def right_booster(world: World) -> Subject:
    """A booster that counts no as 0 and yes as 1."""
    import lightgbm

    x = world.x.astype(dict.fromkeys(world.texts, "category"))
    booster = lightgbm.train({"objective": "binary", "verbose": -1}, lightgbm.Dataset(x, (world.y == "yes") * 1), 20)
    return Subject(nothing, booster)


def regressor(last: Any) -> models.Build:
    """A pipeline that predicts the label's number."""
    return lambda world: Subject(nothing, models.pipeline(world, last).fit(world.x, world.class_codes))


def boosted_regression(world: World) -> Subject:
    """A booster of LightGBM with a squared error."""
    import lightgbm

    x = world.x.astype(dict.fromkeys(world.texts, "category"))
    data = lightgbm.Dataset(x, world.class_codes.astype(float))
    return Subject(nothing, lightgbm.train({"objective": "regression", "verbose": -1}, data, 20))


def xgboost_regression(world: World) -> Subject:
    """XGBoost's regressor."""
    import xgboost

    x = world.x.astype(dict.fromkeys(world.texts, "category"))
    model = xgboost.XGBRegressor(n_estimators=20, enable_categorical=True, n_jobs=1)
    return Subject(nothing, model.fit(x, world.class_codes.astype(float)))


def onnx_regression(world: World) -> Subject:
    """A linear regression as an ONNX file."""
    from skl2onnx import convert_sklearn
    from skl2onnx.common.data_types import FloatTensorType

    matrix = world.matrix(world.frame, "values")
    model = make_pipeline(StandardScaler(), LinearRegression()).fit(matrix, world.class_codes)
    path = world.folder / "model.onnx"
    inputs = [("x", FloatTensorType([None, matrix.shape[1]]))]
    path.write_bytes(convert_sklearn(model, initial_types=inputs).SerializeToString())
    return Subject(nothing, path, {"inputs": "values"})


def without(*columns: str) -> models.Build:
    """A pipeline that was fitted without some columns."""
    return lambda world: models.logistic(replace(world, reads=[name for name in world.reads if name not in columns]))


def dropping_sex(world: World) -> Subject:
    """A pipeline that was given the column and drops it."""
    kept = make_column_transformer((StandardScaler(), ["age", "income", "member"]))
    return models.estimator(world, make_pipeline(kept, LogisticRegression()))


def blind(frame: pd.DataFrame) -> Any:
    """Scores that sex has no part in."""
    return 1 / (1 + np.exp(-(frame["income"] - 1980) / 300))


def tuned(world: World) -> Subject:
    """A threshold that was tuned by cross-validation, for another measure than accuracy."""
    inner = models.pipeline(world, LogisticRegression(max_iter=400))
    model = TunedThresholdClassifierCV(inner, scoring="balanced_accuracy", cv=3, random_state=0, thresholds=20)
    return models.estimator(world, model)


def labels_at(threshold: float) -> models.Build:
    """A function that gives labels, with a threshold within."""

    def build(world: World) -> Subject:
        model = models.pipeline(world, LogisticRegression(max_iter=400)).fit(world.x, world.y)

        def approve(frame: pd.DataFrame) -> NDArray[Any]:
            return np.where(model.predict_proba(frame[world.reads])[:, 1] >= threshold, "yes", "no")

        return Subject(approve, approve)

    return build


def scores_with(threshold: float) -> models.Build:
    """A function that gives the probability of yes, and a threshold that the user states."""

    def build(world: World) -> Subject:
        model = models.pipeline(world, LogisticRegression(max_iter=400)).fit(world.x, world.y)

        def score(frame: pd.DataFrame) -> NDArray[Any]:
            return np.asarray(model.predict_proba(frame[world.reads])[:, 1])

        return Subject(lambda f: np.where(score(f) >= threshold, "yes", "no"), score, {"threshold": threshold})

    return build


def with_nan(frame: pd.DataFrame) -> pd.Series:
    """Scores that gaps are passed on to."""
    return (frame["income"] / 4000 + frame["hours"] / 200).clip(0, 1)


def constant(frame: pd.DataFrame) -> pd.Series:
    """Always the same probability, a hair above a half."""
    return pd.Series(0.51, index=frame.index)


def of_other_label(world: World) -> Subject:
    """A model of something else: who is young, while the older ones are approved."""
    y = np.where(world.frame["age"] < 44, "yes", "no")
    return Subject(nothing, models.pipeline(world, LogisticRegression()).fit(world.x, y))


def of_original_labels(world: World) -> Subject:
    """A model of the labels before they were shuffled in the file."""
    original = made.people()["approved"].to_numpy()
    return Subject(nothing, models.pipeline(world, LogisticRegression(max_iter=400)).fit(world.x, original))


def leaking(world: World) -> Subject:
    """A model that reads the label."""
    return models.logistic(replace(world, reads=[*world.reads, world.label]))


def races_by_frequency(world: World) -> Subject:
    """An estimator on a matrix whose races are counted from the commonest on, and not by the alphabet."""
    order = list(world.frame["race"].value_counts().index)
    place = [entry["name"] for entry in world.content["attribute"]].index("race")

    def matrix(frame: pd.DataFrame) -> NDArray[np.float32]:
        values = world.matrix(frame, "values")
        values[:, place] = frame["race"].map(order.index)
        return values

    model = RandomForestClassifier(20, min_samples_leaf=4, random_state=0).fit(matrix(world.frame), world.y)
    return Subject(lambda frame: model.predict(matrix(frame)), model)


def other_order_of_jobs(world: World) -> Subject:
    """An estimator on a matrix whose jobs are counted from the other end of the alphabet."""
    matrix = world.matrix(world.frame, "values")
    job = [entry["name"] for entry in world.content["attribute"]].index("job")
    matrix[:, job] = matrix[:, job].max() - matrix[:, job]
    return Subject(nothing, RandomForestClassifier(20, random_state=0).fit(matrix, world.y))


def bools_as_numbers(world: World) -> Subject:
    """A booster that was trained on 0 and 1 where the file says True and False."""
    import lightgbm

    kinds: dict[str, Any] = {"member": np.dtype(int), "sex": pd.CategoricalDtype(["female", "male"])}
    data = lightgbm.Dataset(world.x.astype(kinds), world.class_codes)
    booster = lightgbm.train({"objective": "binary", "verbose": -1}, data, 30)
    return Subject(lambda f: world.labels(booster.predict(f[world.reads].astype(kinds)) > 0.5), booster)


def stale(world: World) -> Subject:
    """A pipeline that knows fewer races than the table has, and fails on the others."""
    known = (world.frame["race"] != "Hispanic").to_numpy()
    columns = make_column_transformer((OneHotEncoder(), world.texts), remainder="passthrough")
    model = make_pipeline(columns, StandardScaler(with_mean=False), LogisticRegression(max_iter=400))
    return Subject(nothing, model.fit(world.x[known], world.y[known]))


def by_job_table(world: World) -> Subject:
    """A function that looks jobs up, and fails on one that no row has."""
    rank = world.frame.groupby("job")["income"].median().to_dict()

    def approve(frame: pd.DataFrame) -> NDArray[Any]:
        ranks = np.array([rank[job] for job in frame["job"]])
        merit = frame["income"] / 900 + ranks / 1500 + (frame["sex"] == "male")
        return np.where(merit > 4.1, "yes", "no")

    return Subject(approve, approve)


def typographic(frame: pd.DataFrame) -> NDArray[Any]:
    """A rule that knows of the typographic minus."""
    balance = frame["balance"].astype(str).str.replace("−", "-").astype(float)
    return np.where(balance / 900 + frame["age"] / 40 + (frame["sex"] == "male") * 0.8 > 2, "yes", "no")


def answering(change: Callable[[list[list[float]]], list[list[float]]]) -> models.Build:
    """An endpoint whose answers are right but for a change."""

    def build(world: World) -> Subject:
        model = models.pipeline(world, LogisticRegression(max_iter=400)).fit(world.x, world.y)

        def scores(rows: list[dict[str, Any]]) -> list[list[float]]:
            frame = pd.DataFrame(rows, columns=world.reads).astype(dict(world.x.dtypes))
            return change(model.predict_proba(frame).tolist())

        server = Endpoint(scores)
        return Subject(nothing, server.url, close=server.close)

    return build


class Noisy(nn.Module):
    """A network that forgot to turn its dropout off."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(n, classes) other scores each time."""
        scores: torch.Tensor = self.inner(nn.functional.dropout(x, 0.5, training=True))
        return scores


def noisy(world: World) -> Subject:
    """See `Noisy`."""
    module = trained(world.matrix(world.frame, "values"), world.class_codes)
    return Subject(nothing, Noisy(module), {"inputs": "values"})


def by_batch(frame: pd.DataFrame) -> pd.Series:
    """People are compared with those who happen to be asked about together."""
    return frame["income"].rank(pct=True)


def other_names(world: World) -> Subject:
    """A model whose labels have other names than those of the table."""
    y = np.where(world.y == "yes", "granted", "denied")
    return Subject(nothing, models.pipeline(world, LogisticRegression(max_iter=400)).fit(world.x, y))


def of_three_labels(world: World) -> Subject:
    """A model of three labels for a table with two."""
    return Subject(nothing, models.pipeline(world, LogisticRegression()).fit(world.x, made.people()["grade"]))


def shuffled_table(folder: Path) -> Path:
    """A file whose labels were shuffled."""
    path = made.table(folder, COLUMNS)
    frame = pd.read_csv(path)
    frame["approved"] = frame["approved"].sample(frac=1, random_state=1).to_numpy()
    frame.to_csv(path, index=False)
    return path


def by_hash(frame: pd.DataFrame) -> NDArray[Any]:
    """Labels without rhyme or reason."""
    noise = (frame["age"] * 7919 + frame["income"] * 100 + (frame["sex"] == "male") * 31) % 101
    return np.where(noise > 50, "yes", "no")


def lucky_table(folder: Path) -> Path:
    """A file whose labels are drawn by lot, and agree with `by_hash` a little better than the commonest one does."""
    frame = made.people()[["age", "sex", "income", "approved"]]
    for seed in itertools.count():
        frame["approved"] = np.random.default_rng(seed).choice(["no", "yes"], len(frame))
        luck = (by_hash(frame) == frame["approved"]).mean() - frame["approved"].value_counts(normalize=True).max()
        if 0 < luck < 0.01:
            break
    path = folder / "people.csv"
    frame.to_csv(path, index=False)
    return path


def few_yes_table(folder: Path) -> Path:
    """A file in which fewer than a third are approved."""
    frame = made.people()[["age", "sex", "income", "race", "region", "grade"]]
    frame["approved"] = np.where(frame.pop("grade") == "high", "yes", "no")
    path = folder / "people.csv"
    frame.to_csv(path, index=False)
    return path


def jobs_table(folder: Path) -> Path:
    """A file in which the job decides alone, but for a little sex."""
    frame = made.people()[["age", "sex", "job"]]
    frame["job"] = np.random.default_rng(0).choice(sorted(made.JOBS), len(frame))
    places = frame["job"].map(sorted(made.JOBS).index)
    frame["approved"] = np.where(places + (frame["sex"] == "male") > 3, "yes", "no")
    path = folder / "people.csv"
    frame.to_csv(path, index=False)
    return path


def scaled_frame(world: World) -> Subject:
    """An estimator with the table's column names, fitted on numbers that another step has scaled."""
    numbers = world.x[world.numbers].astype(float)
    scaled = (numbers - numbers.mean()) / numbers.std()
    return Subject(nothing, LogisticRegression().fit(scaled, world.y))


def squeezed_network(world: World) -> Subject:
    """A network that was trained on numbers between 0 and 1, and is said to read values."""
    matrix = world.matrix(world.frame, "values")
    low, high = matrix.min(0), matrix.max(0)
    return Subject(nothing, trained((matrix - low) / (high - low), world.class_codes), {"inputs": "values"})


def stopped_early(world: World) -> Subject:
    """A file of XGBoost with more rounds than its wrapper asks."""
    import xgboost

    x, half = world.x[world.numbers].astype(float), len(world.frame) // 2
    model = xgboost.XGBClassifier(n_estimators=60, learning_rate=1.0, early_stopping_rounds=5, n_jobs=1)
    model.fit(x[:half], world.class_codes[:half], eval_set=[(x[half:], world.class_codes[half:])], verbose=False)
    assert model.best_iteration + 1 < model.get_booster().num_boosted_rounds()
    model.save_model(world.folder / "model.ubj")
    return Subject(nothing, world.folder / "model.ubj")


def two_of_five_swapped(world: World) -> Subject:
    """A network of five classes, two of which stand in each other's place."""
    module = trained(world.matrix(world.frame, "values"), np.array([0, 1, 3, 2, 4])[world.class_codes], steps=400)
    return Subject(nothing, module, {"inputs": "values"})


def five_bands_table(folder: Path) -> Path:
    """A file whose label is one of five bands of income and sex."""
    frame = made.people()[["age", "sex", "income"]]
    worth = frame["income"].rank(pct=True) + 0.1 * (frame["sex"] == "male")
    frame["approved"] = pd.cut(worth, 5, labels=list("abcde")).astype(str)
    path = folder / "people.csv"
    frame.to_csv(path, index=False)
    return path


def by_the_way(frame: pd.DataFrame) -> NDArray[Any]:
    """Sex counts for a few people only, by what stands in a column that passes."""
    few = (frame["sex"] == "male") & frame["comment"].str.contains("1994")
    return np.where((frame["income"] > 1980) ^ few, "yes", "no")


def half_read(frame: pd.DataFrame) -> Any:
    """Scores in which race has a part and sex has none."""
    return 1 / (1 + np.exp(-((frame["income"] - 1980) / 300 + (frame["race"] == "White"))))
