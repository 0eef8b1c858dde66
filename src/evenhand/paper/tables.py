"""The paper's tables made again, with the paper's number beside ours, and our own method against ADF."""

import time
from collections.abc import Callable, Sequence
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
from evenhand.methods.registry import make_method
from evenhand.methods.symbolic import SymbolicGeneration
from evenhand.models.classifier import Classifier
from evenhand.models.devices import one_thread
from evenhand.models.loading import load_module
from evenhand.paper.table_figures import FIGURE_PAIR, PAPER, SEEDS, Pair
from evenhand.runs.compare import Outcome, run_method
from evenhand.runs.interrupt import interrupt_as_wish
from evenhand.search.check import Checked
from evenhand.search.method import Method
from evenhand.search.recorder import Counts, Findings
from evenhand.search.search import Limits, Search
from evenhand.search.seeds import choose_seeds
from evenhand.search.space import TableSpace


@dataclass(frozen=True)
class Plan:
    """How much of the paper's budget to spend."""

    seeds: int = 1000
    steps: int = 1000
    equal_seconds: float = 500.0  # for SG and ADF in equal time
    equal_rows: int = 300_000  # model rows for every method in equal work
    sg_starts: int = 3  # findings that local searches start from where SG takes part; it is far slower than the others
    random_seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    points: int = 8  # of the figure's curves


QUICK = Plan(seeds=200, steps=200, equal_seconds=3.0, equal_rows=60_000, sg_starts=2, random_seeds=(0, 1), points=5)
EQUAL_WORK = ("margin", "adf", "sg", "aequitas", "themis")


class InterruptedPair(Exception):  # noqa: N818 - a wish, not an error
    """The user wants to stop; what is measured of this pair is not whole."""


Found = tuple[Counts, list[Findings]]


@dataclass(frozen=True)
class World:
    """A pair's data, network, space and seeds."""

    pair: Pair
    data: Dataset
    model: Classifier
    space: TableSpace
    rows: NDArray[np.int64]
    interrupted: Callable[[], bool]

    def run(self, name: str, limits: Limits, seed: int = 0, settings: dict[str, Any] | None = None) -> Outcome:
        """One method on this pair."""
        outcome, _ = run_method(
            self.model,
            self.space,
            self.data,
            self.rows,
            name,
            limits=limits,
            seed=seed,
            settings=settings,
            interrupted=self.interrupted,
        )
        if self.interrupted():
            raise InterruptedPair
        return outcome

    def search(self, method: Method, starts: NDArray[np.int32], ids: NDArray[np.int64], steps: int) -> Found:
        """A method from given starts: its counts and findings."""
        found: list[Findings] = []
        search = Search(
            self.model,
            self.space,
            method,
            seed=0,
            limits=Limits(steps=steps),
            sink=found.append,
            interrupted=self.interrupted,
        )
        with one_thread(self.model.device):
            counts = search.run(starts, ids).counts
        if self.interrupted():
            raise InterruptedPair
        return counts, found


@cache
def _data(name: str) -> Dataset:
    return load_dataset(name)


def world_of(pair: Pair, plan: Plan, interrupted: Callable[[], bool], seed: int = 0) -> World:
    """Load a pair; the number of seeds is the paper's, or the plan's if that is less."""
    data = _data(pair.dataset)
    rows = choose_seeds(data, min(plan.seeds, SEEDS.get(pair.dataset, plan.seeds)), seed)
    model = Classifier(load_module(data, None)[0])
    return World(pair, data, model, TableSpace(data.schema, [pair.protected]), rows, interrupted)


Curve = list[tuple[int, int, int]]  # starts explored, unique samples, findings


@dataclass(frozen=True)
class PairResult:
    """Everything measured on one pair."""

    pair: Pair
    seeds: int
    paper_budget: dict[str, Outcome]  # adf, aequitas
    equal_work: dict[str, Outcome]  # the same number of model rows
    equal_time: dict[str, Outcome]  # sg, adf
    global_findings: dict[str, int]
    starts: int  # findings of ADF's global phase
    local_findings: dict[str, float]  # per start and 1,000 samples; names ending in "few" from sg_starts starts only
    seconds_for_1000: dict[str, float | None]
    curves: dict[str, Curve]
    margin: list[Outcome]  # one for each random seed
    adf: list[Outcome]


def measure_pair(pair: Pair, plan: Plan, say: Callable[[str], None], interrupted: Callable[[], bool]) -> PairResult:
    """All tables' figures for one pair."""
    world = world_of(pair, plan, interrupted)
    name = "/".join(pair)
    limits = Limits(steps=plan.steps)
    say(f"{name}: the paper's budget, equal work")
    budget = {method: world.run(method, limits) for method in ("adf", "aequitas")}
    work = Limits(steps=10**9, max_rows=plan.equal_rows)
    equal_work = {method: world.run(method, work) for method in EQUAL_WORK}
    say(f"{name}: equal time, {plan.equal_seconds:g} s each")
    timed = Limits(steps=10**9, max_seconds=plan.equal_seconds)
    equal_time = {method: world.run(method, timed) for method in ("sg", "adf")}
    say(f"{name}: global and local findings, time for 1,000")
    starts, ids = _starts(world)
    return PairResult(
        pair,
        len(world.rows),
        budget,
        equal_work,
        equal_time,
        _global(world, limits, budget["adf"]),
        len(starts),
        _local(world, plan, starts, ids),
        _thousand(world, limits, equal_time["sg"]),
        _curves(world, plan, starts, ids),
        *_own_method(pair, plan, limits, say, interrupted),
    )


