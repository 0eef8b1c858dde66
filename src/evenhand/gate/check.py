"""A check: the rate of discriminatory samples in a stated population against what is allowed."""

import time
from pathlib import Path
from typing import Any

from evenhand.choices import OutputForm
from evenhand.data.dataset import Dataset
from evenhand.errors import EvenhandError
from evenhand.gate.decision import Verdict
from evenhand.gate.failures import FOLDER, Failures, default_name
from evenhand.gate.looking import (
    Looked,
    OnDone,
    Searched,
    look_again,
    look_at_people,
    look_at_samples,
    search_for_pairs,
)
from evenhand.gate.outcome import Outcome, Replayed, SearchedFor, ShownPair
from evenhand.gate.pairs import known_by
from evenhand.gate.reduce import Reducer
from evenhand.gate.settings import CheckSettings, PopulationName, SearchBudget, Undecided
from evenhand.gate.words import message, shown
from evenhand.models.classifier import Classifier
from evenhand.models.devices import choose_device, one_thread
from evenhand.report.statistics import Example
from evenhand.report.words import percent
from evenhand.runs.subject import names_of
from evenhand.runs.table_subject import as_dataset
from evenhand.runs.tried_model import try_model
from evenhand.search.space import TableSpace

SHOWN = 3


class DiscriminationFound(AssertionError):  # noqa: N818 - it says what was found
    """A check that did not hold; `outcome` says all about it."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(message(outcome))
        self.outcome = outcome


def assert_fair(
    model: Any,
    data: Any,
    protected: str | list[str] | None = None,
    *,
    max_rate: float = 0.01,
    confidence: float = 0.95,
    population: PopulationName = "people",
    within: dict[str, float] | None = None,
    changes: int = 2,
    most_samples: int = 200_000,
    search: bool | dict[str, Any] = True,
    undecided: Undecided = "fail",
    seed: int = 0,
    label: str | None = None,
    inputs: str | None = None,
    output: OutputForm = "auto",
    device: str = "auto",
    chunk_rows: int | None = None,
    threshold: float | None = None,
    accept_poor_model: bool = False,
    failures: str | Path | None = FOLDER,
    name: str | None = None,
) -> Outcome:
    """Raise `DiscriminationFound` unless at most `max_rate` of a population gets another label by who they are.

    `model` is anything that `evenhand.audit` takes; `data` a `Dataset`, a built-in name, the path of a schema file, or
    a pandas or polars frame with its `label` column. It holds where the upper bound of the rate, at this confidence, is
    at most `max_rate`; with `max_rate=0`, where no sample of the population nor of a search has a witness.
    `within={"age": 10}` compares people with themselves within ten years. Failing pairs are kept in the folder
    `failures` (None: nowhere) under `name` and looked at first next time; without a name, under that of the data, the
    attributes and the model, and of the test that runs. A model that does not read all of the protected attributes is
    not tested for the others, which is not to hold: name those that it reads.
    """
    __tracebackhide__ = True
    budget = SearchBudget.checked(**search) if isinstance(search, dict) else search
    settings = CheckSettings.checked(
        protected=names_of(protected) or None, within=within or {}, max_rate=max_rate, confidence=confidence,
        population=population,
        changes=changes, most_samples=most_samples, search=budget, undecided=undecided, seed=seed, label=label,
        inputs=inputs, output=output, device=device, chunk_rows=chunk_rows, threshold=threshold,
        accept_poor_model=accept_poor_model,
    )  # fmt: skip
    outcome = run_check(model, data, settings, name=name, failures=failures)
    if not outcome.passed:
        raise DiscriminationFound(outcome)
    return outcome


def run_check(
    model: Any,
    data: Any,
    settings: CheckSettings,
    *,
    name: str | None = None,
    failures: str | Path | None = FOLDER,
    on_progress: OnDone = lambda what, done, total: None,
) -> Outcome:
    """Look at the population and say what was found, without raising."""
    started = time.perf_counter()
    dataset, _ = as_dataset(data, settings.label, settings.protected or [])
    protected = settings.protected or dataset.schema.protected
    dataset = dataset.compared_within(settings.within, protected)
    if not dataset.possible.any():
        raise EvenhandError(
            f"No row of {dataset.name} is possible by the rules of its schema, so there is nobody to look at: correct "
            "[[impossible]] there."
        )
    device = choose_device(settings.device)
    space = TableSpace(dataset.schema, protected, device)
    subject = try_model(
        dataset, model, protected, device, output=settings.output, chunk_rows=settings.chunk_rows,
        inputs=settings.inputs, threshold=settings.threshold, accept_poor_model=settings.accept_poor_model,
        seed=settings.seed,
    )  # fmt: skip
    classifier = subject.classifier
    name = name or default_name(dataset, protected, model)
    if not subject.tested(protected):
        looked = look_at_people(classifier, space, dataset, settings, on_progress)
        if not looked.rate.discriminatory:  # in all rows, and not only in those that were tried
            return Outcome(
                name, dataset.name, subject.name, protected, settings, "not tested", None, warnings=subject.warnings,
                seconds=time.perf_counter() - started, model_rows=classifier.rows, untested=protected,
            )  # fmt: skip
        subject = subject.seen_to_read(protected)
    untested, protected = subject.idle(protected), subject.tested(protected)
    space = subject.space(dataset, protected)
    store = None if failures is None else Failures.of(failures, name, dataset.schema, protected)
    with one_thread(device):
        work = _Check(classifier, space, dataset, settings, store, on_progress)
        work.run()
        pairs = [] if settings.passes(work.verdict) else work.pairs()
    stored_in = work.stored(pairs)
    verdict: Verdict = "not tested" if untested and work.verdict != "exceeded" else work.verdict
    return Outcome(
        name, dataset.name, subject.name, protected, settings, verdict,
        None if work.looked is None else work.looked.rate,
        pairs, work.replayed,
        None if work.searched is None else SearchedFor(*work.searched[:3]),
        work.notes, stored_in,
        time.perf_counter() - started, classifier.rows, subject.warnings,
        untested, work.verdict if untested else None,
    )  # fmt: skip


class _Check:
    """The steps of a check and what they found."""

    def __init__(
        self,
        model: Classifier,
        space: TableSpace,
        data: Dataset,
        settings: CheckSettings,
        store: Failures | None,
        on_done: OnDone,
    ) -> None:
        self._model, self._space, self._data, self._settings, self._on_done = model, space, data, settings, on_done
        self._store, self._reducer = store, Reducer(model, space, data)
        self.notes: list[str] = []
        self.looked: Looked | None = None
        self.searched: Searched | None = None
        self._still: list[Example] = []
        self._unread = False  # whether there are stored pairs that could not be looked at
        self.replayed = Replayed()
        if store is not None:
            stored = store.read()
            self.notes += [] if stored.note is None else [stored.note]
            self._unread = stored.note is not None
            self._still = look_again(model, space, stored.codes)
            self.replayed = Replayed(len(stored.codes), len(self._still))

    def run(self) -> None:
        """Stored pairs first; then the population; where nothing is allowed, a search too."""
        nothing_allowed = self._settings.max_rate == 0
        if nothing_allowed and self._still:
            return
        look = look_at_people if self._settings.population == "people" else look_at_samples
        self.looked = look(self._model, self._space, self._data, self._settings, self._on_done)
        if self.looked.all_values is not None:
            rate = self.looked.all_values
            self.notes.append(
                f"With all values of {' and '.join(self._space.nearness.titles)}, however far from their own: "
                f"{percent(rate.share, 2)} ({rate.discriminatory:,} of {rate.samples:,})."
            )
        if nothing_allowed and self.looked.verdict == "held":
            self._search()

    def _search(self) -> list[Example]:
        if self._settings.search is None:
            return []
        self.searched = search_for_pairs(
            self._model, self._space, self._data, self._settings.search, self._settings.seed, self._on_done
        )
        return self.searched.pairs

    @property
    def verdict(self) -> Verdict:
        """What the steps say together."""
        found = self.searched is not None and self.searched.findings > 0
        if self.looked is None or (found and self._settings.max_rate == 0):
            return "exceeded"
        return self.looked.verdict

    def pairs(self) -> list[ShownPair]:
        """The clearest pairs: people as they are; where there are none, findings reduced to near a person."""
        people = [] if self.looked is None else self._people(self.looked)
        if not people:
            found = sorted(map(self._reducer.reduced, self._met()), key=self._reducer.distance)
            people = list({known_by(example, self._space): example for example in reversed(found)}.values())[::-1]
        return [shown(example, self._data, self._space) for example in people[:SHOWN]]

    def _met(self) -> list[Example]:
        """Findings that are not people of the data."""
        met = self._still + ([] if self.looked is None else self.looked.pairs)
        return met or (self._search() if self.searched is None else self.searched.pairs)

    def _people(self, looked: Looked) -> list[Example]:
        """Rows of the data that are discriminatory as they are; they are looked through unless they just were."""
        if self._settings.population != "people":
            looked = look_at_people(self._model, self._space, self._data, self._settings, self._on_done)
        return looked.pairs

    def _in_domain(self, example: Example) -> bool:
        """Whether a pair can be looked at again by its codes; people beyond the domain are looked at anyhow."""
        if example.person == "":
            return True
        return tuple(self._data.clipped[example.seed_row].tolist()) == example.sample

    def stored(self, pairs: list[ShownPair]) -> str | None:
        """Keep what to look at first next time: the pairs that are shown, and stored ones that still differ.

        Where they are kept, if they are; a folder that cannot be written to must not hide what was found.
        """
        if self._store is None:
            return None
        examples = [pair.example for pair in pairs if self._in_domain(pair.example)]
        known = {known_by(example, self._space) for example in examples}
        examples += [example for example in self._still if known_by(example, self._space) not in known]
        if self._unread and not examples:
            return None  # nobody has seen whether they still differ
        try:
            self._store.write(examples)
        except (EvenhandError, OSError) as error:
            self.notes.append(f"The pairs could not be kept. {error}")
            return None
        return str(self._store.path) if examples else None
