"""Texts to search, and the two phases of a search timed apart: what the benchmark of text measures with."""

import math
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from bench.text_reference import Source, Text, TextReference, Verdict, source_of
from evenhand.models.loading import BUILTIN
from evenhand.models.network import network_files
from evenhand.models.text.by_construction import RecurrentModel
from evenhand.models.text.classifier import RecurrentClassifier, TextClassifier, word_vectors
from evenhand.models.text.loading import load_text_model
from evenhand.runs.text_world import Mentions, Sources, search_world
from evenhand.search.check import Checked
from evenhand.search.method import Method, Needs
from evenhand.search.recorder import Phase
from evenhand.search.search import Limits, Search
from evenhand.search.text_space import SOURCE, TextSpace
from evenhand.search.two_phase import TwoPhase
from evenhand.settings import TextAuditSettings
from evenhand.text.corpus import Corpus
from evenhand.text.lexicon import ProtectedWords, load_lexicon
from evenhand.text.neighbours import neighbours
from evenhand.text.texts import NOTHING
from evenhand.text.vectors import WordVectors

NETWORK = "EVENHAND_WIKI_LSTM"  # the environment variable for a network to use where none is built in
IDEAS = ("shared prefix", "likeliest variant first", "length buckets")
PAPER_STEPS = 1000  # local steps for each first finding
SPARE = 1.6  # texts to look through for each one that is short enough
CPU = torch.device("cpu")

TextSearch = Search[TextSpace, TextClassifier]
TextMethod = TwoPhase[TextSpace, TextClassifier]


def network() -> str | None:
    """The file of the LSTM for the Wikipedia comments; None where it is built in."""
    if network_files(BUILTIN / "wiki-lstm")[0].is_file():
        return None
    if NETWORK not in os.environ:
        raise SystemExit(f"There is no built-in LSTM for wiki. Name one, without its suffix, in {NETWORK}.")
    return f"{os.environ[NETWORK]}.safetensors"


@dataclass(frozen=True)
class World:
    """Seeds, with all that the batched search and the plain implementation need."""

    vectors: WordVectors
    words: ProtectedWords
    config: TextAuditSettings
    sources: Sources
    space: TextSpace
    model: RecurrentModel

    def classifier(self, without: str = "") -> RecurrentClassifier:
        """The network as a search asks it, perhaps without one of its ideas."""
        units, model = self.space.texts.units, self.model
        return RecurrentClassifier(
            model.network,
            word_vectors(units, self.vectors),
            units.table(),
            most_words=model.most_words,
            share_prefixes=without != "shared prefix",
            sort_by_length=without != "length buckets",
        )

    def reference(self) -> TextReference:
        """The plain implementation, whose check ends at the first witness."""
        units = self.space.texts.units
        return TextReference(
            self.model.network,
            {word: number for number, word in enumerate(units.words)},
            word_vectors(units, self.vectors),
            self._plain_sources(),
            self.model.most_words,
            seed=0,
            accept_failed=math.exp(-1),
            local_changes=self.config.local_changes,
        )

    def _plain_sources(self) -> list[Source]:
        texts, config = self.sources.texts, self.config
        wanted = sorted({word for text in texts for word in text.tokens.words})
        rows = neighbours(self.vectors, wanted, config.k, self.words.all_words, moves=config.moves)
        near = [[self.vectors.words[number] for number in row if number >= 0] for row in rows]
        nearest = dict(zip(wanted, near, strict=True))
        return [source_of(text, self.words, nearest, self.model.most_words) for text in texts]

    def plain_start(self, starts: Checked, which: int) -> tuple[int, Text, Verdict]:
        """A first finding of the batched search as the plain implementation has it: source, text and verdict."""
        space, surfaces = self.space, self.space.texts.units.surfaces
        x, pair = starts.x[which : which + 1], starts.pair[which : which + 1]
        own, other = (row[0].tolist() for row in (space.inputs(x), space.inputs(space.with_combination(x, pair))))
        text = [surfaces[unit] for unit in own[1:] if unit != NOTHING]
        place = next(place for place in range(len(text)) if own[1 + place] != other[1 + place])
        return own[0], text, Verdict(int(starts.label[which]), (place, surfaces[other[1 + place]]), True)