def _own_method(
    pair: Pair, plan: Plan, limits: Limits, say: Callable[[str], None], interrupted: Callable[[], bool]
) -> tuple[list[Outcome], list[Outcome]]:
    """Margin and ADF, once for each random seed."""
    margin, adf = [], []
    for seed in plan.random_seeds:
        say(f"{'/'.join(pair)}: margin and ADF, random seed {seed}")
        world = world_of(pair, plan, interrupted, seed)
        margin.append(world.run("margin", limits, seed))
        adf.append(world.run("adf", limits, seed))
    return margin, adf


def _global(world: World, limits: Limits, adf: Outcome) -> dict[str, int]:
    """Findings of the global phase: random samples; seeds and as many samples of SG's global search; ADF's seeds."""
    first = replace(limits, steps=0)
    only_global = {"local": False, "samples": len(world.rows)}
    return {
        "aequitas": world.run("aequitas", first).findings,
        "sg": world.run("sg", replace(limits, steps=10**6), settings=only_global).findings,
        "adf": adf.global_findings,
    }


def _thousand(world: World, limits: Limits, sg: Outcome) -> dict[str, float | None]:
    """Seconds for the first 1,000 findings; scaled where there are fewer, and for SG from its run in equal time."""
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

    def __init__(self, local: Callable[[Search, Checked, torch.Tensor], None]) -> None:
        self._local = local

    def search(self, search: Search, x: torch.Tensor, ids: torch.Tensor) -> None:
        """Look at the starts, then search around them."""
        self._local(search, search.look(x, "global", 0, ids), ids)


LOCAL: dict[str, Callable[[], Method]] = {
    "aequitas": lambda: _FromFindings(Aequitas().local_phase),
    "sg": SymbolicGeneration,
    "adf": lambda: _FromFindings(ADF().local_phase),
}


def _local(world: World, plan: Plan, starts: NDArray[np.int32], ids: NDArray[np.int64]) -> dict[str, float]:
    """Mean unique findings per start and 1,000 samples of each local search, from the same ADF findings."""
    few = min(plan.sg_starts, len(starts))
    wanted = [(name, few) for name in LOCAL] + [(name, len(starts)) for name in ("aequitas", "adf")]
    result = {}
    for name, count in wanted if few else []:
        counts, _ = world.search(LOCAL[name](), starts[:count], ids[:count], plan.steps)
        key = f"{name} few" if count == few else name
        result[key] = counts.findings["local"] / count * 1000 / plan.steps
    return result


def _starts(world: World) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The findings of ADF's global phase."""
    _, found = world.search(ADF(), world.data.codes[world.rows], world.rows, steps=0)
    if not found:
        return np.zeros((0, len(world.space.sizes)), dtype=np.int32), np.zeros(0, dtype=np.int64)
    return np.concatenate([part.sample for part in found]), np.concatenate([part.seed for part in found])


def _curves(world: World, plan: Plan, starts: NDArray[np.int32], ids: NDArray[np.int64]) -> dict[str, Curve]:
    """The paper's figure: both local searches from the same starts, the more of them the further right.

    Each point is a search of its own, so that a sample counts once however many starts lead to it.
    """
    numbers = sorted({round(len(starts) * part / plan.points) for part in range(1, plan.points + 1)} - {0})
    curves: dict[str, Curve] = {}
    for name in ("aequitas", "adf") if world.pair == FIGURE_PAIR else ():
        counts = [(n, world.search(LOCAL[name](), starts[:n], ids[:n], plan.steps)[0]) for n in numbers]
        curves[name] = [(n, count.all_generated, count.all_findings) for n, count in counts]
    return curves


@dataclass(frozen=True)
class Reproduction:
    """The tables' figures for all pairs that were measured."""

    plan: Plan
    pairs: list[PairResult]
    left_out: list[Pair]  # not measured, since the user wanted to stop
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """For a JSON file."""
        return {
            "plan": asdict(self.plan),
            "seconds": round(self.seconds, 1),
            "left_out": ["/".join(pair) for pair in self.left_out],
            "pairs": [asdict(result) | {"pair": list(result.pair)} for result in self.pairs],
        }


def reproduce(
    plan: Plan, say: Callable[[str], None] = lambda text: None, pairs: Sequence[Pair] = tuple(PAPER)
) -> Reproduction:
    """Measure the pairs one after the other; Ctrl-C keeps those that are whole."""
    make_method("sg")  # says now, and not after minutes, that its extra is missing
    start = time.perf_counter()
    results: list[PairResult] = []
    with interrupt_as_wish() as interrupted:
        try:
            results += (measure_pair(pair, plan, say, interrupted) for pair in pairs)
        except InterruptedPair:
            say("stopped; the pairs that are whole are kept")
    return Reproduction(plan, results, list(pairs[len(results) :]), time.perf_counter() - start)


def spread(values: list[float]) -> tuple[float, float]:
    """Mean and standard deviation over random seeds."""
    return mean(values), stdev(values) if len(values) > 1 else 0.0
