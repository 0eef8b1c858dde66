"""A small search on texts for tests, and the plain way to ask its network about one text."""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from evenhand.choices import Moves, Swap
from evenhand.models.classifier import GradientOf, Outputs
from evenhand.models.text.classifier import RecurrentClassifier, TextClassifier
from evenhand.models.text.recurrent import Cell, Recurrent
from evenhand.search.text_space import CODES, SOURCE, SWAP, Marked, TextSpace, text_space
from evenhand.text.lexicon import Lexicon, ProtectedWords, load_lexicon
from evenhand.text.neighbours import is_replaceable, neighbours
from evenhand.text.tokens import tokenize
from evenhand.text.vectors import WordVectors
from tests.worlds.text import COMMENTS, DIMENSIONS, small_vectors

MOST_WORDS = 12
K = 4
TIE = 1e-4  # closer to even than this, rounding may decide a label

# Long enough to be cut, with terms of several words before the cut, behind it and across it.
LONG_COMMENTS = (
    "The people of Saudi Arabia read the article and the French editors changed it again yesterday, as always.",
    "France: bread, tea and cake from the market are good there, and in Saudi Arabia too.",
    "My friend from Canada told a story on the school in Saudi Arabia, it was great.",
    "In Kenya-Egypt talks (a film!) \"nobody\" said the Polish writer's book isn't bad...",
)


COUNTRIES = ("France", "Saudi Arabia", "Mexico", "India", "Egypt", "Canada")


def countries() -> ProtectedWords:
    """Countries by a noun and an adjective; one has two words, one has no adjective."""
    forms = [
        {
            "name": "country",
            "words": {name: [name] for name in ["France", "Saudi Arabia", "Mexico", "India", "Egypt", "Canada"]},
        },
        {
            "name": "adjective",
            "words": {"France": ["French"], "Mexico": ["Mexican"], "India": ["Indian"], "Egypt": ["Egyptian"]},
        },
    ]
    values = list(forms[0]["words"])
    content = {"name": "mine", "attribute": [{"name": "country", "values": values, "form": forms}]}
    return Lexicon.parse(content, "the test").attributes["country"]


@cache
def protected_words(attribute: str) -> ProtectedWords:
    return countries() if attribute == "country" else load_lexicon("evenhand").attributes[attribute]


@cache
def small_network(cell: Cell, outputs: int = 2, seed: int = 3) -> Recurrent:
    """Random weights, large enough that a word can turn the label; every class is some text's label."""
    torch.manual_seed(seed)
    network = Recurrent(cell, DIMENSIONS, outputs)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(3)
        logits = torch.stack([plain_logits(network, small_vectors(), text) for text in COMMENTS])
        spread = logits.std(dim=0)
        network.head.bias.sub_(logits.median(dim=0).values).div_(spread)
        network.head.weight.div_(spread[:, None])
    return network


@torch.no_grad()
def plain_logits(network: Recurrent, vectors: WordVectors, text: str, most_words: int = MOST_WORDS) -> Tensor:
    """(classes,) torch's own layers on the words of one text alone."""
    numbers = vectors.index(tokenize(text).words[:most_words] or [""])
    words = np.where((numbers >= 0)[:, None], vectors.vectors[numbers], vectors.mean)
    _, last = network.layers(torch.tensor(words)[None])
    state = last[0] if network.cell == "lstm" else last
    logits: Tensor = network.head(state[-1, 0])
    return logits


def plain_label(network: Recurrent, vectors: WordVectors, text: str, most_words: int = MOST_WORDS) -> int:
    """The label of a text as a person reads it."""
    return int(plain_logits(network, vectors, text, most_words).argmax())


def near_tie(logits: Tensor) -> bool:
    """Whether the two highest logits (classes,) are so close that rounding decides."""
    first, second = logits.topk(2).values.tolist()
    return bool(first - second < TIE)


@dataclass(frozen=True)
class TextWorld:
    """Texts with mentions, a network, and the space around the texts."""

    space: TextSpace
    network: Recurrent
    vectors: WordVectors
    k: int
    moves: Moves

    @property
    def words(self) -> ProtectedWords:
        return self.space.texts.words

    def model(self, **options: Any) -> RecurrentClassifier:
        """The network as a search sees it."""
        units = self.space.texts.units
        numbers = self.vectors.index(units.words)
        known = np.where((numbers >= 0)[:, None], self.vectors.vectors[numbers], self.vectors.mean)
        table = torch.tensor(np.concatenate([known, self.vectors.mean[None]]))
        return RecurrentClassifier(self.network, table, units.table(), most_words=MOST_WORDS, **options)

    def seeds(self) -> Tensor:
        """(n, 2 + width) all sources as they were written."""
        return self.space.samples(np.arange(len(self.space.texts.tokens), dtype=np.int32)[:, None])

    def samples(self, n: int, seed: int = 0, swapped: bool = False) -> Tensor:
        """(n, 2 + width) random samples: any source, up to three words moved, with `swapped` also any swap."""
        rng, space = np.random.default_rng(seed), self.space
        x = self.seeds()[rng.integers(0, len(space.texts.tokens), n)]
        for row in x:
            source = int(row[SOURCE])
            for place in rng.integers(0, space.width, 3):
                row[CODES + place] = int(rng.integers(0, int(space.choices[source, place])))
            swaps = [0, *self.swaps(source)]
            row[SWAP] = swaps[rng.integers(0, len(swaps))] if swapped else 0
        return x

    def swaps(self, source: int) -> list[int]:
        """All swaps of a source."""
        first, end = self.space.first_swap[source : source + 2].tolist()
        swaps: list[int] = self.space.swaps[first:end].tolist()
        return swaps

    def render(self, x: Tensor) -> list[str]:
        """Samples as a person reads them."""
        units = self.space.inputs(x)[:, 1:].numpy()
        return [self.space.texts.render(int(row[SOURCE]), unit) for row, unit in zip(x, units, strict=True)]

    def plain_logits(self, x: Tensor) -> Tensor:
        """(n, classes) torch's own layers on the rendered texts, one at a time."""
        return torch.stack([plain_logits(self.network, self.vectors, text) for text in self.render(x)])

    def nearest(self, word: str) -> list[str]:
        """What a word may become, by the plainest reading of the rules."""
        return _nearest(self, word)


