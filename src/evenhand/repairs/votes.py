"""Which label a finding should have: a vote of several models, or of one model about all variants."""

import torch
from torch import Tensor
from torch.nn import functional

from evenhand.models.classifier import Classifier
from evenhand.search.space import AnyModel, Space


def pair_votes(judges: list[Classifier], x: Tensor, pair: Tensor) -> Tensor:
    """(n,) the label that most models give to most members of a pair; of equals the one with the higher mean score."""
    said = [judge.outputs(member) for judge in judges for member in (x, pair)]
    labels, scores = (torch.stack(parts, dim=1) for parts in zip(*said, strict=True))
    return most_votes(labels, scores)


def own_votes(space: Space[AnyModel], model: AnyModel, x: Tensor) -> Tensor:
    """(n,) the label that the model itself gives to most variants; of equals the one with the higher mean score."""
    answers = space.answers(model, x)
    return most_votes(answers.labels, answers.scores, answers.there)


def most_votes(labels: Tensor, scores: Tensor, there: Tensor | None = None) -> Tensor:
    """(n,) of labels (n, votes) with scores (n, votes, classes): the one with most votes, then with the best mean.

    `there` (n, votes) says which of them count; None: all.
    """
    counts = torch.ones_like(labels) if there is None else there.long()
    votes = (functional.one_hot(labels, scores.shape[2]) * counts[:, :, None]).sum(dim=1)
    mean = (scores * counts[:, :, None]).sum(dim=1) / counts.sum(dim=1, keepdim=True)
    return (votes + mean / 2).argmax(dim=1)
