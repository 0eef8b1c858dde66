"""The ways in which a recurrent network may read a text: as it is, or so that no exchange of protected terms matters.

Of the latter, one does not read protected terms, one reads all of them. What is not a protected term is read as before,
so other words that hint at a group still count.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from evenhand.choices import Ambiguous
from evenhand.models.classifier import GradientOf, Outputs
from evenhand.models.text.classifier import RecurrentClassifier, TextClassifier, word_vectors
from evenhand.models.text.recurrent import Recurrent
from evenhand.text.lexicon import Key, Mention, ProtectedWords, key_of
from evenhand.text.texts import NOTHING, SearchTexts, term_number
from evenhand.text.tokens import Tokens, tokenize
from evenhand.text.vectors import WordVectors

UNREAD = ""  # no word at all, so its vector is that of unknown words
NO_MENTION = -1
SMALLEST = 1e-30


def terms_of(words: ProtectedWords) -> frozenset[Key]:
    """All terms of an attribute as the tokenizer cuts them."""
    every = range(len(words.values))
    return frozenset(key_of(term) for value in every for term in words.terms_of(value))


def without_terms(words: Sequence[str], terms: frozenset[Key]) -> list[str]:
    """Words with every term, the longest at each place and whatever stands around it, as one unknown word."""
    longest = max(map(len, terms), default=0)
    read: list[str] = []
    at = 0
    while at < len(words):
        sizes = range(min(longest, len(words) - at), 0, -1)
        size = next((size for size in sizes if tuple(words[at : at + size]) in terms), 0)
        read.append(UNREAD if size else words[at])
        at += size or 1
    return read


@dataclass(frozen=True)
class RecurrentText:
    """A recurrent network with the word vectors that it was trained on, and a way to read texts."""

    name: str
    network: Recurrent
    vectors: WordVectors
    most_words: int

    @property
    def kind(self) -> str:
        """Which cell."""
        return self.network.cell

    def readings(self, text: str) -> list[list[str]]:
        """The words that the network reads of a text, once for each reading whose scores are averaged."""
        raise NotImplementedError

    def classifier(self, texts: SearchTexts, device: torch.device, chunk_rows: int | None) -> TextClassifier:
        """The network over the vectors of the words that the texts may hold."""
        return self._over(texts, texts.units.table(), device, chunk_rows)

    def _over(
        self, texts: SearchTexts, table: Tensor, device: torch.device, chunk_rows: int | None
    ) -> RecurrentClassifier:
        """The network over units, of which `table` says the words."""
        vectors = word_vectors(texts.units, self.vectors)
        return RecurrentClassifier(
            self.network, vectors, table, most_words=self.most_words, device=device, chunk_rows=chunk_rows
        )


@dataclass(frozen=True)
class RecurrentModel(RecurrentText):
    """A recurrent network that reads texts as they are."""

    def readings(self, text: str) -> list[list[str]]:
        """The first words of a text."""
        return [tokenize(text).words[: self.most_words] or [UNREAD]]


@dataclass(frozen=True)
class BlindModel(RecurrentText):
    """A recurrent network that reads every protected term as one and the same unknown word.

    A term is one wherever it stands, also within a phrase that means something else ("White House"). In a search, a
    term of several words is one where the search marks it as a mention, or where it is a unit.
    """

    attribute: str
    terms: frozenset[Key]

    def readings(self, text: str) -> list[list[str]]:
        """The first words of a text without its terms."""
        return [without_terms(tokenize(text).words, self.terms)[: self.most_words] or [UNREAD]]

    def classifier(self, texts: SearchTexts, device: torch.device, chunk_rows: int | None) -> RecurrentClassifier:
        """The network over units of which those that are terms have one word, the unknown one."""
        table = texts.units.table()
        hidden = torch.tensor([key_of(surface) in self.terms for surface in texts.units.surfaces])
        table[hidden] = NOTHING
        table[hidden, 0] = len(texts.units.words)  # the row behind all words is that of unknown ones
        return self._over(texts, table, device, chunk_rows)


@dataclass(frozen=True)
class AveragedTextModel(RecurrentText):
    """The mean of a recurrent network's scores of a text in which all mentions name one value, over some values.

    A value that lacks the form of one of a text's mentions is left out for that text; where none is left, each mention
    gets the first value that has its form. A search exchanges terms within the form that a mention had in the text it
    began with, and no such exchange changes the mean; a person who writes the exchanged text anew may be read in
    another form ("atheist", a noun or an adjective), and then the mean is over other words.
    """

    lexicon: str  # where the words are from: a name, or a file's path
    words: ProtectedWords
    values: tuple[int, ...]  # that are averaged over
    ambiguous: Ambiguous = "keep"

    def mentions(self, tokens: Tokens) -> list[Mention]:
        """The mentions that are read."""
        return [m for m in self.words.mentions(tokens, self.ambiguous) if m.end <= self.most_words]

    def terms(self, mentions: Sequence[Mention]) -> list[list[str]]:
        """The terms for all of a text's mentions, once for each value that is averaged over."""
        if not mentions:
            return [[]]
        each = [[self.words.replacement(mention, value) for mention in mentions] for value in self.values]
        complete = [[term for term in terms if term is not None] for terms in each]
        found = [terms for terms in complete if len(terms) == len(mentions)]
        return found or [[self._first(mention) for mention in mentions]]

    def _first(self, mention: Mention) -> str:
        every = (self.words.replacement(mention, value) for value in range(len(self.words.values)))
        return next(term for term in every if term is not None)

    def readings(self, text: str) -> list[list[str]]:
        """The first words of a text, once for each value."""
        tokens = tokenize(text)
        mentions = self.mentions(tokens)
        readings = []
        for terms in self.terms(mentions):
            words, at = [], 0
            for mention, term in zip(mentions, terms, strict=True):
                words += [*tokens.words[at : mention.start], *key_of(term)]
                at = mention.end
            readings.append([*words, *tokens.words[at:]][: self.most_words] or [UNREAD])
        return readings

    def classifier(self, texts: SearchTexts, device: torch.device, chunk_rows: int | None) -> "AveragedTextClassifier":
        """The mean over texts whose mentions are all written anew."""
        tables = self._tables(texts)  # before the vectors are looked up: there may be new units
        inner = self._over(texts, texts.units.table(), device, chunk_rows)
        return AveragedTextClassifier(inner, *(table.to(device) for table in tables))

    def _tables(self, texts: SearchTexts) -> tuple[Tensor, Tensor, Tensor]:
        """(sources, readings, width) units, (sources,) how many readings there are, (sources, width) own units.

        Where a search exchanges the terms of this very attribute, a mention is written anew whatever it became; a
        mention of another one only while the search has not replaced it.
        """
        same = texts.words.name == self.words.name and texts.words.values == self.words.values
        sources, width = texts.rows.shape
        written = torch.full((sources, max(1, len(self.values)), width), NO_MENTION)
        count = torch.ones(sources, dtype=torch.long)
        own = torch.full((sources, width), NO_MENTION)
        for source, (tokens, ranges) in enumerate(zip(texts.tokens, texts.ranges, strict=True)):
            place = {parts: number for number, parts in enumerate(ranges)}
            every = list(texts.mentions[source].values()) if same else self.mentions(tokens)
            mentions = [mention for mention in every if (mention.start, mention.end) in place]
            places = [place[mention.start, mention.end] for mention in mentions]
            readings = self.terms(mentions)
            count[source] = len(readings)
            for number, terms in enumerate(readings):
                for at, term in zip(places, terms, strict=True):
                    written[source, number, at] = term_number(texts.units, term)
                    own[source, at] = NO_MENTION if same else int(texts.rows[source, at])
        return written, count, own


