"""Looking at a population, and searching: what a check's verdict rests on, with the clearest pairs met on the way."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from evenhand.data.dataset import Dataset
from evenhand.errors import EvenhandError
from evenhand.gate.decision import Verdict, decide, looks, one_sided
from evenhand.gate.pairs import NOBODY, ClearestMet
from evenhand.gate.settings import CheckSettings, SearchBudget
from evenhand.measures.people import all_words, check_people, data_rates, limit_words, row_batches, rows_for_people
from evenhand.measures.populations import Neighbourhood, Uniform
from evenhand.measures.rates import Rate
from evenhand.measures.sampling import BATCH_ROWS
from evenhand.methods.registry import check_needs, chosen_method, make_method
from evenhand.models.adapters.base import person_reading
from evenhand.models.classifier import Classifier
from evenhand.models.trial import why_no_gradients
from evenhand.report.statistics import Example
from evenhand.search.check import Checked, check
from evenhand.search.draws import Draws
from evenhand.search.search import Limits, Progress, Search
from evenhand.search.seeds import choose_seeds
from evenhand.search.space import TableSpace

KEPT = 6  # pairs that are reduced before the best of them are shown
OnDone = Callable[[str, int, int], None]


class Looked(NamedTuple):
    """A population's rate, the verdict on it, and its clearest pairs."""

    rate: Rate
    verdict: Verdict
    pairs: list[Example]
    all_values: Rate | None = None  # against all values, where people are compared within a distance only


class Searched(NamedTuple):
    """What a search found."""

    method: str
    generated: int
    findings: int
    rows: int  # that the model was asked about
    pairs: list[Example]


def look_at_people(
    model: Classifier, space: TableSpace, data: Dataset, settings: CheckSettings, on_done: OnDone
) -> Looked:
    """All rows of the data or, where they have too many variants, a random part of them; a single look."""
    clearest, numbers, hits, anywhere = ClearestMet(space, KEPT), [], [], []

    def done(rows: int, total: int) -> None:
        on_done("rows of the data", rows, total)

    reading = person_reading(model.module)
    for rows in row_batches(space, data, seed=settings.seed, most_rows=rows_for_people(model), on_done=done):
        looked = check_people(model, space, data, rows)
        checked = looked.found
        anywhere.append(looked.anywhere.cpu().numpy())
        clearest.add(checked, rows, reading)
        numbers.append(rows)
        hits.append(checked.hit.cpu().numpy())
    rows, hit, how = np.concatenate(numbers), np.concatenate(hits), limit_words(space)
    found = data_rates(data, rows, hit, ("all",), settings.confidence, how)
    if "all" not in found:
        raise EvenhandError(f"All rows of {data.name} that its rules call possible have the weight 0: nobody counts.")
    seen = found["all"]
    words = seen.population.replace("all rows", f"all {seen.samples:,} rows")
    rate = replace(one_sided(words, seen.discriminatory, seen.samples, settings.confidence), weighing=seen.weighing)
    everywhere = None
    if space.nearness:
        wide = np.concatenate(anywhere)
        everywhere = data_rates(data, rows, wide, ("all",), settings.confidence, all_words(space))["all"]
    return Looked(rate, decide(rate, settings.max_rate), clearest.kept, everywhere)


def look_at_samples(
    model: Classifier, space: TableSpace, data: Dataset, settings: CheckSettings, on_done: OnDone
) -> Looked:
    """Samples of the whole domain or of the neighbourhood of the data, until decided or at the limit."""
    population = Uniform(space) if settings.population == "uniform" else Neighbourhood(space, data, settings.changes)
    clearest, batch = ClearestMet(space, KEPT), max(1, BATCH_ROWS // space.variant_count)
    drawn = samples = hits = 0
    plan = looks(settings.max_rate, settings.confidence, settings.most_samples)
    for until, error in plan:
        while drawn < until:
            numbers = torch.arange(drawn, min(drawn + batch, until), device=model.device)
            draws = Draws(settings.seed, population.stream, numbers, population.per_sample, block_steps=1).all_of(0)
            rows = population.rows(draws).cpu().numpy() if isinstance(population, Neighbourhood) else None
            checked, rows = _possible(model, space, population.samples(draws), rows)
            clearest.add(checked, rows)
            samples, hits, drawn = samples + len(checked), hits + int(checked.hit.sum()), int(numbers[-1]) + 1
            on_done("samples", drawn, until)
        if not samples:
            continue
        rate = one_sided(f"{population.words}{limit_words(space)}", hits, samples, settings.confidence, error)
        verdict = decide(rate, settings.max_rate)
        if verdict != "not shown" and (settings.max_rate or hits):
            return Looked(rate, verdict, clearest.kept)
    if not samples:
        raise EvenhandError(f"None of {drawn:,} samples of {population.words} is possible by the rules of the schema.")
    return Looked(rate, verdict, clearest.kept)


def _possible(
    model: Classifier, space: TableSpace, x: torch.Tensor, rows: NDArray[np.int64] | None
) -> tuple[Checked, NDArray[np.int64] | None]:
    """Check the samples that the schema's rules leave; the others belong to no population."""
    possible = space.possible(x)
    if possible is None:
        return check(model, space, x), rows
    kept = rows[possible.cpu().numpy()] if rows is not None else None
    return (check(model, space, x[possible]) if possible.any() else Checked.nothing(x)), kept


def look_again(model: Classifier, space: TableSpace, codes: NDArray[np.int32]) -> list[Example]:
    """Which of some samples are discriminatory, as pairs."""
    if not len(codes):
        return []
    clearest = ClearestMet(space, len(codes))
    clearest.add(check(model, space, space.samples(codes)), np.full(len(codes), NOBODY))
    return clearest.kept


def search_for_pairs(
    model: Classifier, space: TableSpace, data: Dataset, budget: SearchBudget, seed: int, on_done: OnDone
) -> Searched:
    """A small search from rows of the data."""
    clearest = ClearestMet(space, KEPT)
    x = torch.tensor(data.clipped[:2], dtype=torch.float32, device=model.device)
    name = chosen_method(budget.method, why_no_gradients(model, x))
    check_needs([name], model, x)
    before = model.rows

    def on_progress(progress: Progress) -> None:
        on_done(f"search, {progress.phase} steps", progress.done, progress.total)

    search = Search(
        model,
        space,
        make_method(name),
        seed=seed,
        limits=Limits(budget.iterations, budget.steps, budget.max_seconds),
        sink=clearest.add_findings,
        on_progress=on_progress,
    )
    rows = choose_seeds(data, budget.seeds, seed)
    result = search.run(data.codes[rows], rows)
    counts = result.counts
    if result.error is not None and not counts.all_findings:  # a search that broke off must not count as one in vain
        raise EvenhandError(result.error)
    asked, model.rows = model.rows, before + model.rows  # a search counts from zero
    return Searched(name, counts.all_generated, counts.all_findings, asked, clearest.kept)
