"""Why a model decides so about a sample: a decision tree over its neighbours, and what can be asked of its path."""

import itertools
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeClassifier
from torch import Tensor

from evenhand.methods.path_solver import Problem
from evenhand.search.draws import Draws
from evenhand.search.search import Search
from evenhand.search.space import TableSpace


class Constraint(NamedTuple):
    """One decision on the way to a leaf: an attribute is at most a bound, or above it."""

    attribute: int
    at_most: bool
    bound: int
    confidence: float = 1.0  # of the neighbours that come this far, the share with the sample's label

    def negated(self) -> "Constraint":
        """The other way at the same decision, which is as sure as this one is not."""
        return self._replace(at_most=not self.at_most, confidence=1 - self.confidence)


Path = tuple[Constraint, ...]
Seen = set[frozenset[Constraint]]


def path_of(tree: DecisionTreeClassifier, x: Sequence[int], label: int) -> Path:
    """The decisions of a fitted tree about a sample, from the root on."""
    nodes = tree.tree_
    column = list(tree.classes_).index(label)
    path = []
    node = 0
    while nodes.children_left[node] >= 0:
        attribute, threshold = int(nodes.feature[node]), float(nodes.threshold[node])
        at_most = x[attribute] <= threshold
        node = nodes.children_left[node] if at_most else nodes.children_right[node]
        share = nodes.value[node, 0] / nodes.value[node, 0].sum()
        # Codes are whole numbers: at most 3.5 is at most 3, and above 3.5 is above 3.
        path.append(Constraint(attribute, at_most, int(np.floor(threshold)), float(share[column])))
    return tuple(path)


def local_negations(path: Path, protected: Sequence[int]) -> list[Path]:
    """The path with one of its constraints turned round and all others kept; the turned one stands last."""
    return [
        (*path[:place], *path[place + 1 :], constraint.negated())
        for place, constraint in enumerate(path)
        if constraint.attribute not in protected
    ]


def global_negations(path: Path, protected: Sequence[int], confidence: float) -> list[Path]:
    """Each beginning of the path with its last constraint turned round, up to the first that is not sure enough.

    Constraints on protected attributes are left out, however sure: no question may change these.
    """
    free = [constraint for constraint in path if constraint.attribute not in protected]
    sure = list(itertools.takewhile(lambda constraint: constraint.confidence >= confidence, free))
    return [(*sure[:place], constraint.negated()) for place, constraint in enumerate(sure)]


def average_confidence(path: Path) -> float:
    """How sure the constraints of a path are, on average."""
    return fmean(constraint.confidence for constraint in path)


def unseen(paths: list[Path], seen: Seen) -> Iterator[Path]:
    """The paths that are new; their order and confidence aside."""
    for path in paths:
        key = frozenset(constraint._replace(confidence=1.0) for constraint in path)
        if key not in seen:
            seen.add(key)
            yield path


def problem_of(space: TableSpace, x: list[int], path: Path, free: set[int]) -> Problem:
    """A path as a problem in some attributes; the others keep the sample's values, which meet their constraints."""
    unknowns = [(i, int(space.schema.lower[i]), int(space.schema.upper[i]), x[i]) for i in sorted(free)]
    return Problem(unknowns, [constraint[:3] for constraint in path if constraint.attribute in free])


def neighbours(space: TableSpace, x: Tensor, count: int, draws: Draws) -> Tensor:
    """(n, d) samples to (n, count, d): each attribute, protected ones too, stays or is drawn anew, with equal odds.

    `draws` are of n * count walks.
    """
    n, d = x.shape
    numbers = torch.stack([draws.step(0, which) for which in range(d)], dim=1).view(n, count, d)
    return torch.where(numbers < 0.5, x[:, None, :], space.uniform(2 * numbers - 1))


def explain(search: Search, x: Tensor, labels: Tensor, first: int, count: int, depth: int) -> list[Path]:
    """The paths of samples (n, d) with labels (n,), the `first` + 0, 1, … that this search explains."""
    n, d = x.shape
    walks = torch.arange(first * count, (first + n) * count, device=x.device)
    around = neighbours(search.space, x, count, search.draws(walks, "global", per_step=d, block_steps=1))
    around_labels = search.model.outputs(around.view(n * count, d)).labels.view(n, count)
    samples = torch.cat([x[:, None], around], dim=1).cpu().numpy()  # (n, 1 + count, d)
    targets = torch.cat([labels[:, None], around_labels], dim=1).cpu().numpy()
    return [_path(*each, depth) for each in zip(samples, targets, strict=True)]


def _path(samples: NDArray[np.float32], labels: NDArray[np.int64], depth: int) -> Path:
    tree: Any = DecisionTreeClassifier(max_depth=depth, random_state=0)  # a tie must always fall the same way
    tree.fit(samples, labels, check_input=False)  # float32 and contiguous, as it wants them
    return path_of(tree, samples[0].astype(int).tolist(), int(labels[0]))
