"""THEMIS: uniform sampling of the whole domain, until the share of discriminatory samples is known well enough."""

import math
from dataclasses import dataclass
from functools import partial
from statistics import NormalDist
from typing import ClassVar

import torch
from torch import Tensor

from evenhand.errors import EvenhandError
from evenhand.search.checkpoint import Place
from evenhand.search.method import Method, Needs
from evenhand.search.search import Search

BATCH_ROWS = 131_072  # model rows at a time; it bounds memory, and what a wish to stop has to wait for


@dataclass(frozen=True, kw_only=True)
class Themis(Method):
    """Galhotra, Brun and Meliou, "Fairness Testing: Testing Software for Discrimination".

    It draws `samples`, by default as many as the two phases of the other methods may look at in their budget. With an
    `error` it ends earlier, as soon as the margin of the discrimination score at this confidence is below it. The
    margin is zero where no sample or every sample is discriminatory, however few there are; `min_samples` guards
    against that.
    """

    name: ClassVar[str] = "themis"
    needs: ClassVar[Needs] = "labels"
    resumable: ClassVar[bool] = True
    samples: int | None = None
    error: float | None = None
    confidence: float = 0.95
    min_samples: int = 1000

    def __post_init__(self) -> None:
        if self.samples is not None and self.samples < 1:
            raise EvenhandError(f"THEMIS draws at least 1 sample; {self.samples} is too few.")
        if self.min_samples < 1:
            raise EvenhandError(f"min_samples is at least 1; {self.min_samples} is too few.")
        if self.error is not None and not 0 < self.error < 1:
            raise EvenhandError(f"error is a margin of a share, between 0 and 1; {self.error} is not.")
        if not 0 < self.confidence < 1:
            raise EvenhandError(f"confidence lies between 0 and 1, such as 0.95; {self.confidence} does not.")

    def search(self, search: Search, x: Tensor, ids: Tensor) -> None:  # noqa: ARG002 - it starts from no seed
        """Draw, look and count, batch by batch; the score and its margin are in the notes of the result."""
        total = self.samples or len(x) * (1 + search.limits.steps)
        drawn = possible = discriminatory = 0
        if search.place is not None:
            numbers = search.place.numbers
            drawn, possible, discriminatory = (numbers[name] for name in ("drawn", "possible", "discriminatory"))
        while drawn < total:
            counts = {"drawn": drawn, "possible": possible, "discriminatory": discriminatory}
            if search.should_stop(partial(Place, counts, {})):
                return
            size = min(self.batch(search), total - drawn)
            which = torch.arange(drawn, drawn + size, device=search.model.device)
            checked = search.look(uniform_samples(search, which), "global", 0, not_a_row(which))
            there = search.space.possible(checked.x)
            drawn += size
            possible += size if there is None else int(there.sum())  # nobody is what a rule calls impossible
            discriminatory += int(checked.hit.sum())
            score = discriminatory / max(1, possible)
            margin = self.margin(score, max(1, possible))
            search.result.notes.update(score=score, margin=margin, samples=possible)
            search.report("global", size, drawn, total)
            if self.is_sure(margin, possible):
                return

    def margin(self, score: float, samples: int) -> float:
        """Half the width of the score's interval at this confidence, by the normal approximation."""
        z = NormalDist().inv_cdf((1 + self.confidence) / 2)
        return z * math.sqrt(score * (1 - score) / samples)

    def is_sure(self, margin: float, samples: int) -> bool:
        """The stopping rule. It is asked after each batch, not after each sample, so some more may be drawn."""
        return self.error is not None and samples >= self.min_samples and margin < self.error

    def batch(self, search: Search) -> int:
        """Samples to draw next: no more than the rule or a budget of rows lets count, since both end the search."""
        size = max(1, BATCH_ROWS // search.space.variant_count)
        if self.error is not None:
            size = min(size, self.min_samples)
        if search.limits.max_rows is not None:
            affordable = (search.limits.max_rows - search.model.rows) // search.space.variant_count
            size = min(size, max(1, affordable))
        return size


def not_a_row(numbers: Tensor) -> Tensor:
    """What a random sample is recorded under: below zero, where no row of the data is."""
    return -1 - numbers


def uniform_samples(search: Search, numbers: Tensor) -> Tensor:
    """(n, d) samples that are uniform over the domain, each by its own number (n,) and not by its company."""
    elements = len(search.space.sizes)
    draws = search.draws(numbers, "global", per_step=elements, block_steps=1)
    return search.space.uniform(torch.stack([draws.step(0, which) for which in range(elements)], dim=1))