@cache
def text_world(
    attribute: str = "religion",
    cell: Cell = "lstm",
    texts: tuple[str, ...] = COMMENTS + LONG_COMMENTS,
    *,
    swap: Swap = "one",
    max_changes: int | None = None,
    moves: Moves = "tokens",
    k: int = K,
    outputs: int = 2,
    device: str = "cpu",
) -> TextWorld:
    """The space around those texts that mention the attribute, as an audit would make it."""
    vectors, words = small_vectors(), protected_words(attribute)
    every = [Marked(tokens, words.mentions(tokens)) for tokens in map(tokenize, texts)]
    read = [replace(text, mentions=[m for m in text.mentions if m.end <= MOST_WORDS]) for text in every]

    def near(wanted: list[str]) -> list[list[str]]:
        with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
            patch.setenv("EVENHAND_CACHE", folder)
            ids = neighbours(vectors, wanted, k, words.all_words, moves=moves)
        return [[vectors.words[number] for number in row if number >= 0] for row in ids]

    space = text_space(
        [text for text in read if text.mentions],
        words,
        near,
        most_tokens=MOST_WORDS,
        swap=swap,
        max_changes=max_changes,
        device=device,
    )
    return TextWorld(space, small_network(cell, outputs), vectors, k, moves)


def _nearest(world: TextWorld, word: str) -> list[str]:
    vectors, protected = world.vectors, world.words.all_words
    if not is_replaceable(word, world.moves) or word in protected or word not in vectors.words:
        return []
    directions = vectors.vectors.astype(np.float64)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    order = np.argsort(-(directions @ directions[vectors.words.index(word)]), kind="stable")
    others = [vectors.words[number] for number in order if vectors.words[number] not in protected | {word}]
    usable = [other for other in others if is_replaceable(other, world.moves)]
    return [other for other in usable if other[0].isalnum() or not word[0].isalnum()][: world.k]


def space_of(
    texts: Sequence[str],
    words: ProtectedWords,
    nearest: dict[str, list[str]] | None = None,
    *,
    swap: Swap = "one",
    most_tokens: int = 100,
    max_changes: int | None = None,
) -> TextSpace:
    """The space around texts in which words may become those that are given for them."""
    marked = [Marked(tokens, words.mentions(tokens)) for tokens in map(tokenize, texts)]
    return text_space(
        marked,
        words,
        lambda wanted: [(nearest or {}).get(word, []) for word in wanted],
        most_tokens=most_tokens,
        swap=swap,
        max_changes=max_changes,
    )


def sample(space: TextSpace, source: int = 0, swap: int = 0, codes: dict[int, int] | None = None) -> Tensor:
    """(1, 2 + width) a sample with some words replaced."""
    x = space.samples(np.array([[source]], dtype=np.int32))
    x[0, SWAP] = swap
    for place, code in (codes or {}).items():
        x[0, CODES + place] = code
    return x


class ByHand(TextClassifier):
    """A model that says what it is told: the log-odds of class 1 and, for each word, a gradient at the label."""

    device = torch.device("cpu")
    chunk_rows = 1000

    def __init__(
        self,
        space: TextSpace,
        vectors: dict[str, list[float]],
        odds: Callable[[list[str]], float],
        gradient: Callable[[list[str], int], list[list[float]]],
    ) -> None:
        self.surfaces = space.texts.units.surfaces
        width = len(next(iter(vectors.values())))
        self.vectors = torch.tensor([vectors.get(surface, [0.0] * width) for surface in self.surfaces])
        self.odds, self.gradient = odds, gradient

    def words(self, x: Tensor) -> list[list[str]]:
        return [[self.surfaces[unit] for unit in row if unit >= 0] for row in x[:, 1:].tolist()]

    def outputs(self, x: Tensor) -> Outputs:
        odds = torch.tensor([self.odds(words) for words in self.words(x)])
        return Outputs((odds > 0).long(), torch.stack([torch.sigmoid(-odds), torch.sigmoid(odds)], dim=1))

    def outputs_from(
        self,
        x: Tensor,
        of: Tensor,  # noqa: ARG002 - nothing is shared here
        place: Tensor,  # noqa: ARG002
        near: Tensor,
    ) -> tuple[Outputs, Outputs]:
        return self.outputs(x), self.outputs(near)

    def gradients(self, x: Tensor, y: Tensor, of: GradientOf = "loss") -> Tensor:  # noqa: ARG002 - whatever it is
        return torch.tensor(
            [self.gradient(words, label) for words, label in zip(self.words(x), y.tolist(), strict=True)]
        )
