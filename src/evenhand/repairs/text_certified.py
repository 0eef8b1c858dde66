"""Certified repair: bounds over all words that may stand at a mention, in training and as a proof."""

import copy
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from evenhand.models.bounds import (
    FLOAT32_ROUNDING,
    NO_LABEL,
    START_ERRORS,
    CellState,
    Interval,
    certain_labels,
    read_bounds,
    read_hull,
    read_margins,
    worst_logits,
)
from evenhand.models.devices import one_thread
from evenhand.models.text.recurrent import Recurrent
from evenhand.repairs.text_material import MentionText, TextMaterial, Words, padded_words
from evenhand.repairs.text_training import TextRepair, VariantGroups
from evenhand.text.lexicon import Mention

WORDS_AFTER = 40  # that are read behind a mention in training; a proof reads all
RAMP = 0.6  # of the steps: by then the boxes have grown to their full size
CHUNK_BOXES = 256


class Box(NamedTuple):
    """All terms of one number of words at a mention, with what comes before and behind."""

    before: Words
    terms: Tensor  # (terms, words of a term, e) the mention's own first, if it has that many words
    behind: Words


def boxes(material: TextMaterial, text: MentionText, mention: Mention) -> list[Box]:
    """A mention's boxes: the terms of one word together, those of two words together, and so on."""
    terms: dict[int, list[Words]] = {}
    values = [mention.value, *(v for v in material.values_of([mention]) if v != mention.value)]
    for value in values:
        term = material.term(mention, value)
        terms.setdefault(len(term), []).append(term)
    found = []
    left = material.most_words - mention.start  # at least 1
    for size, members in sorted(terms.items()):
        vectors = material.table[torch.from_numpy(np.stack(members)).long()]  # (terms, size, e)
        behind = text.words[mention.end : mention.end + max(0, left - size)]
        found.append(Box(text.words[: mention.start], vectors[:, :left], behind))
    return found


class CertifiedLesson:
    """The worst case over a growing box as the loss, mixed with the loss at the mention itself."""

    def __init__(self, material: TextMaterial, how: TextRepair) -> None:
        self.material, self.how, self.groups = material, how, VariantGroups(material, how)
        rng = np.random.default_rng([how.seed, 3])
        self.held = [self._box(text, rng) for text in self.groups.held_texts]

    def _box(self, text: MentionText, rng: np.random.Generator) -> Box:
        every = boxes(self.material, text, text.mentions[rng.integers(len(text.mentions))])
        box = every[rng.integers(len(every))]
        return box._replace(behind=box.behind[:WORDS_AFTER])

    def loss(self, network: Recurrent, progress: float, rng: np.random.Generator) -> Tensor:
        """The worst case on random texts."""
        texts = self.groups.texts(rng)
        found = [self._box(text, rng) for text in texts]
        return self._loss(network, found, torch.tensor([text.label for text in texts]), min(1.0, progress / RAMP))

    def validation_loss(self, network: Recurrent) -> Tensor:
        """The same over whole boxes of texts that are not learned from."""
        return self._loss(network, self.held, self.groups.held_labels, 1.0) if self.held else torch.zeros(())

    def _loss(self, network: Recurrent, found: list[Box], labels: Tensor, size: float) -> Tensor:
        read, lengths = _read(network, found, self.material.table, size)
        margins = read_margins(network, read, lengths, start=_start(network, found, self.material.table))
        with torch.no_grad():
            said = self._said(found)
        weight, memory, classes = self.material.class_weight, self.how.memory, range(said.shape[1])
        by_label = functional.cross_entropy(worst_logits(margins, labels), labels, weight)
        wrong = [_cross_entropy(margins, torch.full_like(labels, y)) for y in classes]
        by_memory = (said * torch.stack(wrong, dim=1)).sum(dim=1).mean()
        return self.how.strength * ((1 - memory) * by_label + memory * by_memory)

    def _said(self, found: list[Box]) -> Tensor:
        """(n, classes) what the network said before about the terms that are their texts' own."""
        table = self.material.table
        vectors = [torch.cat([table[_long(b.before)], b.terms[0], table[_long(b.behind)]]) for b in found]
        lengths = torch.tensor([len(text) for text in vectors])
        logits: Tensor = self.material.network(torch.nn.utils.rnn.pad_sequence(vectors, batch_first=True), lengths)
        return logits.softmax(dim=1)


