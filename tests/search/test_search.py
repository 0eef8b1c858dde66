"""The batched search against the one-sample-at-a-time reference and brute force."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from bench.reference import Reference
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from evenhand.data.dataset import Dataset
from evenhand.data.schema import Schema
from evenhand.methods.adf import ADF
from evenhand.models.classifier import Classifier
from evenhand.models.network import FeedForward
from evenhand.search import search as search_module
from evenhand.search.check import Checked
from evenhand.search.recorder import Findings, Phase, Recorder
from evenhand.search.search import Limits, Progress, Search, SearchResult
from evenhand.search.seeds import choose_seeds
from evenhand.search.space import TableSpace
from tests.worlds.schemas import (
    all_variants,
    classifier_of,
    dataset_of,
    has_witness,
    labels_of,
    network_of,
    schema_of,
    worlds,
)

World = tuple[Schema, list[int], FeedForward, Tensor]


class Ran:
    """A search that was run, with all it found."""

    def __init__(
        self,
        module: nn.Module,
        data: Dataset,
        protected: list[str],
        rows: np.ndarray[Any, np.dtype[np.int64]],
        limits: Limits,
        seed: int = 0,
        accept_failed: float = math.exp(-1),
        chunk_rows: int | None = None,
        **options: Any,
    ) -> None:
        self.parts: list[Findings] = []
        self.space = TableSpace(data.schema, protected)
        search = Search(
            classifier_of(module, chunk_rows),
            self.space,
            ADF(accept_failed=accept_failed),
            seed=seed,
            limits=limits,
            sink=self.parts.append,
            **options,
        )
        self.result: SearchResult = search.run(data.codes[rows], rows)

    def column(self, name: str) -> np.ndarray[Any, Any]:
        return np.concatenate([getattr(part, name) for part in self.parts]) if self.parts else np.zeros(0)

    def as_rows(self) -> list[tuple[Any, ...]]:
        names = ["phase", "seed", "step", "label", "witness_label", "score", "witness_score"]
        columns = [self.column(name).tolist() for name in names]
        return list(zip(*columns, self.column("sample").tolist(), self.column("witness").tolist(), strict=True))


class Trail(Recorder):
    """A recorder that also notes every sample it is given."""

    noted: dict[tuple[str, int, int], tuple[list[float], bool]]

    def add(self, checked: Checked, phase: Phase, step: int, seeds: Tensor) -> None:
        for x, hit, seed in zip(checked.x.tolist(), checked.hit.tolist(), seeds.tolist(), strict=True):
            self.noted[phase, seed, step] = (x, hit)
        super().add(checked, phase, step, seeds)


@pytest.fixture
def trail(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, int, int], tuple[list[float], bool]]:
    monkeypatch.setattr(search_module, "Recorder", Trail)
    monkeypatch.setattr(Trail, "noted", {}, raising=False)
    return Trail.noted


@pytest.mark.parametrize("protected", [["sex"], ["age"], ["race", "sex"]])
@pytest.mark.parametrize("accept_failed", [0.0, math.exp(-1), 1.0])
def test_every_step_equals_the_references(
    census: Dataset,
    census_network: FeedForward,
    trail: dict[tuple[str, int, int], tuple[list[float], bool]],
    protected: list[str],
    accept_failed: float,
) -> None:
    """Same random numbers, same moves: each walk looks at the same sample at every step of both phases."""
    rows = choose_seeds(census, 12, seed=1)
    limits = Limits(iterations=6, steps=25)
    ran = Ran(census_network, census, protected, rows, limits, seed=1, accept_failed=accept_failed)
    reference = Reference(Classifier(census_network), census.schema, protected, 1, accept_failed, 6, 25)
    reference.run(census.codes[rows].tolist(), rows.tolist())
    assert len(reference.trail) > 100
    assert {key: sample for key, (sample, _) in trail.items()} == {
        (phase, row, step): sample for phase, row, step, sample in reference.trail
    }
    assert ran.result.counts.all_generated == len(reference.generated)
    assert ran.result.counts.all_findings == len(reference.found)
    free = [i for i in range(13) if i not in ran.space.protected]
    assert {tuple(map(float, row)) for row in ran.column("sample")[:, free]} == reference.found


def assert_findings_hold(ran: Ran, module: nn.Module, schema: Schema) -> None:
    """Brute force over the full protected domain: discriminatory, in the domain, unique, witness as said."""
    protected = ran.space.protected
    samples, witnesses = ran.column("sample"), ran.column("witness")
    assert len(samples) == ran.result.counts.all_findings
    free = [i for i in range(len(schema.names)) if i not in protected]
    assert len({tuple(row) for row in samples[:, free]}) == len(samples)
    assert (samples >= schema.lower).all()
    assert (samples <= schema.upper).all()
    full = samples.copy()
    full[:, protected] = witnesses
    assert np.array_equal(labels_of(module, samples), ran.column("label"))
    assert np.array_equal(labels_of(module, full), ran.column("witness_label"))
    assert (ran.column("label") != ran.column("witness_label")).all()
    for row in samples[:: max(1, len(samples) // 500)]:
        assert has_witness(module, schema, protected, row)


@pytest.mark.parametrize("protected", [["sex"], ["age", "race", "sex"]])
def test_findings_on_census_hold(census: Dataset, census_network: FeedForward, protected: list[str]) -> None:
    rows = choose_seeds(census, 60, seed=0)
    ran = Ran(census_network, census, protected, rows, Limits(steps=60))
    assert ran.result.counts.findings["local"] > 100
    assert_findings_hold(ran, census_network, census.schema)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(worlds(), st.integers(0, 2**32))
def test_findings_and_verdicts_hold_in_random_worlds(world: World, seed: int) -> None:
    schema, protected, network, _ = world
    data = dataset_of(schema, 30, seed)
    names = [schema.names[i] for i in protected]
    ran = Ran(network, data, names, np.arange(30), Limits(iterations=4, steps=15), seed=seed)
    if ran.parts:
        assert_findings_hold(ran, network, schema)
    assert ran.result.counts.all_generated <= ran.result.counts.tried


@settings(
    deadline=None,
    max_examples=20,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(world=worlds())
def test_every_sample_called_not_discriminatory_has_no_witness(
    world: World, trail: dict[tuple[str, int, int], tuple[list[float], bool]]
) -> None:
    schema, protected, network, _ = world
    trail.clear()
    data = dataset_of(schema, 15, 0)
    Ran(network, data, [schema.names[i] for i in protected], np.arange(15), Limits(iterations=3, steps=10))
    assert trail
    for sample, hit in trail.values():
        row = np.array(sample, dtype=np.int32)
        assert hit == (len(set(labels_of(network, all_variants(schema, protected, row)).tolist())) > 1)


@pytest.mark.parametrize("chunk_rows", [1, 50, 333])
@pytest.mark.parametrize("protected", [["sex"], ["age", "race"]])
def test_chunks_change_nothing(
    census: Dataset, census_network: FeedForward, chunk_rows: int, protected: list[str]
) -> None:
    rows = choose_seeds(census, 25, seed=3)
    limits = Limits(steps=40)
    whole = Ran(census_network, census, protected, rows, limits, seed=3)
    parts = Ran(census_network, census, protected, rows, limits, seed=3, chunk_rows=chunk_rows)
    assert len(whole.as_rows()) > 50
    assert whole.as_rows() == parts.as_rows()


def test_blocks_of_walks_lose_nothing(
    census: Dataset, census_network: FeedForward, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Smaller blocks may credit a sample to another walk, but the samples are the same."""
    rows = choose_seeds(census, 40, seed=0)
    whole = Ran(census_network, census, ["sex"], rows, Limits(steps=20))
    monkeypatch.setattr(TableSpace, "block_walks", 7)
    parts = Ran(census_network, census, ["sex"], rows, Limits(steps=20))
    assert whole.result.counts.generated == parts.result.counts.generated
    assert sorted(map(str, whole.column("sample")[:, [i for i in range(13) if i != 8]])) == sorted(
        map(str, parts.column("sample")[:, [i for i in range(13) if i != 8]])
    )


