"""ADF's two moves, against the paper's examples."""

import pytest
import torch
from torch import Tensor, nn

from evenhand.data.dataset import load_schema
from evenhand.errors import EvenhandError
from evenhand.methods.adf import ADF, local_weights
from evenhand.search.check import check
from evenhand.search.draws import Draws
from evenhand.search.space import TableSpace
from evenhand.search.walk import DRAWS_PER_STEP, Walk
from tests.worlds.schemas import classifier_of, linear, schema_of


def walk_at(module: nn.Module, space: TableSpace, x: Tensor) -> Walk:
    model = classifier_of(module)
    draws = Draws(0, 1, torch.arange(len(x)), DRAWS_PER_STEP)
    at = check(model, space, x)
    return Walk(model, space, at, draws)


def test_the_papers_running_example() -> None:
    """A network whose gradient signs are the paper's direction vector moves the sample as the paper says.

    The seed is taken with its missing-value code 100, as the paper does; a search clips seeds before.
    """
    space = TableSpace(load_schema("census"), ["sex"])
    direction = [0.0, 1, 0, 0, -1, 1, -1, 0, 1, 0, 0, 1, -1]
    x = torch.tensor([[4.0, 0, 6, 6, 0, 1, 2, 1, 1, 0, 0, 40, 100]])
    walk = walk_at(linear(direction, bias=-1.0), space, x)
    assert walk.label.tolist() == [0]
    g, g_pair = walk.gradients()
    assert g.sign().int().tolist() == [[int(value) for value in direction]]
    assert torch.equal(g.sign(), g_pair.sign())
    assert ADF().global_move(walk).int().tolist() == [[4, 1, 6, 6, 0, 2, 1, 1, 1, 0, 0, 41, 39]]


def test_only_agreeing_signs_move() -> None:
    """A hidden unit that is on for one value of the protected attribute and off for the other turns a sign round."""
    module = nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 2))
    module[0].weight.data = torch.tensor([[10.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    module[0].bias.data = torch.tensor([-8.0, 0.0])
    module[2].weight.data = torch.tensor([[0.0, 0.0], [-0.1, 0.1]])
    module[2].bias.data = torch.tensor([0.0, -9.0])
    space = TableSpace(schema_of([(0, 1), (0, 5), (0, 5)]), ["a0"])
    walk = walk_at(module, space, torch.tensor([[0.0, 2.0, 2.0]]))
    g, g_pair = walk.gradients()
    assert g[0, 1] == 0  # a1 does not reach x's label but that of its pair
    assert g_pair[0, 1] != 0
    assert ADF(global_step=2).global_move(walk).tolist() == [[0.0, 2.0, 4.0]]


def test_where_nothing_agrees_one_random_attribute_moves() -> None:
    space = TableSpace(schema_of([(0, 1), (0, 9), (0, 9), (0, 9)]), ["a0"])
    x = torch.full((400, 4), 5.0)
    x[:, 0] = 0
    moved = ADF().global_move(walk_at(linear([0.0, 0.0, 0.0, 0.0], -1.0), space, x)) - x
    assert (moved[:, 0] == 0).all()
    assert (moved.abs().sum(dim=1) == 1).all()
    counts = [((moved[:, i] == sign).sum().item()) for i in (1, 2, 3) for sign in (-1, 1)]
    assert min(counts) > 30  # six equally likely moves of 400


def test_algorithm_8() -> None:
    """Saliency |g| + |g'|, its reciprocal, protected struck out, normalised: worked by hand."""
    g = torch.tensor([[0.5, -0.25, 0.0, 1.0]])
    g_pair = torch.tensor([[-0.5, 0.25, 0.25, 1.0]])
    weights = local_weights(g, g_pair)
    assert weights.tolist() == [[1.0, 2.0, 4.0, 0.5]]
    free = torch.tensor([True, True, True, False])
    probability = weights * free / (weights * free).sum()
    assert probability.tolist()[0] == pytest.approx([1 / 7, 2 / 7, 4 / 7, 0])


def test_local_moves_follow_the_weights() -> None:
    """In 4,000 walks with gradients 1 : 2 : 4 the attributes are chosen 4 : 2 : 1, up and down alike."""
    space = TableSpace(schema_of([(0, 1), (-50, 50), (-50, 50), (-50, 50)]), ["a0"])
    x = torch.zeros(4000, 4)
    walk = walk_at(linear([0.3, 0.1, 0.2, 0.4], -1.0), space, x)
    moved = ADF(local_step=3).local_move(walk)
    assert (moved.abs().sum(dim=1) == 3).all()
    share = (moved != 0).double().mean(dim=0)
    assert share.tolist() == pytest.approx([0, 4 / 7, 2 / 7, 1 / 7], abs=0.03)
    assert (moved.sum(dim=1) > 0).double().mean().item() == pytest.approx(0.5, abs=0.03)


def test_attributes_without_gradient_are_chosen_first() -> None:
    space = TableSpace(schema_of([(0, 1), (0, 9), (0, 9)]), ["a0"])
    x = torch.full((100, 3), 5.0)
    x[:, 0] = 0
    moved = ADF().local_move(walk_at(linear([0.1, 0.5, 0.0], -1.0), space, x)) - x
    assert (moved[:, 2] != 0).all()


def test_settings_are_checked() -> None:
    with pytest.raises(EvenhandError, match="at least 1"):
        ADF(local_step=0)
    with pytest.raises(EvenhandError, match="is a probability"):
        ADF(accept_failed=1.5)
