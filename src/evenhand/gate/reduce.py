"""A finding brought as near to a real person as it can be: fewest attributes changed, and these by the least.

Every candidate is checked with the model against all its variants, and so is the outcome: it is a finding too.
"""

import math
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from evenhand.data.dataset import Dataset
from evenhand.models.classifier import Classifier
from evenhand.report.statistics import Example, examples_of
from evenhand.search.check import Checked, check
from evenhand.search.space import TableSpace

Codes = NDArray[np.int32]
ALL_SUBSETS = 12  # changed attributes of which every subset is tried; of more, they are first restored one by one
FEW = 2  # subsets of so few attributes are tried however many are changed
MOST_CANDIDATES = 4096  # with all values between the person's and the finding's; if they are more, only the finding's


class Reducer:
    """Reduces findings of one model on one data set."""

    def __init__(self, model: Classifier, space: TableSpace, data: Dataset) -> None:
        self._model, self._space, self._data = model, space, data
        self._category = np.array([attribute.kind == "category" for attribute in data.schema.attributes])
        self._span = np.maximum(data.schema.upper - data.schema.lower, 1)
        self._free = np.array([index not in space.protected for index in range(len(self._span))])

    def reduced(self, example: Example) -> Example:
        """The nearest finding to the row that a search started from, or to the row most alike, if that is nearer."""
        rows = dict.fromkeys([self.most_alike(example.sample), example.seed_row])
        outcomes = [self._towards(row, np.array(example.sample, dtype=np.int32)) for row in rows if row >= 0]
        return min(outcomes, key=self.distance)

    def most_alike(self, sample: tuple[int, ...]) -> int:
        """The row that shares most values, protected ones aside; of several the nearest one, then the first.

        Where the schema says how attributes may move, only rows from where the sample can be reached, if there are any.
        """
        rows = np.flatnonzero(self._data.possible)
        if self._space.limited:
            people, x = self._space.samples(self._data.clipped[rows]), self._space.samples(np.array([sample], np.int32))
            reached = (self._space.within_reach(x.expand_as(people), people) == x).all(dim=1).cpu().numpy()
            rows = rows[reached] if reached.any() else rows
        different = (self._data.clipped[rows] != np.array(sample)) & self._free
        changes = self._data.clipped[rows] - np.array(sample)
        return int(rows[np.lexsort((self._far(changes * self._free), different.sum(axis=1)))[0]])

    def distance(self, example: Example) -> tuple[int, float, float]:
        """How far a finding is from its person: changed attributes, by how much, and the clearest first of equals."""
        change = np.array(example.sample) - self._data.clipped[example.seed_row]
        return int((change != 0).sum()), float(self._far(change)), -example.gap

    def _far(self, change: NDArray[np.int32]) -> NDArray[np.float64]:
        """(…, d) changes of codes, in shares of the domain; a category is another one or not."""
        each = np.where(self._category, change != 0, np.abs(change) / self._span)
        return np.asarray(each.sum(axis=-1), dtype=np.float64)

    def _towards(self, row: int, sample: Codes) -> Example:
        person = self._data.clipped[row]
        as_person = np.where(self._free, sample, person)  # who else they are does not decide about a witness,
        if bool(self._check(as_person[None]).hit):  # unless the schema's rules rule some pairs out
            sample = as_person
        sample = self._fewest(person, sample)
        while (nearer := self._least(person, sample)) is not None:
            sample = nearer
        return examples_of(self._check(sample[None]), self._space, np.array([row]))[0]

    def _check(self, codes: Codes) -> Checked:
        return check(self._model, self._space, self._space.samples(codes))

    def _best(self, person: Codes, candidates: Codes) -> Codes | None:
        """The discriminatory candidate that is nearest to the person, the clearest of several; None: there is none."""
        checked = self._check(candidates)
        hit = checked.hit.cpu().numpy()
        if not hit.any():
            return None
        gap = (checked.score - checked.pair_score).abs().cpu().numpy()
        order = np.lexsort((-gap, self._far(candidates - person)))
        best: Codes = candidates[order[hit[order]][0]]
        return best

    def _fewest(self, person: Codes, sample: Codes) -> Codes:
        """As many attributes as possible back at the person's values."""
        for size in range(FEW + 1):
            if (best := self._of_size(person, sample, size)) is not None:
                return best
        while len(_changed(person, sample)) > ALL_SUBSETS:
            one_less = self._of_size(person, sample, len(_changed(person, sample)) - 1)
            if one_less is None:
                return sample
            sample = one_less
        for size in range(FEW + 1, len(_changed(person, sample)) + 1):
            if (best := self._of_size(person, sample, size)) is not None:
                return best
        return sample

    def _of_size(self, person: Codes, sample: Codes, size: int) -> Codes | None:
        """The best sample with so many of the changes and none of the others."""
        subsets = [list(some) for some in combinations(_changed(person, sample).tolist(), size)]
        if not subsets:
            return None
        values = {index: self._between(person, sample, index) for some in subsets for index in some}
        if sum(math.prod(len(values[index]) for index in some) for some in subsets) > MOST_CANDIDATES:
            values = {index: sample[index : index + 1] for index in values}
        return self._best(person, np.concatenate([_grid(person, some, values) for some in subsets]))

    def _between(self, person: Codes, sample: Codes, index: int) -> Codes:
        """Values of an attribute from the person's, which is left out, to the sample's."""
        if self._category[index] or not self._free[index]:
            return sample[index : index + 1]
        stride = self._data.schema.attributes[index].stride * np.sign(sample[index] - person[index])
        return np.append(np.arange(person[index] + stride, sample[index], stride), sample[index]).astype(np.int32)

    def _least(self, person: Codes, sample: Codes) -> Codes | None:
        """One attribute nearer to the person's value; None where none can be."""
        for index in _changed(person, sample):
            nearer = self._between(person, sample, int(index))[:-1]
            found = self._first_value(person, sample, int(index), nearer) if len(nearer) else None
            if found is not None:
                return found
        return None

    def _first_value(self, person: Codes, sample: Codes, index: int, values: Codes) -> Codes | None:
        """The sample with the first of these values, which go from the person's outward, at which it is a finding.

        Of very many values the halfway one is looked at again and again: an edge of the findings, if not the first.
        """
        if len(values) <= MOST_CANDIDATES:
            return self._best(person, _grid(sample, [index], {index: values}))
        found, first, last = None, 0, len(values)
        while first < last:
            middle = (first + last) // 2
            candidate = _grid(sample, [index], {index: values[middle : middle + 1]})
            if bool(self._check(candidate).hit):
                found, last = candidate[0], middle
            else:
                first = middle + 1
        return found


def _grid(sample: Codes, indices: list[int], values: dict[int, Codes]) -> Codes:
    """(n, d) the sample with all combinations of these values of some attributes."""
    combined = np.array(np.meshgrid(*(values[index] for index in indices), indexing="ij"), dtype=np.int32)
    candidates = np.repeat(sample[None], combined[0].size if indices else 1, axis=0)
    candidates[:, indices] = combined.reshape(len(indices), len(candidates)).T
    return candidates


def _changed(person: Codes, sample: Codes) -> NDArray[np.intp]:
    return np.flatnonzero(person != sample)
