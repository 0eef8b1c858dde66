"""MethodComparisons: the same counters for all, diversity against plain computations, files that programs can read."""

import csv
import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from evenhand.data.dataset import Dataset
from evenhand.errors import EvenhandError
from evenhand.measures.diversity import Diversity
from evenhand.methods.registry import check_needs
from evenhand.models.classifier import Classifier
from evenhand.report.tables import Table, html_page, markdown
from evenhand.runs.compare import Budget, MethodComparison, compare, method_names
from evenhand.search.recorder import Findings
from evenhand.search.space import TableSpace


def findings_of(samples: np.ndarray[tuple[int, int], np.dtype[np.int32]], protected: int) -> Findings:
    n = len(samples)
    zeros = np.zeros(n, dtype=np.int64)
    scores = np.zeros(n, dtype=np.float32)
    witness = samples[:, [protected]]
    step = zeros.astype(np.int32)
    return Findings(samples, witness, zeros, zeros, scores, scores, zeros.astype(np.int8), zeros, step)


def test_diversity_against_plain_sets(census: Dataset) -> None:
    space = TableSpace(census.schema, ["sex"])
    diversity = Diversity(space)
    samples = census.clipped[:500]
    for part in np.array_split(samples, 7):
        diversity.add(findings_of(part, 8))
    free = [i for i in range(13) if i != 8]
    cells = {(i, j, row[i], row[j]) for row in samples.tolist() for i, j in combinations(free, 2)}
    assert diversity.cells == len(cells)
    possible = sum(space.sizes[i] * space.sizes[j] for i, j in combinations(free, 2))
    assert diversity.coverage == pytest.approx(len(cells) / possible)


def test_mean_distance_by_hand(census: Dataset) -> None:
    """Two people who differ in one category and by half of the hours' domain, of twelve attributes."""
    samples = np.repeat(census.clipped[:1], 2, axis=0)
    samples[1, 1] += 1 if samples[0, 1] == 0 else -1
    samples[0, 11], samples[1, 11] = 0, 99
    diversity = Diversity(TableSpace(census.schema, ["sex"]))
    assert diversity.mean_distance == 0
    diversity.add(findings_of(samples, 8))
    assert diversity.mean_distance == pytest.approx(2 / 12)


def test_the_kept_sample_is_uniform(census: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenhand.measures.diversity.SAMPLE", 50)
    diversity = Diversity(TableSpace(census.schema, ["sex"]))
    samples = np.repeat(census.clipped[:1], 10_000, axis=0)
    samples[:, 11] = np.repeat(np.arange(100), 100)  # hours rise with the order of the findings
    for part in np.array_split(samples, 13):
        diversity.add(findings_of(part, 8))
    hours = diversity.sample[:, 11]
    assert 35 < hours.mean() < 65
    assert hours.min() < 20
    assert hours.max() > 80


@pytest.mark.parametrize(
    ("text", "seeds", "steps", "rows", "seconds"),
    [
        ("paper", 1000, 1000, None, None),
        ("rows=5000", 1000, 10**9, 5000, None),
        ("seconds=2.5", 1000, 10**9, None, 2.5),
        ("seeds=50,steps=20", 50, 20, None, None),
        ("seeds=50,rows=100", 50, 10**9, 100, None),
    ],
)
def test_budgets(text: str, seeds: int, steps: int, rows: int | None, seconds: float | None) -> None:
    budget = Budget.parse(text)
    limits = budget.limits
    assert (budget.seeds, limits.steps, limits.max_rows, limits.max_seconds) == (seeds, steps, rows, seconds)


@pytest.mark.parametrize(
    "text", ["rows=0", "rows=-5", "seconds=0", "rows", "minutes=3", "", "rows=many", "seeds=0", "rows=0.5", "seeds=0.5"]
)
def test_budgets_that_are_none(text: str) -> None:
    with pytest.raises(EvenhandError, match="is not one"):
        Budget.parse(text)


def test_method_names() -> None:
    assert method_names(["adf"]) == ["themis", "adf"]
    assert len(method_names(["all"])) == 12
    with pytest.raises(EvenhandError, match="Did you mean 'eidig'"):
        method_names(["adf", "eidigg"])


@pytest.fixture(scope="module")
def comparison(census: Dataset) -> MethodComparison:
    return compare(census, ["age", "sex"], ["margin", "adf"], budget="rows=60000", device="cpu")


def test_all_methods_keep_to_the_budget(comparison: MethodComparison) -> None:
    assert [outcome.method for outcome in comparison.outcomes] == ["themis", "margin", "adf"]
    assert comparison.left_out == []
    for outcome in comparison.outcomes:
        assert 50_000 < outcome.model_rows <= 60_000
        assert outcome.findings == outcome.global_findings + outcome.local_findings
        assert list(outcome.alone) == ["age alone", "sex alone", "only together"]
        assert sum(outcome.alone.values()) >= 1
        assert outcome.rows_per_finding == outcome.model_rows / outcome.findings


def test_the_files_say_the_same(comparison: MethodComparison, tmp_path: Path) -> None:
    comparison.write(tmp_path)
    data = json.loads((tmp_path / "comparison.json").read_text())
    rows = list(csv.DictReader((tmp_path / "comparison.csv").read_text().splitlines()))
    for outcome, from_json, from_csv in zip(comparison.outcomes, data["outcomes"], rows, strict=True):
        assert from_json["findings"] == int(from_csv["findings"]) == outcome.findings
    page, text = (tmp_path / "comparison.html").read_text(), (tmp_path / "comparison.md").read_text()
    for outcome in comparison.outcomes:
        assert f"{outcome.findings:,}" in page
        assert f"{outcome.findings:,}" in text
    assert "Which protected attribute changes the decision" in text
    assert "discrimination score" in text
    assert "http" not in page


def test_tables_escape_what_comes_from_data() -> None:
    table = Table("a <b> & c", ["x|y", "z"], [["<i>", "1|2"]], ["<script>"])
    page = html_page("t", [table])
    assert "<i>" not in page
    assert "<script>" not in page
    assert "| x\\|y | z |" in markdown("t", [table])
    assert "| <i> | 1\\|2 |" in markdown("t", [table])


def test_methods_that_need_gradients_refuse_a_black_box() -> None:
    class BlackBox(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.detach()[:, :2]

    model = Classifier(BlackBox())
    with pytest.raises(EvenhandError, match=r"adf, margin need gradients.*maft"):
        check_needs(["adf", "margin", "maft"], model, torch.zeros(2, 3))
    check_needs(["maft", "themis"], model, torch.zeros(2, 3))
