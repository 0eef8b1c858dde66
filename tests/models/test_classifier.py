"""The one place that calls models."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from evenhand.errors import EvenhandError
from evenhand.models.classifier import Classifier
from evenhand.models.trial import classifier_for
from tests.worlds.schemas import network_of


class Ends(nn.Module):
    """A network with another ending."""

    def __init__(self, network: nn.Module, ending: str) -> None:
        super().__init__()
        self.network, self.ending = network, ending

    def forward(self, x: Tensor) -> Tensor:
        logits = self.network(x)
        score = logits[:, 1] - logits[:, 0]
        endings: dict[str, Tensor] = {
            "logits": logits,
            "softmax": logits.softmax(1),
            "score": score,
            "column": score[:, None],
            "sigmoid": score.sigmoid(),
            "sigmoid column": score.sigmoid()[:, None],
        }
        return endings[self.ending]


@pytest.mark.parametrize("ending", ["logits", "softmax", "score", "column", "sigmoid", "sigmoid column"])
def test_all_output_forms_mean_the_same(ending: str) -> None:
    network = network_of(5, 2, seed=4, hidden=(8,))
    x = torch.randn(300, 5)
    plain = Classifier(network)
    other = classifier_for(Ends(network, ending), x, classes=2)
    assert other.output == ("probabilities" if ending in ("softmax", "sigmoid", "sigmoid column") else "logits")
    labels, scores = other.outputs(x)
    sure = (scores[:, 0] - scores[:, 1]).abs() > 1e-5
    assert torch.equal(labels[sure], plain.outputs(x).labels[sure])
    assert torch.allclose(scores, plain.outputs(x).scores, atol=1e-5)
    assert torch.allclose(other.gradients(x, labels), plain.gradients(x, labels), atol=1e-4)


@pytest.mark.parametrize("classes", [2, 3])
def test_gradient_is_that_of_the_cross_entropy(classes: int) -> None:
    network = network_of(6, classes, seed=2, hidden=(8,)).double()
    x = torch.randn(40, 6)
    y = torch.randint(0, classes, (40,))
    exact = x.double().requires_grad_(True)
    functional.cross_entropy(network(exact), y, reduction="sum").backward()  # type: ignore[no-untyped-call]
    assert exact.grad is not None
    ours = Classifier(network.float()).gradients(x, y)
    assert torch.allclose(ours.double(), exact.grad, atol=1e-4)


def test_gradient_keeps_its_sign_where_the_model_is_very_sure() -> None:
    """At a logit gap of 40 the softmax in float32 is 1; the true gradient is tiny but points the same way."""
    module = nn.Linear(2, 2, bias=False)
    module.weight.data = torch.tensor([[20.0, 3.0], [1.0, 2.0]])
    gradient = Classifier(module).gradients(torch.tensor([[2.0, 1.0]]), torch.tensor([0]))
    assert torch.equal(gradient.sign(), torch.tensor([[-1.0, -1.0]]))


def test_the_papers_toy_network() -> None:
    """Two linear layers without activation: d y0 / d x0 = 0.5 * 0.5 + 1.0 * 0.2 = 0.45."""
    first, second = nn.Linear(3, 2, bias=False), nn.Linear(2, 2, bias=False)
    first.weight.data = torch.tensor([[0.5, 0.1, 0.3], [1.0, 0.4, 0.2]])
    second.weight.data = torch.tensor([[0.5, 0.2], [0.0, 0.0]])
    classifier = Classifier(nn.Sequential(first, second))
    x = torch.tensor([[0.0, 1.0, 0.0]])
    probability = classifier.outputs(x).scores[0, 0]
    # The loss at label 0 is -log p0 and y1 is constant, so its gradient is -(1 - p0) times that of y0.
    gradient = classifier.gradients(x, torch.tensor([0]))[0, 0]
    assert gradient / -(1 - probability) == pytest.approx(0.45)


@pytest.mark.parametrize("chunk_rows", [1, 7, 256, 1000])
@pytest.mark.parametrize("classes", [2, 3])
def test_chunks_change_nothing_not_even_the_last_bit(chunk_rows: int, classes: int) -> None:
    network = network_of(13, classes, seed=7, hidden=(64, 32, 16, 8, 4))
    x = torch.randint(0, 40, (777, 13)).float()
    whole, parts = Classifier(network), Classifier(network, chunk_rows=chunk_rows)
    labels, scores = whole.outputs(x)
    assert torch.equal(labels, parts.outputs(x).labels)
    assert torch.equal(scores, parts.outputs(x).scores)
    assert torch.equal(whole.gradients(x, labels), parts.gradients(x, labels))


def test_rows_are_counted_and_filling_is_not() -> None:
    classifier = Classifier(network_of(3, 2, seed=0), chunk_rows=4)
    labels, _ = classifier.outputs(torch.zeros(10, 3))
    assert classifier.rows == 10
    classifier.gradients(torch.zeros(5, 3), labels[:5])
    assert classifier.rows == 15


def test_models_that_cannot_be_used() -> None:
    x = torch.zeros(5, 13)
    with pytest.raises(EvenhandError, match="a matrix with 13 columns"):
        classifier_for(nn.Linear(12, 2), x, classes=2)
    with pytest.raises(EvenhandError, match="3 classes, but the data has 2"):
        classifier_for(nn.Linear(13, 3), x, classes=2)
    with pytest.raises(EvenhandError, match=r"torch.float32 of shape \(5, 1, 13\)"):
        classifier_for(nn.Unflatten(1, (1, 13)), x, classes=2)


def test_scores_that_are_not_numbers_name_the_sample() -> None:
    class Root(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x[:, :2].sqrt()

    with pytest.raises(EvenhandError, match=r"NaN\) for the sample \[-1, 4, 0\]"):
        Classifier(Root()).outputs(torch.tensor([[1.0, 2.0, 0.0], [-1.0, 4.0, 0.0]]))


def test_models_without_gradients_say_so() -> None:
    class Rounded(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.detach()[:, :2]

    with pytest.raises(EvenhandError, match="gives no gradient"):
        Classifier(Rounded()).gradients(torch.zeros(3, 2), torch.zeros(3, dtype=torch.int64))


class Acts(nn.Module):
    """A linear model with a peculiarity."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.linear, self.calls = how, nn.Linear(3, 2), 0
        self.embedding = nn.Embedding(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        logits: Tensor = self.linear(x)
        if self.how == "double":
            return logits.softmax(1).double()
        if self.how == "classes":
            return logits.argmax(1)
        if self.how == "scalar":
            return logits.sum()
        if self.how == "random":
            return functional.dropout(logits, 0.5, training=True)
        if self.how == "batch":
            return logits - logits.mean(dim=0)
        if self.how == "later" and self.calls > 3:
            raise ValueError("boom")
        if self.how == "embedding":
            embedded: Tensor = self.embedding(x[:, 0].long() - 1)
            return embedded
        return logits


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("classes", "torch.int64 of shape"),
        ("scalar", r"of shape \(\)"),
        ("random", "other scores to the same samples"),
        ("batch", "other scores to the same samples"),
    ],
)
def test_models_that_are_no_function_to_scores(how: str, message: str) -> None:
    torch.manual_seed(0)  # some weights are so small that a batch's mean would be taken for rounding
    with pytest.raises(EvenhandError, match=message):
        classifier_for(Acts(how), torch.rand(50, 3), classes=2)


