"""Rates and their intervals."""

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn

from evenhand.data.dataset import Dataset
from evenhand.measures.people import data_rates, discriminatory_rows
from evenhand.measures.rates import clopper_pearson
from evenhand.models.network import FeedForward
from evenhand.search.space import TableSpace
from tests.worlds.schemas import classifier_of, has_witness, schema_of


@pytest.mark.parametrize(
    ("hits", "samples", "low", "high"),
    [(0, 10, 0.0, 0.3085), (10, 10, 0.6915, 1.0), (5, 10, 0.1871, 0.8129), (1, 100, 0.0003, 0.0545)],
)
def test_known_intervals(hits: int, samples: int, low: float, high: float) -> None:
    """Values from published tables of the exact binomial interval."""
    assert clopper_pearson(hits, samples, 0.95) == pytest.approx((low, high), abs=5e-5)


@pytest.mark.parametrize("truth", [0.01, 0.3, 0.5])
def test_the_interval_covers_the_truth_often_enough(truth: float) -> None:
    """Summed over all outcomes of 40 draws: at least 95 %."""
    covered = 0.0
    for hits in range(41):
        low, high = clopper_pearson(hits, 40, 0.95)
        covered += stats.binom.pmf(hits, 40, truth) * (low <= truth <= high)
    assert covered >= 0.95


def test_the_rate_in_the_data(census: Dataset, census_network: FeedForward) -> None:
    space = TableSpace(census.schema, ["sex"])
    found = discriminatory_rows(classifier_of(census_network), space, census)
    hit = np.empty_like(found.hit)
    hit[found.rows] = found.hit
    outside = np.flatnonzero((census.codes != census.clipped).any(axis=1))
    for row in [*np.random.default_rng(0).integers(0, len(hit), 200), *outside[:100]]:
        assert hit[row] == has_witness(census_network, census.schema, space.protected, census.codes[row])
    rates = data_rates(census, found.rows, found.hit)
    assert rates["all"].discriminatory == hit.sum()
    assert rates["held_out"].samples == 16_281
    assert rates["held_out"].discriminatory == hit[~census.train].sum()
    low, high = rates["all"].interval
    assert low < rates["all"].share < high


class ReadsA0OnlyInTheDomain(nn.Module):
    """Decides by a0 where a1 is at most 3, and alike for everyone beyond."""

    def forward(self, x: Tensor) -> Tensor:
        positive = (x[:, 0] > 0) & (x[:, 1] <= 3)
        return torch.stack([~positive, positive], dim=1).float()


def test_rates_are_of_people_as_they_are() -> None:
    """The second row's a1 = 100 lies outside the domain, where a0 does not decide; moved to 3 it would."""
    codes = np.array([[0, 1], [1, 100]], dtype=np.int32)
    data = Dataset(schema_of([(0, 1), (0, 3)]), codes, np.array([0, 1]), np.array([True, False]))
    model, space = classifier_of(ReadsA0OnlyInTheDomain()), TableSpace(data.schema, ["a0"])
    assert not has_witness(model.module, data.schema, space.protected, codes[1])
    assert has_witness(model.module, data.schema, space.protected, data.clipped[1])
    found = discriminatory_rows(model, space, data)
    assert found.rows[found.hit].tolist() == [0]
    rates = data_rates(data, found.rows, found.hit)
    assert (rates["all"].discriminatory, rates["held_out"].discriminatory) == (1, 0)
