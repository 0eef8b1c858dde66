"""A check of a table: its people as they stand there, samples of its domain, and a search from its rows."""

import hashlib
from collections.abc import Hashable
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from evenhand.data.dataset import Dataset
from evenhand.data.schema import Schema
from evenhand.errors import EvenhandError
from evenhand.gate.decision import decide, looks, one_sided
from evenhand.gate.outcome import ShownPair
from evenhand.gate.reduce import Reducer
from evenhand.gate.subject import Looked, OnDone, Searched, run_search
from evenhand.measures.people import all_words, check_people, data_rates, limit_words, row_batches, rows_for_people
from evenhand.measures.populations import Neighbourhood, Uniform
from evenhand.measures.sampling import BATCH_ROWS
from evenhand.methods.registry import check_needs, chosen_method
from evenhand.models.adapters.base import person_reading
from evenhand.models.classifier import Classifier
from evenhand.models.trial import why_no_gradients
from evenhand.report.pairs import changes_of, table_card
from evenhand.report.sentences import example_lines
from evenhand.report.statistics import Clearest, Example, by_gap, example_at, examples_of
from evenhand.report.words import counted, percent
from evenhand.runs.table_subject import TableSubject
from evenhand.search.check import Checked, check
from evenhand.search.draws import Draws
from evenhand.search.recorder import Findings
from evenhand.search.space import TableSpace, hashed_rows
from evenhand.settings import SearchBudget

NOBODY = -1  # the seed row of a sample that did not start from a row
KEPT = 6  # pairs that are reduced before the best of them are shown
MEANING = ("name", "kind", "domain", "categories", "width", "step", "edges", "typical", "clip", "missing")
MORE_ROWS = (
    ', which the data does not have: give more rows, choose population = "neighbourhood", allow a larger max_rate, or '
    "ask for less confidence."
)


