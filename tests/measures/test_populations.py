"""Populations: what their samples look like."""

import numpy as np
import pytest
import torch

from evenhand.data.dataset import Dataset
from evenhand.data.schema import Schema
from evenhand.errors import EvenhandError
from evenhand.measures.populations import Neighbourhood, Uniform
from evenhand.search.draws import Draws
from evenhand.search.space import TableSpace
from tests.worlds.schemas import dataset_of, schema_of

MIXED = Schema.parse(
    {
        "name": "mixed",
        "file": "none.csv",
        "label": {"column": "y", "values": ["no", "yes"]},
        "attribute": [
            {"name": "sex", "kind": "category", "categories": ["f", "m"], "protected": True},
            {"name": "city", "kind": "category", "categories": ["a", "b", "c", "d"]},
            {"name": "rank", "kind": "ordered", "categories": ["low", "mid", "high"]},
            {"name": "age", "kind": "number", "domain": [3, 7]},
            {"name": "constant", "kind": "number", "domain": [1, 1]},
        ],
    },
    where="the test",
)


def numbers_for(count: int, per_sample: int) -> torch.Tensor:
    return Draws(0, 3, torch.arange(count), per_sample, block_steps=1).all_of(0)


@pytest.mark.parametrize("changes", [1, 2, 3])
def test_neighbours_differ_from_their_row_in_the_stated_way(changes: int) -> None:
    data = dataset_of(MIXED, 30, seed=0)
    population = Neighbourhood(TableSpace(MIXED, ["sex"]), data, changes)
    numbers = numbers_for(5000, population.per_sample)
    x, rows = population.samples(numbers).numpy(), population.rows(numbers).numpy()
    before = data.clipped[rows]
    assert ((x >= MIXED.lower) & (x <= MIXED.upper)).all()
    differs = x != before
    assert (differs.sum(axis=1) == changes).all()
    assert not differs[:, [0, 4]].any()  # neither protected values nor what has one value only
    for column in (2, 3):
        assert np.abs(x[:, column] - before[:, column]).max() == 1
    share = differs[:, 1:4].mean(axis=0)
    assert share == pytest.approx([changes / 3] * 3, abs=0.03)
    assert np.bincount(rows, minlength=30).min() > 5000 / 30 / 2


def test_moves_are_even_and_reflected_at_the_ends() -> None:
    codes = np.array([[0, 0, 0, 3, 1], [0, 1, 1, 5, 1]], dtype=np.int32)
    data = Dataset(MIXED, codes, np.array([0, 1]), np.array([True, False]))
    population = Neighbourhood(TableSpace(MIXED, ["sex"]), data, 3)
    numbers = numbers_for(6000, population.per_sample)
    x, rows = population.samples(numbers).numpy(), population.rows(numbers).numpy()
    assert set(x[rows == 0, 2]) == {1}  # from the lowest rank only up
    assert set(x[rows == 0, 3]) == {4}
    assert (x[rows == 1, 3] == 6).mean() == pytest.approx(0.5, abs=0.05)
    for city in (0, 2, 3):
        assert (x[rows == 1, 1] == city).mean() == pytest.approx(1 / 3, abs=0.05)


def test_uniform_samples_fill_the_domain() -> None:
    space = TableSpace(schema_of([(0, 1), (-2, 2)]), ["a0"])
    x = Uniform(space).samples(numbers_for(5000, 2)).numpy().astype(int)
    cells = np.bincount(x[:, 0] * 5 + x[:, 1] + 2, minlength=10) / 5000
    assert cells == pytest.approx([0.1] * 10, abs=0.02)


@pytest.mark.parametrize("changes", [0, 4])
def test_impossible_numbers_of_changes_are_refused(changes: int) -> None:
    with pytest.raises(EvenhandError, match="Use 1 to 3 changes"):
        Neighbourhood(TableSpace(MIXED, ["sex"]), dataset_of(MIXED, 5, seed=0), changes)