class AveragedTextClassifier(TextClassifier):
    """Asks a model about a text in all its readings; what a mention says is never looked at."""

    def __init__(self, inner: RecurrentClassifier, written: Tensor, readings: Tensor, own: Tensor) -> None:
        """`written` (sources, most readings, width), `readings` (sources,), `own` (sources, width): see `_tables`."""
        self.inner, self.written, self.readings, self.own = inner, written, readings, own
        self.device, self.vectors = inner.device, inner.vectors
        self.chunk_rows = max(1, inner.chunk_rows // int(readings.max()))

    def _rows(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """All readings (m, 1 + width) of texts (n, 1 + width), and which text each is of."""
        count = self.readings[x[:, 0]]
        of = torch.repeat_interleave(count)
        number = torch.arange(len(of), device=self.device) - (count.cumsum(0) - count)[of]
        return self._written(x[of], number), of

    def _first_readings(self, x: Tensor) -> Tensor:
        """(n, 1 + width) texts that are alike here are alike in all readings."""
        return self._written(x, torch.zeros(len(x), dtype=torch.long, device=self.device))

    def _written(self, x: Tensor, number: Tensor) -> Tensor:
        """Texts (n, 1 + width) in one reading (n,) each."""
        source, units = x[:, 0], x[:, 1:]
        written, own = self.written[source, number], self.own[source]
        there = (written != NO_MENTION) & ((own == NO_MENTION) | (own == units))
        return torch.cat([source[:, None], torch.where(there, written, units)], dim=1)

    def _mean(self, values: Tensor, of: Tensor, n: int) -> Tensor:
        """(n, …) the means of values (m, …) of readings."""
        sums = values.new_zeros(n, *values.shape[1:]).index_add_(0, of, values)
        count = torch.bincount(of, minlength=n).to(values.dtype)
        return sums / count.view(-1, *[1] * (values.dim() - 1))

    def outputs(self, x: Tensor) -> Outputs:
        """Labels and mean scores of (n, 1 + width) texts. Texts with the same readings are asked about once."""
        self.count(len(x))
        if not len(x):
            return self.inner.outputs(x)
        _, inverse = torch.unique(self._first_readings(x), dim=0, return_inverse=True)
        places = torch.arange(len(x), device=self.device)
        some = torch.empty(int(inverse.max()) + 1, dtype=torch.long, device=self.device)
        some.scatter_(0, inverse.flip(0), places.flip(0))  # the first text of each kind
        rows, of = self._rows(x[some])
        before = self.inner.seconds
        scores = self._mean(self.inner.outputs(rows).scores, of, len(some))[inverse]
        self.seconds += self.inner.seconds - before
        return Outputs(scores.argmax(dim=1), scores)

    def outputs_from(self, x: Tensor, of: Tensor, place: Tensor, near: Tensor) -> tuple[Outputs, Outputs]:  # noqa: ARG002
        """All at once: most of the others have the readings of their text."""
        labels, scores = self.outputs(torch.cat([x, near]))
        return Outputs(labels[: len(x)], scores[: len(x)]), Outputs(labels[len(x) :], scores[len(x) :])

    def gradients(self, x: Tensor, y: Tensor, of: GradientOf = "loss") -> Tensor:
        """(n, width, e): the mean of the gradients of the score, turned into that of the loss or of the log-odds."""
        self.count(len(x))
        rows, text = self._rows(x)
        before = self.inner.seconds
        gradient = self._mean(self.inner.gradients(rows, y[text], of="score"), text, len(x))
        if of != "score":
            score = self._mean(self.inner.outputs(rows).scores, text, len(x)).gather(1, y[:, None])
            slope = -1 / score.clamp_min(SMALLEST) if of == "loss" else 1 / (score * (1 - score)).clamp_min(SMALLEST)
            gradient = gradient * slope[:, :, None]
        self.seconds += self.inner.seconds - before
        return gradient
