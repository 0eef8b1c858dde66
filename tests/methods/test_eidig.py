"""EIDIG's momentum, its restarts and its sparing use of gradients, by hand and against one walk at a time."""

from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from evenhand.data.dataset import Dataset
from evenhand.errors import EvenhandError
from evenhand.methods.eidig import EIDIG, step_or_restart
from evenhand.models.classifier import Classifier
from evenhand.models.network import FeedForward
from evenhand.search.check import Checked, check, check_near
from evenhand.search.draws import Draws
from evenhand.search.method import Method
from evenhand.search.recorder import Findings
from evenhand.search.search import Limits, Search, SearchResult
from evenhand.search.seeds import choose_seeds
from evenhand.search.space import TableSpace
from evenhand.search.walk import DRAWS_PER_STEP, SMALLEST_SALIENCY, Walk
from tests.worlds.schemas import has_witness, schema_of


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


def with_hits(checked: Checked, hit: Tensor) -> Checked:
    """As if the check had found other witnesses."""
    return Checked(*(hit if field is checked.hit else field for field in checked))


def rows_spent(method: EIDIG, hits: Tensor) -> list[int]:
    """Model rows that walks spend on slopes before each step, where hits (steps, walks) says what succeeds."""
    model = Classifier(Valley(), output="probabilities")
    space = TableSpace(schema_of([(0, 1), (0, 9), (0, 9)]), ["a0"])
    starts = check(model, space, torch.tensor([[0.0, 4.0, 4.0]]).repeat(hits.shape[1], 1))
    walk = Walk(model, space, starts, Draws(0, 1, torch.arange(len(starts)), DRAWS_PER_STEP))
    spent = []
    for hit in hits:
        before = model.rows
        moved = method.local_move(walk)
        spent.append(model.rows - before)
        step_or_restart(walk, with_hits(check(model, space, moved), hit), starts)
    return spent


# One walk that never fails, one that fails at its third step and one that fails at its fourth, after a refresh.
HITS = torch.tensor([[1, 1, 1], [1, 1, 1], [1, 0, 1], [1, 1, 0], [1, 1, 1], [1, 1, 1], [1, 1, 1], [1, 1, 1]]).bool()


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


def test_gradients_are_asked_for_walk_by_walk() -> None:
    """Two rows for each walk that has just had its third success in a row, and none for the others."""
    assert rows_spent(EIDIG(refresh_every=3), HITS) == [6, 0, 0, 4, 0, 0, 4, 2]
    assert rows_spent(EIDIG(refresh_every=3), torch.zeros(8, 4, dtype=torch.bool)) == [8] + [0] * 7


def test_a_failed_step_restarts_the_walk() -> None:
    """Two walks step to a1 = 3, 4 and 5; the first fails there. At its start the slope is 0.08, beyond it 0.02."""
    model = Classifier(Valley(), output="probabilities")
    space = TableSpace(schema_of([(0, 1), (0, 9), (0, 9)]), ["a0"])
    starts = check(model, space, torch.tensor([[0.0, 2.0, 2.0], [1.0, 2.0, 3.0]]))
    walk = Walk(model, space, starts, Draws(0, 1, torch.arange(2), DRAWS_PER_STEP))
    method = EIDIG(refresh_every=2)

    def step(a1: float, hit: list[bool]) -> tuple[list[float], list[int]]:
        """The weights of a1 that decide the step, and the counts after it."""
        weights = method.weights(walk)[:, 1].tolist()
        there = walk.x.clone()
        there[:, 1] = a1
        step_or_restart(walk, with_hits(check(model, space, there), torch.tensor(hit)), starts)
        return weights, walk.memory["steps since the start"].tolist()

    here, beyond = 1 / 0.16, 1 / 0.04
    for a1, hit, weights, counts in [
        (3.0, [True, True], [here, here], [1, 1]),
        (4.0, [True, True], [here, here], [2, 2]),  # still the slopes of the start
        (5.0, [False, True], [beyond, beyond], [0, 3]),  # both were computed again, the first one fails
    ]:
        decided, count = step(a1, hit)
        assert decided == pytest.approx(weights, rel=1e-4)
        assert count == counts
    assert walk.x.tolist() == [[0, 2, 2], [1, 5, 3]]
    for field in ("own", "label", "pair", "score", "pair_score"):
        assert getattr(walk, field)[0] == getattr(starts, field)[0]
    rows = model.rows
    assert method.weights(walk)[:, 1].tolist() == pytest.approx([here, beyond], rel=1e-4)
    assert model.rows == rows  # the start's slopes are remembered


class Watched(EIDIG):
    """Remembers where local walks start and what they look at."""

    starts: ClassVar[list[tuple[Checked, Tensor]]] = []
    looked: ClassVar[list[Tensor]] = []

    def local_phase(self, search: Search, starts: Checked, ids: Tensor) -> None:
        self.starts.append((starts, ids))
        super().local_phase(search, starts, ids)

    def local_move(self, walk: Walk) -> Tensor:
        self.looked.append(super().local_move(walk))
        return self.looked[-1]


def one_walk(ran: Ran, start: Checked, number: Tensor, steps: int, refresh_every: int) -> list[list[float]]:
    """What a local walk looks at, one sample at a time, as plainly as the rule can be said."""
    model, space = ran.model, ran.space
    draws = Draws(2, 1, number, DRAWS_PER_STEP)

    def weights(at: Checked) -> Tensor:
        pair = space.with_combination(at.x, at.pair)
        g, g_pair = (model.gradients(x, at.label, "score")[0].abs() for x in (at.x, pair))
        return 1 / (g + g_pair).clamp_min(SMALLEST_SALIENCY) * space.free

    at, chosen_by, successes, looked = start, weights(start), 0, []
    for step in range(steps):
        if successes == refresh_every:
            chosen_by, successes = weights(at), 0
        reach = chosen_by.cumsum(dim=0)
        attribute = int((reach > draws.step(step, 0) * reach[-1]).nonzero()[0])
        moved = at.x.clone()
        moved[0, attribute] += 1 if draws.step(step, 1) >= 0.5 else -1
        checked = check_near(model, space, space.clip(moved), at.own, at.pair)
        looked.append(checked.x[0].tolist())
        if checked.hit:
            at, successes = checked, successes + 1
        else:
            at, chosen_by, successes = start, weights(start), 0
    return looked


@pytest.mark.parametrize("protected", [["sex"], ["age", "race"]])
def test_the_batch_does_what_single_walks_do(
    census: Dataset, census_network: FeedForward, protected: list[str]
) -> None:
    Watched.starts.clear()
    Watched.looked.clear()
    ran = Ran(Watched(refresh_every=3), census, census_network, protected)
    ((starts, ids),) = Watched.starts
    looked = torch.stack(Watched.looked, dim=1)  # (n, steps, d)
    assert looked.shape[:2] == (len(ids), 40)
    for place in range(0, len(ids), 4):
        here = torch.tensor([place])
        assert looked[place].tolist() == one_walk(ran, starts.take(here), ids[here], steps=40, refresh_every=3)


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
    often = Ran(EIDIG(refresh_every=refresh_every), census, census_network, ["sex"])
    rarely = Ran(EIDIG(refresh_every=10), census, census_network, ["sex"])
    assert rarely.model.rows < often.model.rows


def test_settings_are_checked() -> None:
    for settings, complaint in [
        ({"local_step": 0}, "at least 1"),
        ({"decay": 1.5}, "decay is"),
        ({"refresh_every": 0}, "refresh_every is"),
    ]:
        with pytest.raises(EvenhandError, match=complaint):
            EIDIG(**settings)  # type: ignore[arg-type]
