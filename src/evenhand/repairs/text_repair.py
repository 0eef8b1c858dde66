"""Repairs of recurrent classifiers of text: trained ones, and two that hold by construction."""

from collections import Counter
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from evenhand.models.devices import one_thread
from evenhand.models.text.by_construction import AveragedTextModel, BlindModel, terms_of, without_terms
from evenhand.models.text.loading import RecurrentModel, RecurrentText
from evenhand.repairs.text_certified import CertifiedLesson
from evenhand.repairs.text_data import TextMaterial, padded
from evenhand.repairs.text_fit import Lesson, RepairStep, TextRepair, fine_tune
from evenhand.repairs.text_lessons import Augment, Nothing, Pairing

MOST_VALUES = 16  # that are averaged over: each costs a look at the text
SCORED_ROWS = 1024
Progress = Callable[[RepairStep], None]


def repair_text_network(
    material: TextMaterial, how: TextRepair, on_step: Progress = lambda step: None
) -> RecurrentModel | BlindModel:
    """Fine-tune a network on training texts by pairing, augment, certified or blind; the given one stays as it is."""
    name = f"repaired by {how.by}"
    if how.by == "blind":
        terms = terms_of(material.words)
        network = fine_tune(material, how, Nothing(), lambda words: without_terms(words, terms), on_step)
        return BlindModel(name, network, material.vectors, material.most_words, material.words.name, terms)
    network = fine_tune(material, how, _lesson(material, how), on_step=on_step)
    return RecurrentModel(name, network, material.vectors, material.most_words)


def _lesson(material: TextMaterial, how: TextRepair) -> Lesson:
    if how.by == "augment":
        return Augment(material, how)
    return CertifiedLesson(material, how) if how.by == "certified" else Pairing(material, how)


def averaged_text_model(material: TextMaterial, lexicon: str, most_values: int = MOST_VALUES) -> AveragedTextModel:
    """The network's mean over the values that training texts mention most; no training.

    `lexicon` is the name or the path of the lexicon that the attribute is from.
    """
    network, vectors, words = material.network, material.vectors, material.words
    values = commonest_values(material, most_values)
    name = "averaged over the values"
    return AveragedTextModel(name, network, vectors, material.most_words, lexicon, words, values, material.ambiguous)


def commonest_values(material: TextMaterial, most: int) -> tuple[int, ...]:
    """The values with the most mentions in training texts, in the lexicon's order; of equal ones the earlier."""
    count = Counter(mention.value for text in material.mentioning for mention in text.mentions)
    every = range(len(material.words.values))
    return tuple(sorted(sorted(every, key=lambda value: (-count[value], value))[:most]))


@torch.no_grad()
def text_scores(model: RecurrentText, texts: list[str], material: TextMaterial) -> Tensor:
    """(n, classes) the probabilities that a model gives to texts as they are written."""
    readings = [model.readings(text) for text in texts]
    of = torch.repeat_interleave(torch.tensor([len(each) for each in readings]))
    words = [material.numbers(reading) for each in readings for reading in each]
    scores = torch.empty(len(words), model.network.shape["outputs"])
    order = np.argsort([len(reading) for reading in words], kind="stable")
    with one_thread(torch.device("cpu")):
        for part in np.split(order, range(SCORED_ROWS, len(order), SCORED_ROWS)):
            logits = model.network(*padded([words[row] for row in part], material.table))
            scores[torch.from_numpy(part)] = logits.softmax(dim=1)
    sums = torch.zeros(len(texts), scores.shape[1]).index_add_(0, of, scores)
    return sums / torch.bincount(of, minlength=len(texts))[:, None]
