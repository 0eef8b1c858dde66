"""How fast the batched search on texts is: against one text at a time, by idea, in memory, at start-up.

`make bench`, or `python -m bench.text_speed --help`. The paper's ADF with its ASC rule searches the Wikipedia comments
and their LSTM, with the paper's words for religion and for country. All figures are of one thread.
"""

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from bench.text_reference import Source, Text, TextReference, Verdict, source_of
from evenhand.methods.boundary import Boundary
from evenhand.methods.text_adf import TextADF
from evenhand.models.loading import BUILTIN
from evenhand.models.network import network_files
from evenhand.models.text_classifier import RecurrentClassifier, TextClassifier
from evenhand.models.text_loading import RecurrentModel, load_text_model, word_vectors
from evenhand.runs.config import TextAuditConfig
from evenhand.runs.text_audit import audit_text
from evenhand.runs.text_world import Mentions, Sources, search_world
from evenhand.search.check import Checked
from evenhand.search.method import Method, Needs
from evenhand.search.recorder import Phase
from evenhand.search.search import Limits, Progress, Search
from evenhand.search.text_space import SOURCE, TextSpace
from evenhand.search.two_phase import TwoPhase
from evenhand.text.corpus import Corpus, load_corpus
from evenhand.text.lexicon import ProtectedWords, load_lexicon
from evenhand.text.neighbours import neighbours
from evenhand.text.texts import NOTHING
from evenhand.text.vectors import WordVectors, load_vectors

NETWORK = "EVENHAND_WIKI_LSTM"  # the environment variable for a network to use where none is built in
PAPER_STEPS = 1000  # local steps for each first finding
SPARE = 1.6  # texts to look through for each one that is short enough
CPU = torch.device("cpu")
ATTRIBUTES = ("religion", "country")
IDEAS = ("shared prefix", "likeliest variant first", "length buckets")

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
    config: TextAuditConfig
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
    config = TextAuditConfig.checked(dataset="wiki", protected=[attribute], lexicon="paper", device="cpu")
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

    def speed(self, seeds: Sequence[int], steps: int, starts: Checked | None = None) -> tuple[Speed, Checked]:
        """The global phase of the seeds, then the local phase of what it found or of other starts."""
        global_seconds, found = self.global_phase(seeds)
        starts = found if starts is None else starts
        local_seconds, findings = self.local_phase(starts, steps)
        walked = len(starts) * steps
        per_seed = len(found) / len(seeds)
        return Speed(global_seconds / len(seeds), local_seconds / walked, per_seed, findings / walked), starts


def one_at_a_time(world: World, starts: Checked, seconds: float, steps: int) -> tuple[Speed, dict[str, int]]:
    """The plain implementation: half of the time on seeds, half on walks around findings of the batched search."""
    reference = world.reference()
    begin, seeds = time.perf_counter(), 0
    while seeds < len(world.sources) and time.perf_counter() - begin < seconds / 2:
        reference.global_search(seeds)
        seeds += 1
    spent, hits = time.perf_counter() - begin, len(reference.found)
    reference.found.clear()
    order = np.random.default_rng(0).permutation(len(starts)).tolist()
    begin, walks = time.perf_counter(), 0
    while walks < len(starts) and time.perf_counter() - begin < seconds / 2:
        reference.local_search(*world.plain_start(starts, order[walks]), steps=steps)
        walks += 1
    walked = walks * steps
    speed = Speed(spent / seeds, (time.perf_counter() - begin) / walked, hits / seeds, len(reference.found) / walked)
    return speed, {"seeds": seeds, "steps": walked}


def one_walk_at_a_time(phases: Phases, starts: Checked, seconds: float) -> Speed:
    """The batched search with a batch of one, on as many seeds and findings as the time allows."""
    seeds, walks, steps = 0, 0, 5
    global_seconds = local_seconds = 0.0
    while global_seconds < seconds / 2 and seeds < len(phases.world.sources):
        global_seconds += phases.global_phase([seeds])[0]
        seeds += 1
    while local_seconds < seconds / 2 and walks < len(starts):
        local_seconds += phases.local_phase(starts.take(torch.tensor([walks])), steps)[0]
        walks += 1
    return Speed(global_seconds / seeds, local_seconds / (steps * walks), 0, 0)


def measure(world: World, options: argparse.Namespace, idea_seeds: int) -> dict[str, Any]:
    """All figures for one attribute."""
    seeds, few = range(len(world.sources)), range(min(idea_seeds, len(world.sources)))
    adf = Phases(world, TextADF(rule="asc"))
    adf.global_phase(range(min(16, len(seeds))))  # warm-up
    batched, starts = adf.speed(seeds, options.steps)
    seen, amount = one_at_a_time(world, starts, options.reference_seconds, options.reference_steps)
    # Both forms make the same decisions, so they find as much in the same budget: only the seconds differ.
    plain = batched.at(seen)
    base, _ = adf.speed(few, options.idea_steps, starts)
    without = {idea: base.at(replace(adf, without=idea).speed(few, options.idea_steps, starts)[0]) for idea in IDEAS}
    without["batching"] = base.at(one_walk_at_a_time(adf, starts, options.reference_seconds / 4))
    default, _ = Phases(world, Boundary()).speed(seeds, options.steps)
    return {
        "attribute": world.words.name,
        "values": len(world.words.values),
        "seeds": len(seeds),
        "mean_words": round(float(np.mean([len(text.tokens) for text in world.sources.texts])), 1),
        "mean_variants": round(float(torch.diff(world.space.first_swap).float().mean()), 1),
        "one_at_a_time": _figures(plain) | {"seen": asdict(seen) | amount},
        "batched": _figures(batched),
        "ratio": _ratios(plain, batched),
        "without": {idea: _figures(speed) | {"times_slower": _ratios(speed, base)} for idea, speed in without.items()},
        "default_method": _figures(default),
        "ratio_of_default": round(default.findings_per_second / plain.findings_per_second, 1),
    }


