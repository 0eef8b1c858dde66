"""From the findings of a search on training texts to pairs that a repair can learn from."""

import numpy as np
import torch
from torch import Tensor

from evenhand.models.text.classifier import TextClassifier
from evenhand.repairs.text_data import FoundPair
from evenhand.search.text_space import SOURCE, TextSpace
from evenhand.text.tokens import tokenize


def found_pairs(space: TextSpace, model: TextClassifier, samples: Tensor, swaps: Tensor) -> list[FoundPair]:
    """Findings (n, 2 + width) and their witnesses' swaps (n,) as words, each pair with one label.

    The label is that of most of the sample's variants by the model's own votes, the sample's among them; where two
    labels have as many votes, the one with the higher mean score. The paper asks several networks instead.
    """
    pairs: list[FoundPair] = []
    for at in torch.split(torch.arange(len(samples)), space.chunks(samples, model.chunk_rows)):
        x = samples[at]
        labels = votes(space, model, x)
        texts, witnesses = _words(space, x), _words(space, space.with_combination(x, swaps[at]))
        pairs += map(FoundPair, texts, witnesses, labels.tolist())
    return pairs


def votes(space: TextSpace, model: TextClassifier, x: Tensor) -> Tensor:
    """(n,) the label that most variants of each sample get."""
    answers = space.answers(model, x)
    there = torch.ones_like(answers.labels, dtype=torch.bool) if answers.there is None else answers.there
    count = torch.stack([((answers.labels == y) & there).sum(dim=1) for y in range(answers.scores.shape[2])], dim=1)
    mean = (answers.scores * there[:, :, None]).sum(dim=1) / there.sum(dim=1, keepdim=True)
    return (count + mean / 2).argmax(dim=1)


def _words(space: TextSpace, x: Tensor) -> list[list[str]]:
    units = space.inputs(x)[:, 1:].cpu().numpy().astype(np.int32)
    sources = x[:, SOURCE].tolist()
    return [tokenize(space.texts.render(source, row)).words for source, row in zip(sources, units, strict=True)]
