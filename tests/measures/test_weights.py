"""Sampling weights: each row counts as often as its weight says, in every rate about people."""

import tomllib
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

from evenhand.data.dataset import Dataset, encode
from evenhand.data.infer.schema import dataset_from, infer_schema
from evenhand.errors import EvenhandError
from evenhand.measures.direction import directions
from evenhand.measures.groups import group_figures, group_rates
from evenhand.measures.people import data_rates, discriminatory_rows, people_rates
from evenhand.measures.rates import clopper_pearson
from evenhand.models.classifier import Classifier
from evenhand.search.space import TableSpace

ROWS = 500


class Score(nn.Module):
    """Says yes from a sum of attributes on."""

    def forward(self, x: Tensor) -> Tensor:
        yes = (x[:, 0] * 4 + x[:, 1] > 11.5).double()
        return torch.stack([1 - yes, yes], dim=1)


def table(seed: int = 0, weights: Any = None) -> pd.DataFrame:
    draws = np.random.default_rng(seed)
    frame = pd.DataFrame({"sex": draws.integers(0, 2, ROWS), "pay": draws.integers(0, 20, ROWS)})
    frame["y"] = draws.choice(["no", "yes"], ROWS)
    frame["w"] = draws.gamma(1, 3, ROWS).round(3) * (draws.random(ROWS) > 0.05) if weights is None else weights
    return frame


def world(frame: pd.DataFrame) -> tuple[Dataset, TableSpace, Classifier]:
    data = dataset_from(frame, "y", ["sex"], weight="w")
    return data, TableSpace(data.schema, ["sex"]), Classifier(Score(), output="probabilities")


def hit_by_hand(frame: pd.DataFrame) -> pd.Series:
    return (frame["pay"] > 11.5) != (4 + frame["pay"] > 11.5)


@pytest.mark.parametrize("seed", range(4))
def test_rates_about_people_are_weighted(seed: int) -> None:
    frame = table(seed)
    data, space, model = world(frame)
    found = discriminatory_rows(model, space, data)
    rates = data_rates(data, found.rows, found.hit, ("all", "train", "held_out"))
    masks = {"all": np.ones(ROWS, dtype=bool), "train": data.train, "held_out": ~data.train}
    for part, mask in masks.items():
        rows, hit = frame[mask], hit_by_hand(frame)[mask]
        share = float(np.average(hit, weights=rows["w"]))
        effective = float(rows["w"].sum() ** 2 / (rows["w"] ** 2).sum())
        assert rates[part].share == pytest.approx(share)
        assert rates[part].interval == pytest.approx(clopper_pearson(share * effective, effective, 0.95))
        as_dict = rates[part].as_dict()
        assert (as_dict["discriminatory"], as_dict["samples"]) == (int(hit.sum()), len(rows))
        assert as_dict["unweighted_rate"] == pytest.approx(hit.mean())
        assert as_dict["population"].endswith("weighted by w")
    measured = people_rates(model, space, data)
    assert measured["held_out"].rate == rates["held_out"]
    standings = directions(measured["train"].tally, space)[0].standings
    assert [(standing.value, standing.favourable) for standing in standings] == [("1", 1.0), ("0", 0.0)]


def test_equal_weights_change_nothing_but_the_words() -> None:
    frame = table(weights=2.5)
    data, space, model = world(frame)
    plain = Dataset(data.schema, data.codes, data.labels, data.train, data.frame)
    found = discriminatory_rows(model, space, data)
    weighted, counted = (data_rates(each, found.rows, found.hit)["all"] for each in (data, plain))
    assert weighted.share == pytest.approx(counted.share)
    assert weighted.interval == pytest.approx(counted.interval)


def test_intervals_cover_the_weighted_share_as_often_as_they_say() -> None:
    """Samples of a population whose people are drawn with unequal odds, weighted by the inverse of these."""
    draws = np.random.default_rng(8)
    odds = draws.uniform(0.2, 1, 20_000)
    hit = draws.random(20_000) < 0.1 + 0.2 * odds
    missed = 0
    for _ in range(300):
        chosen = draws.choice(20_000, 300, p=odds / odds.sum())
        weights = 1 / odds[chosen]
        share, effective = float(np.average(hit[chosen], weights=weights)), weights.sum() ** 2 / (weights**2).sum()
        low, high = clopper_pearson(share * effective, effective, 0.95)
        missed += not low <= hit.mean() <= high
    assert missed <= 0.05 * 300


def test_who_wins_is_weighted() -> None:
    frame = table()
    data, space, model = world(frame)
    figures = people_rates(model, space, data)["train"].tally
    rows = data.train & hit_by_hand(frame).to_numpy()
    assert figures.there == pytest.approx([frame["w"][rows].sum()] * 2)
    assert figures.hits == rows.sum()


