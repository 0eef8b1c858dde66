"""The discrimination check against brute force."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from torch import Tensor, nn

from evenhand.data.schema import Schema
from evenhand.errors import EvenhandError
from evenhand.models.network import FeedForward
from evenhand.search.check import Checked, check, check_near
from evenhand.search.space import TableSpace
from tests.worlds.schemas import all_variants, classifier_of, has_witness, labels_of, schema_of, worlds

World = tuple[Schema, list[int], FeedForward, Tensor]


def assert_right(checked: Checked, world: World, space: TableSpace) -> None:
    """Every verdict and every pair, by plain enumeration."""
    schema, protected, network, _ = world
    rows = checked.x.int().numpy()
    pairs = space.with_combination(checked.x, checked.pair).int().numpy()
    assert np.array_equal(checked.label.numpy(), labels_of(network, rows))
    assert np.array_equal(checked.pair_label.numpy(), labels_of(network, pairs))
    for i, row in enumerate(rows):
        assert bool(checked.hit[i]) == has_witness(network, schema, protected, row)
        assert bool(checked.hit[i]) == (checked.label[i] != checked.pair_label[i])
        assert pairs[i].tolist() in all_variants(schema, protected, row).tolist()
        assert pairs[i].tolist() != row.tolist()


@settings(deadline=None)
@given(worlds())
def test_the_check_agrees_with_brute_force(world: World) -> None:
    space = TableSpace(world[0], [world[0].names[i] for i in world[1]])
    for chunk_rows in (1, None):
        assert_right(check(classifier_of(world[2], chunk_rows), space, world[3]), world, space)


@settings(deadline=None)
@given(worlds())
def test_guessing_a_witness_does_not_change_the_verdict(world: World) -> None:
    x = world[3]
    model = classifier_of(world[2])
    space = TableSpace(world[0], [world[0].names[i] for i in world[1]])
    full = check(model, space, x)
    guess = (full.own + 1) % space.variant_count
    near = check_near(model, space, x, full.own, guess)
    assert_right(near, world, space)
    assert torch.equal(near.hit, full.hit)
    label, scores = full.label, model.outputs(space.with_combination(x, guess))
    kept = scores.labels != label
    assert torch.equal(near.pair[kept], guess[kept])
    assert torch.equal(near.pair[~kept], full.pair[~kept])


@settings(deadline=None)
@given(worlds())
def test_the_pair_is_the_variant_that_differs_most(world: World) -> None:
    """Among the witnesses where there is one, among all variants otherwise."""
    x = world[3]
    model = classifier_of(world[2])
    space = TableSpace(world[0], [world[0].names[i] for i in world[1]])
    checked = check(model, space, x)
    for i in range(len(x)):
        outputs = model.outputs(space.variants(x[i : i + 1])[0])
        gap = (outputs.scores[:, checked.label[i]] - checked.score[i]).abs()
        allowed = torch.arange(len(gap)) != checked.own[i]
        if checked.hit[i]:
            allowed &= outputs.labels != checked.label[i]
        assert gap[checked.pair[i]] == gap[allowed].max()


def test_a_model_that_ignores_protected_attributes_has_no_hits() -> None:
    module = nn.Linear(3, 2)
    module.weight.data[:, 0] = 0
    space = TableSpace(schema_of([(0, 5)] * 3), ["a0"])
    x = torch.randint(0, 6, (200, 3)).float()
    assert not check(classifier_of(module), space, x).hit.any()


def test_too_many_combinations() -> None:
    with pytest.raises(EvenhandError, match=r"100,000,000 combinations.*--each"):
        TableSpace(schema_of([(0, 9_999)] * 3), ["a0", "a1"])
