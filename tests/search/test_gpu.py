"""The search on a CUDA device; skipped where there is none."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier

from evenhand.data.dataset import Dataset
from evenhand.data.schema import Schema
from evenhand.methods.registry import make_method
from evenhand.models.classifier import Classifier
from evenhand.models.network import FeedForward
from evenhand.runs.audit import audit
from evenhand.runs.checkpoints import Checkpoints, News
from evenhand.runs.summary import FINDINGS
from evenhand.search.recorder import Findings
from evenhand.search.search import Limits, Search
from evenhand.search.seeds import choose_seeds
from evenhand.search.space import TableSpace
from tests.worlds.schemas import has_witness

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def run_on_gpu(
    data: Dataset, network: FeedForward, method: str, seeds: int, limits: Limits, chunk_rows: int | None = None
) -> list[Findings]:
    found: list[Findings] = []
    model = Classifier(network, device="cuda", chunk_rows=chunk_rows)
    rows = choose_seeds(data, seeds, seed=0)
    space = TableSpace(data.schema, ["age", "sex"], "cuda")
    Search(model, space, make_method(method), seed=0, limits=limits, sink=found.append).run(data.codes[rows], rows)
    network.cpu()
    return found


@pytest.mark.parametrize(
    "method", ["margin", "probe", "adf", "eidig", "maft", "labels", "genetic", "aequitas", "themis"]
)
def test_findings_hold(census: Dataset, census_network: FeedForward, method: str) -> None:
    found = run_on_gpu(census, census_network, method, 50, Limits(steps=20))
    samples = np.concatenate([part.sample for part in found])
    assert len(samples) > 20
    near = np.concatenate([np.abs(part.score - 0.5) for part in found]) < 1e-4  # where another device may round over
    for row in samples[~near]:
        assert has_witness(census_network, census.schema, [0, 8], row)


@pytest.mark.parametrize("method", ["margin", "adf"])
@pytest.mark.parametrize("chunk_rows", [1000, 4096])
def test_chunks_change_nothing(census: Dataset, census_network: FeedForward, method: str, chunk_rows: int) -> None:
    whole = run_on_gpu(census, census_network, method, 200, Limits(steps=20))
    parts = run_on_gpu(census, census_network, method, 200, Limits(steps=20), chunk_rows)
    for name in ("sample", "witness", "score", "witness_score", "seed", "step"):
        assert np.array_equal(
            np.concatenate([getattr(part, name) for part in whole]),
            np.concatenate([getattr(part, name) for part in parts]),
        )


@pytest.mark.parametrize("method", ["margin", "probe"])
def test_findings_keep_to_the_schemas_limits(census: Dataset, census_network: FeedForward, method: str) -> None:
    content = census.schema.model_dump(by_alias=True, exclude_defaults=True)
    content["impossible"] = [{"relationship": "Husband", "sex": "Female"}, {"relationship": "Wife", "sex": "Male"}]
    names = census.schema.names
    education, hours = names.index("education"), names.index("hours-per-week")
    content["attribute"][education]["moves"] = "up"
    content["attribute"][hours]["stride"] = 2
    limited = replace(census, schema=Schema.parse(content, where="the test"))
    found = run_on_gpu(limited, census_network, method, 50, Limits(steps=20))
    samples, seeds, witnesses = (
        np.concatenate([getattr(part, name) for part in found]) for name in ("sample", "seed", "witness")
    )
    assert len(samples) > 20
    role, start = names.index("relationship"), limited.clipped[seeds]
    wife, husband, female, male = 0, 2, 0, 1
    for sex in (samples[:, names.index("sex")], witnesses[:, 1]):
        assert not ((samples[:, role] == husband) & (sex == female)).any()
        assert not ((samples[:, role] == wife) & (sex == male)).any()
    assert (samples[:, education] >= start[:, education]).all()
    assert ((samples[:, hours] - start[:, hours]) % 2 == 0).all()


class Killed(BaseException):
    """What a process that is killed does not live to see."""


@pytest.mark.parametrize("method", ["margin", "probe", "adf", "labels"])
def test_a_killed_audit_goes_on_from_its_checkpoint(tmp_path: Path, method: str) -> None:
    settings: dict[str, Any] = {"device": "cuda", "method": method, "seeds": 100, "steps": 30}
    heard: list[News] = []

    def on_news(news: News) -> None:
        heard.append(news)
        if len(heard) == 12:
            raise Killed

    checkpoints = Checkpoints(tmp_path / "checkpoint", 0.0, on_news)
    with pytest.raises(Killed):
        audit("census", ["sex"], out=tmp_path / "pieces", checkpoints=checkpoints, **settings)
    pieces = audit("census", ["sex"], out=tmp_path / "pieces", checkpoints=checkpoints, **settings)
    assert [news.kind for news in heard].count("resumed") == 1
    whole = audit("census", ["sex"], out=tmp_path / "whole", **settings)
    assert (pieces.folder / FINDINGS).read_bytes() == (whole.folder / FINDINGS).read_bytes()
    assert pieces.summary["search"]["findings"] == whole.summary["search"]["findings"]


def test_a_threshold_of_its_own_and_a_matrix_are_asked_on_the_device() -> None:
    """An estimator answers on the host whatever the device is; a network's columns are made on the device."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(18, 70, 900), "male": rng.integers(0, 2, 900)})
    frame["pay"] = rng.integers(0, 50, 900)
    frame["label"] = np.where(frame["age"] / 20 + frame["male"] + frame["pay"] / 20 > 3.6, "yes", "no")
    people = frame[["age", "male", "pay"]]
    settings: dict[str, Any] = {"label": "label", "seeds": 10, "steps": 5, "iterations": 2}
    estimator = FixedThresholdClassifier(LogisticRegression(max_iter=500), threshold=0.3).fit(people, frame["label"])
    module = torch.nn.Sequential(torch.nn.Linear(3, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
    optimizer = torch.optim.Adam(module.parameters(), lr=0.02)
    x, y = torch.tensor(people.to_numpy(dtype=np.float32)), torch.tensor((frame["label"] == "yes").to_numpy(dtype=int))
    for _ in range(200):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(module(x), y).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    both: list[tuple[Any, str | None]] = [(estimator, None), (module, "values")]
    for model, inputs in both:
        given = settings | {"model": model, "inputs": inputs}
        on_each = [audit(frame, "male", device=device, **given) for device in ("cpu", "cuda")]
        rates = [found.summary["data_rate"]["all"]["discriminatory"] for found in on_each]
        assert abs(rates[0] - rates[1]) <= 1  # another device may round a score over the threshold
