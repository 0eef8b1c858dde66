"""Group figures of people as they stand in the table, against pandas and the bare model."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from evenhand.data.dataset import Dataset
from evenhand.data.infer.schema import dataset_from
from evenhand.runs.measure import measure
from evenhand.runs.repair_examples import group_rows
from evenhand.runs.tried_model import try_model
from evenhand.search.space import TableSpace

ROWS = 1200
COLUMNS = ["sex", "pay", "debt"]


def people() -> pd.DataFrame:
    """Numbers finer than any step of a schema, some very large, a few sexes that are rare or missing."""
    draws = np.random.default_rng(5)
    frame = pd.DataFrame({"sex": draws.choice(["f", "m", "x"], ROWS, p=[0.5, 0.45, 0.05])})
    frame["pay"] = np.exp(draws.normal(10, 3, ROWS))
    frame["debt"] = draws.gamma(1, 3000.0, ROWS)
    merit = np.log(frame["pay"]) - frame["debt"] / 9000 + 0.4 * (frame["sex"] == "m")
    frame["y"] = np.where(merit + draws.normal(0, 0.3, ROWS) > 10, "yes", "no")
    frame["w"] = draws.gamma(1, 3, ROWS).round(2)
    return frame


def fitted(frame: pd.DataFrame) -> Pipeline:
    scaled = make_pipeline(FunctionTransformer(np.log1p, feature_names_out="one-to-one"), StandardScaler())
    columns = make_column_transformer((OneHotEncoder(), ["sex"]), (scaled, ["pay", "debt"]))
    return make_pipeline(columns, LogisticRegression(max_iter=1000)).fit(frame[COLUMNS], frame["y"])


def shares(rows: pd.DataFrame) -> tuple[float, float]:
    """How often the rows are given yes, and those among them who have it."""
    good = rows[rows["y"] == "yes"]
    return tuple(float(np.average(part["said"] == "yes", weights=part["w"])) for part in (rows, good))  # type: ignore[return-value]


@pytest.mark.parametrize("weighted", [False, True])
def test_group_figures_are_those_of_the_bare_model_on_raw_rows(weighted: bool) -> None:
    frame = people() if weighted else people().assign(w=1.0)
    model = fitted(frame)
    data: Dataset = (
        dataset_from(frame, "y", ["sex"], weight="w")
        if weighted
        else dataset_from(frame.drop(columns="w"), "y", ["sex"])
    )
    summary = measure(data, "sex", model=model, half_width=0.1, changes=1).summary
    [figures] = summary["groups"]
    rows = frame.assign(said=model.predict(frame[COLUMNS]))[~data.train]
    for group in figures["groups"]:
        mine = rows[rows["sex"] == group["value"]]
        assert group["people"] == len(mine) > 0
        assert (group["selection_rate"], group["true_positive_rate"]) == pytest.approx(shares(mine))
    assert len(figures["groups"]) == rows["sex"].nunique()
    subject = try_model(data, model, ["sex"], torch.device("cpu"))
    grid = torch.tensor(data.codes[~data.train], dtype=torch.float32)
    on_grid = subject.classifier.outputs(grid).labels.numpy() == data.schema.label.favourable_code
    assert (on_grid != (rows["said"] == "yes").to_numpy()).any()  # so that rounded people would be seen


@pytest.mark.parametrize("weighted", [False, True])
def test_accuracy_by_group_is_that_of_pandas(weighted: bool) -> None:
    frame = people()
    frame.loc[frame["sex"] == "x", "w"] = 0.0
    data = (
        dataset_from(frame, "y", ["sex"], weight="w")
        if weighted
        else dataset_from(frame.drop(columns="w"), "y", ["sex"])
    )
    draws = np.random.default_rng(1)
    before, after = (draws.random(int((~data.train).sum())) < share for share in (0.7, 0.6))
    rows = frame[~data.train].assign(before=before, after=after, weight=frame["w"] if weighted else 1.0)
    found = group_rows(data, TableSpace(data.schema, ["sex"]), before, after)
    assert [group["value"] for group in found] == (["f", "m"] if weighted else ["f", "m", "x"])  # nobody else counts
    for group in found:
        mine = rows[rows["sex"] == group["value"]]
        assert group["people"] == len(mine)
        for when in ("before", "after"):
            assert group[f"accuracy_{when}"] == pytest.approx(np.average(mine[when], weights=mine["weight"]))
