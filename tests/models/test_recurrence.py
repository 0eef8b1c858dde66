"""Recurrent layers run by hand, against torch's own."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from evenhand.models.text.recurrent import COLUMNS, Cell, Recurrence, Recurrent, StepPlan, Trace, WantedStates

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

    def __init__(self, network: Recurrent, lengths: list[int], seed: int = 0) -> None:
        self.network, self.engine = network, Recurrence(network)
        self.lengths = sorted(lengths, reverse=True)
        generator = torch.Generator().manual_seed(seed)
        self.vectors = [torch.randn(length, DIMENSIONS, generator=generator) for length in self.lengths]
        self.start, self.behind = self.engine.start(len(lengths)), torch.zeros(len(lengths), dtype=torch.long)
        self.plan = StepPlan.of(torch.tensor(self.lengths) + self.engine.delay)

    def read(self) -> Tensor:
        """(first, total) what the first layer reads; columns that only fill up read rubbish."""
        words = torch.full((self.plan.total, DIMENSIONS), 7.0)
        for column, vectors in enumerate(self.vectors):
            for step, vector in enumerate(vectors):
                words[self.plan.offset[step] + column] = vector
        return self.engine.project(words)

    def trace(self, wanted: WantedStates | None = None, keep: bool = False) -> Trace:
        return self.engine.forward(self.read(), self.plan, self.start, self.behind, wanted, keep)

    def logits(self) -> Tensor:
        """(n, classes)"""
        return self.engine.logits(self.trace().last).t()

    def gradients(self, slope: Tensor) -> list[Tensor]:
        """(length, dimensions) each, from (n, classes) by the logits."""
        by_word = self.engine.backward(self.trace(keep=True), self.plan, slope.t())
        return [
            torch.stack([by_word[:, self.plan.offset[step] + column] for step in range(length)])
            for column, length in enumerate(self.lengths)
        ]

    def rest(self, begin: list[int]) -> "Batch":
        """The same sequences from their words `begin` on, with the states that they have there."""
        wanted = WantedStates(torch.tensor(begin).sub(1).clamp_min(0), torch.arange(len(begin)))
        states = self.trace(wanted).states
        lengths = [length - b for length, b in zip(self.lengths, begin, strict=True)]
        order = sorted(range(len(lengths)), key=lambda column: -lengths[column])
        batch = Batch(self.network, lengths)
        batch.vectors = [self.vectors[column][begin[column] :] for column in order]
        batch.behind = torch.tensor(begin)[order]
        batch.start = states[:, order] * (batch.behind > 0)
        batch.order = order
        return batch

    def plain(self, vectors: Tensor) -> Tensor:
        """(classes,) logits of one sequence by torch's own layers."""
        outputs, _ = self.network.layers(vectors[None])
        logits: Tensor = self.network.head(outputs[0, -1])
        return logits

    order: list[int]


@either_cell
@pytest.mark.parametrize("lengths", [[1], [2], [5], [9, 3, 3, 1], [2] * COLUMNS, list(range(1, COLUMNS + 8))])
def test_logits_are_those_of_torch(cell: Cell, lengths: list[int]) -> None:
    batch = Batch(network_of(cell), lengths)
    assert_close(batch.logits(), torch.stack([batch.plain(vectors) for vectors in batch.vectors]))


@either_cell
@pytest.mark.parametrize("lengths", [[1], [2], [6], [8, 8, 3, 2, 1], list(range(1, COLUMNS + 4))])
def test_gradients_are_those_of_autograd(cell: Cell, lengths: list[int]) -> None:
    batch = Batch(network_of(cell), lengths)
    slope = torch.randn(len(lengths), 2, generator=torch.Generator().manual_seed(1))
    for column, found in enumerate(batch.gradients(slope)):
        vectors = batch.vectors[column].clone().requires_grad_(True)
        (wanted,) = torch.autograd.grad(batch.plain(vectors), vectors, slope[column])
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
    batch = Batch(network_of(cell, layers, states, outputs, seed), lengths, seed)
    gradients = batch.gradients(torch.ones(len(lengths), outputs))
    for column, logits in enumerate(batch.logits()):
        vectors = batch.vectors[column].clone().requires_grad_(True)
        wanted = batch.plain(vectors)
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
@settings(deadline=None, max_examples=30)
@given(
    layers=st.integers(1, 4),
    parts=st.lists(st.tuples(st.integers(0, 6), st.integers(1, 6)), min_size=1, max_size=20),
)
def test_going_on_from_a_state_is_going_through(cell: Cell, layers: int, parts: list[tuple[int, int]]) -> None:
    """A text from any of its words on, with the state that it had there, ends in the same bits."""
    parts = sorted(parts, key=lambda part: -sum(part))
    whole = Batch(network_of(cell, layers), [sum(part) for part in parts])
    rest = whole.rest([begin for begin, _ in parts])
    assert torch.equal(rest.logits(), whole.logits()[rest.order])


@either_cell
def test_closed_gates_and_huge_vectors_stay_finite(cell: Cell) -> None:
    batch = Batch(network_of(cell), [6, 2])
    batch.vectors = [vectors * 1e4 for vectors in batch.vectors]
    assert_close(batch.logits(), torch.stack([batch.plain(vectors) for vectors in batch.vectors]))
    assert all(bool(found.isfinite().all()) for found in batch.gradients(torch.ones(2, 2)))


def test_a_plan_runs_the_columns_that_have_words_left() -> None:
    plan = StepPlan.of(torch.tensor([3] * 2 + [2] * COLUMNS + [1] * COLUMNS))
    assert plan.running == [2 * COLUMNS + 2, COLUMNS + 2, 2]
    assert plan.active == [3 * COLUMNS, 2 * COLUMNS, COLUMNS]  # filled up
    assert plan.offset == [0, 3 * COLUMNS, 5 * COLUMNS]
    assert plan.total == 6 * COLUMNS
