"""The paper's table of retraining on tables of data, made again, with the other repairs beside it."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from statistics import mean
from typing import Any

import numpy as np
import torch

from evenhand.data.dataset import load_dataset
from evenhand.measures.verdict import Judge, Judged
from evenhand.methods.registry import make_method
from evenhand.models.classifier import Classifier
from evenhand.models.devices import one_thread
from evenhand.models.loading import load_module
from evenhand.models.network import FeedForward
from evenhand.paper.processes import Interrupted, Say, measure_all
from evenhand.paper.repair_figures import TABLE_REPAIRS
from evenhand.paper.table_figures import SEEDS, Pair
from evenhand.repairs.table import DEFAULT_STRENGTH, Repaired, Workshop
from evenhand.repairs.table_training import Material, Recipe
from evenhand.runs.interrupt import Stopped
from evenhand.runs.repair import search_all
from evenhand.runs.table_repair import joined_findings
from evenhand.search.recorder import Findings
from evenhand.search.search import Limits
from evenhand.search.seeds import choose_seeds
from evenhand.search.space import TableSpace

SOURCES = ("aequitas", "sg", "adf")
CPU = torch.device("cpu")


@dataclass(frozen=True)
class RepairPlan:
    """How much to spend on each pair."""

    seeds: int = 1000
    steps: int = 1000
    sg_seconds: float = 60.0  # SG is far slower than the others
    share: float = 0.05
    repeats: int = 5
    epochs: int = Recipe.epochs
    half_width: float = 0.001
    independent: int = 20_000  # findings from held-out rows that are looked at again


QUICK_REPAIR = RepairPlan(seeds=200, steps=200, sg_seconds=3.0, repeats=2, epochs=12, half_width=0.002)


@dataclass(frozen=True)
class PairRepair:
    """What was measured on one pair: a row for each model."""

    pair: Pair
    findings: dict[str, int]  # of each source
    rows: dict[str, dict[str, Any]]  # by name: original, retrained, blind, "augment aequitas" and so on
    seconds: float

    @property
    def part(self) -> Pair:
        """Which pair."""
        return self.pair


def measure_repairs(pair: Pair, say: Say, interrupted: Interrupted, plan: RepairPlan) -> PairRepair:
    """All repairs of one pair's built-in network."""
    start = time.perf_counter()
    data, name = load_dataset(pair.dataset), "/".join(pair)
    space = TableSpace(data.schema, [pair.protected])
    module, _ = load_module(data, None)
    assert isinstance(module, FeedForward)
    model = Classifier(module)

    def findings(method: str, train: bool) -> Findings:
        limits = Limits(steps=plan.steps, max_seconds=plan.sg_seconds if method == "sg" else None)
        rows = choose_seeds(data, min(plan.seeds, SEEDS.get(pair.dataset, plan.seeds)), 0, train=train)
        found = search_all(model, space, make_method(method), data.codes[rows], rows, 0, limits)
        return joined_findings(found, space)

    def on_step(what: str, share: float) -> None:  # noqa: ARG001 - only the wish to stop matters
        if interrupted():
            raise Stopped

    workshop = Workshop(Material(data, space, module.widths, Recipe(epochs=plan.epochs)), model, plan.repeats, on_step)
    with one_thread(CPU):
        say(f"{name}: findings of {', '.join(SOURCES)}")
        found = {source: findings(source, train=True) for source in SOURCES}
        independent = findings("adf", train=False).sample
        chosen = np.random.default_rng(0).permutation(len(independent))[: plan.independent]
        say(f"{name}: training")
        retrained = workshop.retrained()
        repairs = {"original": Repaired("original", [module]), "retrained": retrained, "blind": workshop.blind()}
        for source, learned in found.items():
            if len(learned):
                repairs[f"augment {source}"] = workshop.augment(learned, plan.share, "models", retrained.networks)
        longer = Workshop(
            replace(workshop.material, recipe=Recipe(epochs=2 * plan.epochs)), model, plan.repeats, on_step
        )
        repairs["blind longer"] = longer.blind()
        repairs["pairing"] = workshop.pairing(DEFAULT_STRENGTH["pairing"])
        repairs["certified"] = workshop.certified(DEFAULT_STRENGTH["certified"])
        repairs["average"] = workshop.average()
        say(f"{name}: measuring")
        judge = Judge(data, space, workshop.material.split[1], independent[chosen], plan.half_width)
        rows = {}
        for key, repaired in repairs.items():
            on_step(key, 0)
            verdicts = [judge.verdict(Classifier(network)) for network in repaired.networks]
            rows[key] = Judged(
                key, repaired.by, repaired.settings, repaired.used, verdicts, repaired.networks
            ).as_dict()
    counts = {source: len(learned) for source, learned in found.items()}
    return PairRepair(pair, counts, rows, time.perf_counter() - start)


@dataclass(frozen=True)
class RepairReproduction:
    """The figures of all pairs that were measured."""

    plan: RepairPlan
    pairs: list[PairRepair]
    left_out: list[Pair]
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """For a JSON file."""
        return {
            "plan": asdict(self.plan),
            "seconds": round(self.seconds, 1),
            "left_out": ["/".join(pair) for pair in self.left_out],
            "pairs": [asdict(result) | {"pair": list(result.pair)} for result in self.pairs],
        }


def reproduce_repairs(
    plan: RepairPlan,
    say: Say = lambda text: None,
    pairs: Sequence[Pair] = tuple(TABLE_REPAIRS),
    *,
    workers: int | None = None,
) -> RepairReproduction:
    """Measure all pairs, `workers` at a time; Ctrl-C keeps those that are whole."""
    make_method("sg")  # says now, and not after minutes, that its extra is missing
    done = measure_all(pairs, partial(measure_repairs, plan=plan), say, workers)
    return RepairReproduction(plan, done.rows, done.left_out, done.seconds)


def mean_rate(row: dict[str, Any]) -> float:
    """The rate over the domain, mean over repeats."""
    return float(row["over_repeats"]["uniform"]["mean"])


def mean_accuracy(row: dict[str, Any]) -> float:
    """Accuracy on held-out rows, mean over repeats."""
    return float(row["over_repeats"]["accuracy"]["mean"])


def reference(result: PairRepair) -> float:
    """The accuracy of blind networks trained as well as can be: of two lengths of training the better by validation."""
    rows = [result.rows[name] for name in ("blind", "blind longer")]
    return mean_accuracy(max(rows, key=lambda row: float(row["validation_accuracy"])))


def removed(result: PairRepair, name: str) -> float | None:
    """The share of the rate over the domain that a repair removes, mean over repeats; None: no such repair."""
    if name not in result.rows:
        return None
    return 1 - mean_rate(result.rows[name]) / mean_rate(result.rows["original"])


def mean_removed(results: Sequence[PairRepair], name: str) -> float:
    """The mean over pairs."""
    return mean(share for result in results if (share := removed(result, name)) is not None)
