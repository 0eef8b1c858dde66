"""How a network reads people: exact at codes, interpolated between them, with the gradient of that."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from evenhand.data.dataset import Dataset
from evenhand.data.decoding import Decoder, numbers_of
from evenhand.data.schema import Schema
from evenhand.errors import EvenhandError
from evenhand.models.adapters.features.entries import FeatureEntry
from evenhand.models.adapters.features.matrix import Features
from evenhand.models.adapters.torch.networks import wrap_module
from evenhand.models.classifier import SMALLEST_CALL, Classifier
from evenhand.models.trial import conformance
from tests.worlds.adapters import codes_of, people
from tests.worlds.schemas import dataset_of, network_of

BINNED: list[dict[str, Any]] = [
    {"name": "age", "kind": "number", "edges": [20, 30, 45, 80]},
    {"name": "hours", "kind": "number", "width": 10, "domain": [0, 9]},
    {"name": "cents", "kind": "number", "step": 0.01, "domain": [0, 8_000_000]},
    {"name": "grade", "kind": "ordered", "categories": ["low", "middle", "high", "top"], "domain": [1, 3]},
    {"name": "sex", "kind": "category", "categories": ["female", "male"]},
]


def binned() -> Dataset:
    """Numbers by edges, by width and at a fine step; a domain that is narrower than the categories."""
    label = {"column": "y", "values": ["no", "yes"]}
    content = {"name": "binned", "file": "none.csv", "label": label, "attribute": BINNED}
    return dataset_of(Schema.parse(content, where="the test"), 300, seed=1)


def entry(attribute: str, reading: str, **settings: Any) -> FeatureEntry:
    return FeatureEntry.model_validate({"attribute": attribute, "as": reading} | settings)


def by_hand(data: Dataset, inputs: str) -> NDArray[np.float64]:
    """The same matrix one attribute at a time, in the plainest way."""
    parts: list[NDArray[Any]] = []
    for attribute, codes in zip(data.schema.attributes, data.clipped.T, strict=True):
        if attribute.kind == "number" and inputs != "codes":
            values = numbers_of(attribute, codes)
            known = values[data.train]
            parts.append((values - known.mean()) / known.std() if inputs == "standard" else values)
        elif inputs in ("onehot", "standard"):
            parts.extend(codes == code for code in range(max(len(attribute.categories), attribute.domain[1] + 1)))
        else:
            parts.append(codes)
    return np.stack(parts, axis=1).astype(np.float64)


@pytest.mark.parametrize("make", [people, binned])
@pytest.mark.parametrize("inputs", ["codes", "values", "onehot", "standard"])
def test_the_ways_of_reading_are_those_of_the_plainest_code(make: Any, inputs: str) -> None:
    data = make()
    features = Features(data, inputs)(codes_of(data))
    assert features.dtype == torch.float32
    np.testing.assert_allclose(features.numpy(), by_hand(data, inputs), rtol=1e-6, atol=1e-6)


def test_values_are_those_of_the_raw_table() -> None:
    data = people()
    frame: pd.DataFrame = Decoder(data.schema).frame(data.clipped)
    features = Features(data, [entry("income", "value"), entry("age", "value")], torch.float64)(codes_of(data))
    np.testing.assert_array_equal(features.numpy(), frame[["income", "age"]].to_numpy(dtype=np.float64))


MIXED = [
    entry("grade", "onehot", drop_first=True),
    entry("age", "standard", mean=40, scale=10),
    entry("grade", "table", table=[[1, 5], [2, 7], [9, 8]]),
    entry("cents", "minmax", low=0, high=80_000),
    entry("sex", "onehot"),
    entry("age", "onehot"),
    entry("sex", "table", table=[-1, 3]),
    entry("hours", "code"),
    entry("hours", "minmax"),
]


def test_entries_give_columns_in_their_order() -> None:
    data = binned()
    x = torch.tensor([[2, 3, 250, 2, 1], [4, 0, 0, 3, 0]], dtype=torch.float32)
    seen = data.clipped[data.train, 1]
    low, high = int(seen.min()), int(seen.max())
    expected = [
        [0, 1, 0, -0.25, 2, 7, 2.5 / 80_000, 0, 1, 0, 0, 1, 0, 0, 3, 3, (3 - low) / (high - low)],
        [0, 0, 1, 4, 9, 8, 0, 1, 0, 0, 0, 0, 0, 1, -1, 0, -low / (high - low)],
    ]
    np.testing.assert_allclose(Features(data, MIXED)(x).numpy(), expected, rtol=1e-6)


def test_a_row_out_of_the_domain_is_read_as_at_its_end() -> None:
    data = binned()
    inside, outside = (
        torch.tensor([row], dtype=torch.float32) for row in ([4, 9, 8_000_000, 1, 1], [90, 50, 9e6, 0, 7])
    )
    features = Features(data, [entry for entry in MIXED if entry.as_ != "code"])
    assert torch.equal(features(inside), features(outside))


def slopes_by_differences(features: Features, x: Tensor, weights: Tensor, data: Dataset) -> Tensor:
    """The mean of the slopes to both sides, one-sided at the ends of the domain, for each attribute."""
    slopes = torch.zeros_like(x)
    for column, attribute in enumerate(data.schema.attributes):
        for row in range(len(x)):
            sides = []
            for way in (-1, 1):
                moved = x[row : row + 1].clone()
                moved[0, column] += way
                if attribute.domain[0] <= moved[0, column] <= attribute.domain[1]:
                    change = (features(moved) - features(x[row : row + 1])) @ weights
                    sides.append(way * float(change))
            slopes[row, column] = sum(sides) / len(sides)
    return slopes


def test_the_gradient_is_the_mean_of_the_slopes_to_both_sides() -> None:
    data = binned()
    features = Features(data, MIXED, torch.float64)
    weights = torch.linspace(-1, 2, features.width, dtype=torch.float64)
    ends = torch.tensor(np.stack([data.schema.lower, data.schema.upper]))
    x = torch.cat([codes_of(data)[:20], ends]).double().requires_grad_(True)
    (gradient,) = torch.autograd.grad((features(x) @ weights).sum(), x)
    expected = slopes_by_differences(features, x.detach(), weights, data)
    torch.testing.assert_close(gradient, expected, atol=1e-9, rtol=1e-6)


def test_between_codes_features_are_interpolated_and_so_is_their_gradient() -> None:
    data = binned()
    features = Features(data, MIXED, torch.float64)
    low, high = torch.zeros(1, 5, dtype=torch.float64), torch.zeros(1, 5, dtype=torch.float64)
    low[0] = torch.tensor([1, 2, 100, 1, 0])
    high[0] = low[0] + 1
    torch.testing.assert_close(features(low + 0.25), 0.75 * features(low) + 0.25 * features(high))
    x = (low + 0.25).requires_grad_(True)
    assert torch.autograd.gradcheck(features, (x,))


@pytest.mark.parametrize("inputs", ["codes", "values", "onehot", "standard", MIXED])
def test_a_network_behind_features_conforms(inputs: Any) -> None:
    data = binned()
    data.codes[:, 2] //= 1_000_000  # so that float32 can tell the probes of the suite apart
    width = Features(data, inputs).width
    network = network_of(width, 2, seed=3)
    with torch.no_grad():
        next(network.parameters()).mul_(0.1)  # raw values are large
    assert conformance(wrap_module(data, network, inputs), data).gradients


def test_a_network_in_double_precision_gets_doubles() -> None:
    data = people(3)
    network = network_of(Features(data, "standard").width, 3, seed=0).double()
    adapter = wrap_module(data, network, "standard")
    assert adapter(codes_of(data).double()).dtype == torch.float64
    assert conformance(adapter, data).gradients


def test_the_callers_network_is_left_as_it_is() -> None:
    data = people()
    network = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 2)).train()
    classifier = Classifier(wrap_module(data, network, "values"))
    classifier.outputs(codes_of(data))
    assert network.training
    assert all(parameter.requires_grad for parameter in network.parameters())
    assert classifier.smallest_call == SMALLEST_CALL["cpu"]


def test_a_wrong_number_of_columns_is_an_error_that_lists_the_features() -> None:
    with pytest.raises(EvenhandError, match=r"15 columns .*age \(value\), sex \(onehot, 2 columns\).* reads 6"):
        wrap_module(people(), nn.Linear(6, 2), "onehot")


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([entry("job", "table", table=[1, 2])], "2 entries, but its domain has 5 codes, 0 to 4"),
        ([entry("jbo", "code")], "Did you mean 'job'"),
        ([], "no feature"),
        ("one-hot", "Did you mean 'onehot'"),
    ],
)
def test_features_that_cannot_be(entries: Any, message: str) -> None:
    with pytest.raises(EvenhandError, match=message):
        Features(people(), entries)


def test_a_number_with_millions_of_values_is_not_spread_over_columns() -> None:
    with pytest.raises(EvenhandError, match="8,000,001 values, too many for one column each"):
        Features(binned(), [entry("cents", "onehot")])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"as": "value", "mean": 3}, "mean is for as = 'standard'"),
        ({"as": "onehot", "table": [1]}, "table is for as = 'table'"),
        ({"as": "table"}, "needs a table"),
        ({"as": "table", "table": [[1], [1, 2]]}, "the same length"),
        ({"as": "standard", "scale": 0}, "greater than 0"),
        ({"as": "minmax", "low": 3, "high": 3}, "low must be below high"),
    ],
)
def test_entries_that_contradict_themselves(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        entry("job", **({"reading": settings.pop("as")} | settings))
