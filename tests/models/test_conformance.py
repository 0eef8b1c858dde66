"""The suite of requirements finds what is wrong with a model, and nothing wrong with the built-in networks."""

import pytest
import torch
from torch import Tensor, nn

from evenhand.data.dataset import Dataset
from evenhand.errors import EvenhandError
from evenhand.models.adapters.base import Adapter
from evenhand.models.trial import conformance
from tests.worlds.schemas import dataset_of, network_of, schema_of


@pytest.fixture(scope="module")
def data() -> Dataset:
    return dataset_of(schema_of([(0, 5), (0, 9), (-3, 3)]), 200, seed=0)


class Wrapped(nn.Module):
    """A network whose answers are spoilt in some way."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = network_of(3, 2, seed=1)
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.inner(x)
        return result


class ByCompany(Wrapped):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x - 1e-2 * x.mean(dim=0))


class Forgetful(Wrapped):
    """Other scores with every other call; the trial sees a small difference only."""

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return super().forward(x) + 1e-4 * (self.calls % 2) * torch.tensor([1.0, -1.0])


class Changes(Wrapped):
    def forward(self, x: Tensor) -> Tensor:
        scores = super().forward(x)
        with torch.no_grad():
            x[:, 0] = 0
        return scores


class Detached(Wrapped):
    """One attribute reaches the scores around the gradient."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(torch.cat([x[:, :1].detach(), x[:, 1:]], dim=1))


class Steps(Adapter):
    """Reads whole codes only, through a table: no gradient."""

    def __init__(self, no_gradients: str | None) -> None:
        super().__init__()
        self.no_gradients = no_gradients
        self.table = torch.linspace(0, 1, 16)

    def forward(self, x: Tensor) -> Tensor:
        return self.table[x[:, 1].long()]


def test_a_network_meets_all(data: Dataset) -> None:
    result = conformance(network_of(3, 2, seed=1), data)
    assert result.gradients
    assert not result.why_not
    assert result.met[-1] == "gradients agree with finite differences of the scores"
    assert len(result.met) == 6


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (ByCompany(), "other scores to the same (rows|samples) in another batch"),
        (Forgetful(), "about the same rows again|in another batch"),
        (Changes(), "changes the rows"),
        (Detached(), r"not those of its scores: \d+%"),
    ],
)
def test_what_is_wrong_is_said(module: nn.Module, words: str, data: Dataset) -> None:
    with pytest.raises(EvenhandError, match=words):
        conformance(module, data)


def test_no_gradients_with_the_reason(data: Dataset) -> None:
    result = conformance(Steps("it looks codes up"), data)
    assert not result.gradients
    assert result.why_not == "it looks codes up"


def test_promised_gradients_must_be_there(data: Dataset) -> None:
    with pytest.raises(EvenhandError, match="promises gradients"):
        conformance(Steps(None), data)


def test_gradients_that_are_denied_must_not_be_there(data: Dataset) -> None:
    class Denies(Adapter):
        no_gradients = "so it says"

        def __init__(self) -> None:
            super().__init__()
            self.inner = network_of(3, 2, seed=1)

        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = self.inner(x)
            return result

    with pytest.raises(EvenhandError, match="but it gives some"):
        conformance(Denies(), data)


@pytest.mark.parametrize("name", ["census", "credit", "bank"])
def test_built_in_networks_meet_all(name: str) -> None:
    from evenhand.data.dataset import load_dataset
    from evenhand.models.loading import load_module

    loaded = load_dataset(name)
    assert conformance(load_module(loaded)[0], loaded).gradients
