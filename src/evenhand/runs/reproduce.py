"""The paper's tables made again, with the paper's number beside ours, and our own method against ADF."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cache
from statistics import mean, stdev
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from evenhand.data.dataset import Dataset, load_dataset
from evenhand.methods.adf import ADF
from evenhand.methods.aequitas import Aequitas
from evenhand.methods.symbolic import SymbolicGeneration
from evenhand.models.classifier import Classifier
from evenhand.models.devices import one_thread
from evenhand.models.loading import load_module
from evenhand.runs.compare import Outcome, run_method
from evenhand.runs.paper import PAPER, SEEDS, Pair
from evenhand.search.method import Method
from evenhand.search.recorder import Findings
from evenhand.search.search import Limits, Search
from evenhand.search.seeds import choose_seeds
from evenhand.search.space import TableSpace


@dataclass(frozen=True)
class Plan:
    """How much of the paper's budget to spend."""

    seeds: int = 1000
    steps: int = 1000
    equal_seconds: float = 500.0  # for SG and ADF in equal time
    sg_starts: int = 5  # findings that SG's local search starts from; it is far slower than the others
    random_seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    curve: tuple[int, ...] = (100, 200, 400, 600, 800, 1000)  # seeds, for the figure


QUICK = Plan(seeds=200, steps=200, equal_seconds=3.0, sg_starts=2, random_seeds=(0, 1), curve=(40, 80, 120, 160, 200))


@dataclass(frozen=True)
class World:
    """A pair's data, network, space and seeds."""

    pair: Pair
    data: Dataset
    model: Classifier
    space: TableSpace
    rows: NDArray[np.int64]

    def run(self, name: str, limits: Limits, seed: int = 0, rows: NDArray[np.int64] | None = None) -> Outcome:
        """One method on this pair."""
        seeds = self.rows if rows is None else rows
        return run_method(self.model, self.space, self.data, seeds, name, limits=limits, seed=seed)[0]


@cache
def _data(name: str) -> Dataset:
    return load_dataset(name)


def world_of(pair: Pair, plan: Plan, seed: int = 0) -> World:
    """Load a pair; the number of seeds is the paper's, or the plan's if that is less."""
    data = _data(pair.dataset)
    rows = choose_seeds(data, min(plan.seeds, SEEDS.get(pair.dataset, plan.seeds)), seed)
    model = Classifier(load_module(data, None)[0])
    return World(pair, data, model, TableSpace(data.schema, [pair.protected]), rows)


@dataclass(frozen=True)
class PairResult:
    """Everything measured on one pair."""

    pair: Pair
    seeds: int
    paper_budget: dict[str, Outcome]  # adf, aequitas, themis
    equal_time: dict[str, Outcome]  # sg, adf
    global_findings: dict[str, int]
    local_findings: dict[str, float]  # per start and 1,000 samples
    seconds_for_1000: dict[str, float | None]
    margin: list[Outcome]  # one for each random seed
    adf: list[Outcome]


def measure_pair(pair: Pair, plan: Plan, say: Callable[[str], None]) -> PairResult:
    """All tables' figures for one pair."""
    world = world_of(pair, plan)
    name = "/".join(pair)
    limits = Limits(steps=plan.steps)
    say(f"{name}: the paper's budget")
    budget = {method: world.run(method, limits) for method in ("adf", "aequitas", "themis")}
    say(f"{name}: equal time, {plan.equal_seconds:g} s each")
    timed = Limits(steps=10**9, max_seconds=plan.equal_seconds)
    equal = {method: world.run(method, timed) for method in ("sg", "adf")}
    say(f"{name}: global and local findings, time for 1,000")
    first = replace(limits, steps=0)
    global_findings = {
        "aequitas": world.run("aequitas", first).findings,
        "sg": world.run("sg", first).findings,
        "adf": budget["adf"].global_findings,
    }
    margin, adf = [], []
    for seed in plan.random_seeds:
        say(f"{name}: margin and ADF, random seed {seed}")
        seeded = world_of(pair, plan, seed)
        margin.append(seeded.run("margin", limits, seed))
        adf.append(seeded.run("adf", limits, seed))
    return PairResult(
        pair,
        len(world.rows),
        budget,
        equal,
        global_findings,
        _local(world, plan),
        _thousand(world, limits, equal["sg"]),
        margin,
        adf,
    )


