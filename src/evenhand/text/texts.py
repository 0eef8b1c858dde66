"""The texts that a search starts from, as units: a word, a sign, or a protected term of one or more words.

A unit has one place however many words it has, so that a search can exchange "France" for "Saudi Arabia" without moving
the rest of the text. A text in the search is its source's number and a row of unit numbers; wherever a unit is the
source's own, the source's own characters are kept.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from unicodedata import category

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from evenhand.text.lexicon import Mention, ProtectedWords
from evenhand.text.tokens import Tokens, match_case, replace_tokens, tokenize

NOTHING = -1  # fills rows of units, and of words, to one length
_APOSTROPHES = ("'", "’")


class Units:
    """All units that a search may write, each with its words."""

    def __init__(self) -> None:
        self.surfaces: list[str] = []
        self.words: list[str] = []
        self._unit: dict[str, int] = {}
        self._word: dict[str, int] = {}
        self._words_of: list[list[int]] = []

    def __len__(self) -> int:
        return len(self.surfaces)

    def number(self, surface: str, words: Sequence[str] | None = None) -> int:
        """The unit's number; a new one where it is seen for the first time. A single word is its own only word."""
        if surface not in self._unit:
            self._unit[surface] = len(self.surfaces)
            self.surfaces.append(surface)
            self._words_of.append([self._word_number(word) for word in words or [surface]])
        return self._unit[surface]

    def _word_number(self, word: str) -> int:
        if word not in self._word:
            self._word[word] = len(self.words)
            self.words.append(word)
        return self._word[word]

    def table(self) -> Tensor:
        """(units, most words of a unit) the numbers of each unit's words."""
        width = max(map(len, self._words_of))
        return torch.tensor([[*words, *[NOTHING] * (width - len(words))] for words in self._words_of])


@dataclass(frozen=True)
class SearchTexts:
    """Source texts cut into units."""

    tokens: list[Tokens]
    ranges: list[list[tuple[int, int]]]  # of each source, the tokens of each unit
    units: Units
    rows: NDArray[np.int32]  # (sources, width) the units of each source
    words: ProtectedWords
    mentions: list[dict[int, Mention]]  # of each source, the protected terms by the token that they start at
    values: dict[int, int]  # the protected value that a unit names

    def render(self, source: int, row: NDArray[np.integer[Any]]) -> str:
        """A text of the search as a person reads it: the source with the changed units in the source's own case."""
        tokens, ranges = self.tokens[source], self.ranges[source]
        replacements: dict[tuple[int, int], str] = {}
        for place in np.flatnonzero(row != self.rows[source]):
            start, end = ranges[place]
            mention = self.mentions[source].get(start)
            if mention is not None:
                surface = self.words.surface(tokens, mention, self.values[int(row[place])])
            else:
                surface = match_case(self.units.surfaces[row[place]], tokens.surface(start, end))
            before = replacements.get(ranges[place - 1], "")
            replacements[start, end] = _apart(tokens, start, end, surface or "", before)
        return replace_tokens(tokens, replacements)


def _apart(tokens: Tokens, start: int, end: int, surface: str, before: str) -> str:
    """A word in the place of a sign gets a space where it would run into the next word.

    So does a word behind a contraction and an apostrophe ("don't'go"), which could become another contraction's end.
    `before` is what was written in the place of the unit before it, if it was replaced, too.
    """
    text, left, right = tokens.text, tokens.spans[start][0], tokens.spans[end - 1][1]
    beside = text[left - 1 : left]
    if _in_word(text[left]):
        joins_left = beside in _APOSTROPHES and _joins(text[left - 2 : left - 1])
    else:
        joins_left = _joins(before[-1] if before and not beside.isspace() else beside)
    joins_right = not _in_word(text[right - 1]) and _joins(text[right : right + 1])
    return " " * (joins_left and surface[:1].isalnum()) + surface + " " * (joins_right and surface[-1:].isalnum())


def _joins(character: str) -> bool:
    """Whether a character, or none, would be read with a word beside it."""
    return character in _APOSTROPHES or (character != "" and _in_word(character))


def _in_word(character: str) -> bool:
    return character.isalnum() or category(character)[0] == "M"


def unit_ranges(tokens: Tokens, terms: dict[int, int], most_words: int) -> list[tuple[int, int]]:
    """Ranges of tokens that make the units of a text; `terms` says where a term starts and ends.

    There are as many units as a model reads words, so that what follows is there to move up when "France" stands in
    the place of "Saudi Arabia".
    """
    ranges: list[tuple[int, int]] = []
    at = 0
    while at < len(tokens.words) and len(ranges) < most_words:
        end = terms.get(at, at + 1)
        ranges.append((at, end))
        at = end
    return ranges


def unit_numbers(units: Units, tokens: Tokens, ranges: list[tuple[int, int]], names: Mapping[int, str]) -> list[int]:
    """The number of each unit of a text; `names` has the lexicon's own writing of the terms that start at a token."""
    return [
        term_number(units, names[start]) if start in names else units.number(tokens.words[start]) for start, _ in ranges
    ]


def term_number(units: Units, surface: str) -> int:
    """The number of a term as a lexicon writes it."""
    return units.number(surface, tokenize(surface).words)
