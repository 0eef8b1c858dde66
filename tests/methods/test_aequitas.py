"""AEQUITAS: its probabilities by hand, its border rule, and each step against the one-at-a-time form."""

from typing import Any

import numpy as np
import pytest
import torch
from bench.aequitas_reference import AequitasReference
from torch import Tensor, nn

from evenhand.data.dataset import Dataset
from evenhand.errors import EvenhandError
from evenhand.methods import aequitas
from evenhand.methods.aequitas import Aequitas, Preferences, goes_down
from evenhand.models.classifier import Classifier
from evenhand.models.network import FeedForward
from evenhand.search import search as search_module
from evenhand.search.check import check
from evenhand.search.draws import Draws
from evenhand.search.recorder import Findings
from evenhand.search.search import Limits, Search
from evenhand.search.space import TableSpace
from evenhand.search.walk import DRAWS_PER_STEP, Walk
from tests.search.test_search import Trail
from tests.worlds.schemas import classifier_of, has_witness, schema_of

UP, DOWN, MISS, HIT = False, True, False, True


def learnt(steps: list[tuple[int, bool, bool]], start: Preferences, change: float, attributes_too: bool) -> Preferences:
    """What follows from several walks' steps: attribute, direction, outcome."""
    preferences = Preferences(start.attribute, start.down)
    attribute, went_down, hit = (torch.tensor(field) for field in zip(*steps, strict=True))
    preferences.learn(attribute, went_down, hit, change, attributes_too)
    return preferences


def fresh() -> Preferences:
    """Four attributes, of which the first is protected."""
    return Preferences.none(TableSpace(schema_of([(0, 1), (0, 9), (0, 9), (0, 9)]), ["a0"]))


# One step of eleven walks.
STEP = [(1, DOWN, HIT), (1, DOWN, HIT), (1, UP, MISS), (2, UP, HIT), (2, DOWN, MISS)] + 6 * [(3, UP, MISS)]


def test_nothing_is_preferred_at_first() -> None:
    assert fresh().attribute.tolist() == pytest.approx([0, 1 / 3, 1 / 3, 1 / 3])
    assert fresh().down.tolist() == [0.5, 0.5, 0.5, 0.5]


def test_the_update_by_hand() -> None:
    """With a change of 0.1.

    Down: a1 gains thrice; a2 loses twice; a3 gains six times and stops at 1. Attribute: a1 gains two and loses one,
    a2 gains and loses one, a3 loses six and stops at 0; (13/30, 10/30, 0) adds up to 23/30.
    """
    full = learnt(STEP, fresh(), 0.1, attributes_too=True)
    assert full.down.tolist() == pytest.approx([0.5, 0.8, 0.3, 1.0])
    assert full.attribute.tolist() == pytest.approx([0, 13 / 23, 10 / 23, 0])
    again = learnt([(2, DOWN, MISS)] * 2 + [(2, UP, HIT)] * 2, full, 0.1, attributes_too=True)
    assert again.down.tolist() == pytest.approx([0.5, 0.8, 0.0, 1.0])  # 0.3 - 0.4 stops at 0
    assert again.attribute.tolist() == pytest.approx([0, 13 / 23, 10 / 23, 0])


def test_semi_directed_learns_directions_only() -> None:
    semi = learnt(STEP, fresh(), 0.1, attributes_too=False)
    assert semi.down.tolist() == pytest.approx([0.5, 0.8, 0.3, 1.0])
    assert torch.equal(semi.attribute, fresh().attribute)


def test_the_order_of_walks_changes_no_bit() -> None:
    steps = [(1 + i % 3, i % 7 < 3, i % 5 < 2) for i in range(1000)]
    one, other = (learnt(order, fresh(), 0.001, True) for order in (steps, sorted(steps)))
    assert torch.equal(one.attribute, other.attribute)
    assert torch.equal(one.down, other.down)


def test_where_all_would_reach_zero_they_stay() -> None:
    steps = [(i, UP, MISS) for i in (1, 2, 3) for _ in range(4)]
    assert torch.equal(learnt(steps, fresh(), 0.1, True).attribute, fresh().attribute)


@pytest.mark.parametrize("down", [1.0, 0.0, 0.8])
def test_the_border_rule(down: float) -> None:
    """Inside the domain a walk goes down as often as was learnt, at either border every other time."""
    space = TableSpace(schema_of([(0, 1), (-1, 1)]), ["a0"])
    module = nn.Linear(2, 2)
    for value, expected in ((-1.0, 0.5), (0.0, down), (1.0, 0.5)):
        x = torch.tensor([[0.0, value]]).repeat(4000, 1)
        model = classifier_of(module)
        walk = Walk(model, space, check(model, space, x), Draws(0, 1, torch.arange(4000), DRAWS_PER_STEP))
        share = goes_down(walk, torch.ones(4000, dtype=torch.int64), torch.tensor([0.5, down])).double().mean().item()
        assert share == pytest.approx(expected, abs=0.03 if 0 < expected < 1 else 0)


