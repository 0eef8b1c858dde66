"""AEQUITAS (fully directed) one sample at a time, and how much faster the batched form is.

`python -m bench.aequitas_reference`. Walks come one after another and each sample updates the probabilities at once.
"""

import json
import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from bench.reference import Reference, Sample
from bench.timing import timed_search
from evenhand.data.dataset import load_dataset
from evenhand.methods.aequitas import Aequitas
from evenhand.models.classifier import Classifier
from evenhand.models.devices import one_thread
from evenhand.models.loading import load_module
from evenhand.search.draws import Draws
from evenhand.search.search import Limits
from evenhand.search.walk import ACCEPTANCE_DRAW

MANY = 200_000


@dataclass
class AequitasReference(Reference):
    """Random samples, each followed by its local search where it is discriminatory."""

    change: float = 0.001

    def __post_init__(self) -> None:
        super().__post_init__()
        self.attribute = {i: 1 / len(self.free_indices) for i in self.free_indices}  # probability to be chosen
        self.down = dict.fromkeys(self.free_indices, 0.5)  # probability to move down

    def run_one(self, number: int) -> None:
        """One random sample and, from a discriminatory one, the local search."""
        x = self.random_sample(number)
        walk = -1 - number  # what it is recorded under: no row of the data
        self.trail.append(("global", walk, 0, x))
        _, _, hit = self.check(x)
        if hit:
            self.local_search(x, walk)

    def random_sample(self, number: int) -> Sample:
        """Uniform over the domain."""
        draws = Draws(self.seed, 0, torch.tensor([number]), len(self.schema.names), block_steps=1)
        sample = []
        for i, attribute in enumerate(self.schema.attributes):
            low, high = attribute.domain
            sample.append(float(math.floor(low + draws.step(0, i).item() * (high - low + 1))))
        return self.clip(sample)

    def local_search(self, x: Sample, row: int) -> None:
        """Walk from one finding, learning after each sample."""
        draws = self._draws("local", row)
        _, pair, _ = self.check(x)
        for step in range(self.steps):
            i = self.pick(list(self.attribute.values()), draws.step(step, 0).item())
            at_border = x[i] in self.schema.attributes[i].domain
            down = draws.step(step, 1).item() < (0.5 if at_border else self.down[i])
            neighbour = list(x)
            neighbour[i] += -1.0 if down else 1.0
            neighbour = self.clip(neighbour)
            self.trail.append(("local", row, step, neighbour))
            _, new_pair, hit = self.check(neighbour, near=pair)
            if hit or draws.step(step, ACCEPTANCE_DRAW).item() < self.accept_failed:
                x, pair = neighbour, new_pair
            self.learn(i, down, hit)

    def learn(self, i: int, down: bool, hit: bool) -> None:
        """The published updates of one sample."""
        if hit == down:
            self.down[i] = min(self.down[i] + self.change, 1.0)
        else:
            self.down[i] = max(self.down[i] - self.change, 0.0)
        self.attribute[i] = self.attribute[i] + self.change if hit else max(self.attribute[i] - self.change, 0.0)
        total = sum(self.attribute.values())
        self.attribute = {i: value / total for i, value in self.attribute.items()}


def aequitas_ratio(seconds: float) -> dict[str, Any]:
    """Both forms in one run on census and sex, one sample at a time for about these seconds.

    They tread different paths, since the batched form learns once per step; so the ratio is of seconds per sample.
    A batch is as many walks as there were discriminatory random samples. Of the paper's 1,000 random samples only a
    handful are, which leaves little to batch: the ratio is given for that budget and for one of MANY random samples.
    """
    with one_thread(torch.device("cpu")):
        batched(1000, Limits(steps=50))  # warm-up: first calls load kernels
        few, many = batched(1000, Limits()), batched(MANY, Limits())
        plain = one_at_a_time(seconds)
    each = plain["microseconds_per_sample"]
    return {
        "one_at_a_time": plain,
        "papers_budget": few | {"ratio_for_equal_work": round(each / few["microseconds_per_sample"], 1)},
        "many_samples": many | {"ratio_for_equal_work": round(each / many["microseconds_per_sample"], 1)},
    }


def batched(samples: int, limits: Limits) -> dict[str, Any]:
    """A search from so many random samples."""
    data = load_dataset("census")
    rows = np.arange(samples) % len(data.codes)  # AEQUITAS only looks how many there are
    model = Classifier(load_module(data, None)[0])
    result, seconds = timed_search(model, data, ["sex"], rows, Aequitas(), limits)
    return measured(result.counts.findings["global"], result.counts.tried, result.counts.all_findings, seconds)


def one_at_a_time(seconds: float) -> dict[str, Any]:
    """As many of the same random samples, each with its local search, as the time allows."""
    data = load_dataset("census")
    model = Classifier(load_module(data, None)[0], smallest_call=1)
    reference = AequitasReference(model, data.schema, ["sex"], seed=0, accept_failed=math.exp(-1))
    start = time.perf_counter()
    number = 0
    while time.perf_counter() - start < seconds:
        reference.run_one(number)
        number += 1
    walks = sum(phase == "local" and step == 0 for phase, _, step, _ in reference.trail)
    return measured(walks, len(reference.trail), len(reference.found), time.perf_counter() - start)


def measured(walks: int, samples: int, findings: int, seconds: float) -> dict[str, Any]:
    """The same figures of both forms."""
    each = round(1e6 * seconds / samples, 3)
    return {
        "walks": walks,
        "samples": samples,
        "findings": findings,
        "seconds": round(seconds, 2),
        "microseconds_per_sample": each,
    }


if __name__ == "__main__":
    print(json.dumps(aequitas_ratio(20.0), indent=2))
