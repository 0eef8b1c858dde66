"""Sampling weights in a repair: accuracy, its change, groups and the shares of an average, against numpy and pandas."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from evenhand.data.dataset import Dataset
from evenhand.models.averaged import AveragedModel, population_weights
from evenhand.runs.repair import Repair
from evenhand.runs.repair_rows import paired
from tests.worlds.repair import material_of, network, repaired, row_of, table
from tests.worlds.schemas import labels_of


def weighted() -> Dataset:
    """Weights that go with the label and with a0, so that ignoring them would be seen."""
    data = table()
    weights = np.random.default_rng(2).gamma(1, 2, len(data.codes)) + 6 * data.labels * (data.codes[:, 0] == 2)
    weights[::7] = 0
    return replace(data, schema=data.schema.model_copy(update={"weight": "w"}), weights=weights)


DATA = weighted()
HELD_OUT = ~DATA.train


def mean(hits: Any, rows: Any = HELD_OUT) -> float:
    assert DATA.weights is not None
    return float(np.average(hits[rows], weights=DATA.weights[rows]))


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Repair:
    return repaired("average", DATA, tmp_path_factory.mktemp("weighted"))


def test_accuracy_is_weighted(result: Repair) -> None:
    right = labels_of(network(), DATA.codes) == DATA.labels
    before = row_of(result.summary, "original")
    assert before["accuracy"] == pytest.approx(mean(right))
    assert abs(before["accuracy"] - right[HELD_OUT].mean()) > 0.01
    aside = material_of(DATA).split[1]
    assert before["validation_accuracy"] == pytest.approx(mean(right, aside))
    after = row_of(result.summary, "average")
    fixed = result.model(torch.tensor(DATA.codes, dtype=torch.float32)).argmax(dim=1).numpy() == DATA.labels
    assert after["accuracy"] == pytest.approx(mean(fixed))
    assert after["accuracy_change"]["mean"] == pytest.approx(mean(fixed) - mean(right))
    lost = result.summary["headline"]["accuracy_lost"]
    assert lost == pytest.approx(mean(right) - mean(fixed))
    written = json.loads((result.folder / "model.json").read_text())["accuracy"]
    assert (written["train"], written["held_out"]) == pytest.approx((mean(fixed, DATA.train), mean(fixed)), abs=6e-5)
    assert any("weighted by w" in note for note in result.summary["notes"])
    for group in result.summary["groups"]:
        there = HELD_OUT & (DATA.codes[:, 0] == int(group["value"]))
        assert group["people"] == there.sum()
        assert group["accuracy_before"] == pytest.approx(mean(right, there))
        assert group["accuracy_after"] == pytest.approx(mean(fixed, there))


def test_the_average_is_over_people_and_not_over_rows(result: Repair) -> None:
    assert isinstance(result.model, AveragedModel)
    shares = [mean(DATA.codes[:, 0] == value, DATA.train) for value in range(3)]
    assert result.model.weights.tolist() == pytest.approx(shares)
    counted = [float((DATA.codes[DATA.train, 0] == value).mean()) for value in range(3)]
    assert max(abs(np.array(shares) - counted)) > 0.05
    numbers = torch.tensor([0, 1, 1])
    assert population_weights(numbers, 3, torch.tensor([3.0, 1.0, 2.0])).tolist() == pytest.approx([0.5, 0.5, 0])
    assert population_weights(numbers, 3, torch.zeros(3)).tolist() == pytest.approx([1 / 3, 2 / 3, 0])


def test_whole_weights_are_rows_that_often_but_for_the_interval() -> None:
    """The same mean as that of repeated rows; the interval is that of as many rows as the weights are worth."""
    draws = np.random.default_rng(4)
    before, after = draws.random(400) < 0.7, draws.random(400) < 0.8
    weights = draws.integers(0, 4, 400).astype(float)
    times = weights.astype(int)
    found, often = paired(before, after, weights), paired(np.repeat(before, times), np.repeat(after, times))
    assert found is not None
    assert often is not None
    assert found["mean"] == pytest.approx(often["mean"])
    effective = weights.sum() ** 2 / (weights**2).sum()
    half = [(one["interval"][1] - one["interval"][0]) / 2 for one in (found, often)]
    assert half[0] == pytest.approx(half[1] * np.sqrt(weights.sum() / effective))
    alike, plain = paired(before, after, np.ones(400) * 3), paired(before, after)
    assert alike is not None
    assert plain is not None
    assert alike["interval"] == pytest.approx(plain["interval"])
    assert paired(before, after, np.zeros(400)) is None


def test_people_of_no_weight_have_no_accuracy(tmp_path: Path) -> None:
    assert DATA.weights is not None
    nobody = replace(DATA, weights=np.where(HELD_OUT, 0.0, DATA.weights))
    summary = repaired("average", nobody, tmp_path).summary
    before = row_of(summary, "original")
    assert (before["accuracy"], before["people"], before["accuracy_change"]) == (None, None, None)
    assert summary["groups"] == []
    assert json.loads((tmp_path / "model.json").read_text())["accuracy"]["held_out"] is None
    assert before["validation_accuracy"] > 0.5
