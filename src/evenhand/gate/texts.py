"""A check of texts: those of a corpus that mention the attribute, as they were written, and a search from them."""

import hashlib
from collections.abc import Hashable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from evenhand.gate.decision import decide, one_sided
from evenhand.gate.outcome import ShownPair
from evenhand.gate.subject import Looked, OnDone, Searched, run_search
from evenhand.measures.people import RANDOM_PART
from evenhand.methods.registry import chosen_text_method
from evenhand.report.pairs import text_example
from evenhand.report.sentences import example_lines
from evenhand.report.statistics import by_gap
from evenhand.report.text_statistics import TextFinding, choose_examples
from evenhand.report.words import counted
from evenhand.runs.text_subject import TextSubject, findings_in_texts
from evenhand.runs.text_world import Sources, TextSearchWorld, masked, still_world
from evenhand.search.check import Checked, check
from evenhand.search.recorder import Findings
from evenhand.search.text_space import CODES, Marked
from evenhand.settings import SearchBudget

PART = 500  # texts whose variants are prepared together
TRIED = 32  # of those that show whether a model reads the protected words
KEPT = 20  # pairs of which some are shown
NOWHERE = -1  # the row of a text that is not in the corpus
MORE_TEXTS = ", which the data does not have: give more texts, allow a larger max_rate, or ask for less confidence."


class StoredText(NamedTuple):
    """A text of an earlier failure, and the one of the corpus that it came from."""

    row: int
    original: str
    text: str


