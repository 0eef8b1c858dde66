"""A check: the rate of discriminatory samples in a stated population against what is allowed."""

import time
from pathlib import Path
from typing import Any

from evenhand.errors import EvenhandError
from evenhand.gate.decision import Verdict, passes
from evenhand.gate.failures import FOLDER, Failures, default_name
from evenhand.gate.outcome import Outcome, Replayed, SearchedFor, ShownPair
from evenhand.gate.subject import CheckSubject, Looked, OnDone, Pair, Searched
from evenhand.gate.tables import TableCheck
from evenhand.gate.texts import TextCheck
from evenhand.gate.words import message
from evenhand.models.devices import one_thread
from evenhand.runs.subject import open_subject
from evenhand.runs.table_subject import TableSubject
from evenhand.runs.text_subject import TextSubject

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
    label: str | None = None,
    failures: str | Path | None = FOLDER,
    name: str | None = None,
    **settings: Any,
) -> Outcome:
    """Raise `DiscriminationFound` unless at most `max_rate` of a population gets another decision by who they are.

    `model`, `data`, `protected` and `label` are what `evenhand.audit` takes, of tables and of texts. It holds where the
    upper bound of the rate, at this `confidence`, is at most `max_rate` (0.01); with `max_rate=0`, where no sample of
    the population nor of a `search` has a witness. `within={"age": 10}` compares people with themselves within ten
    years. Failing pairs are kept in the folder `failures` (None: nowhere) under `name` and looked at first next time;
    without a name, under that of the data, the attributes and the model, and of the test that runs. A model that does
    not read all of the protected attributes is not tested for the others, and texts of which none mentions the
    attribute are not tested either, which is not to hold. Other settings: see `CheckSettings` and `TextCheckSettings`.
    """
    __tracebackhide__ = True
    outcome = run_check(model, data, protected, label=label, failures=failures, name=name, **settings)
    if not outcome.passed:
        raise DiscriminationFound(outcome)
    return outcome


def run_check(
    model: Any,
    data: Any,
    protected: str | list[str] | None = None,
    *,
    label: str | None = None,
    failures: str | Path | None = FOLDER,
    name: str | None = None,
    on_progress: OnDone = lambda what, done, total: None,
    **settings: Any,
) -> Outcome:
    """Look at the population and say what was found, without raising."""
    started = time.perf_counter()

    def on_download(what: str, done: int, total: int) -> None:
        on_progress(f"download of {what}, bytes", done, total)

    subject = open_subject("check", data, protected, model=model, label=label, on_download=on_download, **settings)
    with one_thread(subject.device):
        check = _check_subject(subject, on_progress)
        told, asked = subject.settings, subject.settings.protected
        name = name or default_name(subject.data, asked, model)
        if not check.tested:
            return Outcome(
                name, subject.data.name, check.model_name, asked, told, "not tested", None, warnings=check.warnings,
                seconds=time.perf_counter() - started, model_rows=check.model_rows, untested=asked,
            )  # fmt: skip
        work = _Check(check, None if failures is None else Failures.of(failures, name, check), on_progress)
        work.run()
        pairs = [] if passes(work.verdict, told.undecided) else work.pairs()
    stored_in = work.stored(pairs)
    looked, searched, untested = work.looked, work.searched, check.untested
    return Outcome(
        name, subject.data.name, check.model_name, check.tested, told,
        "not tested" if untested and work.verdict != "exceeded" else work.verdict,
        None if looked is None else looked.rate,
        pairs, work.replayed,
        None if searched is None else SearchedFor(searched.method, searched.generated, searched.findings),
        work.notes, stored_in,
        time.perf_counter() - started, check.model_rows, check.warnings,
        untested, work.verdict if untested else None,
        "" if looked is None else looked.remedy,
    )  # fmt: skip


def _check_subject(subject: Any, on_progress: OnDone) -> CheckSubject:
    if isinstance(subject, TextSubject):
        return TextCheck(subject)
    assert isinstance(subject, TableSubject)
    return TableCheck(subject, on_progress)


class _Check:
    """The steps of a check and what they found."""

    def __init__(self, subject: CheckSubject, store: Failures | None, on_done: OnDone) -> None:
        self._subject, self._store, self._on_done = subject, store, on_done
        self._settings = subject.subject.settings
        self.notes: list[str] = []
        self.looked: Looked | None = None
        self.searched: Searched | None = None
        self._still: list[Pair] = []
        self._unread = False  # whether there are stored pairs that could not be looked at
        self.replayed = Replayed()
        if store is not None:
            stored = store.read()
            self.notes += [] if stored.note is None else [stored.note]
            self._unread = stored.note is not None
            self._still = subject.look_again(stored.samples)
            self.replayed = Replayed(len(stored.samples), len(self._still))

    def run(self) -> None:
        """Stored pairs first; then the population; where nothing is allowed, a search too."""
        nothing_allowed = self._settings.max_rate == 0
        if nothing_allowed and self._still:
            return
        self.looked = self._subject.look(self._on_done)
        self.notes += self.looked.notes
        if nothing_allowed and self.looked.verdict == "held":
            self._search()

    def _search(self) -> list[Pair]:
        if self._settings.search is None:
            return []
        self.searched = self._subject.search(self._settings.search, self._on_done)
        return self.searched.pairs

    @property
    def verdict(self) -> Verdict:
        """What the steps say together."""
        found = self.searched is not None and self.searched.findings > 0
        if self.looked is None or (found and self._settings.max_rate == 0):
            return "exceeded"
        return self.looked.verdict

    def pairs(self) -> list[ShownPair]:
        """The clearest pairs: real ones as they are; where there are none, findings reduced to near a real one."""
        real = [] if self.looked is None else self._subject.real_pairs(self.looked, self._on_done)
        return self._subject.shown(real or self._subject.reduced(self._met()), SHOWN)

    def _met(self) -> list[Pair]:
        """Findings that do not stand in the data."""
        met = self._still + ([] if self.looked is None else self.looked.pairs)
        return met or (self._search() if self.searched is None else self.searched.pairs)

    def stored(self, shown: list[ShownPair]) -> str | None:
        """Keep what to look at first next time: the pairs that are shown, and stored ones that still differ.

        Where they are kept, if they are; a folder that cannot be written to must not hide what was found.
        """
        if self._store is None:
            return None
        pairs = [pair.example for pair in shown if self._subject.repeatable(pair.example)]
        known = {self._subject.known_by(pair) for pair in pairs}
        pairs += [pair for pair in self._still if self._subject.known_by(pair) not in known]
        if self._unread and not pairs:
            return None  # nobody has seen whether they still differ
        try:
            self._store.write(pairs)
        except (EvenhandError, OSError) as error:
            self.notes.append(f"The pairs could not be kept. {error}")
            return None
        return str(self._store.path) if pairs else None
