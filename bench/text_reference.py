"""ADF on text, one text at a time, as plainly as it can be written: what batched search is checked and timed against.

It shares with the package the network, the words and the random numbers, nothing else: a text is a list of strings, the
network is torch's own, and every variant is read from its first word to its last.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from evenhand.methods.text_adf import Rule
from evenhand.models.text.recurrent import Recurrent
from evenhand.search.draws import Draws
from evenhand.search.recorder import PHASES
from evenhand.search.text_space import Marked
from evenhand.search.walk import ACCEPTANCE_DRAW, DRAWS_PER_STEP, SMALLEST_SALIENCY
from evenhand.text.lexicon import ProtectedWords
from evenhand.text.texts import unit_ranges
from evenhand.text.tokens import tokenize

Text = list[str]  # words, signs and protected terms
Swap = tuple[int, str]  # the place of a protected term, and the term of another value


@dataclass(frozen=True)
class Source:
    """A text to start from, and what may stand in the place of each of its words."""

    words: Text
    options: list[Text]  # the word itself and those nearest to it; alone where it may not move
    swaps: list[Swap]
    protected: set[int]  # the places of the protected terms


class Verdict(NamedTuple):
    """What a check says: the text's own label, the swap that makes its pair, whether that is a witness."""

    label: int
    swap: Swap | None  # None where a text has no variant at all
    hit: bool


def source_of(text: Marked, words: ProtectedWords, nearest: dict[str, Text], most_words: int) -> Source:
    """Cut a text into words and protected terms. `nearest` has the words that each may become.

    What the network does not read of a text never moves; a shorter term may move it up into sight.
    """
    terms = {mention.start: mention for mention in text.mentions}
    options: list[Text] = []
    swaps: list[Swap] = []
    protected = set()
    for place, (start, _) in enumerate(unit_ranges(text.tokens, {m.start: m.end for m in text.mentions}, most_words)):
        mention = terms.get(start)
        if mention is None:
            word = text.tokens.words[start]
            options.append([word, *(nearest.get(word, []) if start < most_words else [])])
        else:
            of_values = [words.replacement(mention, value) for value in range(len(words.values))]
            options.append([str(of_values[mention.value])])
            swaps += [(place, term) for value, term in enumerate(of_values) if term and value != mention.value]
            protected.add(place)
    return Source([own[0] for own in options], options, swaps, protected)