def _figures(speed: Speed) -> dict[str, Any]:
    return {
        "milliseconds_per_seed": round(1000 * speed.seconds_per_seed, 2),
        "milliseconds_per_step": round(1000 * speed.seconds_per_step, 3),
        "seeds_with_findings": round(speed.starts_per_seed, 3),
        "local_success": round(speed.findings_per_step, 3),
        "findings_per_second": round(speed.findings_per_second, 1),
    }


def _ratios(slow: Speed, fast: Speed) -> dict[str, float]:
    return {
        "global": round(slow.seconds_per_seed / fast.seconds_per_seed, 2),
        "local": round(slow.seconds_per_step / fast.seconds_per_step, 2),
        "paper_budget": round(slow.seconds / fast.seconds, 2),
    }


def audit_once(attribute: str) -> None:
    """What the child process does: an audit as a user starts it, with few steps. Prints when its search began."""
    begun: list[float] = []

    def note(progress: Progress) -> None:
        if not begun and progress.phase == "global":
            begun.append(time.time() - progress.seconds)

    with tempfile.TemporaryDirectory() as folder:
        audit_text(
            "wiki", attribute, out=folder, on_progress=note, lexicon="paper", iterations=2, steps=5, model=network()
        )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"begun": begun[0], "peak_mib": round(peak)}))


def audit_in_a_process(attribute: str) -> dict[str, float]:
    """Seconds from a process's start to its search, with a warm cache, and the process's peak memory."""
    start = time.time()
    command = [sys.executable, "-m", "bench.text_speed", "--audit-once", attribute]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    seen = json.loads(done.stdout.splitlines()[-1])
    return {"seconds_to_search": round(seen["begun"] - start, 1), "peak_memory_mib": seen["peak_mib"]}


def main() -> None:
    """Run all benchmarks and print them for people, or as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seeds", type=int, nargs=2, default=[950, 600], help="for religion and for country")
    parser.add_argument("--longest", type=int, default=180, help="words of a seed; the mean is then about 81")
    parser.add_argument("--steps", type=int, default=64, help="local steps of the batched search")
    parser.add_argument("--reference-seconds", type=float, default=30, help="for one text at a time, per attribute")
    parser.add_argument("--reference-steps", type=int, default=16, help="local steps of each walk, one text at a time")
    parser.add_argument("--idea-seeds", type=int, nargs=2, default=[100, 25], help="of the runs without an idea")
    parser.add_argument("--idea-steps", type=int, default=12, help="local steps of the runs without an idea")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--audit-once", choices=ATTRIBUTES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.audit_once:
        audit_once(options.audit_once)
        return
    corpus, vectors = load_corpus("wiki"), load_vectors("glove")
    report = {
        "searches": [
            measure(world_of(corpus, vectors, attribute, seeds, options.longest), options, few)
            for attribute, seeds, few in zip(ATTRIBUTES, options.seeds, options.idea_seeds, strict=True)
        ],
        "audits": {attribute: audit_in_a_process(attribute) for attribute in ATTRIBUTES},
    }
    print(json.dumps(report, indent=2) if options.json else as_text(report))


def as_text(report: dict[str, Any]) -> str:
    """The report for people."""
    lines: list[str] = []
    for found in report["searches"]:
        amount = found["one_at_a_time"]["seen"]
        rows = {"ADF, one text at a time": found["one_at_a_time"], "ADF, batched": found["batched"]}
        rows |= {f"  without {idea}": row for idea, row in found["without"].items()}
        rows |= {"our default, batched": found["default_method"]}
        ratio = found["ratio"]
        lines += [
            f"{found['attribute']} ({found['values']} values): {found['seeds']} seeds, {found['mean_words']} words and "
            f"{found['mean_variants']} variants on average; one at a time {amount['seeds']} seeds, "
            f"{amount['steps']} local steps",
            f"  {'':34}{'ms a seed':>11}{'ms a step':>11}{'findings/s in the paper’s budget':>35}",
            *(_row(name, row) for name, row in rows.items()),
            f"  batched against one at a time: {ratio['paper_budget']} × findings a second "
            f"(global phase {ratio['global']} ×, local phase {ratio['local']} ×); "
            f"our default against ADF one at a time: {found['ratio_of_default']} ×",
            "",
        ]
    for attribute, row in report["audits"].items():
        lines.append(
            f"an audit for {attribute} in a fresh process, warm cache: searches after {row['seconds_to_search']} s, "
            f"peak memory {row['peak_memory_mib']:,} MiB"
        )
    return "\n".join(lines)


def _row(name: str, row: dict[str, Any]) -> str:
    slower = f"   {row['times_slower']['paper_budget']:.2f} × the time" if "times_slower" in row else ""
    figures = f"{row['milliseconds_per_seed']:>11,.2f}{row['milliseconds_per_step']:>11,.3f}"
    return f"  {name:34}{figures}{row['findings_per_second']:>35,.1f}{slower}"


if __name__ == "__main__":
    main()
