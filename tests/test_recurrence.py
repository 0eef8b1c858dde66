"""Recurrent layers run by hand, against torch's own."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from evenhand.models.recurrence import COLUMNS, Plan, Recurrence, Trace
from evenhand.models.recurrent import Cell, Recurrent

DIMENSIONS = 6

either_cell = pytest.mark.parametrize("cell", ["lstm", "gru"])


def network_of(cell: Cell, layers: int = 3, states: int = 10, outputs: int = 2, seed: int = 0) -> Recurrent:
    """Weights twice torch's own, so that gates open and close."""
    torch.manual_seed(seed)
    network = Recurrent(cell, DIMENSIONS, outputs, layers, states)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(2)
    return network


def assert_close(found: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


class Batch:
    """Sequences of random vectors, the longest first, run by the engine."""

    def __init__(self, network: Recurrent, lengths: list[int], seed: int = 0, from_state: bool = False) -> None:
        self.network, self.engine = network, Recurrence(network)
        self.lengths = sorted(lengths, reverse=True)
        generator = torch.Generator().manual_seed(seed)
        self.vectors = [torch.randn(length, DIMENSIONS, generator=generator) for length in self.lengths]
        self.start = torch.zeros(self.engine.depth, self.engine.width, len(lengths))
        if from_state:
            self.start = torch.randn(self.start.shape, generator=generator).tanh()
        self.plan = Plan.of(torch.tensor(self.lengths))

    def first(self) -> Tensor:
        """(gates, total) what the first layer reads; columns that only fill up read rubbish."""
        words = torch.full((self.plan.total, DIMENSIONS), 7.0)
        for column, vectors in enumerate(self.vectors):
            for step, vector in enumerate(vectors):
                words[self.plan.offset[step] + column] = vector
        return self.engine.project(words)

    def traces(self, keep_gates: bool = False) -> list[Trace]:
        return self.engine.forward(self.first(), self.plan, self.start, keep_gates)

    def logits(self) -> Tensor:
        """(n, classes)"""
        return self.engine.logits(self.traces()[-1].state[:, self.plan.last]).t()

    def gradients(self, slope: Tensor) -> list[Tensor]:
        """(length, dimensions) each, from (n, classes) by the logits."""
        by_word = self.engine.backward(self.traces(keep_gates=True), self.plan, slope.t())
        return [
            torch.stack([by_word[:, self.plan.offset[step] + column] for step in range(length)])
            for column, length in enumerate(self.lengths)
        ]

    def plain(self, column: int, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """(classes,) logits and (layers, width) states after some vectors of one sequence, by torch's own layers."""
        start = self.start[:, None, :, column]  # (layers, 1, width)
        if self.network.cell == "lstm":  # the engine keeps c doubled
            h, c = (part.contiguous() for part in start.chunk(2, dim=2))
            _, (h, c) = self.network.layers(vectors[None], (h, c / 2))
            return self.network.head(h[-1, 0]), torch.cat([h, 2 * c], dim=2)[:, 0]
        _, h = self.network.layers(vectors[None], start.contiguous())
        return self.network.head(h[-1, 0]), h[:, 0]


@either_cell
@pytest.mark.parametrize("from_state", [False, True])
@pytest.mark.parametrize("lengths", [[1], [5], [9, 3, 3, 1], [2] * COLUMNS, list(range(1, COLUMNS + 8))])
def test_logits_are_those_of_torch(cell: Cell, lengths: list[int], from_state: bool) -> None:
    batch = Batch(network_of(cell), lengths, from_state=from_state)
    plain = [batch.plain(column, vectors)[0] for column, vectors in enumerate(batch.vectors)]
    assert_close(batch.logits(), torch.stack(plain))


@either_cell
@pytest.mark.parametrize("from_state", [False, True])
def test_the_states_after_every_word_are_those_of_torch(cell: Cell, from_state: bool) -> None:
    batch = Batch(network_of(cell), [7, 4, 4, 1], from_state=from_state)
    traces = batch.traces()
    for column, vectors in enumerate(batch.vectors):
        places = torch.tensor([batch.plan.offset[step] + column for step in range(len(vectors))])
        found = batch.engine.states_after(traces, places)  # (layers, width, steps)
        for step in range(len(vectors)):
            assert_close(found[:, :, step], batch.plain(column, vectors[: step + 1])[1])


@either_cell
@pytest.mark.parametrize("from_state", [False, True])
@pytest.mark.parametrize("lengths", [[1], [6], [8, 8, 3, 2, 1], list(range(1, COLUMNS + 4))])
def test_gradients_are_those_of_autograd(cell: Cell, lengths: list[int], from_state: bool) -> None:
    batch = Batch(network_of(cell), lengths, from_state=from_state)
    slope = torch.randn(len(lengths), 2, generator=torch.Generator().manual_seed(1))
    for column, found in enumerate(batch.gradients(slope)):
        vectors = batch.vectors[column].clone().requires_grad_(True)
        logits, _ = batch.plain(column, vectors)
        (wanted,) = torch.autograd.grad(logits, vectors, slope[column])
        assert_close(found, wanted)


@settings(deadline=None, max_examples=40)
@given(
    cell=st.sampled_from(["lstm", "gru"]),
    layers=st.integers(1, 4),
    states=st.integers(1, 12),
    outputs=st.integers(2, 4),
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=20),
    seed=st.integers(0, 1000),
)
def test_any_shape_agrees_with_torch(
    cell: Cell, layers: int, states: int, outputs: int, lengths: list[int], seed: int
) -> None:
    batch = Batch(network_of(cell, layers, states, outputs, seed), lengths, seed, from_state=seed % 2 == 0)
    slope = torch.ones(len(lengths), outputs)
    gradients = batch.gradients(slope)
    for column, logits in enumerate(batch.logits()):
        vectors = batch.vectors[column].clone().requires_grad_(True)
        wanted, _ = batch.plain(column, vectors)
        assert_close(logits, wanted.detach())
        (gradient,) = torch.autograd.grad(wanted.sum(), vectors)
        assert_close(gradients[column], gradient)


@either_cell
def test_a_sequence_does_not_feel_its_company(cell: Cell) -> None:
    """Bit for bit, however many others run beside it and however long they are."""
    network = network_of(cell)
    crowd = Batch(network, [(7 * number) % 23 + 1 for number in range(150)])
    logits, gradients = crowd.logits(), crowd.gradients(torch.ones(150, 2))
    for column in (0, 1, 50, 148, 149):
        for beside in ([], [1], [30] * 3, list(range(1, 40))):
            batch = Batch(network, [crowd.lengths[column], *beside])
            at = batch.lengths.index(crowd.lengths[column])
            batch.vectors[at] = crowd.vectors[column]
            assert torch.equal(batch.logits()[at], logits[column])
            found = batch.gradients(torch.ones(len(batch.lengths), 2))[at]
            assert torch.equal(found, gradients[column])


@either_cell
def test_going_on_from_a_state_is_going_through(cell: Cell) -> None:
    """A text in two parts: the second starts where the first ended, to the same bits."""
    network = network_of(cell)
    whole = Batch(network, [9] * 4)
    first, second = Batch(network, [4] * 4), Batch(network, [5] * 4)
    first.vectors = [vectors[:4] for vectors in whole.vectors]
    second.vectors = [vectors[4:] for vectors in whole.vectors]
    second.start = first.engine.states_after(first.traces(), first.plan.last)
    assert torch.equal(second.logits(), whole.logits())


@either_cell
def test_closed_gates_and_huge_vectors_stay_finite(cell: Cell) -> None:
    batch = Batch(network_of(cell), [6, 2])
    batch.vectors = [vectors * 1e4 for vectors in batch.vectors]
    plain = [batch.plain(column, vectors)[0] for column, vectors in enumerate(batch.vectors)]
    assert_close(batch.logits(), torch.stack(plain))
    assert all(bool(found.isfinite().all()) for found in batch.gradients(torch.ones(2, 2)))


def test_a_plan_runs_the_columns_that_have_words_left() -> None:
    lengths = torch.tensor([3] * 2 + [2] * COLUMNS + [1] * COLUMNS)
    plan = Plan.of(lengths)
    assert plan.active == [3 * COLUMNS, 2 * COLUMNS, COLUMNS]  # 34, 18 and 2, filled up
    assert plan.offset == [0, 3 * COLUMNS, 5 * COLUMNS]
    assert plan.total == 6 * COLUMNS
    assert plan.last[[0, 1, 2, 18]].tolist() == [5 * COLUMNS, 5 * COLUMNS + 1, 3 * COLUMNS + 2, 18]
