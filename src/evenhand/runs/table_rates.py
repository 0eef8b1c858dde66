"""What a measurement of a table looks at: the domain, people, their neighbourhood, groups, findings of an audit."""

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from evenhand.errors import EvenhandError
from evenhand.files import read_json
from evenhand.measures.direction import directions, label_directions, label_variants
from evenhand.measures.groups import group_figures
from evenhand.measures.people import limit_words, people_rates
from evenhand.measures.populations import Neighbourhood, Population, Uniform
from evenhand.measures.rates import Rate
from evenhand.measures.sampling import SampledRate, sample_population
from evenhand.report.words import joined
from evenhand.runs.subject import Interrupted, OnCount, Subject
from evenhand.runs.summary import FINDINGS, SUMMARY
from evenhand.runs.table_subject import TableSubject
from evenhand.search.space import MOST_VARIANTS, TableSpace

MOST_FINDINGS = 100_000  # of an earlier audit that are looked at again
FINDINGS_AT_A_TIME = 10_000


class TableRates:
    """The rates of one table and model."""

    def __init__(self, subject: TableSubject, on_progress: OnCount, interrupted: Interrupted) -> None:
        self._subject, self._settings = subject, subject.settings
        self._model, self._data = subject.tried.classifier, subject.data
        self._on_progress, self._interrupted = on_progress, interrupted
        self.notes: list[str] = []
        label = self._data.schema.label
        self.favourable = label.text(label.favourable_code)
        self.favourable_named = label.favourable is not None
        self.parts = self._parts(subject.protected)
        self._spaces = [subject.tried.space(self._data, names) for names in self.parts]
        self._near = [Neighbourhood(space, self._data, self._settings.changes) for space in self._spaces]
        self._earlier = None
        if self._settings.findings is not None:
            folder = Path(self._settings.findings)
            self._earlier = earlier_summary(folder, "table")
            name = self._earlier["dataset"]["name"]
            if name != self._data.name:
                raise EvenhandError(f"The findings of {folder} are about {name}, not {self._data.name}.")

    def _parts(self, names: list[str]) -> list[list[str]]:
        """Each attribute, and all together unless they have too many combinations."""
        parts = [[name] for name in names]
        if len(names) > 1:
            schema = self._data.schema
            indices = schema.protected_indices(names)
            combinations = math.prod(schema.attributes[index].size for index in indices)
            if combinations <= MOST_VARIANTS:
                return [*parts, [schema.names[index] for index in sorted(indices)]]
            self.notes.append(
                f"{joined(names)} together have {combinations:,} combinations, too many to check: left out"
            )
        return parts

    def of_data(self, names: list[str]) -> Iterator[dict[str, Any]]:
        """The rate and the direction of each population, until interrupted."""
        number, what, confidence = self.parts.index(names), joined(names), self._settings.confidence
        space = self._spaces[number]
        yield self._sampled(Uniform(space), space, what)
        if self._interrupted():
            return
        on_done = partial(self._on_progress, f"{what}, rows of the data")
        people = people_rates(
            self._model, space, self._data, confidence=confidence, interrupted=self._interrupted, on_done=on_done
        )
        yield from (_as_dict(name, found, space) for name, found in people.items())
        if not self._interrupted():
            yield self._sampled(self._near[number], space, what)

    def _sampled(self, population: Population, space: TableSpace, what: str) -> dict[str, Any]:
        settings = self._settings
        found = sample_population(
            self._model, space, population, half_width=settings.half_width, confidence=settings.confidence,
            seed=settings.seed, most_samples=settings.most_samples, interrupted=self._interrupted,
            on_done=partial(self._on_progress, f"{what}, {population.name}"),
        )  # fmt: skip
        rate = replace(found.rate, population=f"{found.rate.population}{limit_words(space)}")
        return _as_dict(population.name, found._replace(rate=rate), space)

    def groups(self) -> list[dict[str, Any]]:
        """Group figures."""
        return [figures.as_dict() for figures in group_figures(self._model, self._data, self._subject.asked)]

    def settled(self, found_any: bool) -> Subject:
        """What was measured; where some label changed, the model reads what is protected after all."""
        subject = self._subject
        if found_any and not subject.is_tested:
            subject = replace(subject, tried=subject.tried.read_after_all(subject.asked))
        return subject

    def of_findings(self, folder: Path) -> Rate:
        """The share of an earlier audit's findings that are still findings, among all of them or a random part."""
        assert self._earlier is not None
        space = TableSpace(self._data.schema, self._earlier["protected"], self._model.device)
        codes, total = self._codes(folder)
        hits = 0
        for start in range(0, len(codes), FINDINGS_AT_A_TIME):
            x = space.samples(codes[start : start + FINDINGS_AT_A_TIME])
            hits += len(label_variants(self._model, space, x).won)
            self._on_progress("findings", min(start + FINDINGS_AT_A_TIME, len(codes)), len(codes))
        return Rate(findings_words(folder, len(codes), total), hits, len(codes), self._settings.confidence)

    def _codes(self, folder: Path) -> tuple[NDArray[np.int32], int]:
        columns = [f"sample_code.{name}" for name in self._data.schema.names]
        table = pq.read_table(folder / FINDINGS, columns=columns)
        if not len(table):
            raise EvenhandError(f"The audit in {folder} has no findings to look at again.")
        rows = np.random.default_rng(self._settings.seed).permutation(len(table))[:MOST_FINDINGS]
        codes = np.stack([table[name].to_numpy()[rows] for name in columns], axis=1)
        return codes.astype(np.int32), len(table)


def _as_dict(name: str, found: SampledRate, space: TableSpace) -> dict[str, Any]:
    note = {} if found.note is None else {"note": found.note}
    who = [direction.as_dict() for direction in directions(found.tally, space)]
    pairs = [direction.as_dict() for direction in label_directions(found.tally, space)]
    by_labels = {"label_pairs": pairs} if pairs else {}
    return {"name": name, **found.rate.as_dict(), "drawn": found.drawn, **note, "direction": who, **by_labels}


def earlier_summary(folder: Path, domain: str) -> dict[str, Any]:
    """The summary of an audit whose findings are there; `domain` is table or text."""
    summary = read_json(folder / SUMMARY)
    if summary.get("kind") != "audit" or not (folder / FINDINGS).is_file():
        raise EvenhandError(f"{folder} does not hold an audit: it needs {SUMMARY} and {FINDINGS} of one run.")
    if summary.get("domain", "table") != domain:
        raise EvenhandError(f"The findings of {folder} are of another kind: these data are a {domain}.")
    return summary


def findings_words(folder: Path, looked_at: int, total: int) -> str:
    """Findings as a population."""
    return f"{'all' if looked_at == total else f'a random part of the {total:,}'} findings of {folder}"
