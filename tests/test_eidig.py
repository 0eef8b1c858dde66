"""EIDIG's momentum and its sparing use of gradients, against examples worked by hand."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from evenhand.data.dataset import Dataset
from evenhand.errors import EvenhandError
from evenhand.methods.eidig import EIDIG
from evenhand.models.classifier import Classifier
from evenhand.models.network import FeedForward
from evenhand.search.check import check
from evenhand.search.draws import Draws
from evenhand.search.method import Method
from evenhand.search.recorder import Findings
from evenhand.search.search import Limits, Search, SearchResult
from evenhand.search.seeds import choose_seeds
from evenhand.search.space import TableSpace
from evenhand.search.walk import DRAWS_PER_STEP, Walk
from tests.worlds import has_witness, schema_of


class Ran:
    """A search of the census network by any method, with all it found."""

    def __init__(
        self,
        method: Method,
        data: Dataset,
        module: nn.Module,
        protected: list[str],
        *,
        limits: Limits | None = None,
        chunk_rows: int | None = None,
    ) -> None:
        self.parts: list[Findings] = []
        self.model = Classifier(module, chunk_rows=chunk_rows)
        self.space = TableSpace(data.schema, protected)
        rows = choose_seeds(data, 40, seed=2)
        search = Search(
            self.model, self.space, method, seed=2, limits=limits or Limits(steps=40), sink=self.parts.append
        )
        self.result: SearchResult = search.run(data.codes[rows], rows)

    def column(self, name: str) -> np.ndarray[Any, Any]:
        return np.concatenate([getattr(part, name) for part in self.parts])

    def as_rows(self) -> list[tuple[Any, ...]]:
        columns = [self.column(name).tolist() for name in Findings.__dataclass_fields__]
        return [tuple(map(str, row)) for row in zip(*columns, strict=True)]


def assert_findings_hold(ran: Ran, data: Dataset, module: nn.Module) -> None:
    """Brute force: every finding (of 300) has a witness; all are unique and in the domain."""
    samples = ran.column("sample")
    assert len(samples) == ran.result.counts.all_findings > 100
    assert 0 < ran.result.seeds_with_findings <= ran.result.seeds
    assert (samples >= data.schema.lower).all()
    assert (samples <= data.schema.upper).all()
    assert len(np.unique(np.delete(samples, ran.space.protected, axis=1), axis=0)) == len(samples)
    for row in samples[:: max(1, len(samples) // 300)]:
        assert has_witness(module, data.schema, ran.space.protected, row)


class Valley(nn.Module):
    """O_0 falls by 0.08 with a1 up to 2.5 and rises by 0.02 beyond; a2 pulls the two values of a0 apart."""

    def forward(self, x: Tensor) -> Tensor:
        beyond = torch.relu(x[:, 1] - 2.5)
        score = 0.8 - 0.08 * (x[:, 1] - beyond) + 0.02 * beyond + 0.01 * x[:, 2] * (1 - 2 * x[:, 0])
        return torch.stack([score, 1 - score], dim=1)


def walk_at(model: Classifier, space: TableSpace, x: Tensor) -> Walk:
    return Walk(model, space, check(model, space, x), Draws(0, 1, torch.arange(len(x)), DRAWS_PER_STEP))


@pytest.mark.parametrize(
    ("decay", "a1"),
    [
        (0.5, [3, 4, 3]),  # -0.08; then 0.02 - 0.04 = -0.02, still upwards; then 0.02 - 0.01 = 0.01, back
        (0.0, [3, 2, 3]),  # no memory: the slope where the walk stands decides
        (1.0, [3, 4, 5]),  # -0.08, -0.06, -0.04
    ],
)
def test_momentum_by_hand(decay: float, a1: list[int]) -> None:
    model = Classifier(Valley(), output="probabilities")
    space = TableSpace(schema_of([(0, 1), (0, 9), (0, 9)]), ["a0"])
    walk = walk_at(model, space, torch.tensor([[0.0, 2.0, 2.0]]))
    for value in a1:
        moved = EIDIG(decay=decay).global_move(walk)
        assert moved.tolist() == [[0, value, 2]]  # a2's signs differ between x and its pair: it stays
        walk.move(check(model, space, moved))


def test_accumulated_gradients_by_hand() -> None:
    """Two iterations: what is remembered for x and for its pair, also when another walk has left the batch."""
    model = Classifier(Valley(), output="probabilities")
    space = TableSpace(schema_of([(0, 1), (0, 9), (0, 9)]), ["a0"])
    walk = walk_at(model, space, torch.tensor([[1.0, 5.0, 1.0], [0.0, 2.0, 2.0]]))
    moved = EIDIG().global_move(walk)
    assert moved.tolist() == [[1, 4, 1], [0, 3, 2]]
    walk.move(check(model, space, moved))
    walk.keep(torch.tensor([False, True]))
    EIDIG().global_move(walk)
    x, pair = walk.memory["momentum"][0]
    assert x[1:].tolist() == pytest.approx([0.5 * -0.08 + 0.02, 0.5 * 0.01 + 0.01], abs=1e-6)
    assert pair[1:].tolist() == pytest.approx([0.5 * -0.08 + 0.02, 0.5 * -0.01 - 0.01], abs=1e-6)


def test_where_nothing_agrees_one_random_attribute_moves() -> None:
    space = TableSpace(schema_of([(0, 1), (0, 9), (0, 9)]), ["a0"])
    module = nn.Linear(3, 2)
    nn.init.zeros_(module.weight)
    x = torch.tensor([[0.0, 5.0, 5.0]]).repeat(200, 1)
    moved = EIDIG(global_step=2).global_move(walk_at(Classifier(module), space, x)) - x
    assert (moved[:, 0] == 0).all()
    assert (moved.abs().sum(dim=1) == 2).all()
    assert min(int((moved[:, i] == step).sum()) for i in (1, 2) for step in (-2, 2)) > 25


def test_gradients_are_asked_for_only_every_few_steps(census: Dataset, census_network: FeedForward) -> None:
    """All 20 walks move at every step, so each gradient costs 40 rows: at steps 0, 5 and 10 and never between."""
    model = Classifier(census_network)
    space = TableSpace(census.schema, ["sex"])
    walk = walk_at(model, space, space.clip(torch.tensor(census.codes[:20], dtype=torch.float32)))
    spent = []
    for _ in range(12):
        before = model.rows
        moved = EIDIG(refresh_every=5).local_move(walk)
        spent.append(model.rows - before)
        walk.move(check(model, space, moved))
    assert spent == [40, 0, 0, 0, 0, 40, 0, 0, 0, 0, 40, 0]


def test_stale_gradients_are_those_of_the_last_refresh() -> None:
    """Away from where the gradient was taken, the old weights go on to decide until the next refresh."""
    model = Classifier(Valley(), output="probabilities")
    space = TableSpace(schema_of([(0, 1), (0, 9), (0, 9)]), ["a0"])
    walk = walk_at(model, space, torch.tensor([[0.0, 2.0, 2.0]]))
    method = EIDIG(refresh_every=2)
    slopes = []
    for a1 in (3.0, 4.0, 5.0):
        g, _ = method.score_slopes(walk, refresh=walk.step % method.refresh_every == 0)
        slopes.append(float(g[0, 1]))
        walk.move(check(model, space, torch.tensor([[0.0, a1, 2.0]])))
    assert slopes == pytest.approx([-0.08, -0.08, 0.02], abs=1e-6)


@pytest.mark.parametrize("protected", [["sex"], ["age", "race"]])
def test_findings_hold_and_chunks_change_nothing(
    census: Dataset, census_network: FeedForward, protected: list[str]
) -> None:
    whole = Ran(EIDIG(), census, census_network, protected)
    assert_findings_hold(whole, census, census_network)
    assert whole.as_rows() == Ran(EIDIG(), census, census_network, protected, chunk_rows=77).as_rows()


@pytest.mark.parametrize("refresh_every", [1, 3])
def test_settings_reach_the_search(census: Dataset, census_network: FeedForward, refresh_every: int) -> None:
    """A rarer gradient costs fewer rows in a whole run too."""
    often = Ran(EIDIG(refresh_every=refresh_every, accept_failed=1.0), census, census_network, ["sex"])
    rarely = Ran(EIDIG(refresh_every=10, accept_failed=1.0), census, census_network, ["sex"])
    assert rarely.model.rows < often.model.rows


def test_settings_are_checked() -> None:
    for settings, complaint in [
        ({"local_step": 0}, "at least 1"),
        ({"decay": 1.5}, "decay is"),
        ({"refresh_every": 0}, "refresh_every is"),
        ({"accept_failed": -0.1}, "is a probability"),
    ]:
        with pytest.raises(EvenhandError, match=complaint):
            EIDIG(**settings)  # type: ignore[arg-type]
