"""Rates by sampling, until the interval is as narrow as asked, with an interval that stays honest about the looking.

The work goes in stages. How many samples a stage draws is fixed before it begins, from the stages before it, and all
of its samples are new. So, given the past, its Clopper-Pearson interval is exact. Stage j may miss with its own share
of the error, and all shares together are at most 1 - confidence; so whichever stage is reported, its interval covers
the truth at least as often as asked.
"""

import copy
import math
import os
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import count
from queue import SimpleQueue
from typing import NamedTuple

import numpy as np
import torch

from evenhand.errors import EvenhandError
from evenhand.measures.direction import Tally, VariantLabels, label_variants
from evenhand.measures.populations import Population
from evenhand.measures.rates import Rate, clopper_pearson
from evenhand.models.adapters.base import Adapter
from evenhand.models.classifier import Classifier
from evenhand.search.draws import Draws
from evenhand.search.space import TableSpace

BATCH_ROWS = 131_072  # model rows at a time; it bounds memory, and what a wish to stop has to wait for
MOST_THREADS = 4
MOST_SAMPLES = 100_000_000
SMALLEST_PILOT = 1000
PILOT_SHARE = 1 / 300  # of what the least favourable rate, one half, would take
PILOT_ERROR, MAIN_ERROR = 0.05, 0.9  # shares of the error; a stage after the main one has a twentieth of the last
CAUTION = 0.9  # level of the interval whose end nearest to one half is taken for the rate when a stage is planned


class SampledRate(NamedTuple):
    """A rate by sampling, with the counts of the samples that it rests on."""

    rate: Rate
    tally: Tally
    drawn: int  # samples of all stages, impossible ones included
    note: str | None  # why the interval is wider than asked, if it is


def sample_population(
    model: Classifier,
    space: TableSpace,
    population: Population,
    *,
    half_width: float,
    confidence: float,
    seed: int = 0,
    most_samples: int = MOST_SAMPLES,
    interrupted: Callable[[], bool] = lambda: False,
    on_done: Callable[[int, int], None] = lambda done, total: None,
) -> SampledRate:
    """The share of discriminatory samples to within `half_width` at this confidence, and who wins among them.

    Interrupted, or out of samples, it reports what it has; the interval is then wider than asked. When a person
    interrupts does not depend on what was seen, so the samples of a stage until then are a smaller stage.
    """
    check_precision(half_width, confidence)
    size, drawn = min(pilot_size(half_width, confidence), most_samples), 0
    best: tuple[Rate, Tally] | None = None
    for stage in count():
        error = error_share(stage) * (1 - confidence)
        tally, end = _draw(model, space, population, seed, drawn, size, interrupted, on_done)
        possible, drawn = tally.samples / (end - drawn), end
        if not tally.samples:
            raise EvenhandError(
                f"None of {drawn:,} samples of {population.words} is possible by the rules of the schema. Correct the "
                "entries of [[impossible]]."
            )
        if best is None or tally.samples >= best[1].samples:
            best = Rate(population.words, tally.hits, tally.samples, confidence, error), tally
        rate, tally = best
        if rate.half_width <= half_width:
            return SampledRate(rate, tally, drawn, None)
        if interrupted():
            return SampledRate(rate, tally, drawn, "wider than asked, since it was interrupted")
        needed = math.ceil(_planned(rate, half_width, error_share(stage + 1)) / possible)
        size = min(needed, most_samples - drawn)
        if size * possible <= tally.samples:
            return SampledRate(rate, tally, drawn, f"wider than asked, since {most_samples:,} samples were the limit")
    raise AssertionError  # the stages have no end


def check_precision(half_width: float, confidence: float) -> None:
    """The border's check of what is asked for."""
    if not 0 < half_width < 0.5:
        raise EvenhandError(
            f"The half-width is {half_width}, but it is half the length of a share's interval: above 0 and below 0.5, "
            "such as 0.005 for half a percentage point."
        )
    check_confidence(confidence)


def check_confidence(confidence: float) -> None:
    """The same for the confidence alone."""
    if not 0 < confidence < 1:
        share = confidence / 100 if 1 < confidence < 100 else 0.95
        raise EvenhandError(
            f"The confidence is {confidence:g}, but it lies above 0 and below 1: write {share:g} for {100 * share:g} %."
        )