@dataclass
class TextReference:
    """The paper's Algorithms 1, 2, 5 to 8 and 10 for texts, one mention swapped at a time.

    With `first_witness` a check ends at the first witness, as in Algorithm 2. Without, it keeps the witness of the
    text that the walk came from, or takes the most different of all: the choice of the batched search.
    """

    network: Recurrent
    numbers: dict[str, int]  # the row of `vectors` for each word
    vectors: Tensor  # (words + 1, e) the last for words that have none
    sources: Sequence[Source]
    most_words: int
    seed: int
    accept_failed: float
    rule: Rule = "asc"
    first_witness: bool = True
    iterations: int = 10
    steps: int = 1000
    local_changes: int | None = None  # words that a local walk may change beyond those of the finding it starts from
    asked: int = 0  # texts that the network read
    generated: set[tuple[str, ...]] = field(default_factory=set)
    found: set[tuple[str, ...]] = field(default_factory=set)
    trail: list[tuple[str, int, int, Text, bool]] = field(default_factory=list)  # phase, row, step, text, hit

    def __post_init__(self) -> None:
        self.network.eval()
        terms = {term for source in self.sources for _, term in source.swaps}
        terms |= {source.words[place] for source in self.sources for place in source.protected}
        self.words_of = {term: tokenize(term).words for term in terms}

    def run(self, rows: Sequence[int]) -> None:
        """Both phases for the sources of these numbers."""
        for row in rows:
            finding = self.global_search(row)
            if finding is not None:
                self.local_search(row, *finding)

    def global_search(self, row: int) -> tuple[Text, Verdict] | None:
        """Algorithm 1 for one seed."""
        source = self.sources[row]
        x = source.words
        for iteration in range(self.iterations):
            verdict = self.look(source, x, None, ("global", row, iteration))
            if verdict.hit:
                return x, verdict
            if iteration < self.iterations - 1:
                g, g_pair = self.gradients(x, verdict)
                x = self.asc(source, x, g, g_pair) if self.rule == "asc" else self.hotflip(source, x, g - g_pair)
        return None

    def local_search(self, row: int, x: Text, at: Verdict, steps: int | None = None) -> None:
        """Algorithm 7 for one finding."""
        source = self.sources[row]
        most = len(x) if self.local_changes is None else changes(source, x) + self.local_changes
        draws = Draws(self.seed, PHASES.index("local"), torch.tensor([row]), DRAWS_PER_STEP)
        for step in range(self.steps if steps is None else steps):
            g, g_pair = self.gradients(x, at)
            place = self.pick(free(source, x, most), g, g_pair, draws.step(step, 0).item())
            neighbour = self.random_word(source, x, place, draws.step(step, 1).item())
            verdict = self.look(source, neighbour, at.swap, ("local", row, step))
            if verdict.hit or draws.step(step, ACCEPTANCE_DRAW).item() < self.accept_failed:
                x, at = neighbour, verdict

    def look(self, source: Source, x: Text, near: Swap | None, when: tuple[str, int, int]) -> Verdict:
        """Check a text and count it; two that differ in protected terms only are one."""
        verdict = self.check(source, x, near)
        key = tuple("" if place in source.protected else word for place, word in enumerate(x))
        self.generated.add(key)
        if verdict.hit:
            self.found.add(key)
        self.trail.append((*when, x, verdict.hit))
        return verdict

    def check(self, source: Source, x: Text, near: Swap | None = None) -> Verdict:
        """Algorithm 2; without a witness the pair is the variant whose score differs most, as Algorithm 1 wants it."""
        scores = self.scores(x)
        label = int(scores.argmax())
        best, pair = (False, -1.0), None
        for swap in source.swaps if self.first_witness else self.likeliest_first(source, near):
            others = self.scores(swapped(x, swap))
            differs = int(others.argmax()) != label
            rank = (differs, abs(others[label].item() - scores[label].item()))
            if rank > best:
                best, pair = rank, swap
            if differs and (self.first_witness or swap == near):
                break
        return Verdict(label, pair, best[0])

    def likeliest_first(self, source: Source, near: Swap | None) -> Iterator[Swap]:
        """The witness of the text that the walk came from, then the other swaps."""
        if near is not None:
            yield near
        yield from (swap for swap in source.swaps if swap != near)

    def asc(self, source: Source, x: Text, g: Tensor, g_pair: Tensor) -> Text:
        """Algorithm 5, with sign(c - x_a) as in the package, since the gradients are those of the loss."""
        places = free(source, x, len(x))
        if not places:
            return x
        place = max(places, key=lambda a: (g[a] - g_pair[a]).abs().max().item())
        here, signs = self.vector(x[place]), g[place].sign()
        others = [word for word in source.options[place] if word != x[place]]
        best = min(others, key=lambda word: ((self.vector(word) - here).sign() - signs).square().sum().item())
        return [*x[:place], best, *x[place + 1 :]]

    def hotflip(self, source: Source, x: Text, difference: Tensor) -> Text:
        """Algorithm 6: the largest estimated change of the losses' difference."""
        best, moved = -1.0, x
        for place in free(source, x, len(x)):
            here = self.vector(x[place])
            for word in source.options[place]:
                change = abs((difference[place] @ (self.vector(word) - here)).item())
                if word != x[place] and change > best:
                    best, moved = change, [*x[:place], word, *x[place + 1 :]]
        return moved

    def pick(self, places: list[int], g: Tensor, g_pair: Tensor, number: float) -> int | None:
        """Algorithm 8: the place in whose share of the total reciprocal saliency the number falls."""
        saliency = (g.abs().amax(dim=1) + g_pair.abs().amax(dim=1)).tolist()
        weights = [1 / max(saliency[place], SMALLEST_SALIENCY) for place in places]
        mark, reach = number * sum(weights), 0.0
        for place, weight in zip(places, weights, strict=True):
            reach += weight
            if reach > mark:
                return place
        return places[-1] if places else None

    def random_word(self, source: Source, x: Text, place: int | None, number: float) -> Text:
        """Algorithm 10; a text without any word that may move stays as it is."""
        if place is None:
            return x
        others = [word for word in source.options[place] if word != x[place]]
        return [*x[:place], others[int(number * len(others))], *x[place + 1 :]]

    def vector(self, word: str) -> Tensor:
        """(e,) the vector of a word."""
        return self.vectors[self.numbers.get(word, -1)]

    @torch.no_grad()
    def scores(self, x: Text) -> Tensor:
        """(classes,) what the network says about one text."""
        return functional.softmax(self.logits(self.read(x)[0]), dim=0)

    def gradients(self, x: Text, verdict: Verdict) -> tuple[Tensor, Tensor]:
        """(places, e) each: of the loss at the text's label, by the words of the text and of its pair."""
        pair = x if verdict.swap is None else swapped(x, verdict.swap)
        return self.gradient(x, verdict.label), self.gradient(pair, verdict.label)

    def gradient(self, x: Text, label: int) -> Tensor:
        """(places, e) a term of several words gets the sum of theirs."""
        vectors, places = self.read(x)
        logits = self.logits(vectors.requires_grad_(True))
        # In double: where the network is very sure, 1 - softmax would lose its digits.
        loss = functional.cross_entropy(logits.double(), torch.tensor(label))
        (by_word,) = torch.autograd.grad(loss, vectors)
        return torch.zeros(len(x), by_word.shape[1]).index_add(0, places, by_word)

    def read(self, x: Text) -> tuple[Tensor, Tensor]:
        """(words, e) the vectors of a text's words, and (words,) the place that each word belongs to."""
        words = [(word, place) for place, unit in enumerate(x) for word in self.words_of.get(unit, [unit])]
        words = words[: self.most_words]
        rows = [self.numbers.get(word, -1) for word, _ in words]
        return self.vectors[rows], torch.tensor([place for _, place in words])

    def logits(self, vectors: Tensor) -> Tensor:
        """(classes,) from torch's own layers, without batching."""
        self.asked += 1
        outputs, _ = self.network.layers(vectors[None])
        logits: Tensor = self.network.head(outputs[0, -1])
        return logits


def free(source: Source, x: Text, most: int) -> list[int]:
    """The places whose words may move; after `most` changes only words that were changed before."""
    may_change = changes(source, x) < most
    places = [place for place, options in enumerate(source.options) if len(options) > 1]
    return [place for place in places if may_change or x[place] != source.words[place]]


def changes(source: Source, x: Text) -> int:
    """How many words differ from the source."""
    return sum(word != own for word, own in zip(x, source.words, strict=True))


def swapped(x: Text, swap: Swap) -> Text:
    """A text with a protected term of another value."""
    place, term = swap
    return [*x[:place], term, *x[place + 1 :]]
