"""One row of the paper's tables for tables of data: every method on one data set and protected attribute."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from statistics import mean
from typing import Any, Literal

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
from evenhand.paper.driver import MeasuredRow, OnDownload
from evenhand.paper.figures import TABLE_AUDITS, TABLE_SEEDS, TableRow
from evenhand.paper.processes import Interrupted, Say
from evenhand.runs.compare import MethodOutcome, TableSpread, run_method
from evenhand.runs.interrupt import Stopped
from evenhand.runs.table_subject import TableWorld
from evenhand.search.check import Checked
from evenhand.search.method import Method
from evenhand.search.recorder import Counts, Findings
from evenhand.search.search import Limits, Search
from evenhand.search.seeds import choose_seeds
from evenhand.search.space import TableSpace

EQUAL_WORK = ("margin", "adf", "sg", "aequitas", "themis")
FIGURE_ROW = TableRow("census", "sex")  # whose curves are drawn

Curve = list[tuple[int, int, int]]  # starts explored, unique samples, findings


@dataclass(frozen=True)
class TableAuditPlan:
    """How much of the paper's budget to spend."""

    seeds: int = 1000
    steps: int = 1000
    equal_seconds: float = 500.0  # for SG and ADF in equal time
    equal_rows: int = 300_000  # model rows for every method in equal work
    sg_starts: int = 3  # findings that local searches start from where SG takes part; it is far slower than the others
    random_seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    points: int = 8  # of the figure's curves


@dataclass(frozen=True)
class TableAuditRow(MeasuredRow):
    """Everything measured on one pair of a data set and a protected attribute."""

    figures = TABLE_AUDITS
    row: TableRow
    seeds: int
    paper_budget: dict[str, MethodOutcome]  # adf, aequitas
    equal_work: dict[str, MethodOutcome]  # the same number of model rows
    equal_time: dict[str, MethodOutcome]  # sg, adf
    global_findings: dict[str, int]
    starts: int  # findings of ADF's global phase
    local_findings: dict[str, float]  # per start and 1,000 samples; names ending in "few" from sg_starts starts only
    seconds_for_1000: dict[str, float | None]
    curves: dict[str, Curve]
    margin: list[MethodOutcome]  # one for each random seed
    adf: list[MethodOutcome]

    def mean(self, method: Literal["margin", "adf"], figure: str) -> float:
        """The mean of a figure over random seeds; infinite where the method found nothing to divide by."""
        values = [getattr(outcome, figure) for outcome in getattr(self, method)]
        return mean(float("inf") if value is None else value for value in values)


@dataclass(frozen=True)
class _Ground:
    """A pair's data, network, space and seeds."""

    data: Dataset
    model: Classifier
    space: TableSpace
    rows: NDArray[np.int64]
    interrupted: Interrupted

    def run(self, name: str, limits: Limits, seed: int = 0, settings: dict[str, Any] | None = None) -> MethodOutcome:
        """One method on this pair."""
        outcome, _ = run_method(
            TableWorld(self.space, self.model, self.data.codes[self.rows], self.rows), name,
            make_method(name, settings), TableSpread(self.space, self.model), limits=limits, seed=seed,
            interrupted=self.interrupted,
        )  # fmt: skip
        if self.interrupted():
            raise Stopped
        return outcome

    def search(
        self, method: Method, starts: NDArray[np.int32], ids: NDArray[np.int64], steps: int
    ) -> tuple[Counts, list[Findings]]:
        """A method from given starts: its counts and findings."""
        found: list[Findings] = []
        limits = Limits(steps=steps)
        search = Search(
            self.model, self.space, method, seed=0, limits=limits, sink=found.append, interrupted=self.interrupted
        )
        with one_thread(self.model.device):
            counts = search.run(starts, ids).counts
        if self.interrupted():
            raise Stopped
        return counts, found


def need_sg(on_download: OnDownload) -> None:  # noqa: ARG001 - nothing is downloaded
    """Find out whether SG's extra is missing."""
    make_method("sg")


@cache
def _data(name: str) -> Dataset:
    return load_dataset(name)


def _ground(row: TableRow, plan: TableAuditPlan, interrupted: Interrupted, seed: int = 0) -> _Ground:
    """Load a pair; the number of seeds is the paper's, or the plan's if that is less."""
    data = _data(row.dataset)
    rows = choose_seeds(data, min(plan.seeds, TABLE_SEEDS.get(row.dataset, plan.seeds)), seed)
    model = Classifier(load_module(data, None)[0])
    return _Ground(data, model, TableSpace(data.schema, [row.protected]), rows, interrupted)


