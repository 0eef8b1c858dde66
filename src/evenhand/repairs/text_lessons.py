"""The lessons of trained repairs: pairing with variants, learning from findings."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from evenhand.errors import EvenhandError
from evenhand.models.text.recurrent import Recurrent
from evenhand.repairs.text_data import FoundPair, MentionText, NearWords, TextMaterial, Words, padded
from evenhand.repairs.text_fit import TextRepair

VALIDATION_GROUPS = 200  # texts that mention the attribute, at most, and at most so large a share of them:
VALIDATION_SHARE = 0.1
POOL_GROUPS = 8  # a batch of texts is chosen from so many times as many, so that they are of about one length


class Groups:
    """Texts that mention the attribute, each with some of its variants as one group."""

    def __init__(self, material: TextMaterial, how: TextRepair) -> None:
        self.material, self.how = material, how
        self.near = NearWords(material) if how.moved_words else None
        rng = np.random.default_rng([how.seed, 2])
        texts = material.mentioning
        order = rng.permutation(len(texts)).tolist()
        held = min(VALIDATION_GROUPS, round(len(texts) * VALIDATION_SHARE))
        self.fit = [texts[number] for number in order[held:]]
        self.held_texts = [texts[number] for number in order[:held]]
        self.held = [self.group(text, rng) for text in self.held_texts]
        self.held_labels = torch.tensor([text.label for text in self.held_texts])

    def group(self, text: MentionText, rng: np.random.Generator) -> list[Words]:
        """A text, with or without near words in the place of others, in the words of several values.

        Half of the time one mention changes, and half of the time all that name its value.
        """
        if self.near is not None and rng.random() < 0.5:
            text = self.near.moved(text, int(rng.integers(1, self.how.moved_words + 1)), self.material.most_words, rng)
        chosen = text.mentions[rng.integers(len(text.mentions))]
        alike = [m for m in text.mentions if m.value == chosen.value]
        values = self.material.values_of(alike) if rng.random() < 0.5 else []
        if len(values) < 2:
            alike, values = [chosen], self.material.values_of([chosen])
        others = rng.permutation([value for value in values if value != chosen.value])
        picked = [chosen.value, *np.resize(others, self.how.members - 1).tolist()]
        return [self.material.with_value(text, alike, value) for value in picked]

    def texts(self, rng: np.random.Generator) -> list[MentionText]:
        """Random texts of about one length."""
        count = min(self.how.group_rows, len(self.fit))
        pool = rng.choice(len(self.fit), min(count * POOL_GROUPS, len(self.fit)), replace=False)
        pool = pool[np.argsort([len(self.fit[number].words) for number in pool], kind="stable")]
        first = rng.integers(len(pool) - count + 1)
        return [self.fit[number] for number in pool[first : first + count]]

    def batch(self, rng: np.random.Generator) -> tuple[list[list[Words]], Tensor]:
        """Random groups and their labels."""
        texts = self.texts(rng)
        return [self.group(text, rng) for text in texts], torch.tensor([text.label for text in texts])


class Pairing:
    """Counterfactual logit pairing: the members of a group should get one log-odds.

    Which one is learned from the label and from the mean of what the network said about the members before: the texts
    that mention an attribute are few, and their labels alone would be learned by heart.
    """

    def __init__(self, material: TextMaterial, how: TextRepair) -> None:
        self.groups, self.table, self.how = Groups(material, how), material.table, how
        self.before, self.weight = material.network, material.class_weight

    def loss(self, network: Recurrent, progress: float, rng: np.random.Generator) -> Tensor:  # noqa: ARG002
        """The spread of the log-odds within random groups."""
        return self._loss(network, *self.groups.batch(rng))

    def validation_loss(self, network: Recurrent) -> Tensor:
        """The same over groups that are not learned from."""
        return self._loss(network, self.groups.held, self.groups.held_labels) if self.groups.held else torch.zeros(())

    def _loss(self, network: Recurrent, groups: Sequence[Sequence[Words]], labels: Tensor) -> Tensor:
        vectors, lengths = padded([words for group in groups for words in group], self.table)
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


class Augment:
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
        logits = network(*padded(texts, self.material.table))
        return self.strength * functional.cross_entropy(logits, labels, self.material.class_weight)


class Nothing:
    """No lesson: the network learns to read texts in another way."""

    def loss(self, network: Recurrent, progress: float, rng: np.random.Generator) -> Tensor:  # noqa: ARG002
        """Nothing."""
        return torch.zeros(())

    def validation_loss(self, network: Recurrent) -> Tensor:  # noqa: ARG002
        """Nothing."""
        return torch.zeros(())
