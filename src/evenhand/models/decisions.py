"""Which label a model gives: that of its own decision, of a stated threshold, or of the highest score."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from evenhand.data.dataset import Dataset
from evenhand.errors import EvenhandError
from evenhand.models.adapters.base import AHEAD, Adapter, OuterAdapter, moved_to_side, people_codes
from evenhand.models.classifier import Classifier, as_logits, probabilities
from evenhand.models.evidence import clearly_better, commonest, domain_samples, evidence_rows

MOST_VALUES = 1000  # of a protected attribute that are tried there
MOST_DECISIONS = 50_000  # rows on which a model's own decision is compared with its scores
ROUNDING = 1e-6  # scores that are nearer to a threshold may lie on its other side in float32


def check_threshold(threshold: float | None, classes: int) -> None:
    """A threshold is a score between 0 and 1, for two classes."""
    if threshold is None:
        return
    if classes != 2:
        raise EvenhandError(f"A threshold is for two classes; the label has {classes}. Leave it out.")
    if not 0 < threshold < 1:
        raise EvenhandError(f"The threshold is {threshold:g}; it must be above 0 and below 1.")


def set_threshold(classifier: Classifier, threshold: float) -> None:
    """Let a model give the second class from this score on."""
    classifier.module.threshold = threshold  # type: ignore[assignment]
    classifier.threshold = threshold


def own_decision(classifier: Classifier, data: Dataset, protected: Sequence[str]) -> nn.Module | None:
    """The module that also asks for the model's own labels, where they are not those of the highest scores.

    Both are compared on people, with other protected values too, and on samples of the domain. A model that says from
    which score on it decides is always asked.
    """
    module = classifier.module
    if not isinstance(module, Adapter):
        return None
    most = min(MOST_DECISIONS, classifier.part(10) or MOST_DECISIONS)
    x = torch.cat([_people_and_variants(module, data, protected, most), domain_samples(data)[:most]])
    x = x.to(classifier.device)
    with torch.no_grad():
        labels = module.own_labels(x)
    if labels is None:
        return None
    outputs, stated = classifier.outputs(x), module.own_threshold
    if stated is None and torch.equal(outputs.labels, labels.to(outputs.labels.device)):
        return None
    two = outputs.scores.shape[1] == 2
    threshold = threshold_between(outputs.scores[:, 1].cpu(), labels.cpu(), stated) if two else None
    return DecidingAdapter(module, classifier.output, threshold)


def _people_and_variants(module: Adapter, data: Dataset, protected: Sequence[str], most: int) -> Tensor:
    """People as they are, and with other values of their protected attributes, one at a time."""
    rows = np.random.default_rng(0).permutation(len(data.codes))
    people = torch.tensor(people_codes(data, module)[rows[:most]], dtype=torch.float32)
    places = [data.schema.index(name) for name in protected]
    sizes = sum(data.schema.attributes[place].size for place in places)
    some, found = people[: max(1, (most - len(people)) // max(1, sizes))], [people]
    for place in places:
        low, high = data.schema.attributes[place].domain
        for code in range(low, high + 1)[:MOST_VALUES]:
            found.append(some.index_fill(1, torch.tensor([place]), float(code)))
    return torch.cat(found)


def check_single_score(classifier: Classifier, data: Dataset) -> None:
    """One score outside 0 to 1 for each row is a logit only if that is stated, or the labels bear it out."""
    if not classifier.single_score:
        return
    module = classifier.module
    if isinstance(module, Adapter) and not module.may_be_logit:
        raise _no_classifier("It answers with one number for each row, some outside 0 to 1")
    rows = evidence_rows(data)
    x = torch.tensor(people_codes(data, module)[rows], dtype=torch.float32)
    odds = torch.logit(classifier.outputs(x).scores[:, 1].cpu().double()).numpy()
    labels = data.labels[rows]
    right, right_at_half = (odds > 0) == labels, (odds > 0.5) == labels
    if not clearly_better(right, labels == commonest(labels)) or clearly_better(right_at_half, right):
        raise _no_classifier(
            f"It returns one number for each row, some outside 0 to 1; taken as a logit its accuracy on "
            f"{len(rows):,} rows is {right.mean():.1%}, cut at one half {right_at_half.mean():.1%}"
        )


def _no_classifier(what: str) -> EvenhandError:
    return EvenhandError(
        f"The model does not look like a classifier. {what}. If it is the logit of the second class, say --output "
        "logits (in Python output='logits'). A regressor cannot be audited: write a function of a data frame that "
        "returns the label that its number means, and name that as the model."
    )


class DecidingAdapter(OuterAdapter):
    """The same model, asked for its labels too; its scores are moved to the side that they say.

    With two classes that is the side of a threshold, with more the label's score is put on top.
    """

    def __init__(self, inner: Adapter, output: str, threshold: float | None) -> None:
        super().__init__(inner)
        self.inner_output, self.threshold, self.output = output, threshold, "probabilities"

    def forward(self, x: Tensor) -> Tensor:
        """(n, d) codes to (n, classes) probabilities."""
        scores = probabilities(as_logits(self.inner(x).float(), self.inner_output))
        if x.requires_grad and torch.is_grad_enabled():
            return scores
        labels = self.own_labels(x)
        assert labels is not None
        if self.threshold is not None:
            return moved_to_side(scores, labels == 1, self.threshold)
        top = scores.max(dim=1).values
        ahead = top + AHEAD * top.clamp_min(AHEAD)
        own = scores.gather(1, labels[:, None])[:, 0]
        behind = scores.argmax(dim=1) != labels
        return scores.scatter(1, labels[:, None], torch.where(behind, ahead, own)[:, None])


def with_decision_of(module: nn.Module, by: nn.Module) -> nn.Module:
    """A model that was opened again, with the decisions that it was found to have when it was first opened."""
    if isinstance(by, DecidingAdapter):
        assert isinstance(module, Adapter)
        return DecidingAdapter(module, by.inner_output, by.threshold)
    if isinstance(module, Adapter) and isinstance(by, Adapter):
        module.threshold = by.threshold
    return module


def threshold_between(scores: Tensor, labels: Tensor, stated: float | None = None) -> float:
    """A cut of the second class's scores (n,) that comes nearest to labels (n,): between those of both classes.

    One that the model states is taken as it is, where the labels bear it out.
    """
    if stated is not None:
        clear = (scores.double() - stated).abs() > ROUNDING
        if torch.equal((scores.double() >= stated)[clear], (labels == 1)[clear]):
            return stated
    ordered, order = scores.double().sort()
    second = labels[order].double()
    # Of all places between two scores the one with the fewest labels on the wrong side.
    wrong = torch.cat([torch.zeros(1, dtype=torch.float64), second.cumsum(0)])
    wrong = wrong + (1 - second).sum() - torch.cat([torch.zeros(1, dtype=torch.float64), (1 - second).cumsum(0)])
    place = int(wrong.argmin())
    low = float(ordered[place - 1]) if place else 0.0
    high = float(ordered[place]) if place < len(ordered) else 1.0
    return min(max((low + high) / 2, 1e-6), 1 - 1e-6)
