"""Searches without gradients: slopes estimated from scores, and moves that need labels only."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from evenhand.data.dataset import Dataset
from evenhand.errors import EvenhandError
from evenhand.methods.eidig import EIDIG
from evenhand.methods.genetic import Genetic
from evenhand.methods.label_only import LabelOnly
from evenhand.methods.maft import MAFT, slopes
from evenhand.models.classifier import Classifier
from evenhand.models.network import FeedForward
from evenhand.search.check import check
from evenhand.search.method import Method
from evenhand.search.search import Limits
from evenhand.search.space import TableSpace
from tests.methods.test_eidig import HITS, Ran, assert_findings_hold, rows_spent, walk_at, with_hits
from tests.worlds.schemas import schema_of


class Score(nn.Module):
    """O_1 as a weighted sum plus a bent term: linear where `bend` is 0."""

    def __init__(self, weights: list[float], bend: float = 0.0) -> None:
        super().__init__()
        self.weights, self.bend = torch.tensor(weights), bend
        self.seen: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append(x)
        score = 0.5 + x @ self.weights + self.bend * x[:, 1] ** 2
        return torch.stack([1 - score, score], dim=1)


class Detached(nn.Module):
    """A module that lets no gradient through."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            scores: Tensor = self.inner(x)
        return scores.detach().clone()


class Hard(Detached):
    """Nothing but labels: each class' logit is 1e4 or -1e4, so that scores are exactly 0 and 1."""

    def forward(self, x: Tensor) -> Tensor:
        logits = super().forward(x)
        return torch.full_like(logits, -1e4).scatter(1, logits.argmax(dim=1, keepdim=True), 1e4)


@pytest.fixture
def _no_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> Tensor:
        raise AssertionError("a black-box method asked for a gradient")

    monkeypatch.setattr(Classifier, "gradients", refuse)


WEIGHTS = [0.01, 0.03, -0.02, 0.004]
SPACE = TableSpace(schema_of([(0, 1), (0, 3), (0, 3), (2, 2)]), ["a0"])


def estimated(model: Classifier, x: Tensor, label: Tensor, difference: int) -> Tensor:
    score = model.outputs(x).scores.gather(1, label[:, None]).squeeze(1)
    return slopes(model, SPACE, x, label, score, difference)


@pytest.mark.parametrize("difference", [1, 2, 10])
@pytest.mark.parametrize("chunk_rows", [None, 1, 7])
def test_the_estimate_is_exact_on_a_linear_score(difference: int, chunk_rows: int | None) -> None:
    """Also at both borders, and for steps wider than the domain; an attribute of one value has no slope."""
    module = Score(WEIGHTS)
    x = torch.tensor([[a0, a1, a2, 2.0] for a0 in (0, 1) for a1 in range(4) for a2 in range(4)])
    label = torch.arange(len(x)) % 2
    model = Classifier(module, output="probabilities", chunk_rows=chunk_rows)
    estimate = estimated(model, x, label, difference)
    expected = torch.tensor([0, 0.03, -0.02, 0]) * (2 * label[:, None] - 1)
    assert torch.allclose(estimate, expected, atol=1e-6)
    assert model.rows == len(x) * (1 + 3)  # itself, in the test, and a neighbour for each of three free attributes
    asked = torch.cat([rows[rows.any(dim=1)] for rows in module.seen])
    assert (asked >= SPACE.lower).all()
    assert (asked <= SPACE.upper).all()