def test_group_figures_are_weighted() -> None:
    frame = table()
    data, _, model = world(frame)
    figures = group_figures(model, data, ["sex"])[0]
    rows = frame[~data.train].assign(yes=lambda f: f["sex"] * 4 + f["pay"] > 11.5)
    for code, group in enumerate(figures.groups):
        mine = rows[rows["sex"] == code]
        good = mine[mine["y"] == "yes"]
        assert (group.value, group.people) == (str(code), len(mine))
        assert group.selection_rate == pytest.approx(np.average(mine["yes"], weights=mine["w"]))
        assert group.true_positive_rate == pytest.approx(np.average(good["yes"], weights=good["w"]))
    assert figures.population.endswith("weighted by w")


def test_group_figures_are_those_of_fairlearn() -> None:
    metrics = pytest.importorskip("fairlearn.metrics")
    frame = table()
    data, _, model = world(frame)
    figures = group_figures(model, data, ["sex"])[0]
    rows = frame[~data.train].assign(yes=lambda f: f["sex"] * 4 + f["pay"] > 11.5)
    found = metrics.MetricFrame(
        metrics={"selected": metrics.selection_rate, "right": metrics.true_positive_rate},
        y_true=rows["y"] == "yes",
        y_pred=rows["yes"],
        sensitive_features=rows["sex"],
        sample_params={name: {"sample_weight": rows["w"]} for name in ("selected", "right")},
    )
    assert [group.selection_rate for group in figures.groups] == pytest.approx(found.by_group["selected"].tolist())
    assert [group.true_positive_rate for group in figures.groups] == pytest.approx(found.by_group["right"].tolist())
    assert figures.demographic_parity_difference == pytest.approx(found.difference()["selected"])
    assert figures.equal_opportunity_difference == pytest.approx(found.difference()["right"])


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (["x"] * ROWS, r"Row 1, column 'w': 'x' is no weight.*500 such"),
        ([1.0] * 3 + [None] + [1.0] * (ROWS - 4), "Row 4, column 'w': '' is no weight"),
        ([-1.0] + [1.0] * (ROWS - 1), "'-1' is no weight, which is a number that is not negative"),
        ([0] * ROWS, "All weights of table .* are 0"),
    ],
)
def test_weights_that_are_none_are_refused(weights: list[Any], message: str) -> None:
    with pytest.raises(EvenhandError, match=message):
        world(table(weights=weights))


def test_weights_are_no_attribute() -> None:
    found = infer_schema(table(), "y", weight="w")
    assert found.schema.names == ["sex", "pay"]
    with pytest.raises(EvenhandError, match="'w' is the weight, so it cannot be protected"):
        infer_schema(table(), "y", ["w"], weight="w")
    with pytest.raises(EvenhandError, match="no column 'v'"):
        infer_schema(table(), "y", weight="v")
    reading = tomllib.loads(infer_schema(table(), "y").toml) | {"weight": "w"}
    with pytest.raises(EvenhandError, match="reads the column of weights 'w'"):
        type(found.schema).parse(reading, "x")
    with pytest.raises(EvenhandError, match="no column 'v'"):
        encode(found.schema.model_copy(update={"weight": "v"}), table())


def test_group_rates_are_weighted() -> None:
    frame = table()
    data, _, model = world(frame)
    figures = group_rates(model, data, ["sex"])[0]
    rows = frame[~data.train].assign(yes=lambda f: f["sex"] * 4 + f["pay"] > 11.5)
    for code, group in enumerate(figures["groups"]):
        mine = rows[rows["sex"] == code]
        bad = mine[mine["y"] == "no"]
        assert group["selection"]["rate"] == pytest.approx(np.average(mine["yes"], weights=mine["w"]))
        assert group["false_positive"]["rate"] == pytest.approx(np.average(bad["yes"], weights=bad["w"]))
        effective = float(bad["w"].sum() ** 2 / (bad["w"] ** 2).sum())
        wanted = clopper_pearson(group["false_positive"]["rate"] * effective, effective, 0.95)
        assert group["false_positive"]["interval"] == pytest.approx(wanted)
    assert figures["population"].endswith("weighted by w")


def test_held_out_rows_without_weight_leave_the_groups_to_all_others() -> None:
    frame = table()
    data, _, model = world(frame)
    kept = replace(data, weights=np.where(data.train, 1.0, 0.0))
    (found,) = group_rates(model, kept, ["sex"])
    assert found["population"].startswith("all rows")
    assert sum(group["people"] for group in found["groups"]) == data.train.sum()
