"""Pairs to show: the clearest of those that were met, no person or finding twice."""

from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from evenhand.report.statistics import Clearest, Example, by_gap, example_at, examples_of
from evenhand.search.check import Checked
from evenhand.search.recorder import Findings
from evenhand.search.space import TableSpace, hashed_rows

NOBODY = -1  # the seed row of a sample that did not start from a row


class ClearestMet(Clearest):
    """Keeps the discriminatory samples whose scores differ most from their witness'."""

    def __init__(self, space: TableSpace, most: int) -> None:
        super().__init__(most, partial(known_by, space=space))
        self._space = space

    def add(
        self, checked: Checked, rows: NDArray[np.int64] | None = None, person: Literal["", "codes", "exact"] = ""
    ) -> None:
        """Look through checked samples, which started from these rows of the data."""
        numbers = checked.hit.nonzero().squeeze(1)
        gap = (checked.score - checked.pair_score).abs()[numbers]
        ordered = numbers[gap.argsort(descending=True, stable=True)]
        shared = (checked.x[ordered] * self._space.kept).long().cpu().numpy()
        _, first = np.unique(hashed_rows(shared), return_index=True)  # rows of one kind count once
        best = ordered[np.sort(first)[: self._most].tolist()]
        seeds = np.full(len(checked), NOBODY) if rows is None else rows
        self.keep(examples_of(checked.take(best), self._space, seeds[best.cpu().numpy()], person))

    def add_findings(self, findings: Findings) -> None:
        """Look through findings of a search."""
        best = by_gap(findings.score, findings.witness_score)[: self._most]
        self.keep(example_at(findings, int(place), self._space.protected) for place in best)


def known_by(example: Example, space: TableSpace) -> tuple[int, ...]:
    """What a sample is known by: all but its protected values."""
    return tuple(code for index, code in enumerate(example.sample) if index not in space.protected)
