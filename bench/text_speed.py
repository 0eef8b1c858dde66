"""How fast the batched search on texts is: against one text at a time, by idea, in memory, at start-up.

`make bench`, or `python -m bench.text_speed --help`. The paper's ADF with its ASC rule searches the Wikipedia comments
and their LSTM, with the paper's words for religion and for country. All figures are of one thread.

The two phases are timed apart. The plain implementation takes as many seeds and walks as its time allows, the batched
search all of them; seconds for a seed and for a local step then say how long each needs for the paper's budget.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch

from bench.text_phases import IDEAS, Phases, Speed, World, network, world_of
from evenhand.methods.boundary import Boundary
from evenhand.methods.text_adf import TextADF
from evenhand.runs.audit import audit
from evenhand.search.check import Checked
from evenhand.search.search import Progress
from evenhand.text.corpus import load_corpus
from evenhand.text.vectors import load_vectors

ATTRIBUTES = ("religion", "country")
REPEATS = 3  # of the short runs without an idea, of which the best counts


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
    seen, amount = one_at_a_time(world, starts, options.reference_seconds, options.steps)
    # Verdicts are the same, and walks alike but for which witness they keep: in one budget both find as much.
    plain = batched.at(seen)
    short = [replace(adf, without=idea).speed(few, options.idea_steps, starts, REPEATS)[0] for idea in ("", *IDEAS)]
    base = short[0]
    without = {idea: base.at(speed) for idea, speed in zip(IDEAS, short[1:], strict=True)}
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
        audit("wiki", attribute, out=folder, on_progress=note, lexicon="paper", iterations=2, steps=5, model=network())
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
    parser.add_argument("--steps", type=int, default=32, help="local steps of each walk")
    parser.add_argument("--reference-seconds", type=float, default=40, help="for one text at a time, per attribute")
    parser.add_argument("--idea-seeds", type=int, nargs=2, default=[100, 20], help="of the runs without an idea")
    parser.add_argument("--idea-steps", type=int, default=8, help="local steps of the runs without an idea")
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
