"""Interval bounds: they hold every output, and no search finds a witness where a label was certified."""

import itertools

import pytest
import torch
from torch import Tensor

from evenhand.models.bounds import (
    NO_LABEL,
    CellState,
    certain_labels,
    certified,
    certified_labels,
    feed_forward_bounds,
    feed_forward_margins,
    read_bounds,
    read_hull,
    recurrent_bounds,
    recurrent_margins,
    worst_logits,
)
from evenhand.models.network import FeedForward
from evenhand.models.text.recurrent import Cell, Recurrent

CELLS: tuple[Cell, Cell] = ("lstm", "gru")
ROUNDING = 1e-5  # of the test's own float32 sums


def random_feed_forward(seed: int, protected: int, weight: float, outputs: int = 3) -> FeedForward:
    """A network whose first `protected` inputs have small weights."""
    torch.manual_seed(seed)
    network = FeedForward([6, 12, 8, outputs])
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(2)
        first = network.hidden[0].weight
        assert isinstance(first, Tensor)
        first[:, :protected].mul_(weight)
    return network


def random_recurrent(cell: Cell, seed: int, size: float = 1.0, outputs: int = 2) -> Recurrent:
    torch.manual_seed(seed)
    network = Recurrent(cell, 5, outputs, layers=3, states=4)
    with torch.no_grad():
        for parameter in network.layers.parameters():
            parameter.mul_(size)
        network.head.weight.mul_(20)
    return network


