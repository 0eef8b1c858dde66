"""Which label a model gives: that of its own decision, of a stated threshold, or of the highest score."""

import numpy as np
import torch
from torch import nn

from evenhand.data.dataset import Dataset
from evenhand.errors import EvenhandError
from evenhand.models.adapters.base import Adapter
from evenhand.models.adapters.decided import Decided, threshold_between
from evenhand.models.classifier import Classifier
from evenhand.models.evidence import clearly_better, commonest, domain_samples, evidence_rows
from evenhand.models.people import people_codes

MOST_DECISIONS = 20_000  # rows on which a model's own decision is compared with its scores


def check_threshold(threshold: float | None, classes: int) -> None:
    """A threshold is a score between 0 and 1, for two classes."""
    if threshold is None:
        return
    if classes != 2:
        raise EvenhandError(f"A threshold is for two classes; the label has {classes}. Leave it out.")
    if not 0 < threshold < 1:
        raise EvenhandError(f"The threshold is {threshold:g}; it must be above 0 and below 1.")


def with_threshold(classifier: Classifier, threshold: float) -> None:
    """Let a model give the second class from this score on."""
    classifier.module.threshold = threshold  # type: ignore[assignment]
    classifier.threshold = threshold


def own_decision(classifier: Classifier, data: Dataset) -> nn.Module | None:
    """The module that also asks for the model's own labels, where they are not those of the highest scores."""
    module = classifier.module
    if not isinstance(module, Adapter):
        return None
    rows = np.random.default_rng(0).permutation(len(data.codes))[:MOST_DECISIONS]
    people = torch.tensor(people_codes(data, module)[rows], dtype=torch.float32)
    x = torch.cat([people, domain_samples(data)])
    with torch.no_grad():
        labels = module.own_labels(x)
    if labels is None:
        return None
    outputs = classifier.outputs(x)
    if torch.equal(outputs.labels, labels.to(outputs.labels.device)):
        return None
    two = outputs.scores.shape[1] == 2
    threshold = threshold_between(outputs.scores[:, 1].cpu(), labels.cpu()) if two else None
    return Decided(module, classifier.output, threshold)


def check_lone_score(classifier: Classifier, data: Dataset) -> None:
    """One score outside 0 to 1 for each row is a logit only if that is stated, or the labels bear it out."""
    if not classifier.lone:
        return
    module = classifier.module
    if isinstance(module, Adapter) and not module.lone_logit:
        raise _no_classifier("It answers with one number for each row, some outside 0 to 1")
    rows = evidence_rows(data)
    x = torch.tensor(people_codes(data, module)[rows], dtype=torch.float32)
    odds = torch.logit(classifier.outputs(x).scores[:, 1].cpu().double()).numpy()
    labels = data.labels[rows]
    right, right_at_half = (odds > 0) == labels, (odds > 0.5) == labels
    if not clearly_better(right, labels == commonest(labels)) or clearly_better(right_at_half, right):
        raise _no_classifier(
            f"It returns one number for each row, some outside 0 to 1; taken as a logit it gives the label of "
            f"{right.mean():.1%} of {len(rows):,} rows, cut at one half {right_at_half.mean():.1%}"
        )


def _no_classifier(what: str) -> EvenhandError:
    return EvenhandError(
        f"The model does not look like a classifier. {what}. If it is the logit of the second class, say --output "
        "logits (in Python output='logits'). A regressor cannot be audited: write a function of a data frame that "
        "returns the label that its number means, and name that as the model."
    )