def _thousand(world: World, limits: Limits, sg: Outcome) -> dict[str, float | None]:
    """Seconds for the first 1,000 findings, or as many as there are, scaled; SG's from its run in equal time."""
    enough = replace(limits, max_findings=1000)
    return {
        "aequitas": world.run("aequitas", enough).seconds_per_1000_findings,
        "sg": sg.seconds_per_1000_findings,
        "adf": world.run("adf", enough).seconds_per_1000_findings,
        "margin": world.run("margin", enough).seconds_per_1000_findings,
    }


class _FromFindings(Method):
    """The local search of a method, from samples that are known to be discriminatory."""

    name = "local"
    needs = "gradients"

    def __init__(self, local: Callable[[Search, Any, torch.Tensor], None]) -> None:
        self._local = local

    def search(self, search: Search, x: torch.Tensor, ids: torch.Tensor) -> None:
        """Look at the starts, then search around them."""
        self._local(search, search.look(x, "global", 0, ids), ids)


def _local(world: World, plan: Plan) -> dict[str, float]:
    """Mean unique findings per start and 1,000 samples of each local search, all from the same ADF findings."""
    starts, ids = _starts(world)
    if not len(starts):
        return {}
    searches: dict[str, tuple[Method, int]] = {
        "aequitas": (_FromFindings(lambda s, at, i: Aequitas().local_phase(s, at, i)), len(starts)),
        "sg": (SymbolicGeneration(), min(plan.sg_starts, len(starts))),
        "adf": (_FromFindings(lambda s, at, i: ADF().local_phase(s, at, i)), len(starts)),
    }
    result = {}
    for name, (method, count) in searches.items():
        search = Search(
            world.model, world.space, method, seed=0, limits=Limits(steps=plan.steps), sink=lambda findings: None
        )
        with one_thread(world.model.device):
            counts = search.run(starts[:count], ids[:count]).counts
        result[name] = counts.findings["local"] / count * 1000 / plan.steps
    return result


def _starts(world: World) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The findings of ADF's global phase."""
    found: list[Findings] = []
    search = Search(world.model, world.space, ADF(), seed=0, limits=Limits(steps=0), sink=found.append)
    search.run(world.data.codes[world.rows], world.rows)
    if not found:
        return np.zeros((0, len(world.space.sizes)), dtype=np.int32), np.zeros(0, dtype=np.int64)
    return np.concatenate([part.sample for part in found]), np.concatenate([part.seed for part in found])


def growth_by_seeds(pair: Pair, plan: Plan) -> dict[str, list[tuple[int, int, int]]]:
    """The paper's figure: (seeds explored, unique samples, findings) for AEQUITAS and ADF.

    Each point is a search of its own with the first seeds, so that a sample counts once however many seeds meet it.
    """
    world = world_of(pair, plan)
    curves: dict[str, list[tuple[int, int, int]]] = {}
    for name in ("aequitas", "adf"):
        outcomes = [(n, world.run(name, Limits(steps=plan.steps), rows=world.rows[:n])) for n in plan.curve]
        curves[name] = [(n, outcome.generated, outcome.findings) for n, outcome in outcomes if n <= len(world.rows)]
    return curves


@dataclass(frozen=True)
class Reproduction:
    """The tables' figures for all pairs."""

    plan: Plan
    pairs: list[PairResult]
    curves: dict[str, list[tuple[int, int, int]]]
    curve_pair: Pair
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """For a JSON file."""
        return {
            "plan": asdict(self.plan),
            "seconds": round(self.seconds, 1),
            "pairs": [asdict(result) | {"pair": list(result.pair)} for result in self.pairs],
            "growth_by_seeds": {"pair": list(self.curve_pair), **self.curves},
        }


def reproduce(plan: Plan, say: Callable[[str], None] = lambda text: None) -> Reproduction:
    """Measure all six pairs."""
    start = time.perf_counter()
    results = [measure_pair(pair, plan, say) for pair in PAPER]
    curve_pair = Pair("census", "sex")
    say(f"{'/'.join(curve_pair)}: findings against seeds explored")
    curves = growth_by_seeds(curve_pair, plan)
    return Reproduction(plan, results, curves, curve_pair, time.perf_counter() - start)


def spread(values: list[float]) -> tuple[float, float]:
    """Mean and standard deviation over random seeds."""
    return mean(values), stdev(values) if len(values) > 1 else 0.0
