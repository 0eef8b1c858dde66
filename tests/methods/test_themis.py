"""THEMIS: its interval and stopping rule by hand, and what it draws."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn

from evenhand.data.dataset import Dataset
from evenhand.errors import EvenhandError
from evenhand.methods import themis
from evenhand.methods.themis import Themis, uniform_samples
from evenhand.models.classifier import Classifier
from evenhand.models.network import FeedForward
from evenhand.search.recorder import Findings
from evenhand.search.search import Limits, Search
from evenhand.search.space import TableSpace
from tests.worlds.schemas import classifier_of, dataset_of, has_witness, schema_of


def quarter() -> nn.Linear:
    """A model whose label is a0 where a1 is 0, and never else: a quarter of the world below is discriminatory."""
    module = nn.Linear(3, 2)
    module.weight.data = torch.tensor([[0.0, 0.0, 0.0], [2.0, -2.0, 0.0]])
    module.bias.data = torch.tensor([0.0, -1.0])
    return module


WORLD = dataset_of(schema_of([(0, 1), (0, 3), (-2, 2)]), 50, 0)


def search_of(
    method: Themis, limits: Limits, module: nn.Module | None = None, data: Dataset = WORLD, protected: str = "a0"
) -> tuple[Search, list[Findings]]:
    parts: list[Findings] = []
    model, space = classifier_of(module or quarter()), TableSpace(data.schema, [protected])
    return Search(model, space, method, seed=5, limits=limits, sink=parts.append), parts


def ran(method: Themis, limits: Limits, **world: Any) -> tuple[Search, list[Findings]]:
    search, parts = search_of(method, limits, **world)
    data = world.get("data", WORLD)
    search.run(data.codes[:50], np.arange(50))
    return search, parts


def column(parts: list[Findings], name: str) -> list[Any]:
    values: list[Any] = np.concatenate([getattr(part, name) for part in parts]).tolist()
    return values


def test_the_margin_by_hand() -> None:
    """z · sqrt(0.2 · 0.8 / 400) = 0.02 z; z is 1.95996 at 95 % and 2.57583 at 99 %."""
    assert Themis().margin(0.2, 400) == pytest.approx(0.0391993, abs=1e-7)
    assert Themis(confidence=0.99).margin(0.2, 400) == pytest.approx(0.0515166, abs=1e-7)
    assert Themis().margin(0.5, 10_000) == pytest.approx(0.0097998, abs=1e-7)
    assert Themis().margin(0.0, 7) == Themis().margin(1.0, 7) == 0


def test_the_stopping_rule_by_hand() -> None:
    """A score of 0.2 has a margin below 0.04 from 385 samples on: 1.95996² · 0.16 / 0.04² = 384.1."""
    rule = Themis(error=0.04, min_samples=100)
    assert not rule.is_sure(rule.margin(0.2, 384), 384)
    assert rule.is_sure(rule.margin(0.2, 385), 385)
    patient = Themis(error=0.04, min_samples=386)
    assert not patient.is_sure(patient.margin(0.2, 385), 385)
    assert patient.is_sure(patient.margin(0.2, 386), 386)
    assert not rule.is_sure(0.04, 1000)  # below, not at
    assert not Themis().is_sure(0.0, 10**9)  # off unless an error is asked for


def test_it_stops_at_the_first_batch_that_is_sure_enough() -> None:
    search, _ = ran(Themis(error=0.02, min_samples=100, samples=50_000), Limits())
    hits = uniform_samples(search, torch.arange(10_000))[:, 1] == 0
    expected = next(
        n
        for n in range(100, 10_000, 100)
        if 1.959964 * math.sqrt((share := hits[:n].double().mean().item()) * (1 - share) / n) < 0.02
    )
    assert 1500 < expected < 2100  # 1.96² · 0.25 · 0.75 / 0.02² = 1,801 for the true share
    notes = search.result.notes
    assert notes["samples"] == search.result.counts.tried == expected
    assert notes["score"] == hits[:expected].double().mean().item()
    assert notes["margin"] < 0.02
    patient, _ = ran(Themis(error=0.02, min_samples=5000, samples=50_000), Limits())
    assert patient.result.notes["samples"] == 5000


def test_the_score_lies_within_its_margin_of_the_truth() -> None:
    search, _ = ran(Themis(samples=20_000, confidence=0.9999), Limits())
    notes = search.result.notes
    assert abs(notes["score"] - 0.25) < notes["margin"] < 0.02


def test_by_default_it_draws_what_two_phases_may_look_at() -> None:
    search, _ = ran(Themis(), Limits(steps=30))
    assert search.result.notes["samples"] == search.result.counts.tried == 50 * 31
    assert search.result.stopped == "completed"
    assert search.result.counts.generated["local"] == 0


def test_a_budget_of_rows_is_kept_and_all_of_it_counts() -> None:
    search, _ = ran(Themis(samples=10**9), Limits(max_rows=1001))
    assert search.model.rows == 1000
    assert search.result.stopped == "max-rows"
    assert search.result.notes["samples"] == search.result.counts.tried == 500


def test_samples_are_uniform_over_the_domain() -> None:
    """All 40 cells of the world are equally likely (chi-squared), protected values included."""
    search, _ = search_of(Themis(), Limits())
    x = uniform_samples(search, torch.arange(60_000)).int().numpy()
    cells, counts = np.unique(x, axis=0, return_counts=True)
    assert cells.min(axis=0).tolist() == [0, 0, -2]
    assert cells.max(axis=0).tolist() == [1, 3, 2]
    assert len(cells) == 40
    assert stats.chisquare(counts).pvalue > 0.001


@pytest.mark.parametrize("rows", [2, 46, 1000])
def test_the_size_of_batches_changes_nothing(
    census: Dataset, census_network: FeedForward, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    world: dict[str, Any] = {"module": census_network, "data": census, "protected": "sex"}
    whole, expected = ran(Themis(samples=3000), Limits(), **world)
    monkeypatch.setattr(themis, "BATCH_ROWS", rows)
    parts, findings = ran(Themis(samples=3000), Limits(), **world)
    assert len(column(expected, "sample")) > 10
    for name in ("sample", "witness", "label", "score", "seed", "step"):
        assert column(findings, name) == column(expected, name)
    assert parts.result.notes == whole.result.notes


def test_findings_are_true_and_no_gradient_is_asked(
    census: Dataset, census_network: FeedForward, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Classifier, x: Tensor, y: Tensor, of: str = "loss") -> Tensor:
        raise AssertionError("a gradient was asked for")

    monkeypatch.setattr(Classifier, "gradients", refuse)
    search, parts = ran(Themis(samples=2000), Limits(), module=census_network, data=census, protected="age")
    samples = np.concatenate([part.sample for part in parts])
    assert len(samples) == search.result.counts.all_findings > 100
    assert all(has_witness(census_network, census.schema, search.space.protected, row) for row in samples)
    everyone = uniform_samples(search, torch.arange(300)).int().numpy()
    truth = [has_witness(census_network, census.schema, search.space.protected, row) for row in everyone]
    found = {-1 - seed for seed in column(parts, "seed")}  # random samples are recorded below zero
    assert {number for number, hit in enumerate(truth) if hit} == {number for number in found if number < 300}


def test_settings_are_checked() -> None:
    bad: list[dict[str, Any]] = [{"samples": 0}, {"min_samples": 0}, {"error": 0.0}, {"error": 1.0}, {"confidence": 95}]
    for settings in bad:
        with pytest.raises(EvenhandError, match=str(next(iter(settings.values())))):
            Themis(**settings)
