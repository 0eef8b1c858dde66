"""From a corpus and a lexicon to a space that a search can walk in."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray

from evenhand.choices import Ambiguous
from evenhand.errors import EvenhandError
from evenhand.models.text.classifier import TextClassifier
from evenhand.models.text.loading import TextModel
from evenhand.search.text_space import Marked, TextSpace, text_space
from evenhand.text.corpus import Corpus
from evenhand.text.lexicon import Mention, ProtectedWords
from evenhand.text.neighbours import neighbours
from evenhand.text.tokens import tokenize
from evenhand.text.vectors import WordVectors

SHOWN_WORDS = 8
GRADIENT_NUMBERS = 10_000_000  # that walks which step together hold for their texts, and as many for the pairs
FEWEST_WALKS = 16


@dataclass(frozen=True)
class Sources:
    """Texts of a corpus that mention a protected attribute."""

    rows: NDArray[np.int64]  # (n,) of the corpus
    texts: list[Marked]

    def __len__(self) -> int:
        return len(self.texts)


@dataclass(frozen=True)
class TextSearchWorld:
    """Texts, what a search may do with them, and the model that it asks about them."""

    sources: Sources
    space: TextSpace
    model: TextClassifier

    @cached_property
    def vectors(self) -> NDArray[np.float32]:
        """The model's vectors of words, for measures of how far texts are apart."""
        return self.model.vectors.cpu().numpy()

    @property
    def samples(self) -> NDArray[np.int32]:
        """(n, 1) the texts by their numbers, as seeds of a search."""
        return np.arange(len(self.sources), dtype=np.int32)[:, None]

    @property
    def rows(self) -> NDArray[np.int64]:
        """(n,) the rows of the corpus that they are."""
        return self.sources.rows


class Mentions:
    """Finds the texts of a corpus that mention a protected attribute."""

    def __init__(self, corpus: Corpus, words: ProtectedWords, most_tokens: int, ambiguous: Ambiguous = "keep") -> None:
        self.corpus, self.words, self.most_tokens, self.ambiguous = corpus, words, most_tokens, ambiguous
        sieve = pc.match_substring_regex(corpus.texts, words.pattern)
        self.likely = np.asarray(sieve.to_numpy(zero_copy_only=False), dtype=bool)  # (n,) never misses a mention

    @property
    def what(self) -> str:
        """The attribute as a sentence has it."""
        return self.words.name.replace("_", " ")

    def among(self, which: NDArray[np.bool_]) -> "Mentions":
        """The same with other texts (n,) for training ones."""
        mentions = copy.copy(self)
        mentions.corpus = replace(self.corpus, train=which)
        return mentions

    def choose(self, train: bool, count: int, seed: int) -> Sources:
        """Up to `count` texts in a random order, no two of them alike up to their protected terms."""
        rows = np.flatnonzero(self.likely & (self.corpus.train == train))
        chosen: list[tuple[int, Marked]] = []
        seen: set[tuple[str, ...]] = set()
        for row, text in self._marked(np.random.default_rng([seed, int(train)]).permutation(rows)):
            key = masked(text)
            if key not in seen:
                seen.add(key)
                chosen.append((row, text))
            if len(chosen) == count:
                break
        return Sources(np.array([row for row, _ in chosen], dtype=np.int64), [text for _, text in chosen])

    def _marked(self, rows: NDArray[np.int64]) -> Iterator[tuple[int, Marked]]:
        for row in rows.tolist():
            if (text := self.marked(self.corpus.text(row))) is not None:
                yield row, text

    def marked(self, text: str) -> Marked | None:
        """A text with its mentions; None where none of them can be changed."""
        tokens = tokenize(text)
        mentions = [m for m in self.words.mentions(tokens, self.ambiguous) if m.end <= self.most_tokens]
        return Marked(tokens, mentions) if any(self._has_variant(mention) for mention in mentions) else None

    def _has_variant(self, mention: Mention) -> bool:
        others = (value for value in range(len(self.words.values)) if value != mention.value)
        return any(self.words.replacement(mention, value) is not None for value in others)

    def nothing(self, which: str = "training text") -> EvenhandError:
        """What to say where no text mentions the attribute."""
        terms = [term for value in range(len(self.words.values)) for term in self.words.terms_of(value)]
        shown = ", ".join(terms[:SHOWN_WORDS]) + (", …" if len(terms) > SHOWN_WORDS else "")
        return EvenhandError(
            f"No {which} of {self.corpus.name} mentions {self.what} in its first {self.most_tokens} "
            f"words. The lexicon looks for: {shown}. Choose another attribute or lexicon, or check the text column."
        )


def masked(text: Marked) -> tuple[str, ...]:
    """The words of a text with its protected terms struck out."""
    words, at = [], 0
    for mention in text.mentions:
        words += [*text.tokens.words[at : mention.start], ""]
        at = mention.end
    return (*words, *text.tokens.words[at:])


def search_world(
    sources: Sources,
    words: ProtectedWords,
    vectors: WordVectors,
    model: TextModel,
    settings: Any,
    device: torch.device,
) -> TextSearchWorld:
    """The space around texts and the model that reads it."""

    def nearest(of: list[str]) -> list[list[str]]:
        found = neighbours(vectors, of, settings.k, words.all_words, settings.same_part_of_speech, settings.moves)
        return [[vectors.words[number] for number in row if number >= 0] for row in found]

    space = text_space(
        sources.texts,
        words,
        nearest,
        most_tokens=model.most_words,
        swap=settings.swap,
        max_changes=settings.max_changes,
        local_changes=settings.local_changes,
        device=device,
    )
    classifier = model.classifier(space.texts, device, settings.chunk_rows)
    space.block_walks = max(FEWEST_WALKS, GRADIENT_NUMBERS // (space.width * classifier.vectors.shape[1]))
    return TextSearchWorld(sources, space, classifier)


def still_world(
    sources: Sources, words: ProtectedWords, model: TextModel, settings: Any, device: torch.device
) -> TextSearchWorld:
    """Texts that only their protected terms may change: for the rate among texts as they were written."""
    space = text_space(
        sources.texts,
        words,
        lambda of: [[] for _ in of],
        most_tokens=model.most_words,
        swap=settings.swap,
        device=device,
    )
    return TextSearchWorld(sources, space, model.classifier(space.texts, device, settings.chunk_rows))