def test_the_difference_looks_upwards_and_turns_round_at_the_border() -> None:
    """On a parabola 0.02 a1² the slope to the next code is 0.02 (2 a1 + 1), and at the border to the one before."""
    x = torch.tensor([[0.0, a1, 0.0, 2.0] for a1 in range(4)])
    model = Classifier(Score([0.0] * 4, bend=0.02), output="probabilities")
    one = estimated(model, x, torch.ones(4, dtype=torch.int64), 1)[:, 1]
    assert one.tolist() == pytest.approx([0.02, 0.06, 0.10, 0.10], abs=1e-6)
    two = estimated(model, x, torch.ones(4, dtype=torch.int64), 2)[:, 1]
    assert two.tolist() == pytest.approx([0.04, 0.08, 0.04, 0.08], abs=1e-6)  # from 2 and 3 downwards
    wide = estimated(model, x, torch.ones(4, dtype=torch.int64), 9)[:, 1]
    assert wide.tolist() == pytest.approx([0.06, 0.08, 0.04, 0.06], abs=1e-6)  # to the farther border


def test_moves_are_eidigs_where_the_score_is_linear() -> None:
    """The estimate is the gradient there, so both methods go the same way from the same place."""
    space = TableSpace(schema_of([(0, 1), (0, 9), (0, 9), (0, 9)]), ["a0"])
    model = Classifier(Score([0.001, 0.01, -0.02, 0.005]), output="probabilities")
    x = torch.tensor([[0.0, 4.0, 5.0, 6.0], [1.0, 8.0, 2.0, 3.0]])
    for method in ("global_move", "local_move"):
        one, other = (getattr(kind(), method)(walk_at(model, space, x)) for kind in (MAFT, EIDIG))
        assert torch.equal(one, other)
        assert not torch.equal(one, x)


def test_estimates_are_made_walk_by_walk() -> None:
    """EIDIG's rule; x and its pair, two free attributes: four rows for each walk that is due."""
    assert rows_spent(MAFT(refresh_every=3), HITS) == [12, 0, 0, 8, 0, 0, 8, 4]


@pytest.mark.usefixtures("_no_gradients")
@pytest.mark.parametrize("protected", [["sex"], ["age", "race"]])
@pytest.mark.parametrize("method", [MAFT(), LabelOnly(), LabelOnly(accept_failed=0.1)])
def test_black_boxes_are_searched(
    census: Dataset, census_network: FeedForward, protected: list[str], method: MAFT | LabelOnly
) -> None:
    """On a module without gradients: findings are true, chunks change nothing."""
    module = Detached(census_network)
    whole = Ran(method, census, module, protected)
    assert_findings_hold(whole, census, census_network)
    assert whole.as_rows() == Ran(method, census, module, protected, chunk_rows=77).as_rows()


@pytest.mark.parametrize("method", [EIDIG(), MAFT(), LabelOnly(), Genetic()])
@pytest.mark.parametrize("blind", [False, True])
def test_a_model_is_never_asked_about_nothing(
    census: Dataset, census_network: FeedForward, monkeypatch: pytest.MonkeyPatch, method: Method, blind: bool
) -> None:
    """Neither while walks come and go, nor where there is nothing to find and no local walk begins."""
    module: nn.Module = census_network
    if blind:
        module = nn.Linear(13, 2)
        module.weight.data[:, census.schema.names.index("sex")] = 0
    filled = Classifier._filled

    def asked(model: Classifier, x: Tensor) -> Tensor:
        assert len(x)
        return filled(model, x)

    monkeypatch.setattr(Classifier, "_filled", asked)
    assert (Ran(method, census, module, ["sex"]).result.counts.all_findings == 0) == blind


@pytest.mark.parametrize("method", [MAFT(), LabelOnly()])
def test_the_budget_of_rows_is_kept(census: Dataset, census_network: FeedForward, method: MAFT | LabelOnly) -> None:
    ran = Ran(method, census, census_network, ["sex"], limits=Limits(steps=40, max_rows=1000))
    assert ran.model.rows <= 1000
    assert ran.result.stopped == "max-rows"