class TableCheck:
    """A table and a model, with what a check asks of them."""

    def __init__(self, subject: TableSubject, on_done: OnDone) -> None:
        if not subject.data.possible.any():
            raise EvenhandError(
                f"No row of {subject.data.name} is possible by the rules of its schema, so there is nobody to look at: "
                "correct [[impossible]] there."
            )
        self.subject = subject
        if not self.tested and self._people(on_done).rate.discriminatory:  # in all rows, not only in those tried
            self.subject = replace(subject, tried=subject.tried.read_after_all(subject.asked))

    @property
    def _data(self) -> Dataset:
        return self.subject.data

    @property
    def _model(self) -> Classifier:
        return self.subject.tried.classifier

    @property
    def _space(self) -> TableSpace:
        return self.subject.space

    @property
    def model_name(self) -> str:
        """How outputs name the model."""
        return self.subject.tried.name

    @property
    def model_rows(self) -> int:
        """Rows that the model was asked about so far."""
        return self._model.rows

    @property
    def warnings(self) -> list[str]:
        """What has to be known of the model before the verdict."""
        return self.subject.warnings

    @property
    def tested(self) -> list[str]:
        """The protected attributes that the model reads."""
        return self.subject.tried.tested(self.subject.asked)

    @property
    def untested(self) -> list[str]:
        """Those that it does not read."""
        return self.subject.tried.idle(self.subject.asked)

    def look(self, on_done: OnDone) -> Looked:
        """Look at the people of the data, or at samples of another population."""
        return (self._people if self.subject.settings.population == "people" else self._samples)(on_done)

    def _people(self, on_done: OnDone) -> Looked:
        """All rows of the data or, where they have too many variants, a random part of them; a single look."""
        model, space, data, settings = self._model, self._space, self._data, self.subject.settings
        clearest, numbers, hits, anywhere = ClearestMet(space, KEPT), [], [], []
        reading, on_rows = person_reading(model.module), partial(on_done, "rows of the data")
        for rows in row_batches(space, data, seed=settings.seed, most_rows=rows_for_people(model), on_done=on_rows):
            looked = check_people(model, space, data, rows)
            clearest.add(looked.found, rows, reading)
            numbers.append(rows)
            hits.append(looked.found.hit.cpu().numpy())
            anywhere.append(looked.anywhere.cpu().numpy())
        rows, hit, how = np.concatenate(numbers), np.concatenate(hits), limit_words(space)
        found = data_rates(data, rows, hit, ("all",), settings.confidence, how)
        if "all" not in found:
            raise EvenhandError(
                f"All rows of {data.name} that its rules call possible have the weight 0: nobody counts."
            )
        seen = found["all"]
        words = seen.population.replace("all rows", f"all {seen.samples:,} rows")
        rate = replace(one_sided(words, seen.discriminatory, seen.samples, settings.confidence), weighing=seen.weighing)
        notes = []
        if space.nearness:
            wide = data_rates(
                data, rows, np.concatenate(anywhere), ("all",), settings.confidence, all_words(space)
            )["all"]  # fmt: skip
            notes.append(
                f"With all values of {' and '.join(space.nearness.titles)}, however far from their own: "
                f"{percent(wide.share, 2)} ({wide.discriminatory:,} of {wide.samples:,})."
            )
        return Looked(rate, decide(rate, settings.max_rate), clearest.kept, MORE_ROWS, notes)

    def _samples(self, on_done: OnDone) -> Looked:
        """Samples of the whole domain or of the neighbourhood of the data, until decided or at the limit."""
        model, space, settings = self._model, self._space, self.subject.settings
        uniform = settings.population == "uniform"
        population = Uniform(space) if uniform else Neighbourhood(space, self._data, settings.changes)
        clearest, batch = ClearestMet(space, KEPT), max(1, BATCH_ROWS // space.variant_count)
        remedy = f": raise most_samples, which is {settings.most_samples:,}."
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
                return Looked(rate, verdict, clearest.kept, remedy)
        if not samples:
            raise EvenhandError(
                f"None of {drawn:,} samples of {population.words} is possible by the rules of the schema."
            )
        return Looked(rate, verdict, clearest.kept, remedy)

    def real_pairs(self, looked: Looked, on_done: OnDone) -> list[Example]:
        """Rows of the data that are discriminatory as they are; they are looked through unless they just were."""
        return (looked if self.subject.settings.population == "people" else self._people(on_done)).pairs

    def search(self, budget: SearchBudget, on_done: OnDone) -> Searched:
        """A small search from rows of the data."""
        clearest, seed = ClearestMet(self._space, KEPT), self.subject.settings.seed
        two_rows = self._space.samples(self._data.clipped[:2])
        name = chosen_method(budget.method, why_no_gradients(self._model, two_rows))
        check_needs([name], self._model, two_rows)
        world, method = self.subject.world(budget.seeds, seed), self.subject.method(name)
        counts = run_search(world, method, budget, seed, clearest.add_findings, on_done).counts
        return Searched(name, counts.all_generated, counts.all_findings, clearest.kept)

    def reduced(self, pairs: list[Example]) -> list[Example]:
        """Findings as near to a real person as can be, the nearest first."""
        reducer = Reducer(self._model, self._space, self._data)
        found = sorted(map(reducer.reduced, pairs), key=reducer.distance)
        return list({self.known_by(example): example for example in reversed(found)}.values())[::-1]

    def shown(self, pairs: list[Example], most: int) -> list[ShownPair]:
        """The first pairs in words."""
        return [self._shown(example) for example in pairs[:most]]

    def _shown(self, example: Example) -> ShownPair:
        card = table_card(example, self._data, self._space.protected, self._space.unread)
        shared, *sides, _ = example_lines(card.as_dict())
        codes = {"sample": list(example.sample), "witness": list(example.witness)}
        return ShownPair(example, shared, sides, self._origin(example), codes)

    def _origin(self, example: Example) -> str:
        """The real person, and the smallest change from them that still discriminates."""
        person = f"A real person of the data, row {example.seed_row + 1:,}"
        if example.person:
            return f"{person}, as they are."
        changes = changes_of(example, self._data)
        if not self._data.is_in_domain(example.seed_row):
            person += ", as the schema reads them"
        return f"{person}, with {counted(len(changes), 'change')}: {'; '.join(changes)}." if changes else f"{person}."

    def known_by(self, pair: Example) -> Hashable:
        """What a pair is known by: all but its protected values."""
        return known_by(pair, self._space)

    @property
    def meaning(self) -> tuple[str, dict[str, str]]:
        """The schema, which says what codes mean."""
        return "schema", {"name": self._data.schema.name, "fingerprint": fingerprint(self._data.schema)}

    def stored(self, pair: Example) -> dict[str, Any]:
        """A pair for the file of failures, in codes and in words."""
        label, witness = self._data.schema.label, self._values(pair.witness)
        return {
            "row": pair.seed_row + 1 if pair.seed_row >= 0 else None,
            "sample": self._values(pair.sample),
            "witness": {name: value for name, value in witness.items() if name in self.tested},
            "label": label.values[pair.label],
            "witness_label": label.values[pair.witness_label],
        }

    def _values(self, codes: tuple[int, ...]) -> dict[str, dict[str, Any]]:
        attributes = zip(self._data.schema.attributes, codes, strict=True)
        return {attribute.name: {"code": code, "words": attribute.text(code)} for attribute, code in attributes}

    def repeatable(self, pair: Example) -> bool:
        """Whether codes hold a pair; people beyond the domain are looked at anyhow."""
        return pair.person == "" or tuple(self._data.clipped[pair.seed_row].tolist()) == pair.sample

    def read_stored(self, pairs: list[dict[str, Any]]) -> NDArray[np.int32]:
        """(n, d) samples from the file of failures."""
        names = self._data.schema.names
        samples = [[pair["sample"][name]["code"] for name in names] for pair in pairs]
        return np.array(samples, dtype=np.int32).reshape(len(samples), len(names))

    def look_again(self, samples: NDArray[np.int32]) -> list[Example]:
        """Which of these samples are discriminatory, as pairs."""
        clearest = ClearestMet(self._space, len(samples))
        if len(samples):
            checked = check(self._model, self._space, self._space.samples(samples))
            clearest.add(checked, np.full(len(samples), NOBODY))
        return clearest.kept


class ClearestMet(Clearest):
    """Keeps the discriminatory samples whose scores differ most from their witness', no person or finding twice."""

    def __init__(self, space: TableSpace, most: int) -> None:
        super().__init__(most, partial(known_by, space=space))
        self._space = space

    def add(
        self, checked: Checked, rows: NDArray[np.int64] | None = None, person: Literal["", "codes", "exact"] = ""
    ) -> None:
        """Look through checked samples, which started from these rows of the data."""
        numbers = checked.hit.nonzero().squeeze(1)
        gap = (checked.score - checked.pair_score).abs()[numbers]
        ordered = numbers[gap.argsort(descending=True, stable=True)]
        shared = (checked.x[ordered] * self._space.kept).long().cpu().numpy()
        _, first = np.unique(hashed_rows(shared), return_index=True)  # rows of one kind count once
        best = ordered[np.sort(first)[: self._most].tolist()]
        seeds = np.full(len(checked), NOBODY) if rows is None else rows
        self.keep(examples_of(checked.take(best), self._space, seeds[best.cpu().numpy()], person))

    def add_findings(self, findings: Findings) -> None:
        """Look through findings of a search."""
        best = by_gap(findings.score, findings.witness_score)[: self._most]
        self.keep(example_at(findings, int(place), self._space.protected) for place in best)


def known_by(example: Example, space: TableSpace) -> tuple[int, ...]:
    """What a sample is known by: all but its protected values."""
    return tuple(code for index, code in enumerate(example.sample) if index not in space.protected)


def fingerprint(schema: Schema) -> str:
    """Names what codes mean: equal for schemas whose attributes have the same codes, whatever words they have."""
    meanings = [attribute.model_dump_json(include=set(MEANING)) for attribute in schema.attributes]
    return hashlib.sha256("\n".join([*meanings, *schema.label.values]).encode()).hexdigest()[:16]


def _possible(
    model: Classifier, space: TableSpace, x: torch.Tensor, rows: NDArray[np.int64] | None
) -> tuple[Checked, NDArray[np.int64] | None]:
    """Check the samples that the schema's rules leave; the others belong to no population."""
    possible = space.possible(x)
    if possible is None:
        return check(model, space, x), rows
    kept = rows[possible.cpu().numpy()] if rows is not None else None
    return (check(model, space, x[possible]) if possible.any() else Checked.nothing(x)), kept