def test_the_seed_decides(census: Dataset, census_network: FeedForward) -> None:
    rows = choose_seeds(census, 30, seed=0)
    runs = [Ran(census_network, census, ["sex"], rows, Limits(steps=20), seed=seed).as_rows() for seed in (0, 0, 1)]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_a_limit_on_findings_cuts_exactly_there(census: Dataset, census_network: FeedForward) -> None:
    rows = choose_seeds(census, 60, seed=0)
    whole = Ran(census_network, census, ["sex"], rows, Limits(steps=40))
    for most in (1, 10, 100):
        cut = Ran(census_network, census, ["sex"], rows, Limits(steps=40, max_findings=most))
        assert cut.as_rows() == whole.as_rows()[:most]
        assert cut.result.stopped == "max-findings"
        assert cut.result.counts.all_generated < whole.result.counts.all_generated


def test_a_limit_on_time_and_a_wish_to_stop(census: Dataset, census_network: FeedForward) -> None:
    rows = choose_seeds(census, 60, seed=0)
    short = Ran(census_network, census, ["sex"], rows, Limits(steps=10**9, max_seconds=0.3))
    assert short.result.stopped == "max-seconds"
    assert_findings_hold(short, census_network, census.schema)
    asked = itertools.count()
    stopped = Ran(
        census_network,
        census,
        ["sex"],
        rows,
        Limits(steps=10**9),
        interrupted=lambda: next(asked) > 30,
    )
    assert stopped.result.stopped == "interrupted"
    assert stopped.result.counts.all_findings == len(stopped.as_rows()) > 0


def test_progress_and_growth_rise(census: Dataset, census_network: FeedForward) -> None:
    seen: list[Progress] = []
    rows = choose_seeds(census, 50, seed=0)
    ran = Ran(census_network, census, ["sex"], rows, Limits(iterations=5, steps=200), on_progress=seen.append)
    assert [progress.done for progress in seen if progress.phase == "local"] == list(range(1, 201))
    growth = np.array(ran.result.counts.growth)
    assert (np.diff(growth, axis=0) >= 0).all()
    assert (growth[:, 0] >= growth[:, 1]).all()
    assert (growth[:, 1] >= growth[:, 2]).all()
    assert growth[-1, 0] <= ran.result.counts.tried


def test_a_model_that_ignores_protected_attributes_yields_nothing() -> None:
    schema = schema_of([(0, 1), (0, 9), (0, 9)])
    network = network_of(3, 2, seed=0)
    with torch.no_grad():
        network.hidden[0].weight[:, 0] = 0  # type: ignore[operator]
    ran = Ran(network, dataset_of(schema, 50, 0), ["a0"], np.arange(50), Limits(iterations=5, steps=10))
    assert ran.result.counts.all_findings == 0
    assert ran.result.stopped == "completed"
    assert ran.parts == []


def test_an_error_in_the_sink_reaches_the_caller(census: Dataset, census_network: FeedForward) -> None:
    def broken(findings: Findings) -> None:
        raise OSError("disk full")

    space = TableSpace(census.schema, ["sex"])
    rows = choose_seeds(census, 50, seed=0)
    search = Search(classifier_of(census_network), space, ADF(), seed=0, limits=Limits(steps=10), sink=broken)
    with pytest.raises(OSError, match="disk full"):
        search.run(census.codes[rows], rows)