def texts(seed: int, n: int = 40, words: int = 9) -> tuple[Tensor, Tensor]:
    """(n, words, 5) vectors and (n,) lengths."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, words, 5, generator=generator), torch.randint(1, words + 1, (n,), generator=generator)


@pytest.mark.parametrize("seed", range(6))
def test_no_protected_combination_is_a_witness_where_a_table_is_certified(seed: int) -> None:
    """Every combination of two protected attributes is tried on every sample."""
    network = random_feed_forward(seed, protected=2, weight=0.02)
    x = torch.randint(0, 5, (300, 6)).float()
    low, high = x.clone(), x.clone()
    low[:, :2], high[:, :2] = 0, 4
    labels = certified_labels(network, low, high)
    given = labels != NO_LABEL
    assert 0.2 < given.float().mean() <= 1
    for pair in itertools.product(range(5), repeat=2):
        variant = x.clone()
        variant[:, :2] = torch.tensor(pair).float()
        assert torch.equal(network(variant).argmax(dim=1)[given], labels[given])


def test_what_decides_by_a_protected_attribute_is_not_certified() -> None:
    """With large weights many samples have a witness; none of these has a certificate, and some others have one."""
    network = random_feed_forward(0, protected=1, weight=0.3)
    x = torch.randint(0, 5, (500, 6)).float()
    low, high = x.clone(), x.clone()
    low[:, 0], high[:, 0] = 0, 4
    variants = torch.stack([torch.cat([torch.full((500, 1), float(v)), x[:, 1:]], dim=1) for v in range(5)])
    labels = network(variants).argmax(dim=2)
    discriminatory = (labels != labels[0]).any(dim=0)
    proved = certified(network, low, high)
    assert discriminatory.any()
    assert proved.any()
    assert not (discriminatory & proved).any()


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("seed", range(4))
def test_no_word_is_a_witness_where_a_text_is_certified(cell: Cell, seed: int) -> None:
    """All words of a small set are tried at the mention."""
    network = random_recurrent(cell, seed, size=0.5)
    vectors, lengths = texts(seed)
    terms = 0.1 * torch.randn(12, 5)
    place = torch.arange(len(vectors)) % lengths
    rows = torch.arange(len(vectors))
    low, high = vectors.clone(), vectors.clone()
    low[rows, place], high[rows, place] = terms.amin(dim=0), terms.amax(dim=0)
    labels = certified_labels(network, low, high, lengths)
    given = labels != NO_LABEL
    assert given.any()
    for term in terms:
        variant = vectors.clone()
        variant[rows, place] = term
        assert torch.equal(network(variant, lengths).argmax(dim=1)[given], labels[given])


def test_feed_forward_bounds_hold_the_outputs_of_random_points() -> None:
    network = random_feed_forward(1, protected=6, weight=1.0)
    low = torch.randn(50, 6)
    high = low + torch.rand(50, 6)
    bounds, margins = feed_forward_bounds(network, low, high), feed_forward_margins(network, low, high)
    for _ in range(50):
        logits = network(low + torch.rand(50, 6) * (high - low))
        assert (bounds.low - ROUNDING <= logits).all()
        assert (logits <= bounds.high + ROUNDING).all()
        assert (margins - ROUNDING <= logits[:, :, None] - logits[:, None]).all()
    assert (margins >= bounds.low[:, :, None] - bounds.high[:, None] - ROUNDING)[
        :, ~torch.eye(3, dtype=torch.bool)
    ].all()


@pytest.mark.parametrize("cell", CELLS)
def test_recurrent_bounds_hold_the_outputs_of_random_points(cell: Cell) -> None:
    network = random_recurrent(cell, 3, outputs=3)
    low, lengths = texts(1)
    high = low + 0.5 * torch.rand_like(low)
    bounds = recurrent_bounds(network, low, high, lengths)
    margins = recurrent_margins(network, low, high, lengths)
    for _ in range(50):
        logits = network(low + torch.rand_like(low) * (high - low), lengths)
        assert (bounds.low - ROUNDING <= logits).all()
        assert (logits <= bounds.high + ROUNDING).all()
        assert (margins - ROUNDING <= logits[:, :, None] - logits[:, None]).all()


def test_a_point_is_the_plain_forward_pass_of_a_table() -> None:
    network = random_feed_forward(2, protected=1, weight=1.0)
    x = torch.randn(20, 6)
    bounds = feed_forward_bounds(network, x, x)
    assert torch.equal(bounds.low, network(x))
    assert torch.equal(bounds.high, network(x))


@pytest.mark.parametrize("cell", CELLS)
def test_a_point_is_the_plain_forward_pass_of_a_text(cell: Cell) -> None:
    network = random_recurrent(cell, 4)
    vectors, lengths = texts(2)
    bounds = recurrent_bounds(network, vectors, vectors, lengths)
    assert torch.equal(bounds.low, bounds.high)
    assert torch.allclose(bounds.low, network(vectors, lengths), atol=ROUNDING)


@pytest.mark.parametrize("cell", CELLS)
def test_bounds_go_on_from_a_state(cell: Cell) -> None:
    """What comes before the first word that differs may be read beforehand."""
    network = random_recurrent(cell, 5)
    vectors, _ = texts(3)
    high = vectors.clone()
    high[:, 4] += 0.3
    lengths = torch.full((len(vectors),), vectors.shape[1])
    whole = recurrent_bounds(network, vectors, high, lengths)
    _, state = network.layers(vectors[:, :4])
    start = CellState(*state) if cell == "lstm" else CellState(state)
    rest = recurrent_bounds(network, vectors[:, 4:], high[:, 4:], lengths - 4, start=start)
    assert torch.allclose(whole.low, rest.low, atol=ROUNDING)
    assert torch.allclose(whole.high, rest.high, atol=ROUNDING)
    assert (whole.high > whole.low).all()


@pytest.mark.parametrize("cell", CELLS)
def test_the_hull_of_terms_holds_each_and_lies_in_the_bounds_of_their_box(cell: Cell) -> None:
    network = random_recurrent(cell, 8)
    terms = torch.randn(7, 2, 5)
    hull = read_hull(network, terms)
    box = read_bounds(network, terms.amin(dim=0), terms.amax(dim=0))
    for term in terms:
        read = read_bounds(network, term, term)
        assert (hull.low <= read.low + ROUNDING).all()
        assert (read.high <= hull.high + ROUNDING).all()
    assert (box.low - ROUNDING <= hull.low).all()
    assert (hull.high <= box.high + ROUNDING).all()
    assert (hull.high - hull.low).mean() < 0.9 * (box.high - box.low).mean()


@pytest.mark.parametrize("cell", CELLS)
def test_rounding_only_widens(cell: Cell) -> None:
    """And it is as wide as rounding is, not wider by orders."""
    network = random_recurrent(cell, 6, size=0.5)
    vectors, lengths = texts(4)
    plain = recurrent_bounds(network, vectors, vectors, lengths)
    wide = recurrent_bounds(network, vectors, vectors, lengths, rounding=2.0**-24)
    assert (wide.low < plain.low).all()
    assert (wide.high > plain.high).all()
    assert (wide.high - wide.low).max() < 0.01


def test_bounds_can_be_trained_on() -> None:
    """A few steps on the worst case make the worst case better."""
    network = random_recurrent("gru", 7, size=0.5)
    low, lengths = texts(5, n=8, words=4)
    high = low + 0.2
    labels = network(low, lengths).argmax(dim=1)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    losses = []
    for _ in range(12):
        worst = worst_logits(recurrent_margins(network, low, high, lengths), labels)
        loss = torch.nn.functional.cross_entropy(worst, labels)
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    assert losses[-1] < 0.7 * losses[0]


def test_the_worst_logits_bound_the_loss() -> None:
    network = random_feed_forward(3, protected=1, weight=0.1)
    low = torch.randn(60, 6)
    high = low.clone()
    high[:, 0] += 4
    labels = torch.arange(60) % 3
    worst = worst_logits(feed_forward_margins(network, low, high), labels)
    bound = torch.nn.functional.cross_entropy(worst, labels, reduction="none")
    for _ in range(20):
        logits = network(low + torch.rand(60, 1) * (high - low))
        assert (torch.nn.functional.cross_entropy(logits, labels, reduction="none") <= bound + ROUNDING).all()


def test_a_tie_is_no_label() -> None:
    margins = torch.tensor([[[0.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [-2.0, 0.0]], [[0.0, -2.0], [1.0, 0.0]]])
    assert certain_labels(margins).tolist() == [NO_LABEL, 0, 1]
