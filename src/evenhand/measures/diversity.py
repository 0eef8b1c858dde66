"""How different findings are from each other: measured, not claimed."""

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from evenhand.search.recorder import Findings
from evenhand.search.space import TableSpace

SAMPLE = 2_000  # findings that are kept for the mean distance
MOST_BINS = 200  # an attribute with more codes is cut into so many equal parts, so that cells stay countable


class Diversity:
    """Collects findings as they come. What it holds does not grow with their number.

    A cell is a pair of values of two non-protected attributes; it is covered if some finding has both. The distance of
    two findings is the mean over non-protected attributes of 0 or 1 for categories, of the difference of codes divided
    by the width of the domain for the others.
    """

    def __init__(self, space: TableSpace) -> None:
        self._free = [index for index in range(len(space.sizes)) if index not in space.protected]
        self._lower = space.schema.lower
        self._sizes = np.array(space.sizes)
        self._bins = np.minimum(self._sizes, MOST_BINS)
        self._category = np.array([space.schema.attributes[index].kind == "category" for index in self._free])
        self._cells = {
            pair: np.zeros(self._bins[pair[0]] * self._bins[pair[1]], dtype=bool)
            for pair in combinations(self._free, 2)
        }
        self._sample = np.zeros((SAMPLE, len(space.sizes)), dtype=np.int64)
        self._seen = 0
        self._rng = np.random.default_rng(0)

    def add(self, findings: Findings) -> None:
        """Take in some findings."""
        binned = (findings.sample - self._lower) * self._bins // self._sizes
        for (first, second), covered in self._cells.items():
            covered[binned[:, first] * self._bins[second] + binned[:, second]] = True
        self._keep(findings.sample)

    def _keep(self, codes: NDArray[np.int32]) -> None:
        """A uniform sample of all findings so far: each one takes a random place among those seen up to it."""
        numbers = self._seen + np.arange(len(codes))
        places = (self._rng.random(len(codes)) * (numbers + 1)).astype(np.int64)
        places[numbers < SAMPLE] = numbers[numbers < SAMPLE]
        kept = places < SAMPLE
        self._sample[places[kept]] = codes[kept]
        self._seen += len(codes)

    @property
    def sample(self) -> NDArray[np.int64]:
        """(k, d) a uniform sample of the findings."""
        return self._sample[: min(self._seen, SAMPLE)]

    @property
    def cells(self) -> int:
        """How many cells are covered."""
        return sum(int(covered.sum()) for covered in self._cells.values())

    @property
    def coverage(self) -> float:
        """The share of all cells that are covered."""
        return self.cells / max(1, sum(len(covered) for covered in self._cells.values()))

    @property
    def mean_distance(self) -> float:
        """The mean distance of neighbours in a random order of the sample, from 0 (all alike) to 1."""
        sample = self.sample[:, self._free]
        if len(sample) < 2:
            return 0.0
        order = np.random.default_rng(1).permutation(len(sample))
        difference = np.abs(sample[order] - sample[np.roll(order, 1)])
        widths = np.maximum(self._sizes[self._free] - 1, 1)
        return float(np.where(self._category, difference > 0, difference / widths).mean())
