"""The small world of text as a user's own files, and the plain way to check the findings of an audit."""

import csv
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from evenhand.choices import Moves
from evenhand.models.text.recurrent import Cell, Recurrent, save_recurrent
from evenhand.models.text.training import TextTrainingConfig, train_recurrent
from evenhand.text.corpus import Corpus, load_corpus
from evenhand.text.lexicon import Mention, ProtectedWords
from evenhand.text.neighbours import FREQUENT, is_replaceable
from evenhand.text.tokens import Tokens, tokenize
from evenhand.text.vectors import WordVectors, load_vectors
from tests.worlds.text import COMMENTS, small_corpus, small_vectors
from tests.worlds.text_search import LONG_COMMENTS, plain_logits

MOST_WORDS = 12
TOLERANCE = 1e-4
CLASSES = ["not toxic", "toxic"]
MORE_COMMENTS = (
    "He said he is late and his lunch was awful.",
    "She said she is late and her dinner was nice.",
    "The women and the men read; the women wrote.",
    "",
)


@dataclass(frozen=True)
class UserFiles:
    """What somebody has who audits a network of their own."""

    folder: Path
    network: Recurrent
    corpus: Corpus
    vectors: WordVectors

    @property
    def options(self) -> dict[str, Any]:
        """For `audit_text`, beside the data and the protected attribute."""
        files = {"vectors": str(self.folder / "vec.txt"), "model": str(self.folder / "net.safetensors")}
        return {"text": "comment", "label": "toxic", "favourable": CLASSES[0], "encoder": "none", **files}

    @property
    def data(self) -> str:
        return str(self.folder / "my.csv")

    def check(self, findings: pd.DataFrame, words: ProtectedWords, **rules: Any) -> None:
        """Check every finding."""
        check_findings(findings, self.network, self.vectors, words, most_words=MOST_WORDS, **rules)


def write_user_files(folder: Path, cell: Cell = "gru") -> UserFiles:
    """A CSV of comments, word vectors as text, and a network that is trained on them."""
    labels = [*small_corpus().labels.tolist(), 0, 0, 0, 0, 1, 0, 0, 0]
    with (folder / "my.csv").open("w", encoding="utf-8", newline="") as stream:
        rows = zip([*COMMENTS, *LONG_COMMENTS, *MORE_COMMENTS], labels, strict=True)
        csv.writer(stream).writerows([("comment", "toxic"), *((text, CLASSES[label]) for text, label in rows)])
    known = zip(small_vectors().words, small_vectors().vectors.tolist(), strict=True)
    lines = [f"{word} {' '.join(map(repr, vector))}\n" for word, vector in known]
    (folder / "vec.txt").write_text("".join(lines), encoding="utf-8")
    corpus, vectors = load_corpus(folder / "my.csv", "comment", "toxic"), load_vectors(folder / "vec.txt")
    config = TextTrainingConfig(epochs=8, learning_rate=0.03, batch_rows=8, most_words=MOST_WORDS)
    network, description = train_recurrent(corpus, vectors, cell, config)
    _bring_the_boundary_to_the_middle(network, vectors)
    save_recurrent(network, description, folder / "net")
    return UserFiles(folder, network, corpus, vectors)


def _bring_the_boundary_to_the_middle(network: Recurrent, vectors: WordVectors) -> None:
    """So few comments teach a network little; half of them on either side of its boundary leave something to find."""
    odds = torch.stack([plain_logits(network, vectors, text) for text in COMMENTS]).diff(dim=1)
    with torch.no_grad():
        network.head.bias[1] -= odds.median()
        network.head.weight.mul_(4 / odds.std())
        network.head.bias.mul_(4 / odds.std())


def check_findings(
    findings: pd.DataFrame,
    network: Recurrent,
    vectors: WordVectors,
    words: ProtectedWords,
    *,
    most_words: int,
    classes: list[str] = CLASSES,
    k: int = 10,
    moves: Moves = "tokens",
    swap: str = "one",
) -> None:
    """Check findings one text at a time, with the plain network and by the plainest reading of the rules."""
    near = nearest_by_hand(vectors, words, k, moves)
    for row in findings.itertuples():
        original, text, witness = (tokenize(getattr(row, name)) for name in ("original", "text", "witness"))
        mentions = [mention for mention in words.mentions(original) if mention.end <= most_words]
        protected = {place for mention in mentions for place in range(mention.start, mention.end)}
        assert len(text) == len(original)
        changed = [place for place in range(len(text)) if text.words[place] != original.words[place]]
        assert not protected & {*changed}
        assert row.l0 == len(changed)
        for place in changed:
            assert text.words[place] in near(original.words[place]), (original.words[place], text.words[place])
        assert (row.value, row.witness_value, witness.words) in swapped(text, mentions, words, swap)
        logits = [plain_logits(network, vectors, str(of), most_words).softmax(0) for of in (row.text, row.witness)]
        labels = [classes[int(scores.argmax())] for scores in logits]
        assert labels == [row.label, row.witness_label]
        assert labels[0] != labels[1]
        scores = [float(of[classes.index(labels[0])]) for of in logits]
        assert scores == pytest.approx([row.score, row.witness_score], abs=TOLERANCE)


def swapped(
    text: Tokens, mentions: list[Mention], words: ProtectedWords, swap: str
) -> list[tuple[str, str, list[str]]]:
    """What a value may become: the value, the new one, and the words of the text that has it."""
    found = []
    for first in mentions:
        group = [mention for mention in mentions if mention.value == first.value] if swap == "all" else [first]
        for value in {*range(len(words.values))} - {first.value}:
            new = [words.replacement_words(mention, value) for mention in group]
            if all(new):
                found.append((words.values[first.value], words.values[value], _replaced(text.words, group, new)))
    return found


def _replaced(words: list[str], group: list[Mention], new: list[Any]) -> list[str]:
    words = list(words)
    for mention, term in reversed(list(zip(group, new, strict=True))):
        words[mention.start : mention.end] = term
    return words


def nearest_by_hand(vectors: WordVectors, words: ProtectedWords, k: int, moves: Moves) -> Callable[[str], set[str]]:
    """A function that says what a word may become: the k nearest usable words, and those that tie with the last."""
    frequent = vectors.words[:FREQUENT]
    usable = [place for place, word in enumerate(frequent) if is_replaceable(word, moves)]
    usable = [place for place in usable if frequent[place] not in words.all_words]
    directions = np.asarray(vectors.vectors[:FREQUENT], dtype=np.float64)
    directions = directions / np.linalg.norm(directions, axis=1, keepdims=True)

    @cache
    def near(word: str) -> set[str]:
        if not is_replaceable(word, moves) or word not in vectors.numbers or word in words.all_words:
            return set()
        own = np.asarray(vectors.vectors[vectors.numbers[word]], dtype=np.float64)
        others = [p for p in usable if frequent[p] != word and (frequent[p].isalnum() or not word.isalnum())]
        cosines = directions[others] @ (own / np.linalg.norm(own))
        least = np.sort(cosines)[-k:][0] - 1e-9
        return {frequent[place] for place, cosine in zip(others, cosines, strict=True) if cosine >= least}

    return near
