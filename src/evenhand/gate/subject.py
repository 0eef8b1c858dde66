"""What a check looks at: the people of a table or the texts of a corpus.

What differs between the two stands in `tables` and `texts`; the check itself is written once, over this.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, Protocol

from evenhand.errors import EvenhandError
from evenhand.gate.decision import Verdict
from evenhand.gate.outcome import ShownPair
from evenhand.measures.rates import Rate
from evenhand.runs.subject import SearchWorld, Subject
from evenhand.search.method import Method
from evenhand.search.recorder import Findings
from evenhand.search.search import Limits, Progress, Search, SearchResult
from evenhand.settings import SearchBudget

Pair = Any  # an `Example` of a table, a `TextFinding` of texts
OnDone = Callable[[str, int, int], None]  # what is looked at, how many so far, how many in all


class Looked(NamedTuple):
    """A population's rate, the verdict on it, and its clearest pairs."""

    rate: Rate
    verdict: Verdict
    pairs: list[Pair]
    remedy: str  # what gives more samples
    notes: Sequence[str] = ()


class Searched(NamedTuple):
    """What a search found."""

    method: str
    generated: int
    findings: int
    pairs: list[Pair]


class CheckSubject(Protocol):
    """A subject with what a check asks of it."""

    @property
    def subject(self) -> Subject:
        """The data and the model, with the settings of the check."""

    @property
    def model_name(self) -> str:
        """How outputs name the model."""

    @property
    def model_rows(self) -> int:
        """Rows that the model was asked about so far."""

    @property
    def warnings(self) -> list[str]:
        """What has to be known before the verdict."""

    @property
    def tested(self) -> list[str]:
        """The protected attributes that can be tested."""

    @property
    def untested(self) -> list[str]:
        """Those that cannot."""

    def look(self, on_done: OnDone) -> Looked:
        """Look at the population that the check is about."""

    def real_pairs(self, looked: Looked, on_done: OnDone) -> list[Pair]:
        """People or texts of the data that are discriminatory as they stand there, the clearest first."""

    def search(self, budget: SearchBudget, on_done: OnDone) -> Searched:
        """A small search from people or texts of the data."""

    def reduced(self, pairs: list[Pair]) -> list[Pair]:
        """Pairs that are not in the data, brought as near to it as can be, the nearest first."""

    def shown(self, pairs: list[Pair], most: int) -> list[ShownPair]:
        """Some of the pairs in words."""

    def known_by(self, pair: Pair) -> Hashable:
        """What a pair is known by: all but what is protected."""

    @property
    def meaning(self) -> tuple[str, dict[str, str]]:
        """What says what stored pairs mean, a schema or a lexicon: its kind, its name and its fingerprint."""

    def stored(self, pair: Pair) -> dict[str, Any]:
        """A pair for the file of failures."""

    def repeatable(self, pair: Pair) -> bool:
        """Whether a pair can be looked at again by what is stored of it."""

    def read_stored(self, pairs: list[dict[str, Any]]) -> Any:
        """Samples from the file of failures; a `KeyError`, `TypeError` or `ValueError` where they are none."""

    def look_again(self, samples: Any) -> list[Pair]:
        """Which of these samples are discriminatory, as pairs."""


def run_search(
    world: SearchWorld,
    method: Method[Any, Any],
    budget: SearchBudget,
    seed: int,
    sink: Callable[[Findings], None],
    on_done: OnDone,
) -> SearchResult:
    """A search within a budget; one that broke off without findings is an error, and not one in vain."""

    def on_progress(progress: Progress) -> None:
        on_done(f"search, {progress.phase} steps", progress.done, progress.total)

    limits = Limits(budget.iterations, budget.steps, budget.max_seconds)
    search = Search(world.model, world.space, method, seed=seed, limits=limits, sink=sink, on_progress=on_progress)
    before = world.model.rows
    result = search.run(world.samples, world.rows)
    world.model.rows += before  # a search counts from zero
    if result.error is not None and not result.counts.all_findings:
        raise EvenhandError(result.error)
    return result