def _cross_entropy(margins: Tensor, labels: Tensor) -> Tensor:
    return functional.cross_entropy(worst_logits(margins, labels), labels, reduction="none")


def _long(words: Words) -> Tensor:
    return torch.from_numpy(words).long()


def _read(
    network: Recurrent, found: list[Box], table: Tensor, size: float, rounding: float = 0.0
) -> tuple[Interval, Tensor]:
    """What the first layer reads from the mention on, (n, words, gates), and lengths (n,).

    `size` 1 is all that the terms can say, 0 what the first of them says.
    """
    low, high = [], []
    for box in found:
        hull, own = read_hull(network, box.terms, rounding), read_hull(network, box.terms[:1], rounding)
        words = table[_long(box.behind)]
        behind = read_bounds(network, words, words, rounding)
        low.append(torch.cat([torch.lerp(own.low, hull.low, size), behind.low]))
        high.append(torch.cat([torch.lerp(own.high, hull.high, size), behind.high]))
    lengths = torch.tensor([len(words) for words in low])
    pad = torch.nn.utils.rnn.pad_sequence
    return Interval(pad(low, batch_first=True), pad(high, batch_first=True)), lengths


def _start(network: Recurrent, found: list[Box], table: Tensor) -> CellState:
    """What the network knows before each mention; nothing where a text begins with it."""
    vectors, lengths = padded_words([b.before if len(b.before) else np.zeros(1, dtype=np.int32) for b in found], table)
    packed = torch.nn.utils.rnn.pack_padded_sequence(vectors, lengths, batch_first=True, enforce_sorted=False)
    _, last = network.layers(packed)
    some = torch.tensor([len(b.before) > 0 for b in found])[:, None]
    return CellState(last[0] * some, last[1] * some) if network.cell == "lstm" else CellState(last * some)


def _agree(exact: CellState, single: CellState) -> Tensor:
    """(n,) whether the states before a mention, in both precisions, differ by less than half of what is allowed for.

    The allowance is not derived from the weights. Where the network's own arithmetic comes near it, nothing is proved.
    """
    allowed = START_ERRORS * FLOAT32_ROUNDING / 2
    near = ((exact.h - single.h).abs() <= allowed).all(dim=2).all(dim=0)
    if exact.c is None or single.c is None:
        return near
    return near & ((exact.c - single.c).abs() <= allowed * (1 + exact.c.abs())).all(dim=2).all(dim=0)


def certified_texts(material: TextMaterial, network: Recurrent, texts: list[MentionText]) -> NDArray[np.bool_]:
    """(n,) true for texts of which it is proved that no exchange of one mention changes the label."""
    found = [
        (number, box) for number, text in enumerate(texts) for m in text.mentions for box in boxes(material, text, m)
    ]
    labels = np.full(len(found), NO_LABEL)
    order = np.argsort([len(box.behind) for _, box in found], kind="stable")
    exact, table = copy.deepcopy(network).double(), material.table.double()
    with one_thread(torch.device("cpu")), torch.no_grad():
        for part in np.split(order, range(CHUNK_BOXES, len(order), CHUNK_BOXES)):
            boxes_here = [found[number][1] for number in part]
            some = [box._replace(terms=box.terms.double()) for box in boxes_here]
            read, lengths = _read(exact, some, table, 1.0, FLOAT32_ROUNDING)
            start = _start(exact, some, table)
            margins = read_margins(exact, read, lengths, FLOAT32_ROUNDING, start)
            sure = _agree(start, _start(network, boxes_here, material.table))
            labels[part] = torch.where(sure, certain_labels(margins), NO_LABEL).numpy()
    of = np.array([number for number, _ in found])
    least, most = np.full(len(texts), labels.max(initial=0)), np.full(len(texts), NO_LABEL)
    np.minimum.at(least, of, labels)
    np.maximum.at(most, of, labels)
    proved: NDArray[np.bool_] = (least == most) & (least != NO_LABEL)
    return proved