class Ran:
    """A search on census, what it found, and what its walks had learnt at the end."""

    def __init__(
        self,
        data: Dataset,
        module: nn.Module,
        protected: str,
        method: Aequitas,
        limits: Limits,
        seeds: int = 150,
        chunk_rows: int | None = None,
    ) -> None:
        self.parts: list[Findings] = []
        self.space = TableSpace(data.schema, [protected])
        model = classifier_of(module, chunk_rows)
        search = Search(model, self.space, method, seed=2, limits=limits, sink=self.parts.append)
        self.result = search.run(data.codes[:seeds], np.arange(seeds))

    def column(self, name: str) -> np.ndarray[Any, Any]:
        return np.concatenate([getattr(part, name) for part in self.parts])

    def as_lists(self) -> list[Any]:
        return [self.column(name).tolist() for name in ("sample", "witness", "score", "phase", "seed", "step")]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Preferences]:
    """All preferences that searches make."""
    kept: list[Preferences] = []
    make = Preferences.none

    def keep(space: TableSpace) -> Preferences:
        kept.append(make(space))
        return kept[-1]

    monkeypatch.setattr(Preferences, "none", keep)
    return kept


@pytest.mark.parametrize(
    ("variant", "learns_down", "learns_attribute"),
    [("random", False, False), ("semi", True, False), ("full", True, True)],
)
def test_what_each_variant_learns(
    census: Dataset,
    census_network: FeedForward,
    made: list[Preferences],
    variant: aequitas.Variant,
    learns_down: bool,
    learns_attribute: bool,
) -> None:
    method = Aequitas(variant=variant)
    ran = Ran(census, census_network, "age", method, Limits(steps=20))
    assert ran.result.counts.findings["local"] > 50
    free = ran.space.free.double()
    assert torch.equal(made[0].down, torch.full_like(free, 0.5)) != learns_down
    assert torch.equal(made[0].attribute, free / free.sum()) != learns_attribute
    assert made[0].attribute.sum().item() == pytest.approx(1)
    assert made[0].attribute[ran.space.protected].tolist() == [0]
    again = Ran(census, census_network, "age", method, Limits(steps=20))  # the method itself keeps nothing
    assert len(made) == 2
    assert again.as_lists() == ran.as_lists()


@pytest.mark.parametrize("protected", ["sex", "age"])
def test_one_walk_at_a_time_equals_the_reference(
    census: Dataset,
    census_network: FeedForward,
    monkeypatch: pytest.MonkeyPatch,
    made: list[Preferences],
    protected: str,
) -> None:
    """In batches of one walk, every sample looked at and all that was learnt are those of the one-at-a-time form."""
    monkeypatch.setattr(search_module, "Recorder", Trail)
    monkeypatch.setattr(Trail, "noted", {}, raising=False)
    monkeypatch.setattr(TableSpace, "block_walks", 1)
    method = Aequitas(change=0.01)
    ran = Ran(census, census_network, protected, method, Limits(steps=40), seeds=60)
    reference = AequitasReference(
        Classifier(census_network), census.schema, [protected], 2, method.accept_failed, steps=40, change=0.01
    )
    for number in range(60):
        reference.run_one(number)
    assert any(phase == "local" for phase, *_ in reference.trail)
    assert {key: sample for key, (sample, _) in Trail.noted.items()} == {
        (phase, number, step): sample for phase, number, step, sample in reference.trail
    }
    free = [i for i in range(13) if i not in ran.space.protected]
    assert made[0].attribute[free].tolist() == pytest.approx(list(reference.attribute.values()))
    assert made[0].down[free].tolist() == pytest.approx(list(reference.down.values()))


@pytest.mark.parametrize("chunk_rows", [1, 333])
def test_chunks_change_nothing(census: Dataset, census_network: FeedForward, chunk_rows: int) -> None:
    limits = Limits(steps=15)
    whole = Ran(census, census_network, "age", Aequitas(), limits)
    assert whole.as_lists() == Ran(census, census_network, "age", Aequitas(), limits, chunk_rows=chunk_rows).as_lists()


@pytest.mark.parametrize("variant", ["random", "semi", "full"])
def test_findings_are_true_and_no_gradient_is_asked(
    census: Dataset, census_network: FeedForward, monkeypatch: pytest.MonkeyPatch, variant: aequitas.Variant
) -> None:
    def refuse(self: Classifier, x: Tensor, y: Tensor, of: str = "loss") -> Tensor:
        raise AssertionError("a gradient was asked for")

    monkeypatch.setattr(Classifier, "gradients", refuse)
    ran = Ran(census, census_network, "age", Aequitas(variant=variant), Limits(steps=25))
    samples = ran.column("sample")
    assert len(samples) == ran.result.counts.all_findings > 100
    assert all(has_witness(census_network, census.schema, ran.space.protected, row) for row in samples)
    assert ran.result.seeds_with_findings == 0  # random samples are no seeds of the data
    starts = ran.result.counts.findings["global"]
    assert ran.result.counts.tried == 150 + 25 * starts  # one look at each random sample, all steps of each start
    assert len(np.unique(ran.column("seed"))) == starts


def test_settings_are_checked() -> None:
    bad: list[dict[str, Any]] = [{"variant": "fully"}, {"change": 0.0}, {"change": 1.0}, {"accept_failed": -0.5}]
    for settings in bad:
        with pytest.raises(EvenhandError, match=str(next(iter(settings.values())))):
            Aequitas(**settings)
