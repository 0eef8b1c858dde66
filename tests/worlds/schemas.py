"""Small worlds for tests: random schemas and networks, and brute force over them."""

import itertools
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor, nn

from evenhand.data.dataset import Dataset
from evenhand.data.schema import Schema
from evenhand.models.classifier import Classifier
from evenhand.models.network import FeedForward

# For networks that nobody has trained on these labels: what they read and return, and that they may know nothing.
UNTRAINED: dict[str, Any] = {"inputs": "codes", "output": "logits", "accept_poor_model": True}


def schema_of(domains: list[tuple[int, int]], classes: int = 2) -> Schema:
    """A schema of numbers a0, a1, … with these domains."""
    attributes = [{"name": f"a{i}", "kind": "number", "domain": domain} for i, domain in enumerate(domains)]
    labels = [f"class {number}" for number in range(classes)]
    content = {"name": "world", "file": "none.csv", "label": {"column": "y", "values": labels}, "attribute": attributes}
    return Schema.parse(content, where="the test")


def network_of(width: int, classes: int, seed: int, hidden: tuple[int, ...] = (16, 8)) -> FeedForward:
    """A random network with weights large enough that labels vary."""
    torch.manual_seed(seed)
    network = FeedForward([width, *hidden, classes])
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(2.0)
    return network


def linear(weights: list[float], bias: float) -> nn.Linear:
    """Two classes; the second one's logit, and so its log-odds, is the weighted sum plus the bias."""
    module = nn.Linear(len(weights), 2)
    module.weight.data = torch.tensor([[0.0] * len(weights), weights])
    module.bias.data = torch.tensor([0.0, bias])
    return module


def classifier_of(module: nn.Module, chunk_rows: int | None = None) -> Classifier:
    return Classifier(module, chunk_rows=chunk_rows)


def dataset_of(schema: Schema, rows: int, seed: int) -> Dataset:
    """Uniformly random people."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(schema.lower, schema.upper + 1, size=(rows, len(schema.names))).astype(np.int32)
    labels = rng.integers(0, len(schema.label.values), rows)
    return Dataset(schema, codes, labels, schema.split.train_mask(rows))


def all_variants(schema: Schema, protected: list[int], row: NDArray[np.int32] | list[int]) -> NDArray[np.int32]:
    """Every sample with the same non-protected values, by the plainest enumeration."""
    ranges = [range(schema.attributes[i].domain[0], schema.attributes[i].domain[1] + 1) for i in protected]
    variants = []
    for values in itertools.product(*ranges):
        variant = list(row)
        for index, value in zip(protected, values, strict=True):
            variant[index] = value
        variants.append(variant)
    return np.array(variants, dtype=np.int32)


def labels_of(module: nn.Module, rows: NDArray[np.int32]) -> NDArray[np.int64]:
    """Labels straight from the module, without the package's classifier; filled up so that rounding is the same."""
    x = torch.zeros(max(256, len(rows)), rows.shape[1])
    x[: len(rows)] = torch.tensor(rows, dtype=torch.float32)
    with torch.no_grad():
        labels: NDArray[np.int64] = module(x)[: len(rows)].argmax(1).numpy()
    return labels


def has_witness(module: nn.Module, schema: Schema, protected: list[int], row: NDArray[np.int32]) -> bool:
    """Brute force: does any variant get another label?"""
    return len(set(labels_of(module, all_variants(schema, protected, row)).tolist())) > 1


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Schema, list[int], FeedForward, Tensor]:
    """A schema, protected positions, a network, and some samples in the domain."""
    lows = draw(st.lists(st.integers(-3, 3), min_size=2, max_size=5))
    domains = [(low, low + draw(st.integers(1, 5))) for low in lows]
    classes = draw(st.integers(2, 4))
    schema = schema_of(domains, classes)
    count = draw(st.integers(1, min(2, len(domains) - 1)))
    protected = sorted(draw(st.permutations(range(len(domains))))[:count])
    seed = draw(st.integers(0, 2**16))
    samples = np.random.default_rng(seed).integers(schema.lower, schema.upper + 1, size=(12, len(domains)))
    return schema, protected, network_of(len(domains), classes, seed), torch.tensor(samples, dtype=torch.float32)