def test_models_in_double_precision_work() -> None:
    x = torch.rand(50, 3)
    for module in (Acts("double"), Acts("plain").double()):
        classifier = classifier_for(module, x, classes=2)
        assert classifier.gradients(x, classifier.outputs(x).labels).dtype == torch.float32


def test_an_error_in_the_middle_of_a_search_is_the_models() -> None:
    classifier = classifier_for(Acts("later"), torch.rand(50, 3), classes=2)
    with pytest.raises(EvenhandError, match="The model failed on 256 rows: ValueError: boom"):
        classifier.outputs(torch.rand(5, 3))


def test_filling_uses_only_samples_that_are_there() -> None:
    """A model that looks values up would fail on rows of zeros."""
    classifier = Classifier(Acts("embedding"))
    assert len(classifier.outputs(torch.full((5, 3), 3.0)).labels) == 5


def test_the_users_own_module_is_left_alone() -> None:
    module = nn.Sequential(nn.Dropout(0.5), nn.Linear(3, 2)).train()
    classifier = classifier_for(module, torch.rand(50, 3), classes=2)
    assert module.training
    assert all(parameter.requires_grad for parameter in module.parameters())
    assert not classifier.module.training
    with torch.no_grad():
        for parameter in classifier.module.parameters():
            parameter.zero_()
    assert any(bool(parameter.any()) for parameter in module.parameters())


def test_gradients_that_are_not_numbers_are_zero() -> None:
    class Root(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.stack([x[:, 0].sqrt() * 0, x[:, 1]], dim=1)

    gradient = Classifier(Root()).gradients(torch.zeros(1, 2), torch.tensor([0]))
    assert torch.isfinite(gradient).all()


def test_probabilities_that_are_off_by_rounding_are_probabilities() -> None:
    """Votes of trees add up to a little more than one."""

    class Votes(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            sure = (x[:, 0] > 0).float() * 1.0000001
            return torch.stack([1 - sure, sure], dim=1)

    model = classifier_for(Votes(), torch.tensor([[0.0], [1.0]]), classes=2)
    assert model.output == "probabilities"
    assert model.outputs(torch.tensor([[1.0]])).scores[0, 1] == pytest.approx(1.0, abs=1e-5)
