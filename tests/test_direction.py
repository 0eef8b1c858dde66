"""Who wins and who loses, on models made by hand; group figures against numbers by hand."""

import numpy as np
import pytest
import torch
from torch import nn

from evenhand.data.dataset import Dataset
from evenhand.measure.direction import Tally, directions, look
from evenhand.measure.groups import Group, group_figures
from evenhand.measure.people import people_rates
from evenhand.search.space import TableSpace
from tests.worlds import classifier_of, linear, schema_of


def tallied(module: nn.Module, space: TableSpace, rows: list[list[int]]) -> Tally:
    tally = Tally(space.variant_count)
    found = look(classifier_of(module), space, torch.tensor(rows, dtype=torch.float32))
    tally.add(len(rows), found.won)
    return tally


def test_the_direction_of_a_model_that_favours_high_values() -> None:
    """The second class, the favourable one, is given where a0 + a1 is at least 3."""
    space = TableSpace(schema_of([(0, 2), (0, 3)]), ["a0"])
    tally = tallied(linear([1.0, 1.0], -2.5), space, [[0, 0], [0, 1], [1, 2], [2, 3]])
    assert (tally.samples, tally.hits, tally.won.tolist()) == (4, 2, [0, 1, 2])  # a1 = 0 and a1 = 3 decide alone
    [direction] = directions(tally, space)
    assert [(standing.value, standing.favourable) for standing in direction.standings] == [
        ("2", 1.0), ("1", 0.5), ("0", 0.0),
    ]  # fmt: skip
    assert (direction.favoured, direction.loses) == ("2", "0")


def test_few_combinations_one_by_one_and_many_by_attribute() -> None:
    few = TableSpace(schema_of([(0, 1), (0, 1), (0, 3)]), ["a0", "a1"])
    [together] = directions(tallied(linear([2.0, 1.0, 0.0], -1.5), few, [[0, 0, 0]]), few)
    assert [standing.value for standing in together.standings] == ["1, 0", "1, 1", "0, 0", "0, 1"]
    many = TableSpace(schema_of([(0, 3), (0, 3), (0, 3)]), ["a0", "a1"])
    first, second = directions(tallied(linear([1.0, 0.0, 0.0], -1.5), many, [[0, 0, 0]]), many)
    assert (first.attribute, first.favoured, first.loses) == ("a0", "2", "1")
    assert [standing.favourable for standing in first.standings] == [1, 1, 0, 0]
    assert (second.favoured, second.loses) == (None, None)
    assert {standing.favourable for standing in second.standings} == {0.5}


def test_no_discrimination_has_no_direction() -> None:
    space = TableSpace(schema_of([(0, 2), (0, 3)]), ["a0"])
    assert directions(tallied(linear([0.0, 1.0], -1.5), space, [[0, 1], [0, 2]]), space) == []


def people() -> Dataset:
    """Group 0: four people, group 1: three, group 2: one; the first row trains."""
    codes = np.array([[0, 0], [0, 1], [0, 2], [0, 3], [0, 3], [1, 1], [1, 2], [1, 0], [2, 3]], dtype=np.int32)
    labels = np.array([0, 0, 1, 1, 1, 1, 1, 0, 0])
    return Dataset(schema_of([(0, 2), (0, 3)]), codes, labels, np.arange(9) < 1)


def test_people_by_part() -> None:
    data = people()
    space = TableSpace(data.schema, ["a0"])
    found = people_rates(classifier_of(linear([1.0, 1.0], -2.5)), space, data, confidence=0.9)
    assert (found["train"].rate.discriminatory, found["train"].rate.samples) == (0, 1)
    assert (found["held_out"].rate.discriminatory, found["held_out"].rate.samples) == (4, 8)  # a1 is 1 or 2
    assert found["held_out"].tally.won.tolist() == [0, 2, 4]
    assert found["held_out"].rate.confidence == 0.9


def test_group_figures_by_hand() -> None:
    """The model says yes where a1 is at least 2; in the data yes is the second class."""
    pytest.importorskip("fairlearn")
    [figures] = group_figures(classifier_of(linear([0.0, 1.0], -1.5)), people(), ["a0"])
    assert figures.population == "held-out rows of world"
    assert figures.groups == [
        Group("0", 4, 0.75, 1.0),
        Group("1", 3, 1 / 3, 0.5),
        Group("2", 1, 1.0, None),
    ]
    assert figures.demographic_parity_difference == pytest.approx(2 / 3)
    assert figures.equal_opportunity_difference == pytest.approx(0.5)  # nobody of group 2 has the label


def test_groups_without_anyone_who_has_the_label() -> None:
    pytest.importorskip("fairlearn")
    data = people()
    nobody = Dataset(data.schema, data.codes, np.zeros(9, dtype=np.int64), data.train)
    [figures] = group_figures(classifier_of(linear([0.0, 1.0], -1.5)), nobody, ["a0"])
    assert figures.equal_opportunity_difference is None
    assert [group.true_positive_rate for group in figures.groups] == [None, None, None]
