"""Who wins and who loses, on models made by hand; group figures against numbers by hand."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from evenhand.data.dataset import Dataset
from evenhand.measures.direction import Tally, directions, label_directions, label_variants, rank_values
from evenhand.measures.groups import PeopleOfGroup, group_figures
from evenhand.measures.people import people_rates
from evenhand.report.sentences import label_pair_texts
from evenhand.runs.measure import measure
from evenhand.runs.measure_tables import tables_of
from evenhand.search.space import TableSpace
from tests.worlds.schemas import all_variants, classifier_of, dataset_of, labels_of, linear, schema_of


def tallied(module: nn.Module, space: TableSpace, rows: list[list[int]]) -> Tally:
    tally = Tally(space.variant_count)
    found = label_variants(classifier_of(module), space, torch.tensor(rows, dtype=torch.float32))
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
    assert (first.attribute, first.favoured, first.loses) == ("a0", "2 and 3", "0 and 1")
    assert [standing.favourable for standing in first.standings] == [1, 1, 0, 0]
    assert (second.favoured, second.loses) == (None, None)
    assert {standing.favourable for standing in second.standings} == {0.5}


class Ladder(nn.Module):
    """Three labels by how high a0 + a1 is; a2 = 1 turns the order of the lower two round."""

    def forward(self, x: Tensor) -> Tensor:
        step = (x[:, 0] + x[:, 1]).clamp(0, 5).div(2).floor().long()
        step = torch.where((x[:, 2] == 1) & (step < 2), 1 - step, step)
        return nn.functional.one_hot(step, 3).float() * 9


def test_with_three_classes_the_direction_is_said_for_each_pair_of_labels() -> None:
    """Against plain counting over all samples of the domain, one by one."""
    schema = schema_of([(0, 3), (0, 3), (0, 1)], classes=3)
    space, domain = TableSpace(schema, ["a0"]), all_variants(schema, [0, 1, 2], [0, 0, 0])
    found = label_variants(classifier_of(Ladder()), space, torch.tensor(domain, dtype=torch.float32))
    tally = Tally(space.variant_count, 3)
    tally.add(len(domain), found.won, found.there, found.labels)
    said = {(one.label, one.instead_of): one for one in label_directions(tally, space)}
    for better, worse in ((1, 0), (2, 0), (2, 1)):
        samples, got, either = 0, [0] * 4, [0] * 4
        for row in domain:
            labels = labels_of(Ladder(), all_variants(schema, [0], row)).tolist()
            if {better, worse} <= set(labels):
                samples += 1
                for value, label in enumerate(labels):
                    got[value] += label == better
                    either[value] += label in (better, worse)
        one = said.pop((f"class {better}", f"class {worse}"))
        assert one.samples == samples > 0
        [direction] = one.directions
        shares = {standing.value: standing.favourable for standing in direction.standings}
        assert shares == {str(value): got[value] / either[value] for value in range(4) if either[value]}
    assert not said


def test_pairs_of_labels_are_weighted_like_all_else() -> None:
    """A weight of 3 counts as the same person three times."""
    space = TableSpace(schema_of([(0, 3), (0, 3), (0, 1)], classes=3), ["a0"])
    rows = torch.tensor([[0.0, 0, 0], [0, 1, 1], [0, 2, 0], [0, 3, 1]])
    weights = torch.tensor([3, 1, 2, 1])
    weighted, repeated = Tally(space.variant_count, 3), Tally(space.variant_count, 3)
    found = label_variants(classifier_of(Ladder()), space, rows)
    assert found.hit.all()
    weighted.add(4, found.won, found.there, found.labels, weights)
    often = label_variants(classifier_of(Ladder()), space, rows.repeat_interleave(weights, dim=0))
    repeated.add(7, often.won, often.there, often.labels)
    said = [
        {one.label + one.instead_of: one.directions for one in label_directions(t, space)} for t in (weighted, repeated)
    ]
    assert said[0] == said[1] != {}


def test_pairs_of_labels_by_attribute_where_there_are_many_combinations() -> None:
    space = TableSpace(schema_of([(0, 3), (0, 3), (0, 1)], classes=3), ["a0", "a1"])
    found = label_variants(classifier_of(Ladder()), space, torch.tensor([[0.0, 0, 0], [0, 0, 1]]))
    tally = Tally(space.variant_count, 3)
    tally.add(2, found.won, found.there, found.labels)
    for one in label_directions(tally, space):
        assert [direction.attribute for direction in one.directions] == ["a0", "a1"]
        if one.label == "class 2":
            assert [direction.favoured for direction in one.directions] == ["3", "3"]
    with_two = TableSpace(schema_of([(0, 2), (0, 3)]), ["a0"])
    assert label_directions(tallied(linear([1.0, 1.0], -2.5), with_two, [[0, 1]]), with_two) == []


def test_a_measurement_says_who_gets_which_label_instead_of_which() -> None:
    data = dataset_of(schema_of([(0, 3), (0, 3), (0, 1)], classes=3), 200, seed=0)
    summary = measure(
        data, "a0", model=Ladder(), half_width=0.05, changes=1, inputs="codes", accept_poor_model=True
    ).summary
    for rate in summary["measured"][0]["populations"]:
        assert {(pair["label"], pair["instead_of"]) for pair in rate["label_pairs"]} == {
            ("class 1", "class 0"), ("class 2", "class 0"), ("class 2", "class 1"),
        }  # fmt: skip
    titles = [table.title for table in tables_of(summary)]
    assert "how often each a0 gets ‘class 2’ instead of ‘class 1’, where both occur" in titles
    assert not [title for title in titles if "among discriminatory samples" in title]
    pairs = summary["measured"][0]["populations"][0]["label_pairs"]
    [text] = [text for pair in pairs for text in label_pair_texts(pair) if "get ‘class 2’ and others ‘class 1’" in text]
    assert "‘class 2’ goes most often to a0 3 (100.0%)" in text


def test_nobody_is_named_for_what_others_get_as_often() -> None:
    """All who are tied for most or least are named; of many only how many they are."""
    tied = rank_values("a0", list("abcd"), [1.0, 0.1 + 0.2, 0.3, 0.6])
    assert (tied.favoured, tied.loses) == ("a", "b and c")  # 0.1 + 0.2 is 0.3 but for rounding
    assert rank_values("a0", list("abc"), [0.5, 0.5, 0.5]).as_dict()["favoured"] is None
    many = rank_values("a0", list("abcde"), [0.0, 1.0, 1.0, 1.0, 1.0])
    assert (many.favoured, many.loses) == ("4 values alike", "a")
    assert [standing.value for standing in many.standings] == ["b", "c", "d", "e", "a"]


def test_a_measurement_names_all_who_are_tied() -> None:
    """Yes from a0 = 1 on, whatever else: values 1, 2 and 3 are favoured alike."""
    data = dataset_of(schema_of([(0, 3), (0, 3)]), 60, seed=0)
    summary = measure(
        data, "a0", model=linear([1.0, 0.01], -0.5), half_width=0.1, changes=1, inputs="codes", accept_poor_model=True
    ).summary
    for rate in summary["measured"][0]["populations"]:
        assert (rate["direction"][0]["favoured"], rate["direction"][0]["loses"]) == ("1 and 2 and 3", "0")
    assert "whole domain: most often: 1 and 2 and 3; least often: 0" in [
        remark for table in tables_of(summary) for remark in table.remarks
    ]


def test_values_that_nobody_can_have_neither_win_nor_lose() -> None:
    tally = Tally(3)
    tally.add(2, torch.tensor([[True, False, False], [True, False, False]]), torch.tensor([[True, True, False]] * 2))
    [direction] = directions(tally, TableSpace(schema_of([(0, 2), (0, 3)]), ["a0"]))
    assert [standing.value for standing in direction.standings] == ["0", "1"]
    assert (direction.favoured, direction.loses) == ("0", "1")


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
    [figures] = group_figures(classifier_of(linear([0.0, 1.0], -1.5)), people(), ["a0"])
    assert figures.population == "held-out rows of world"
    assert figures.groups == [
        PeopleOfGroup("0", 4, 0.75, 1.0),
        PeopleOfGroup("1", 3, 1 / 3, 0.5),
        PeopleOfGroup("2", 1, 1.0, None),
    ]
    assert figures.demographic_parity_difference == pytest.approx(2 / 3)
    assert figures.equal_opportunity_difference == pytest.approx(0.5)  # nobody of group 2 has the label


def test_groups_without_anyone_who_has_the_label() -> None:
    data = people()
    nobody = Dataset(data.schema, data.codes, np.zeros(9, dtype=np.int64), data.train)
    [figures] = group_figures(classifier_of(linear([0.0, 1.0], -1.5)), nobody, ["a0"])
    assert figures.equal_opportunity_difference is None
    assert [group.true_positive_rate for group in figures.groups] == [None, None, None]