@pytest.mark.parametrize("protected", [["sex"], ["age", "race"]])
def test_label_only_sees_nothing_but_labels(census: Dataset, census_network: FeedForward, protected: list[str]) -> None:
    """The same samples are found, in the same steps, whether scores are graded or exactly 0 and 1."""
    graded = Ran(LabelOnly(), census, census_network, protected)
    hard = Ran(LabelOnly(), census, Hard(census_network), protected)
    assert_findings_hold(hard, census, census_network)
    assert set(hard.column("score").tolist()) == {1.0}
    for name in ("sample", "label", "step", "seed"):
        assert np.array_equal(graded.column(name), hard.column(name))


def test_label_only_global_moves() -> None:
    """Exactly k free attributes, each by 1 to `furthest`, all of them alike."""
    space = TableSpace(schema_of([(0, 1)] + [(-20, 20)] * 4), ["a0"])
    model = Classifier(nn.Linear(5, 2))
    x = torch.zeros(3000, 5)
    moved = LabelOnly(k=2, furthest=3).global_move(walk_at(model, space, x))
    assert ((moved != 0).sum(dim=1) == 2).all()
    assert (moved[:, 0] == 0).all()
    assert (moved != 0).double().mean(dim=0)[1:].tolist() == pytest.approx([0.5] * 4, abs=0.04)
    steps = moved[moved != 0]
    for step in (-3, -2, -1, 1, 2, 3):
        assert (steps == step).double().mean().item() == pytest.approx(1 / 6, abs=0.02)
    everything = LabelOnly(k=99, furthest=1).global_move(walk_at(model, space, x))
    assert (everything[:, 1:].abs() == 1).all()
    assert (everything[:, 0] == 0).all()


def test_label_only_learns_which_moves_keep_findings() -> None:
    """Only a1 upwards stays among findings: after n tries of it the rule of succession is as counted by hand."""
    space = TableSpace(schema_of([(0, 1), (0, 50), (0, 50)]), ["a0"])
    model = Classifier(nn.Linear(3, 2))
    walk = walk_at(model, space, torch.zeros(2000, 3))
    method = LabelOnly()
    late = 0.0
    for step in range(30):
        moved = method.local_move(walk)
        checked = with_hits(check(model, space, moved), (moved - walk.x)[:, 1] > 0)
        late = checked.hit.double().mean().item() if step == 29 else late
        walk.move(checked, method.accepts(walk, checked))
    tried, worked = walk.memory["tried"], walk.memory["worked"]
    assert (tried.sum(dim=1) == 30).all()
    assert torch.equal(worked[:, 3], tried[:, 3])  # a1 up
    assert worked.sum() == worked[:, 3].sum()
    assert tried[:, :2].sum() == 0  # the protected attribute is never moved
    assert torch.equal(walk.x[:, 1], worked[:, 3])  # failed steps stay
    assert late > 0.5  # 1/4 at the start


def test_label_only_does_not_count_a_move_that_was_clipped_away() -> None:
    space = TableSpace(schema_of([(0, 1), (0, 50), (0, 50)]), ["a0"])
    model = Classifier(nn.Linear(3, 2))
    walk = walk_at(model, space, torch.zeros(500, 3))
    method = LabelOnly()
    checked = with_hits(check(model, space, method.local_move(walk)), torch.ones(500, dtype=torch.bool))
    method.accepts(walk, checked)
    assert walk.memory["worked"][:, [2, 4]].sum() == 0  # downwards from the border
    assert walk.memory["tried"][:, [2, 4]].sum() > 150
    assert torch.equal(walk.memory["worked"][:, [3, 5]], walk.memory["tried"][:, [3, 5]])


def test_settings_are_checked() -> None:
    with pytest.raises(EvenhandError, match="difference is"):
        MAFT(difference=0)
    with pytest.raises(EvenhandError, match="refresh_every is"):
        MAFT(refresh_every=0)
    with pytest.raises(EvenhandError, match="at least 1"):
        LabelOnly(k=0)
    with pytest.raises(EvenhandError, match="is a probability"):
        LabelOnly(accept_failed=2)
