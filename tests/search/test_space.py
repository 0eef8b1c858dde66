"""The space of table rows: clip, variants, moves, keys."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from evenhand.data.dataset import load_schema
from evenhand.data.schema import Schema
from evenhand.models.network import FeedForward
from evenhand.search.space import TableSpace, hashed_rows
from tests.worlds.schemas import all_variants, schema_of, worlds

World = tuple[Schema, list[int], FeedForward, Tensor]


def space_of(world: World) -> TableSpace:
    return TableSpace(world[0], [world[0].names[i] for i in world[1]])


@given(worlds())
def test_variants_are_all_combinations(world: World) -> None:
    schema, protected, _, x = world
    space = space_of(world)
    for row, variants in zip(x, space.variants(x), strict=True):
        expected = all_variants(schema, protected, row.int().tolist())
        assert np.array_equal(variants.numpy(), expected)


@given(worlds())
def test_a_samples_own_combination(world: World) -> None:
    x = world[3]
    space = space_of(world)
    own = space.combination(x)
    assert torch.equal(space.with_combination(x, own), x)
    assert torch.equal(space.variants(x)[torch.arange(len(x)), own], x)


@given(worlds(), st.integers(-9, 9))
def test_moves_stay_in_the_domain_and_leave_protected_values(world: World, far: int) -> None:
    schema, protected, _, x = world
    space = space_of(world)
    moved = space.move(x, torch.full_like(x, float(far)))
    assert torch.equal(moved[:, protected], x[:, protected])
    assert (moved.numpy() >= schema.lower).all()
    assert (moved.numpy() <= schema.upper).all()
    attribute = torch.full((len(x),), space.last_free)
    nudged = space.nudge(x, attribute, torch.full((len(x),), float(far)))
    expected = x.clone()
    expected[:, space.last_free] = (x[:, space.last_free] + far).clamp(
        float(schema.lower[space.last_free]), float(schema.upper[space.last_free])
    )
    assert torch.equal(nudged, expected)


@settings(max_examples=50)
@given(worlds())
def test_keys_are_one_for_variants_and_differ_otherwise(world: World) -> None:
    """Over the whole domain: as many keys as combinations of non-protected values, each for one of them only."""
    schema, protected, _, _ = world
    space = space_of(world)
    ranges = [torch.arange(low, high + 1) for low, high in zip(schema.lower, schema.upper, strict=True)]
    everything = torch.cartesian_prod(*ranges).float()
    free = [i for i in range(len(ranges)) if i not in protected]
    keys = space.keys(everything)
    identity = [tuple(row) for row in everything[:, free].tolist()]
    assert len(set(keys.tolist())) == len(set(identity))
    assert len(set(zip(keys.tolist(), identity, strict=True))) == len(set(identity))


def test_domains_beyond_63_bits_are_hashed() -> None:
    space = TableSpace(schema_of([(0, 9)] * 30), ["a0"])
    x = torch.randint(0, 10, (20_000, 30)).float()
    x[1] = x[0]
    x[1, 0] = (x[0, 0] + 1) % 10
    keys = space.keys(x)
    assert keys.dtype == "S16"
    assert keys[0] == keys[1]
    assert len(np.unique(keys)) == len(np.unique(x[:, 1:].numpy(), axis=0))


def test_hashes_of_neighbouring_rows_do_not_collide() -> None:
    grid = np.stack(np.meshgrid(*[np.arange(20)] * 4), axis=-1).reshape(-1, 4)
    assert len(np.unique(hashed_rows(grid))) == len(grid)


def test_the_papers_clip_example() -> None:
    """Example 1.2: the direction vector applied to the census sample, and the result clipped into the domain."""
    space = TableSpace(load_schema("census"), ["sex"])
    x = torch.tensor([[4.0, 0, 6, 6, 0, 1, 2, 1, 1, 0, 0, 40, 100]])
    direction = torch.tensor([[0.0, 1, 0, 0, -1, 1, -1, 0, 1, 0, 0, 1, -1]])
    assert space.move(x, direction).int().tolist() == [[4, 1, 6, 6, 0, 2, 1, 1, 1, 0, 0, 41, 39]]
