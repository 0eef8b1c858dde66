"""Seeds: training rows, spread over clusters, decided by the run's seed alone."""

from dataclasses import replace

import numpy as np

from evenhand.data.dataset import Dataset
from evenhand.search.seeds import choose_seeds


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


def test_more_seeds_than_rows_gives_all_rows(census: Dataset) -> None:
    few = replace(census, codes=census.codes[:30], labels=census.labels[:30], train=np.arange(30) < 20)
    assert sorted(choose_seeds(few, 1000, seed=0).tolist()) == list(range(20))
