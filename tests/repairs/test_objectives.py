"""What trained repairs minimise, against enumeration and by hand."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from evenhand.models.network import FeedForward
from evenhand.repairs.table import BlindObjective, CertifiedObjective, PairingObjective, usual_codes
from evenhand.repairs.table_training import Scaled
from evenhand.search.space import TableSpace
from tests.worlds.repair import table_schema
from tests.worlds.schemas import all_variants, linear, network_of

SPACE = TableSpace(table_schema(), ["a0"])
DOMAIN = all_variants(table_schema(), [0, 1, 2, 3], [0, 0, 0, 0])
EVERYONE = torch.tensor(DOMAIN, dtype=torch.float32)


@pytest.fixture(autouse=True)
def _no_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


def tiny() -> tuple[Scaled, nn.Linear]:
    """Log-odds are 0.5 a0 - 0.3 a1 + 0.2, behind a scale."""
    network, plain = FeedForward((4, 2)), linear([0.5, -0.3, 0.0, 0.0], 0.2)
    mean, deviation = torch.tensor([1.0, 2.0, 0.0, 0.0]), torch.tensor([2.0, 0.5, 1.0, 1.0])
    network.head.weight.copy_(plain.weight * deviation)
    network.head.bias.copy_(plain.bias + plain.weight @ mean)
    return Scaled(network, mean, deviation), plain


def test_the_loss_of_pairing_by_enumeration() -> None:
    """Many draws come close to the mean over all variants of a person and of everyone in the domain."""
    network, plain = tiny()
    rows = 40_000
    x, y = torch.tensor([[2.0, 1.0, 0.0, 1.0]]), torch.tensor([1])
    cross_entropy = float(functional.cross_entropy(plain(x), y))

    def difference(row: list[float]) -> float:
        own = plain(torch.tensor(row)).log_softmax(0)
        gaps = [(own - plain(torch.tensor([v, *row[1:]])).log_softmax(0)).abs().mean() for v in (0.0, 1.0, 2.0)]
        return float(sum(gaps)) / 3

    anywhere = float(np.mean([difference([a, b, 0.0, 1.0]) for a in (0.0, 1.0, 2.0) for b in map(float, range(6))]))
    expected = cross_entropy + 3.0 * (difference(x[0].tolist()) + anywhere) / 2
    draws = torch.Generator().manual_seed(0)
    loss = PairingObjective(SPACE, 3.0).loss(network, x.expand(rows, -1), y.expand(rows), 0.0, draws)
    assert float(loss) == pytest.approx(expected, rel=0.01)


def test_pairing_costs_nothing_where_the_protected_attribute_has_no_weight() -> None:
    network, _ = tiny()
    network.network.head.weight[:, 0] = 0
    y = torch.ones(len(EVERYONE), dtype=torch.int64)
    loss = PairingObjective(SPACE, 100.0).loss(network, EVERYONE, y, 0.5, torch.Generator().manual_seed(0))
    assert float(loss) == pytest.approx(float(functional.cross_entropy(network(EVERYONE), y)), rel=1e-6)


@pytest.mark.parametrize(("done", "share"), [(0.0, 0.0), (0.25, 0.5), (0.5, 1.0), (1.0, 1.0)])
def test_the_loss_of_certified_by_hand(done: float, share: float) -> None:
    """Bounds of a linear network are exact: a0 = 1 may become 0 to 2, and half as far at a quarter of training."""
    network, _ = tiny()
    x, y = torch.tensor([[1.0, 1.0, 0.0, 1.0]]), torch.tensor([1])
    odds = 0.5 - 0.3 + 0.2
    plain, worst = np.log1p(np.exp(-odds)), np.log1p(np.exp(-(odds - 0.5 * share)))
    width = 2 * 0.5 * share / 2  # of the log-odds; two of four entries of a (2, 2) matrix hold it
    loss = CertifiedObjective(SPACE, 2.0).loss(network, x, y, done, torch.Generator().manual_seed(0))
    assert float(loss) == pytest.approx(plain + 2.0 * share * (worst + width), rel=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_the_loss_of_certified_is_not_below_the_worst_variant(seed: int) -> None:
    scaled = Scaled(network_of(4, 2, seed), torch.zeros(4), torch.ones(4))
    y = torch.tensor(DOMAIN[:, 1] % 2).long()
    losses = [functional.cross_entropy(scaled(SPACE.with_combination(EVERYONE, torch.full((len(y),), v))), y,
                                       reduction="none") for v in range(3)]  # fmt: skip
    worst = float(torch.stack(losses).max(dim=0).values.mean())
    plain = float(functional.cross_entropy(scaled(EVERYONE), y))
    loss = float(CertifiedObjective(SPACE, 1.0).loss(scaled, EVERYONE, y, 1.0, torch.Generator().manual_seed(0)))
    assert loss >= plain + worst - 1e-5


def test_the_loss_of_blind_is_that_of_the_codes_it_holds() -> None:
    network, _ = tiny()
    codes = usual_codes(SPACE, torch.tensor([[2.0, 0, 0, 1], [1.0, 0, 0, 1], [2.0, 5, 0, 1]]))
    assert codes.tolist() == [2.0]
    x, y = torch.tensor([[0.0, 1.0, 0.0, 1.0]]), torch.tensor([1])
    loss = BlindObjective(SPACE, codes).loss(network, x, y, 0.0, torch.Generator())
    assert loss.item() == pytest.approx(np.log1p(np.exp(-(0.5 * 2 - 0.3 + 0.2))), rel=1e-5)
    assert x[0, 0] == 0  # the row itself stays