class TextCheck:
    """A corpus and a model, with what a check asks of them."""

    def __init__(self, subject: TextSubject) -> None:
        self.subject = subject
        self.model_rows = 0
        self._mentions, self._settings = subject.mentions, subject.settings
        most, every = self._settings.most_samples, np.ones(len(subject.data), dtype=bool)
        chosen = self._mentions.among(every).choose(train=True, count=most + 1, seed=self._settings.seed)
        self._is_all = len(chosen) <= most
        self._texts = self._changeable(Sources(chosen.rows[:most], chosen.texts[:most]))
        self._is_read = any(_has_effect(self._checked(part)[1]) for part in self._parts(TRIED))

    def _parts(self, size: int) -> Iterator[Sources]:
        """So many texts of the population at a time."""
        for start in range(0, len(self._texts), size):
            part = slice(start, start + size)
            yield Sources(self._texts.rows[part], self._texts.texts[part])

    def _changeable(self, sources: Sources) -> Sources:
        """The texts that have a variant: with `swap="all"` every mention of a value must have the other one's form."""
        there = [number for number, text in enumerate(sources.texts) if self._has_variant(text)]
        return Sources(sources.rows[there], [sources.texts[number] for number in there])

    def _has_variant(self, text: Marked) -> bool:
        words = self._mentions.words
        groups = [[m for m in text.mentions if m.value == value] for value in {m.value for m in text.mentions}]
        if self._settings.swap == "one":
            groups = [[mention] for mention in text.mentions]
        return any(
            all(words.replacement(mention, value) is not None for mention in group)
            for group in groups
            for value in range(len(words.values))
            if value != group[0].value
        )

    @property
    def model_name(self) -> str:
        """How outputs name the model."""
        return self.subject.model.name

    @property
    def warnings(self) -> list[str]:
        """That nothing can be tested, where that is so."""
        if not len(self._texts):
            return [str(self._mentions.nothing("text"))]
        same = f"The model scores texts alike whatever words of {self._mentions.what} they mention"
        return [] if self._is_read else [f"{same}; this test cannot find anything."]

    @property
    def tested(self) -> list[str]:
        """The attribute, where some text mentions it and the model reads that."""
        return list(self._settings.protected) if self._is_read else []

    @property
    def untested(self) -> list[str]:
        """The attribute, where no text mentions it or the model does not read that."""
        return [] if self._is_read else list(self._settings.protected)

    def look(self, on_done: OnDone) -> Looked:
        """All texts that mention the attribute or, where they are too many, a random part of them; a single look."""
        total, done, hits = len(self._texts), 0, 0
        pairs: list[TextFinding] = []
        for part in self._parts(PART):
            world, checked = self._checked(part)
            done, hits = done + len(part), hits + int(checked.hit.sum())
            pairs = clearest([*pairs, *self._pairs(world, _findings(checked, world.rows))])
            on_done("texts", done, total)
        which = f"all {total:,} " if self._is_all else RANDOM_PART
        words = f"{which}texts of {self.subject.data.name} that mention {self._mentions.what}"
        rate = one_sided(words, hits, total, self._settings.confidence)
        remedy = MORE_TEXTS if self._is_all else f": raise most_samples, which is {self._settings.most_samples:,}."
        return Looked(rate, decide(rate, self._settings.max_rate), pairs, remedy)

    def _checked(self, sources: Sources) -> tuple[TextSearchWorld, Checked]:
        """Check all variants of some texts, which only their protected terms may change."""
        subject = self.subject
        world = still_world(sources, self._mentions.words, subject.model, self._settings, subject.device)
        checked = check(world.model, world.space, world.space.samples(world.samples))
        self.model_rows += world.model.rows
        return world, checked

    def _pairs(self, world: TextSearchWorld, findings: Findings) -> list[TextFinding]:
        """The clearest of some findings, with their texts."""
        return findings_in_texts(world, self.subject.data.classes, _best(findings))

    def real_pairs(self, looked: Looked, on_done: OnDone) -> list[TextFinding]:  # noqa: ARG002 - tables need it
        """The texts that were just looked at."""
        return looked.pairs

    def search(self, budget: SearchBudget, on_done: OnDone) -> Searched:
        """A small search from texts of the corpus; each of its clearest pairs has as few words replaced as can be."""
        name, seed = chosen_text_method(budget.method), self._settings.seed
        seeds = Sources(self._texts.rows[: budget.seeds], self._texts.texts[: budget.seeds])
        world, method = self.subject.around(seeds, self._settings), self.subject.method(name)
        best: list[Findings] = []

        def sink(findings: Findings) -> None:
            best[:] = [_best(Findings.joined([*best, findings]))]

        counts = run_search(world, method, budget, seed, sink, on_done).counts
        pairs = [pair for found in best for pair in self._pairs(world, _fewest_changes(world, found))]
        self.model_rows += world.model.rows
        return Searched(name, counts.all_generated, counts.all_findings, clearest(pairs))

    def reduced(self, pairs: list[TextFinding]) -> list[TextFinding]:
        """The same: a search brings its pairs near to their texts itself, and stored ones were near."""
        return pairs

    def shown(self, pairs: list[TextFinding], most: int) -> list[ShownPair]:
        """Some of the clearest pairs in words."""
        return [self._shown(pair) for pair in choose_examples(pairs, most)]

    def _shown(self, pair: TextFinding) -> ShownPair:
        example = text_example(pair, self.subject.facts())
        shared, *sides, _ = example_lines(example)
        changes = [f"{before} → {after}" for before, after in example["changes"]]
        text = "A text of an earlier run" if pair.seed_row < 0 else f"A text of the corpus, row {pair.seed_row + 1:,}"
        how = f"with {counted(len(changes), 'word')} replaced: {'; '.join(changes)}" if changes else "as it was written"
        return ShownPair(pair, shared, sides, f"{text}, {how}.", {"text": pair.text, "witness": pair.witness})

    def known_by(self, pair: TextFinding) -> Hashable:
        """What a pair is known by: its words without the protected terms."""
        marked = self._mentions.marked(pair.text)
        return pair.text if marked is None else masked(marked)

    @property
    def meaning(self) -> tuple[str, dict[str, str]]:
        """The lexicon, which says what may stand in the place of what; the rules of exchange belong to it."""
        words = self._mentions.words
        values = [[value, *words.terms_of(number)] for number, value in enumerate(words.values)]
        rules = repr([values, self._settings.swap, self._settings.ambiguous])
        digest = hashlib.sha256(rules.encode()).hexdigest()[:16]
        return "lexicon", {"name": self.subject.lexicon.name, "fingerprint": digest}

    def stored(self, pair: TextFinding) -> dict[str, Any]:
        """A pair for the file of failures."""
        row = {"row": pair.seed_row + 1 if pair.seed_row >= 0 else None}
        names = ("original", "text", "witness", "value", "witness_value", "label", "witness_label")
        return row | {name: getattr(pair, name) for name in names}

    def repeatable(self, pair: TextFinding) -> bool:  # noqa: ARG002 - tables need it
        """Whether a text holds a pair: always."""
        return True

    def read_stored(self, pairs: list[dict[str, Any]]) -> list[StoredText]:
        """Texts from the file of failures."""
        found = [StoredText((pair["row"] or 0) - 1, pair["original"], pair["text"]) for pair in pairs]
        if not all(isinstance(text, str) for _, *texts in found for text in texts):
            raise ValueError("a text is no text")
        return found

    def look_again(self, samples: list[StoredText]) -> list[TextFinding]:
        """Which of these texts are discriminatory, as pairs."""
        marked = [self._mentions.marked(sample.text) for sample in samples]
        there = [(number, text) for number, text in enumerate(marked) if text is not None]
        sources = Sources(np.array([number for number, _ in there], dtype=np.int64), [text for _, text in there])
        sources = self._changeable(sources)
        if not len(sources):
            return []
        world, checked = self._checked(sources)
        pairs = self._pairs(world, _findings(checked, world.rows))
        return [self._from(samples[pair.seed_row], pair) for pair in pairs]

    def _from(self, sample: StoredText, pair: TextFinding) -> TextFinding:
        """A pair with the text that it came from, which may have left the corpus."""
        corpus, row = self.subject.data, sample.row
        is_there = 0 <= row < len(corpus) and corpus.text(row) == sample.original
        return replace(pair, seed_row=row if is_there else NOWHERE, original=sample.original)


