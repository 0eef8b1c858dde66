"""Our own method: its predictions and its bridges."""

import numpy as np
import pytest
import torch
from torch import nn

from evenhand.data.dataset import Dataset
from evenhand.methods.margin import Margin
from evenhand.models.classifier import Classifier, log_odds
from evenhand.models.network import FeedForward
from evenhand.search.check import check
from evenhand.search.draws import Draws
from evenhand.search.search import Limits, Search
from evenhand.search.seeds import choose_seeds
from evenhand.search.space import TableSpace
from evenhand.search.walk import DRAWS_PER_STEP, Walk
from tests.worlds.schemas import classifier_of, linear, schema_of


def walk_at(module: nn.Module, space: TableSpace, x: torch.Tensor) -> Walk:
    model = classifier_of(module)
    draws = Draws(0, 1, torch.arange(len(x)), DRAWS_PER_STEP, 1)
    return Walk(model, space, check(model, space, x), draws)


def test_log_odds_of_a_linear_model_and_their_gradient() -> None:
    module = linear([2.0, -1.0, 0.5], 0.25)
    x = torch.tensor([[1.0, 1.0, 1.0], [0.0, 3.0, 0.0]])
    classifier = Classifier(module)
    label, scores = classifier.outputs(x)
    own = scores.gather(1, label[:, None]).squeeze(1)
    assert label.tolist() == [1, 0]
    assert log_odds(own).tolist() == pytest.approx([1.75, 2.75], abs=1e-4)
    gradient = classifier.gradients(x, label, of="odds")
    assert gradient.tolist() == [[2.0, -1.0, 0.5], [-2.0, 1.0, -0.5]]


def test_odds_gradient_of_several_classes_against_autograd() -> None:
    torch.manual_seed(0)
    module = nn.Linear(4, 3)
    x = torch.randn(20, 4)
    y = torch.randint(0, 3, (20,))
    exact = x.clone().requires_grad_(True)
    probability = module(exact).softmax(1).gather(1, y[:, None])
    (expected,) = torch.autograd.grad((probability / (1 - probability)).log().sum(), exact)
    assert torch.allclose(Classifier(module).gradients(x, y, of="odds"), expected, atol=1e-4)


def test_local_moves_keep_the_pair_on_a_linear_model() -> None:
    """Where the prediction is exact, every step is a finding as long as one can be."""
    space = TableSpace(schema_of([(0, 1), (0, 40), (0, 40)]), ["a0"])
    module = linear([6.0, 0.5, -0.5], -3.0)  # discriminatory while |a1 - a2| < 6
    walk = walk_at(module, space, torch.tensor([[0.0, 20.0, 20.0]]).repeat(200, 1))
    method = Margin(caution=0.0)
    for _ in range(30):
        checked = check(walk.model, space, method.local_move(walk))
        assert checked.hit.all()
        assert (checked.x != walk.x).any(dim=1).all()
        walk.move(checked, method.accepts(walk, checked))
    assert len(torch.unique(walk.x, dim=0)) > 50


def test_newton_steps_reach_the_boundary_of_a_linear_model_at_once() -> None:
    space = TableSpace(schema_of([(0, 1), (0, 50), (0, 50), (0, 50), (0, 50)]), ["a0"])
    module = linear([1.0, 0.1, 0.1, 0.1, 0.1], -11.5)  # discriminatory where a1 + … + a4 is between 105 and 115
    x = torch.randint(0, 20, (300, 5), generator=torch.Generator().manual_seed(0)).float()
    x[:, 0] = 0
    walk = walk_at(module, space, x)
    moved = Margin().global_move(walk)
    total = moved[:, 1:].sum(dim=1)
    enough = (moved != x).sum(dim=1) > 2  # with three attributes there is room to get there
    assert (check(walk.model, space, moved[enough]).hit).double().mean() > 0.6
    assert (total[enough] > x[enough, 1:].sum(dim=1)).all()


def test_bridges_lead_every_seed_to_a_finding(census: Dataset, census_network: FeedForward) -> None:
    rows = choose_seeds(census, 150, seed=0)
    seen: set[int] = set()
    space = TableSpace(census.schema, ["sex"])
    search = Search(
        classifier_of(census_network),
        space,
        Margin(),
        seed=0,
        limits=Limits(steps=20),
        sink=lambda findings: seen.update(findings.seed.tolist()),
    )
    result = search.run(census.codes[rows], rows)
    assert result.seeds_with_findings == 150
    assert len(seen) > 140


def test_more_findings_than_adf_for_the_same_budget(census: Dataset, census_network: FeedForward) -> None:
    from evenhand.methods.adf import ADF

    rows = choose_seeds(census, 100, seed=0)
    found = {}
    for method in (Margin(), ADF()):
        space = TableSpace(census.schema, ["race"])
        search = Search(
            classifier_of(census_network), space, method, seed=0, limits=Limits(steps=100), sink=lambda findings: None
        )
        counts = search.run(census.codes[rows], rows).counts
        found[method.name] = np.array([counts.all_findings, counts.all_findings / counts.all_generated])
    assert (found["margin"] > found["adf"] * [2, 1.2]).all()
