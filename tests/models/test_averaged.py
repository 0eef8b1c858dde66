"""The average over protected values: no protected value can change its label, and it is a file like any other."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import evenhand
from evenhand.data.dataset import Dataset
from evenhand.data.schema import Schema
from evenhand.errors import EvenhandError
from evenhand.models.averaged import AveragedModel, population_weights, save_averaged
from evenhand.models.classifier import Classifier
from evenhand.models.loading import load_module
from evenhand.models.network import FeedForward, load_network
from evenhand.search.check import check
from evenhand.search.space import TableSpace
from tests.worlds.schemas import all_variants, dataset_of, has_witness, network_of, schema_of, worlds

DESCRIPTION = {"attributes": ["a0", "a1", "a2"], "classes": ["class 0", "class 1"]}
BLACK_BOX = """
from torch import nn

class Odd(nn.Module):
    def forward(self, x):
        return (x[:, 0] + x[:, 1]).remainder(5).mul(0.25)

def make():
    return Odd()
"""


def small() -> tuple[Schema, TableSpace]:
    schema = schema_of([(0, 2), (0, 3), (0, 4)])
    return schema, TableSpace(schema, ["a0", "a2"])


def averaged(inner: nn.Module, space: TableSpace, seed: int = 0, output: Any = "logits") -> AveragedModel:
    """Weighted unevenly."""
    weights = torch.rand(space.variant_count, generator=torch.Generator().manual_seed(seed)) + 0.01
    return AveragedModel(inner, space.protected, space.combinations, weights / weights.sum(), output).eval()


@given(worlds(), st.integers(0, 100))
@settings(max_examples=25)
def test_no_variant_in_the_whole_domain_has_another_score(
    world: tuple[Schema, list[int], FeedForward, Tensor], seed: int
) -> None:
    schema, protected, network, _ = world
    space = TableSpace(schema, [schema.names[column] for column in protected])
    model = Classifier(averaged(network, space, seed))
    domain = all_variants(schema, list(range(len(schema.names))), [0] * len(schema.names))[:3000]
    answers = space.answers(model, torch.tensor(domain, dtype=torch.float32))
    assert (answers.labels == answers.labels[:, :1]).all()
    assert torch.equal(answers.scores, answers.scores[:, :1].expand_as(answers.scores))


def test_no_person_of_census_has_a_witness(census: Dataset, census_network: FeedForward) -> None:
    space = TableSpace(census.schema, ["sex", "race"])
    model = averaged(census_network, space)
    x = space.samples(census.clipped[:2000])
    assert check(Classifier(census_network), space, x).hit.any()  # there is something to repair
    assert not check(Classifier(model), space, x).hit.any()
    assert not any(has_witness(model, census.schema, space.protected, row) for row in census.clipped[:50])


@pytest.mark.parametrize("classes", [2, 3])
def test_the_score_is_the_weighted_mean(classes: int) -> None:
    _, space = small()
    network = network_of(3, classes, seed=1)
    model = averaged(network, space)
    x = torch.tensor([[0.0, 3.0, 1.0], [2.0, 1.0, 4.0]])
    expected = torch.zeros(2, classes, dtype=torch.float64)
    for values, weight in zip(space.combinations, model.weights, strict=True):
        for row in range(2):
            variant = x[row].clone()
            variant[0], variant[2] = values
            expected[row] += weight.double() * network(variant[None])[0].double().softmax(0).detach()
    assert torch.allclose(Classifier(model).outputs(x).scores.double(), expected, atol=1e-6)


def test_probabilities_and_single_scores_are_read_as_such() -> None:
    class Second(nn.Module):
        """The probability of the second class."""

        def forward(self, x: Tensor) -> Tensor:
            return (x[:, 0] + 1) / 4

    _, space = small()
    weights = torch.zeros(15)
    weights[0], weights[10] = 0.25, 0.75  # a0 = 0 and a0 = 2
    model = AveragedModel(Second(), space.protected, space.combinations, weights, "probabilities")
    scores = Classifier(model).outputs(torch.ones(1, 3)).scores
    assert scores[0].tolist() == pytest.approx([1 - 0.625, 0.625])


def test_weights_are_shares_of_people() -> None:
    assert population_weights(torch.tensor([0, 2, 2, 3]), 5).tolist() == [0.25, 0.0, 0.5, 0.25, 0.0]


def test_a_file_is_read_back_as_the_same_model(tmp_path: Path) -> None:
    schema, space = small()
    data = dataset_of(schema, 100, seed=0)
    model = averaged(network_of(3, 2, seed=2), space)
    save_averaged(model, DESCRIPTION, tmp_path / "mean")
    for name in ("mean.safetensors", "mean.json"):
        loaded, shown = load_module(data, str(tmp_path / name))
        assert shown == str(tmp_path / name)
        x = torch.tensor(data.clipped, dtype=torch.float32)
        assert torch.equal(loaded(x), model(x))
    with pytest.raises(EvenhandError, match="does not describe a network"):
        load_network(tmp_path / "mean")
    poor: dict[str, Any] = {"accept_poor_model": True, "seeds": 20, "steps": 5}
    assert evenhand.audit(data, ["a0", "a2"], model=str(tmp_path / "mean.json"), **poor).findings.empty


def test_a_black_box_is_named_in_the_file_and_stays_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "boxes_for_averages.py").write_text(BLACK_BOX)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "boxes_for_averages", raising=False)
    schema, space = small()
    data = dataset_of(schema, 100, seed=0)
    inner, _ = load_module(data, "boxes_for_averages:make")
    model = averaged(inner, space, output="probabilities")
    save_averaged(model, DESCRIPTION, tmp_path / "mean", inner="boxes_for_averages:make")
    with pytest.raises(EvenhandError, match="EVENHAND_TRUST='boxes_for_averages:make'"):
        load_module(data, str(tmp_path / "mean.safetensors"))
    monkeypatch.setenv("EVENHAND_TRUST", "boxes_for_averages:make")
    loaded, _ = load_module(data, str(tmp_path / "mean.safetensors"))
    x = torch.tensor(data.clipped, dtype=torch.float32)
    assert torch.equal(loaded(x), model(x))
    assert len(np.unique(loaded(x).argmax(1))) == 2
    assert has_witness(nn.Sequential(inner, _TwoLogits()), schema, space.protected, data.clipped[0])
    poor: dict[str, Any] = {"accept_poor_model": True, "seeds": 20, "steps": 5}
    assert evenhand.audit(data, ["a0", "a2"], model=str(tmp_path / "mean.json"), **poor).findings.empty


class _TwoLogits(nn.Module):
    """From the probability of the second class."""

    def forward(self, score: Tensor) -> Tensor:
        return torch.stack([1 - score, score], dim=1)


@pytest.mark.parametrize(
    "changes",
    [
        {"widths": None},
        {"widths": [3]},
        {"widths": [3, -1, 2]},
        {"widths": [3, 1.5, 2]},
        {"widths": "3,16,8,2"},
        {"widths": [3, 7, 2]},
        {"widths": [10**15, 10**15, 2]},
        {"columns": []},
        {"columns": [-1]},
        {"columns": [True, False]},
        {"columns": {"0": 1}},
        {"columns": [0]},
        {"combinations": 0},
        {"combinations": "15"},
        {"combinations": 10**15},
        {"combinations": 14},
        {"output": "votes"},
        {"output": ["logits"]},
        {"inner": "no_such_module_anywhere:make"},
        {"inner": ""},
        {"inner": ".:x"},
        {"inner": "json:no_such_function"},
        {"inner": "math:inf"},
        {"inner": 5, "widths": None},
        {"format": "another"},
        {"classes": ["yes", "no"]},
        {"attributes": ["b0"]},
    ],
    ids=json.dumps,
)
def test_a_garbled_description_is_an_error_for_people(changes: dict[str, Any], tmp_path: Path) -> None:
    schema, space = small()
    save_averaged(averaged(network_of(3, 2, seed=2), space), DESCRIPTION, tmp_path / "mean")
    description = json.loads((tmp_path / "mean.json").read_text())
    (tmp_path / "mean.json").write_text(json.dumps(description | changes))
    with pytest.raises(EvenhandError):
        load_module(dataset_of(schema, 10, seed=0), str(tmp_path / "mean.safetensors"))


def test_columns_beyond_the_table_are_an_error_for_people(tmp_path: Path) -> None:
    schema, space = small()
    save_averaged(averaged(network_of(3, 2, seed=2), space), DESCRIPTION, tmp_path / "mean")
    description = json.loads((tmp_path / "mean.json").read_text())
    (tmp_path / "mean.json").write_text(json.dumps(description | {"columns": [0, 9]}))
    with pytest.raises(EvenhandError):
        evenhand.audit(dataset_of(schema, 50, seed=0), ["a0"], model=str(tmp_path / "mean.json"), seeds=5, steps=1)


@pytest.mark.parametrize("file", ["mean.json", "mean.safetensors"])
def test_broken_and_missing_files_are_errors_for_people(file: str, tmp_path: Path) -> None:
    schema, space = small()
    data = dataset_of(schema, 10, seed=0)
    save_averaged(averaged(network_of(3, 2, seed=2), space), DESCRIPTION, tmp_path / "mean")
    (tmp_path / file).write_bytes((tmp_path / file).read_bytes()[:50])
    with pytest.raises(EvenhandError, match=file):
        load_module(data, str(tmp_path / "mean.json"))
    (tmp_path / file).unlink()
    with pytest.raises(EvenhandError, match=file):
        load_module(data, str(tmp_path / "mean.json"))
