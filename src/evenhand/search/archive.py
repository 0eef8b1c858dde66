"""Which samples were looked at before, in bulk: sorted runs of keys, spilled to disk when they are many."""

import tempfile
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

SPILL_KEYS = 16_000_000  # a run this long (128 MB of integers) lives in a file that the system pages in as needed


class Archive:
    """A growing set of keys that answers, for many keys at once, which of them are new."""

    def __init__(self, spill_keys: int = SPILL_KEYS) -> None:
        self._runs: list[NDArray[Any]] = []  # each sorted and without repetition, disjoint, the longest first
        self._spill_keys = spill_keys

    def __len__(self) -> int:
        return sum(len(run) for run in self._runs)

    def add(self, keys: NDArray[Any]) -> NDArray[np.int64]:
        """Remember keys; return the positions of those seen for the first time, in rising order."""
        distinct, first = _distinct(keys)
        fresh = np.ones(len(distinct), dtype=bool)
        for run in self._runs:
            places = np.searchsorted(run, distinct)
            places[places == len(run)] = 0
            fresh &= run[places] != distinct
        if fresh.any():
            self._append(distinct[fresh])
        return np.sort(first[fresh])

    def _append(self, run: NDArray[Any]) -> None:
        """Keep few runs: merge the last ones while they are in memory and not much longer than the new one."""
        while self._runs and len(self._runs[-1]) < min(self._spill_keys, 2 * len(run) + 1):
            run = np.concatenate([self._runs.pop(), run])
            run.sort()
        self._runs.append(_spilled(run) if len(run) >= self._spill_keys else run)


def _distinct(keys: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The distinct keys in order, and the first position of each: `np.unique`, several times faster for integers."""
    if keys.dtype != np.int64:
        return np.unique(keys, return_index=True)
    ordered, places = torch.sort(torch.from_numpy(keys), stable=True)
    first = torch.ones(len(keys), dtype=torch.bool)
    torch.ne(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first].numpy(), places[first].numpy()


def _spilled(run: NDArray[Any]) -> NDArray[Any]:
    """The same keys in an unnamed temporary file, which goes away with the array."""
    with tempfile.TemporaryFile(prefix="evenhand-archive-") as file:
        run.tofile(file)
        file.flush()
        return np.memmap(file, dtype=run.dtype, mode="r", shape=run.shape)