def measure_table_audit(row: TableRow, say: Say, interrupted: Interrupted, plan: TableAuditPlan) -> TableAuditRow:
    """All tables' figures for one pair."""
    ground, name, limits = _ground(row, plan, interrupted), "/".join(row), Limits(steps=plan.steps)
    say(f"{name}: the paper's budget, equal work")
    budget = {method: ground.run(method, limits) for method in ("adf", "aequitas")}
    work = Limits(steps=10**9, max_rows=plan.equal_rows)
    equal_work = {method: ground.run(method, work) for method in EQUAL_WORK}
    say(f"{name}: equal time, {plan.equal_seconds:g} s each")
    timed = Limits(steps=10**9, max_seconds=plan.equal_seconds)
    equal_time = {method: ground.run(method, timed) for method in ("sg", "adf")}
    say(f"{name}: global and local findings, time for 1,000")
    starts, ids = _starts(ground)
    audit = TableAuditRow(
        row=row,
        seeds=len(ground.rows),
        paper_budget=budget,
        equal_work=equal_work,
        equal_time=equal_time,
        global_findings=_global(ground, limits, budget["adf"]),
        starts=len(starts),
        local_findings=_local(ground, plan, starts, ids),
        seconds_for_1000=_thousand(ground, limits, equal_time["sg"]),
        curves=_curves(ground, plan, starts, ids) if row == FIGURE_ROW else {},
        margin=[],
        adf=[],
    )
    for seed in plan.random_seeds:
        say(f"{name}: margin and ADF, random seed {seed}")
        ground = _ground(row, plan, interrupted, seed)
        audit.margin.append(ground.run("margin", limits, seed))
        audit.adf.append(ground.run("adf", limits, seed))
    return audit


def _global(ground: _Ground, limits: Limits, adf: MethodOutcome) -> dict[str, int]:
    """Findings of the global phase: random samples; seeds and as many samples of SG's global search; ADF's seeds."""
    only_global = {"local": False, "samples": len(ground.rows)}
    return {
        "aequitas": ground.run("aequitas", replace(limits, steps=0)).findings,
        "sg": ground.run("sg", replace(limits, steps=10**6), settings=only_global).findings,
        "adf": adf.global_findings,
    }


def _thousand(ground: _Ground, limits: Limits, sg: MethodOutcome) -> dict[str, float | None]:
    """Seconds for the first 1,000 findings; scaled where there are fewer, and for SG from its run in equal time."""
    enough = replace(limits, max_findings=1000)
    timed = {name: ground.run(name, enough).seconds_per_1000_findings for name in ("aequitas", "adf", "margin")}
    return timed | {"sg": sg.seconds_per_1000_findings}


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


def _local(
    ground: _Ground, plan: TableAuditPlan, starts: NDArray[np.int32], ids: NDArray[np.int64]
) -> dict[str, float]:
    """Mean unique findings per start and 1,000 samples of each local search, from the same ADF findings."""
    few = min(plan.sg_starts, len(starts))
    counts = {f"{name} few": few for name in LOCAL} | dict.fromkeys(("aequitas", "adf"), len(starts))
    result = {}
    for name, count in counts.items() if few else ():
        method = LOCAL[name.removesuffix(" few")]()
        found, _ = ground.search(method, starts[:count], ids[:count], plan.steps)
        result[name] = found.findings["local"] / count * 1000 / plan.steps
    return result


def _starts(ground: _Ground) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The findings of ADF's global phase."""
    _, found = ground.search(ADF(), ground.data.codes[ground.rows], ground.rows, steps=0)
    if not found:
        return np.zeros((0, len(ground.space.sizes)), dtype=np.int32), np.zeros(0, dtype=np.int64)
    return np.concatenate([part.sample for part in found]), np.concatenate([part.seed for part in found])


def _curves(
    ground: _Ground, plan: TableAuditPlan, starts: NDArray[np.int32], ids: NDArray[np.int64]
) -> dict[str, Curve]:
    """The paper's figure: both local searches from the same starts, the more of them the further right.

    Each point is a search of its own, so that a sample counts once however many starts lead to it.
    """
    numbers = sorted({round(len(starts) * part / plan.points) for part in range(1, plan.points + 1)} - {0})
    curves: dict[str, Curve] = {}
    for name in ("aequitas", "adf"):
        counts = [(n, ground.search(LOCAL[name](), starts[:n], ids[:n], plan.steps)[0]) for n in numbers]
        curves[name] = [(n, count.all_generated, count.all_findings) for n, count in counts]
    return curves
