"""Which label a model gives: that of its own decision, of a stated threshold, or of the highest score."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from evenhand.data.dataset import Dataset
from evenhand.errors import EvenhandError
from evenhand.models.adapters.base import Adapter
from evenhand.models.adapters.decided import Decided, threshold_between
from evenhand.models.classifier import Classifier
from evenhand.models.evidence import clearly_better, commonest, domain_samples, evidence_rows
from evenhand.models.people import people_codes

MOST_VALUES = 1000  # of a protected attribute that are tried there
MOST_DECISIONS = 50_000  # rows on which a model's own decision is compared with its scores


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
    return Decided(module, classifier.output, threshold)


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
