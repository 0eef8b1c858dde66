"""Seeds: training rows, spread over clusters, decided by the run's seed alone."""

from dataclasses import replace

import numpy as np
import pytest

from evenhand.data.dataset import Dataset
from evenhand.search.seeds import choose_seeds
from tests.worlds.schemas import schema_of


def test_seeds_are_distinct_training_rows(census: Dataset) -> None:
    rows = choose_seeds(census, 1000, seed=0)
    assert len(set(rows.tolist())) == 1000
    assert census.train[rows].all()


def test_the_run_seed_decides(census: Dataset) -> None:
    assert np.array_equal(choose_seeds(census, 100, seed=4), choose_seeds(census, 100, seed=4))
    assert not np.array_equal(choose_seeds(census, 100, seed=4), choose_seeds(census, 100, seed=5))
    assert np.array_equal(choose_seeds(census, 50, seed=4), choose_seeds(census, 100, seed=4)[:50])


def test_clusters_take_turns(census: Dataset) -> None:
    """Two far clusters of very different size: the first seeds come from both alike."""
    codes = np.repeat(census.clipped[:1], 100, axis=0)
    codes[:10] = census.schema.upper
    two = replace(census, codes=codes, labels=census.labels[:100], train=np.ones(100, dtype=bool))
    assert (choose_seeds(two, 20, seed=0) < 10).sum() == 10


@pytest.mark.parametrize("seed", range(5))
def test_clusters_are_made_on_clipped_codes(seed: int) -> None:
    """Two clusters by a1. The code 100 of a0 is 9 when clipped, next to 8; unclipped it would be a cluster itself."""
    codes = np.zeros((100, 2), dtype=np.int32)
    codes[:, 0] = 8
    codes[10:50, 0] = 100
    codes[:10, 1] = 9
    data = Dataset(schema_of([(0, 9), (0, 9)]), codes, np.zeros(100, dtype=np.int64), np.ones(100, dtype=bool))
    rows = choose_seeds(data, 20, seed, clusters=2)
    assert sorted(rows[codes[rows, 1] == 9]) == list(range(10))
    clipped_beforehand = replace(data, codes=np.minimum(codes, 9))
    assert np.array_equal(rows, choose_seeds(clipped_beforehand, 20, seed, clusters=2))


def test_more_seeds_than_rows_gives_all_rows(census: Dataset) -> None:
    few = replace(census, codes=census.codes[:30], labels=census.labels[:30], train=np.arange(30) < 20)
    assert sorted(choose_seeds(few, 1000, seed=0).tolist()) == list(range(20))
