"""What a measurement of texts looks at: real texts with protected words, and the findings of an audit."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray
from torch import Tensor

from evenhand.errors import EvenhandError
from evenhand.measures.direction import Direction, rank_values
from evenhand.measures.people import RANDOM_PART
from evenhand.measures.rates import Rate
from evenhand.runs.subject import Interrupted, OnCount, Subject
from evenhand.runs.summary import FINDINGS
from evenhand.runs.table_rates import earlier_summary, findings_words
from evenhand.runs.text_subject import TextSubject
from evenhand.runs.text_world import Mentions, Sources, TextSearchWorld, still_world
from evenhand.search.text_space import TextSpace
from evenhand.text.lexicon import load_lexicon

PART = 500  # texts whose variants are prepared together


@dataclass
class TextTally:
    """Counts of texts, of discriminatory ones, and among these of each value's variants and how many win."""

    values: int
    favourable: int
    samples: int = 0
    hits: int = 0
    seen: NDArray[np.int64] = field(init=False)
    won: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        self.seen, self.won = np.zeros((2, self.values), dtype=np.int64)

    def add(self, world: TextSearchWorld, x: Tensor) -> None:
        """Look at all variants of some texts. A text stands for the values that it mentions itself."""
        answers = world.space.answers(world.model, x)
        labels, there = answers.labels, answers.there
        differs = labels != labels[:, :1]  # swap 0 is the text as it is
        hit = (differs if there is None else differs & there).any(dim=1)
        self.samples += len(x)
        self.hits += int(hit.sum())
        win = labels == self.favourable
        text, swap = (torch.ones_like(win) if there is None else there).nonzero().unbind(1)
        counts = hit[text] & (swap > 0)
        text, swap = text[counts], swap[counts]
        own, other = world.space.swapped_values(x[text], swap)
        np.add.at(self.seen, other, 1)
        np.add.at(self.won, other, win[text, swap].cpu().numpy())
        first = _first_of_group(text, swap, world.space)
        np.add.at(self.seen, own[first], 1)
        np.add.at(self.won, own[first], win[text, 0].cpu().numpy()[first])

    def direction(self, attribute: str, values: tuple[str, ...]) -> list[Direction]:
        """Who wins and who loses; nothing without discrimination."""
        known = np.flatnonzero(self.seen)
        shares = self.won[known] / self.seen[known]
        return [rank_values(attribute, [values[number] for number in known], shares.tolist())] if len(known) else []


def _first_of_group(text: Tensor, swap: Tensor, space: TextSpace) -> NDArray[np.int64]:
    """Of the swaps of each mention one: the text as it is counts once for each of its mentions."""
    groups = torch.stack([text, (swap - 1) // space.values], dim=1).cpu().numpy()
    return np.unique(groups, axis=0, return_index=True)[1]


class TextRates:
    """The rates of one corpus and model; part by part, so that a person sees it go on and can stop it."""

    def __init__(self, subject: TextSubject, on_progress: OnCount, interrupted: Interrupted) -> None:
        self._subject, self._settings, self._corpus = subject, subject.settings, subject.data
        self._on_progress, self._interrupted = on_progress, interrupted
        self.notes: list[str] = []
        classes, favourable = self._corpus.classes, self._corpus.favourable
        self._favourable = len(classes) - 1 if favourable is None else classes.index(favourable)
        self.favourable = classes[self._favourable]
        self.favourable_named = favourable is not None
        self.parts = [[name] for name in self._settings.protected]
        self._looked = False
        self._earlier = None
        if self._settings.findings is not None:
            folder = Path(self._settings.findings)
            self._earlier = earlier_summary(folder, "text")
            name = self._earlier["dataset"]["name"]
            if name != self._corpus.name:
                raise EvenhandError(
                    f"The findings in {folder} are of {name}, not of {self._corpus.name}. Give the data that was "
                    "audited."
                )

    def of_data(self, names: list[str]) -> Iterator[dict[str, Any]]:
        """The rate and the direction of both splits."""
        most, mentions = self._settings.texts, self._mentions(names[0])
        for name, train, words in (("train", True, "training"), ("held_out", False, "held-out")):
            chosen = mentions.choose(train, most, self._settings.seed)
            if not len(chosen) or self._interrupted():
                continue
            tally = self._tally(chosen, mentions, f"{mentions.what}, {words} texts")
            which = "" if tally.samples == len(chosen) < most else RANDOM_PART
            population = f"{which}{words} texts of {self._corpus.name} that mention {mentions.what}"
            rate = Rate(population, tally.hits, tally.samples, self._settings.confidence)
            who = tally.direction(names[0], mentions.words.values)
            note = {} if tally.samples == len(chosen) else {"note": "wider than asked, since it was interrupted"}
            yield {"name": name, **rate.as_dict(), **note, "direction": [direction.as_dict() for direction in who]}

    def groups(self) -> list[dict[str, Any]]:
        """Texts belong to no groups: what they mention says nothing of their authors."""
        return []

    def settled(self, found_any: bool) -> Subject:  # noqa: ARG002 - tables need it
        """What was measured."""
        if not self._looked:
            raise self._subject.mentions.nothing()
        return self._subject

    def of_findings(self, folder: Path) -> Rate:
        """The share of an earlier audit's findings that are still findings; those without a mention are none."""
        assert self._earlier is not None
        rules = {rule: self._earlier["config"][rule] for rule in ("lexicon", "swap", "ambiguous")}
        self._settings = self._settings.model_copy(update=rules)
        written = pq.read_table(folder / FINDINGS, columns=["text"])["text"].to_pylist()
        if not written:
            raise EvenhandError(f"The audit in {folder} has no findings to look at again.")
        chosen = np.random.default_rng(self._settings.seed).permutation(len(written))[: self._settings.texts].tolist()
        mentions = self._mentions(self._earlier["protected"][0])
        marked = [mentions.marked(written[row]) for row in chosen]
        there = [text for text in marked if text is not None]
        sources = Sources(np.arange(len(there), dtype=np.int64), there)
        tally = self._tally(sources, mentions, "findings")
        looked_at = len(chosen) - (len(there) - tally.samples)
        return Rate(findings_words(folder, looked_at, len(written)), tally.hits, looked_at, self._settings.confidence)

    def _mentions(self, name: str) -> Mentions:
        words = load_lexicon(self._settings.lexicon).attribute(name)
        return Mentions(self._corpus, words, self._subject.model.most_words, self._settings.ambiguous)

    def _tally(self, texts: Sources, mentions: Mentions, what: str) -> TextTally:
        tally = TextTally(len(mentions.words.values), self._favourable)
        for start in range(0, len(texts), PART):
            part = Sources(texts.rows[start : start + PART], texts.texts[start : start + PART])
            world = still_world(part, mentions.words, self._subject.model, self._settings, self._subject.device)
            self._looked = True
            x = world.space.samples(world.samples)
            for piece in torch.split(x, world.space.chunks(x, world.model.chunk_rows)):
                if self._interrupted() and tally.samples:
                    return tally
                tally.add(world, piece)
                self._on_progress(what, tally.samples, len(texts))
        return tally
