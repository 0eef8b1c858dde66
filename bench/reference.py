"""ADF one sample at a time, as plainly as it can be written: what the batched search is checked and timed against.

It shares with the package the model, the schema and the random numbers, nothing else.
"""

from dataclasses import dataclass, field

import torch

from evenhand.data.schema import Schema
from evenhand.models.classifier import Classifier
from evenhand.search.draws import Draws
from evenhand.search.recorder import PHASES
from evenhand.search.walk import ACCEPTANCE_DRAW, DRAWS_PER_STEP

Sample = list[float]


@dataclass
class Reference:
    """The paper's Algorithms 1 to 4 and 7 to 9 for tables."""

    model: Classifier
    schema: Schema
    protected: list[str]
    seed: int
    accept_failed: float
    iterations: int = 10
    steps: int = 1000
    generated: set[tuple[float, ...]] = field(default_factory=set)
    found: set[tuple[float, ...]] = field(default_factory=set)
    trail: list[tuple[str, int, int, Sample]] = field(default_factory=list)  # phase, seed row, step, sample looked at

    def __post_init__(self) -> None:
        self.protected_indices = sorted(self.schema.names.index(name) for name in self.protected)
        self.free_indices = [i for i in range(len(self.schema.names)) if i not in self.protected_indices]

    def run(self, seeds: list[Sample], rows: list[int]) -> None:
        """Both phases for each seed."""
        for seed, row in zip(seeds, rows, strict=True):
            finding = self.global_search(self.clip(seed), row)
            if finding is not None:
                self.local_search(finding, row)

    def global_search(self, x: Sample, row: int) -> Sample | None:
        """Algorithm 1 for one seed."""
        draws = self._draws("global", row)
        for iteration in range(self.iterations):
            self.trail.append(("global", row, iteration, x))
            label, pair, hit = self.check(x)
            if hit:
                return x
            direction = self.global_direction(self.gradient(x, label), self.gradient(pair, label))
            if not any(direction):
                attribute = self.pick([1.0] * len(self.free_indices), draws.step(iteration, 0).item())
                direction[attribute] = -1.0 if draws.step(iteration, 1).item() < 0.5 else 1.0
            x = self.clip([value + change for value, change in zip(x, direction, strict=True)])
        return None

    def local_search(self, x: Sample, row: int) -> None:
        """Algorithm 7 for one finding."""
        draws = self._draws("local", row)
        label, pair, _ = self.check(x)
        for step in range(self.steps):
            g, g_pair = self.gradient(x, label), self.gradient(pair, label)
            attribute = self.pick(self.weights(g, g_pair), draws.step(step, 0).item())
            neighbour = list(x)
            neighbour[attribute] += -1.0 if draws.step(step, 1).item() < 0.5 else 1.0
            neighbour = self.clip(neighbour)
            self.trail.append(("local", row, step, neighbour))
            new_label, new_pair, hit = self.check(neighbour, near=pair)
            if hit or draws.step(step, ACCEPTANCE_DRAW).item() < self.accept_failed:
                x, label, pair = neighbour, new_label, new_pair

    def check(self, x: Sample, near: Sample | None = None) -> tuple[int, Sample, bool]:
        """Algorithm 2: x's label, its pair, and whether the pair is a witness; counts x.

        Of several witnesses the one with the protected values of `near`, a neighbour's pair, else the most different.
        """
        guess = [near[i] for i in self.protected_indices] if near else None
        label, scores = self.ask(x)
        best: tuple[bool, bool, float] = (False, False, -1.0)
        pair = x
        for variant in self.variants(x):
            other_label, other_scores = self.ask(variant)
            differs = other_label != label
            kept = differs and [variant[i] for i in self.protected_indices] == guess
            rank = (differs, kept, abs(other_scores[label] - scores[label]))
            if rank > best:
                best, pair = rank, variant
        key = tuple(x[i] for i in self.free_indices)
        self.generated.add(key)
        if best[0]:
            self.found.add(key)
        return label, pair, best[0]

    def variants(self, x: Sample) -> list[Sample]:
        """Every other combination of protected values, the last attribute fastest."""
        variants = [x]
        for i in self.protected_indices:
            low, high = self.schema.attributes[i].domain
            variants = [[*v[:i], float(code), *v[i + 1 :]] for v in variants for code in range(low, high + 1)]
        return [variant for variant in variants if variant != x]

    def global_direction(self, g: list[float], g_pair: list[float]) -> list[float]:
        """Algorithm 3: the signs where both gradients agree."""
        direction = [0.0] * len(g)
        for i in self.free_indices:
            if sign(g[i]) == sign(g_pair[i]):
                direction[i] = sign(g[i])
        return direction

    def weights(self, g: list[float], g_pair: list[float]) -> list[float]:
        """Algorithm 8 up to the sum: reciprocal saliency of the free attributes."""
        return [1 / max(abs(g[i]) + abs(g_pair[i]), 1e-30) for i in self.free_indices]

    def pick(self, weights: list[float], number: float) -> int:
        """The free attribute in whose share of the total weight the number falls."""
        mark, reach = number * sum(weights), 0.0
        for i, weight in zip(self.free_indices, weights, strict=True):
            reach += weight
            if reach > mark:
                return i
        return self.free_indices[-1]

    def clip(self, x: Sample) -> Sample:
        """Algorithm 4."""
        domains = (attribute.domain for attribute in self.schema.attributes)
        return [float(min(max(value, low), high)) for value, (low, high) in zip(x, domains, strict=True)]

    def ask(self, x: Sample) -> tuple[int, list[float]]:
        """The model's label and scores for one sample."""
        outputs = self.model.outputs(torch.tensor([x]))
        return int(outputs.labels[0]), outputs.scores[0].tolist()

    def gradient(self, x: Sample, label: int) -> list[float]:
        """The loss gradient of one sample."""
        gradient: list[float] = self.model.gradients(torch.tensor([x]), torch.tensor([label]))[0].tolist()
        return gradient

    def _draws(self, phase: str, row: int) -> Draws:
        return Draws(self.seed, PHASES.index(phase), torch.tensor([row]), DRAWS_PER_STEP)


def sign(value: float) -> float:
    """-1, 0 or 1."""
    return float((value > 0) - (value < 0))
