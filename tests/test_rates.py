"""Rates and their intervals."""

import numpy as np
import pytest
from scipy import stats

from evenhand.data.dataset import Dataset
from evenhand.measure.rates import clopper_pearson, data_rates, discriminatory_rows
from evenhand.models.network import FeedForward
from evenhand.search.space import TableSpace
from tests.worlds import classifier_of, has_witness


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
    hit = discriminatory_rows(classifier_of(census_network), space, census)
    for row in np.random.default_rng(0).integers(0, len(hit), 200):
        assert hit[row] == has_witness(census_network, census.schema, space.protected, census.clipped[row])
    rates = data_rates(classifier_of(census_network), space, census)
    assert rates["all"].discriminatory == hit.sum()
    assert rates["held_out"].samples == 16_281
    assert rates["held_out"].discriminatory == hit[~census.train].sum()
    low, high = rates["all"].interval
    assert low < rates["all"].share < high
