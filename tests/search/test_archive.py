"""The archive against a Python set."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evenhand.search.archive import Archive


@given(st.lists(st.lists(st.integers(-50, 50), max_size=60), max_size=12), st.sampled_from([4, 10**6]), st.booleans())
def test_it_finds_what_is_new(batches: list[list[int]], spill_keys: int, as_bytes: bool) -> None:
    archive = Archive(spill_keys)
    seen: set[int] = set()
    for batch in batches:
        keys = np.array(batch, dtype=np.int64)
        expected = []
        for position, key in enumerate(batch):
            if key not in seen:
                expected.append(position)
                seen.add(key)
        given_keys = np.array([f"{key:016d}" for key in batch], dtype="S16") if as_bytes else keys
        assert archive.add(given_keys).tolist() == expected
    assert len(archive) == len(seen)


def test_many_keys_stay_in_few_runs() -> None:
    archive = Archive()
    rng = np.random.default_rng(0)
    for _ in range(200):
        archive.add(rng.integers(0, 2**62, 1000))
    assert len(archive) == 200_000
    assert len(archive._runs) < 12