def world_of(corpus: Corpus, vectors: WordVectors, attribute: str, seeds: int, longest: int) -> World:
    """Training texts that mention the attribute and have at most `longest` words."""
    config = TextAuditSettings.checked(dataset="wiki", protected=[attribute], lexicon="paper", device="cpu")
    words = load_lexicon("paper").attribute(attribute)
    model = load_text_model(corpus, None, network(), vectors)
    assert isinstance(model, RecurrentModel)
    found = Mentions(corpus, words, model.most_words).choose(True, int(SPARE * seeds), seed=0)
    short = [number for number, text in enumerate(found.texts) if len(text.tokens) <= longest][:seeds]
    sources = Sources(found.rows[short], [found.texts[number] for number in short])
    return World(
        vectors, words, config, sources, search_world(sources, words, vectors, model, config, CPU).space, model
    )


class AllVariants(Search[TextSpace, TextClassifier]):
    """A search that does not look at the likeliest variant first."""

    def look_near(self, x: Tensor, own: Tensor, guess: Tensor, phase: Phase, step: int, ids: Tensor) -> Checked:  # noqa: ARG002 - what it does without
        """All variants at once."""
        return self.look(x, phase, step, ids)


class OnePhase(Method[TextSpace, TextClassifier]):
    """One phase of a method on its own: the global one from seeds, or the local one from given findings."""

    name: ClassVar[str] = "one phase"
    needs: ClassVar[Needs] = "gradients"

    def __init__(self, method: TextMethod, starts: Checked | None = None) -> None:
        self.method, self.starts = method, starts
        self.found: tuple[Checked, Tensor] | None = None

    def search(self, search: TextSearch, x: Tensor, ids: Tensor) -> None:
        """The global phase keeps what it found."""
        if self.starts is None:
            self.found = self.method.global_phase(search, x, ids)
        else:
            self.method.local_phase(search, self.starts, ids)


@dataclass(frozen=True)
class Speed:
    """Seconds that each phase takes, and what it finds."""

    seconds_per_seed: float
    seconds_per_step: float  # of one walk
    starts_per_seed: float
    findings_per_step: float

    @property
    def seconds(self) -> float:
        """For a seed in the paper's budget, both phases."""
        return self.seconds_per_seed + self.starts_per_seed * PAPER_STEPS * self.seconds_per_step

    @property
    def findings_per_second(self) -> float:
        """In the paper's budget."""
        return self.starts_per_seed * (1 + PAPER_STEPS * self.findings_per_step) / self.seconds

    def at(self, other: "Speed") -> "Speed":
        """The same findings in the seconds of another."""
        return replace(self, seconds_per_seed=other.seconds_per_seed, seconds_per_step=other.seconds_per_step)


@dataclass(frozen=True)
class Phases:
    """Runs the two phases of a method apart, so that each is timed on a batch of its own size."""

    world: World
    method: TextMethod
    without: str = ""  # an idea

    def global_phase(self, seeds: Sequence[int]) -> tuple[float, Checked]:
        """Seconds for these seeds, and the first findings."""
        phase = OnePhase(self.method)
        seconds, _ = self._timed(phase, seeds, Limits(steps=0))
        assert phase.found is not None
        return seconds, phase.found[0]

    def local_phase(self, starts: Checked, steps: int) -> tuple[float, int]:
        """Seconds for some steps from all these findings, and the findings around them."""
        return self._timed(OnePhase(self.method, starts), starts.x[:, SOURCE].tolist(), Limits(steps=steps))

    def _timed(self, method: OnePhase, numbers: Sequence[int], limits: Limits) -> tuple[float, int]:
        kind: type[TextSearch] = AllVariants if self.without == "likeliest variant first" else Search
        model = self.world.classifier(self.without)
        search = kind(model, self.world.space, method, seed=0, limits=limits, sink=lambda findings: None)
        begin = time.perf_counter()
        result = search.run(np.array(numbers, dtype=np.int32)[:, None], np.array(numbers))
        return time.perf_counter() - begin, result.counts.all_findings

    def speed(
        self, seeds: Sequence[int], steps: int, starts: Checked | None = None, repeats: int = 1
    ) -> tuple[Speed, Checked]:
        """The global phase of the seeds, then the local phase of what it found or of other starts: the best times."""
        runs = [self.global_phase(seeds) for _ in range(repeats)]
        found = runs[0][1]
        starts = found if starts is None else starts
        walks = [self.local_phase(starts, steps) for _ in range(repeats)]
        walked = len(starts) * steps
        global_seconds, local_seconds = (min(seconds for seconds, _ in timed) for timed in (runs, walks))
        speed = Speed(
            global_seconds / len(seeds), local_seconds / walked, len(found) / len(seeds), walks[0][1] / walked
        )
        return speed, starts