def clearest(pairs: list[TextFinding]) -> list[TextFinding]:
    """The clearest pairs first, and not more than can be of use."""
    return sorted(pairs, key=lambda pair: -pair.clarity)[:KEPT]


def _has_effect(checked: Checked) -> bool:
    """Whether some text has a variant with another score."""
    return bool((checked.score != checked.pair_score).any())


def _findings(checked: Checked, rows: NDArray[np.int64]) -> Findings:
    """The discriminatory ones of checked samples, which came from these rows of the corpus."""
    found, hit = checked.take(checked.hit), checked.hit.cpu().numpy()
    return Findings(
        sample=found.x.cpu().numpy().astype(np.int32),
        witness=found.pair[:, None].cpu().numpy().astype(np.int32),
        label=found.label.cpu().numpy(),
        witness_label=found.pair_label.cpu().numpy(),
        score=found.score.cpu().numpy(),
        witness_score=found.pair_score.cpu().numpy(),
        phase=np.zeros(len(found), dtype=np.int8),
        seed=rows[hit],
        step=np.zeros(len(found), dtype=np.int32),
    )


def _best(findings: Findings) -> Findings:
    """The clearest findings, one of each text that they came from."""
    order = by_gap(findings.score, findings.witness_score)
    _, first = np.unique(findings.seed[order], return_index=True)
    return findings.part(order[np.sort(first)[:KEPT]])


def _fewest_changes(world: TextSearchWorld, findings: Findings) -> Findings:
    """Findings with as many words as they were written as can be: one after another goes back, as long as it is one."""
    return Findings.joined(
        [
            _findings(_restored(world, torch.tensor(sample[None], dtype=torch.long, device=world.space.device)), row)
            for sample, row in zip(findings.sample, findings.seed[:, None], strict=True)
        ]
    )


def _restored(world: TextSearchWorld, x: torch.Tensor) -> Checked:
    """(1, d) a finding, checked, of which no single word can go back."""
    best = check(world.model, world.space, x)
    while len(changed := best.x[0, CODES:].nonzero().squeeze(1)):
        candidates = best.x.repeat(len(changed), 1)
        candidates[torch.arange(len(changed)), CODES + changed] = 0
        checked = check(world.model, world.space, candidates)
        if not bool(checked.hit.any()):
            break
        gap = (checked.score - checked.pair_score).abs().where(checked.hit, torch.tensor(-1.0))
        best = checked.take(gap.argmax()[None])
    return best
