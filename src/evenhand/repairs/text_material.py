"""What a repair of a text classifier learns from: training texts, their variants for other values, and findings."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray
from torch import Tensor

from evenhand.choices import Ambiguous
from evenhand.errors import EvenhandError
from evenhand.models.text.classifier import TextClassifier
from evenhand.models.text.recurrent import Recurrent
from evenhand.repairs.votes import own_votes
from evenhand.search.text_space import SOURCE, TextSpace
from evenhand.text.corpus import Corpus
from evenhand.text.lexicon import Mention, ProtectedWords
from evenhand.text.neighbours import neighbours
from evenhand.text.tokens import tokenize
from evenhand.text.vectors import WordVectors

Words = NDArray[np.int32]  # (words,) rows of the vectors; the number of vectors itself stands for an unknown word
NEAR = 10  # near words of a word, as in a search's defaults


class FoundPair(NamedTuple):
    """A finding of a search on training texts: its words, those of its witness, and the label that both should get."""

    text: list[str]
    witness: list[str]
    label: int


class MentionText(NamedTuple):
    """A training text that mentions the attribute: all its words, and its mentions among those that are read."""

    row: int  # of the corpus
    label: int
    words: Words
    mentions: list[Mention]


@dataclass(frozen=True)
class TextMaterial:
    """All that a repair starts from. It learns from the training texts of the corpus only."""

    network: Recurrent
    vectors: WordVectors
    most_words: int
    corpus: Corpus
    words: ProtectedWords
    ambiguous: Ambiguous = "keep"
    findings: Sequence[FoundPair] = ()

    @cached_property
    def table(self) -> Tensor:
        """(vectors + 1, e) with the mean vector, for unknown words, as the last row."""
        return torch.cat([torch.tensor(np.asarray(self.vectors.vectors)), torch.tensor(self.vectors.mean)[None]])

    def numbers(self, words: Sequence[str]) -> Words:
        """The numbers of some words; no word at all is an unknown one."""
        found = self.vectors.index(list(words) or [""])
        return np.where(found < 0, len(self.vectors), found).astype(np.int32)

    @cached_property
    def class_weight(self) -> Tensor:
        """(classes,) with which both classes of the training texts weigh alike, as when the network was made."""
        counts = np.bincount(self.corpus.labels[self.corpus.train], minlength=len(self.corpus.classes))
        if not counts.all():
            raise EvenhandError(f"A repair needs training texts of both classes; {self.corpus.name} has one only.")
        return torch.tensor(counts.sum() / (len(counts) * counts), dtype=torch.float32)

    @cached_property
    def mentioning(self) -> list[MentionText]:
        """The training texts that mention the attribute with a variant, in the corpus' order."""
        found = self.marked(np.flatnonzero(self.corpus.train))
        if not found:
            raise EvenhandError(
                f"No training text of {self.corpus.name} mentions {self.words.name.replace('_', ' ')} in its first "
                f"{self.most_words} words, so there is nothing to learn a repair from. Choose another attribute."
            )
        return found

    def marked(self, rows: NDArray[np.int64]) -> list[MentionText]:
        """Those of some texts that mention the attribute with a variant."""
        sieve = pc.match_substring_regex(self.corpus.texts.take(rows), self.words.pattern)
        likely = rows[np.asarray(sieve.to_numpy(zero_copy_only=False), dtype=bool)]
        return [text for row in likely.tolist() if (text := self._marked(row)).mentions]

    def _marked(self, row: int) -> MentionText:
        tokens = tokenize(self.corpus.text(row))
        mentions = [m for m in self.words.mentions(tokens, self.ambiguous) if m.end <= self.most_words]
        mentions = [m for m in mentions if len(self.values_of([m])) > 1]
        return MentionText(row, int(self.corpus.labels[row]), self.numbers(tokens.words), mentions)

    def values_of(self, mentions: Sequence[Mention]) -> list[int]:
        """The values that all of these mentions may name."""
        values = range(len(self.words.values))
        return [v for v in values if all(self.words.replacement_words(m, v) is not None for m in mentions)]

    def term(self, mention: Mention, value: int) -> Words:
        """The words of a value in a mention's form."""
        key = self.words.replacement_words(mention, value)
        assert key is not None, "only values of `values_of`"
        return self.numbers(key)

    def with_value(self, text: MentionText, mentions: Sequence[Mention], value: int) -> Words:
        """The words that are read of a text in which some mentions name another value; from left to right."""
        parts: list[Words] = []
        at = 0
        for mention in mentions:
            parts += [text.words[at : mention.start], self.term(mention, value)]
            at = mention.end
        return np.concatenate([*parts, text.words[at:]])[: self.most_words]


class NearWords:
    """The words that may stand for others in a search, so that a repair also holds where words were replaced."""

    def __init__(self, material: TextMaterial) -> None:
        words = np.unique(np.concatenate([text.words for text in material.mentioning]))
        known = words[words < len(material.vectors)]
        protected = material.words.all_words
        near = neighbours(material.vectors, [material.vectors.words[w] for w in known], NEAR, protected, moves="tokens")
        self._row = np.full(len(material.vectors) + 1, -1, dtype=np.int32)
        self._row[known] = np.arange(len(known))
        self._near = near

    def moved(self, text: MentionText, changes: int, most_words: int, rng: np.random.Generator) -> MentionText:
        """The text with some of its words replaced by near ones; protected words have none."""
        words = text.words.copy()
        for place in rng.integers(0, min(len(words), most_words), changes):
            row = self._row[words[place]]
            choice = -1 if row < 0 else self._near[row, rng.integers(NEAR)]
            if choice >= 0 and not any(m.start <= place < m.end for m in text.mentions):
                words[place] = choice
        return text._replace(words=words)


def padded_words(sequences: Sequence[Words], table: Tensor) -> tuple[Tensor, Tensor]:
    """(n, words, e) vectors, filled up with whatever, and (n,) lengths: as a network reads them."""
    lengths = np.array([len(words) for words in sequences])
    numbers = np.zeros((len(sequences), lengths.max()), dtype=np.int64)
    for row, words in enumerate(sequences):
        numbers[row, : len(words)] = words
    return table[torch.from_numpy(numbers)], torch.from_numpy(lengths)


def found_pairs(space: TextSpace, model: TextClassifier, samples: Tensor, swaps: Tensor) -> list[FoundPair]:
    """Findings (n, 2 + width) and their witnesses' swaps (n,) as words, each pair with one label.

    The label is that of most of the sample's variants by the model's own votes, the sample's among them; where two
    labels have as many votes, the one with the higher mean score. The paper asks several networks instead.
    """
    pairs: list[FoundPair] = []
    for at in torch.split(torch.arange(len(samples)), space.chunks(samples, model.chunk_rows)):
        x = samples[at]
        labels = own_votes(space, model, x)
        texts, witnesses = _words(space, x), _words(space, space.with_combination(x, swaps[at]))
        pairs += map(FoundPair, texts, witnesses, labels.tolist())
    return pairs


def _words(space: TextSpace, x: Tensor) -> list[list[str]]:
    units = space.inputs(x)[:, 1:].cpu().numpy().astype(np.int32)
    sources = x[:, SOURCE].tolist()
    return [tokenize(space.texts.render(source, row)).words for source, row in zip(sources, units, strict=True)]
