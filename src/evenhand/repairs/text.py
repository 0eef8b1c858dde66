"""Repairs of recurrent classifiers of text: trained ones by lessons, and two that hold by construction."""

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from evenhand.errors import EvenhandError
from evenhand.models.devices import one_thread
from evenhand.models.text.by_construction import (
    AveragedTextModel,
    BlindModel,
    RecurrentModel,
    RecurrentText,
    terms_of,
    without_terms,
)
from evenhand.models.text.recurrent import Recurrent
from evenhand.repairs.text_certified import CertifiedLesson
from evenhand.repairs.text_material import FoundPair, TextMaterial, Words, padded_words
from evenhand.repairs.text_training import VALIDATION_SHARE, Lesson, RepairStep, TextRepair, VariantGroups, fine_tune

MOST_VALUES = 16  # that are averaged over: each costs a look at the text
SCORED_ROWS = 1024
Progress = Callable[[RepairStep], None]


class PairingLesson:
    """Counterfactual logit pairing: the members of a group should get one log-odds.

    Which one is learned from the label and from the mean of what the network said about the members before: the texts
    that mention an attribute are few, and their labels alone would be learned by heart.
    """

    def __init__(self, material: TextMaterial, how: TextRepair) -> None:
        self.groups, self.table, self.how = VariantGroups(material, how), material.table, how
        self.before, self.weight = material.network, material.class_weight

    def loss(self, network: Recurrent, progress: float, rng: np.random.Generator) -> Tensor:  # noqa: ARG002
        """The spread of the log-odds within random groups."""
        return self._loss(network, *self.groups.batch(rng))

    def validation_loss(self, network: Recurrent) -> Tensor:
        """The same over groups that are not learned from."""
        return self._loss(network, self.groups.held, self.groups.held_labels) if self.groups.held else torch.zeros(())

    def _loss(self, network: Recurrent, groups: Sequence[Sequence[Words]], labels: Tensor) -> Tensor:
        vectors, lengths = padded_words([words for group in groups for words in group], self.table)
        logits, members = network(vectors, lengths), len(groups[0])
        with torch.no_grad():
            said = self.before(vectors, lengths).softmax(dim=1).view(len(groups), members, -1).mean(dim=1)
        by_label = functional.cross_entropy(logits, labels.repeat_interleave(members), self.weight)
        by_memory = functional.cross_entropy(logits, said.repeat_interleave(members, dim=0))
        learned = (1 - self.how.memory) * by_label + self.how.memory * by_memory
        return learned + self.how.strength * spread(logits.view(len(groups), members, -1))


def spread(logits: Tensor) -> Tensor:
    """The mean squared distance of log-odds from their group's mean, of (groups, members, classes) logits."""
    logits = logits - logits.mean(dim=2, keepdim=True)
    return 2 * (logits - logits.mean(dim=1, keepdim=True)).square().sum(dim=2).mean()


class AugmentLesson:
    """The paper's: findings are added to what is learned, both members of a pair with one label."""

    def __init__(self, material: TextMaterial, how: TextRepair) -> None:
        if not material.findings:
            raise EvenhandError("There are no findings to learn from; search on training texts first.")
        rng = np.random.default_rng([how.seed, 4])
        count = max(1, round(len(material.findings) * how.share))
        chosen = [material.findings[number] for number in rng.permutation(len(material.findings))[:count].tolist()]
        held = round(len(chosen) * VALIDATION_SHARE)
        self.material, self.rows, self.strength = material, how.group_rows * how.members // 2, how.strength
        self.held, self.fit = chosen[:held], chosen[held:]

    def loss(self, network: Recurrent, progress: float, rng: np.random.Generator) -> Tensor:  # noqa: ARG002
        """The loss at the labels of random findings."""
        chosen = rng.choice(len(self.fit), min(self.rows, len(self.fit)), replace=False)
        return self._loss(network, [self.fit[number] for number in chosen])

    def validation_loss(self, network: Recurrent) -> Tensor:
        """The same over findings that are not learned from."""
        return self._loss(network, self.held) if self.held else torch.zeros(())

    def _loss(self, network: Recurrent, pairs: Sequence[FoundPair]) -> Tensor:
        most, numbers = self.material.most_words, self.material.numbers
        texts = [numbers(words[:most]) for pair in pairs for words in (pair.text, pair.witness)]
        labels = torch.tensor([pair.label for pair in pairs]).repeat_interleave(2)
        logits = network(*padded_words(texts, self.material.table))
        return self.strength * functional.cross_entropy(logits, labels, self.material.class_weight)


class NoLesson:
    """No lesson: the network learns to read texts in another way."""

    def loss(self, network: Recurrent, progress: float, rng: np.random.Generator) -> Tensor:  # noqa: ARG002
        """Nothing."""
        return torch.zeros(())

    def validation_loss(self, network: Recurrent) -> Tensor:  # noqa: ARG002
        """Nothing."""
        return torch.zeros(())


def repair_text_network(
    material: TextMaterial, how: TextRepair, on_step: Progress = lambda step: None
) -> RecurrentModel | BlindModel:
    """Fine-tune a network on training texts by pairing, augment, certified or blind; the given one stays as it is."""
    name = f"repaired by {how.by}"
    if how.by == "blind":
        terms = terms_of(material.words)
        network = fine_tune(material, how, NoLesson(), lambda words: without_terms(words, terms), on_step)
        return BlindModel(name, network, material.vectors, material.most_words, material.words.name, terms)
    network = fine_tune(material, how, _lesson(material, how), on_step=on_step)
    return RecurrentModel(name, network, material.vectors, material.most_words)


def _lesson(material: TextMaterial, how: TextRepair) -> Lesson:
    if how.by == "augment":
        return AugmentLesson(material, how)
    return CertifiedLesson(material, how) if how.by == "certified" else PairingLesson(material, how)


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
            logits = model.network(*padded_words([words[row] for row in part], material.table))
            scores[torch.from_numpy(part)] = logits.softmax(dim=1)
    sums = torch.zeros(len(texts), scores.shape[1]).index_add_(0, of, scores)
    return sums / torch.bincount(of, minlength=len(texts))[:, None]