def error_share(stage: int) -> float:
    """Which share of the error a stage may spend; all together at most 1."""
    return PILOT_ERROR if stage == 0 else float(MAIN_ERROR * PILOT_ERROR ** (stage - 1))


def pilot_size(half_width: float, confidence: float) -> int:
    """Samples of the first stage: few against what follows, enough to plan it well."""
    return max(SMALLEST_PILOT, int(PILOT_SHARE * samples_needed(0.5, half_width, 1 - confidence)))


def _planned(rate: Rate, half_width: float, share: float) -> int:
    """Samples of the next stage: enough, if the rate is not nearer to one half than a cautious guess of it."""
    low, high = clopper_pearson(rate.discriminatory, rate.samples, CAUTION)
    guess = float(np.clip(0.5, low, high))
    # A stage that was too narrow by a hair must not be repeated in the same size.
    return max(samples_needed(guess, half_width, share * (1 - rate.confidence)), rate.samples + 1)


def samples_needed(rate: float, half_width: float, error: float) -> int:
    """The fewest samples whose interval is narrow enough when a share `rate` of them are hits."""
    enough = 1
    while not _narrow(rate, enough, half_width, error):
        enough *= 2
    too_few = enough // 2
    while enough - too_few > 1:
        middle = (enough + too_few) // 2
        if _narrow(rate, middle, half_width, error):
            enough = middle
        else:
            too_few = middle
    return enough


def _narrow(rate: float, samples: int, half_width: float, error: float) -> bool:
    low, high = clopper_pearson(rate * samples, samples, 1 - error)
    return high - low <= 2 * half_width


def _draw(
    model: Classifier,
    space: TableSpace,
    population: Population,
    seed: int,
    first: int,
    size: int,
    interrupted: Callable[[], bool],
    on_done: Callable[[int, int], None],
) -> tuple[Tally, int]:
    """Look at samples with the numbers from `first` on; when interrupted at fewer, but at least one batch.

    With the tally of the possible ones comes the number after the last.

    A sample's random numbers belong to its own number, so neither batches nor threads leave a trace in the result.
    What an interrupt leaves is a first part of the stage: what threads did ahead of it is not kept.
    """
    tally = Tally(space.variant_count, len(space.schema.label.values))
    batch = max(1, BATCH_ROWS // space.variant_count)

    def looked(asked: Classifier, start: int) -> VariantLabels:
        numbers = torch.arange(start, min(start + batch, first + size), device=model.device)
        draws = Draws(seed, population.stream, numbers, population.per_sample, block_steps=1)
        return label_variants(asked, space, population.samples(draws.all_of(0)))

    starts = range(first, first + size, batch)
    with closing(_in_threads(looked, model, starts)) as results:
        for start, found in zip(starts, results, strict=True):
            tally.add(int(found.possible.sum()), found.won, found.there, found.labels)
            end = min(start + batch, first + size)
            on_done(end, first + size)
            if interrupted():
                break
    return tally, end


def _in_threads(
    work: Callable[[Classifier, int], VariantLabels], model: Classifier, starts: range
) -> Generator[VariantLabels]:
    """The work's results in order, with a thread for each core; closed early, it drops what has not begun.

    torch's own threads bring nothing on small networks; a batch for each thread does. A module may keep things while
    it works, so each thread asks a copy of its own; a model of another framework cannot be copied and is asked alone.
    """
    alone = any(isinstance(part, Adapter) and not part.thread_safe for part in model.module.modules())
    threads = min(_cores(), MOST_THREADS, len(starts)) if model.device.type == "cpu" and not alone else 1
    if threads == 1:
        yield from (work(model, start) for start in starts)
        return
    copies = [copy.deepcopy(model) for _ in range(threads)]
    idle: SimpleQueue[Classifier] = SimpleQueue()
    for own in copies:
        own.rows = 0
        idle.put(own)

    def with_copy(start: int) -> VariantLabels:
        own = idle.get()
        try:
            return work(own, start)
        finally:
            idle.put(own)

    try:
        with ThreadPoolExecutor(threads) as pool:
            yield from pool.map(with_copy, starts)
    finally:
        model.count(sum(own.rows for own in copies))


def _cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
