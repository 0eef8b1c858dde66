"""What a file of findings in texts says in numbers, and its clearest pairs.

The file is read batch by batch, without its texts; texts are read only for one finding of each seed.
"""

from collections import Counter
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from evenhand.report.flips import Flips, flips_of
from evenhand.report.statistics import BATCH_ROWS, array, counted_groups
from evenhand.report.text_marks import has_strong_words, marks

TEXT_ROWS = 4_096  # texts are long
MOST_TEXTS = 5_000  # findings whose texts are read
REPLACEMENTS = 3  # shown for each replaced word

# What makes a pair clear, in units of the difference of scores.
CHANGE_COST = 0.2  # for each replaced word
LENGTH_COST = 1 / 5_000  # for each character
STRONG_COST = 0.5  # for words that not everyone wants to meet
SAME_PAIR_COST, SAME_VALUE_COST = 0.15, 0.05  # for each time that an earlier example has them

SIDES = ["label", "witness_label", "value", "witness_value"]
FIGURES = ["seed_row", "phase", "score", "witness_score", "l0", "bleu", "similarity"]


@dataclass(frozen=True)
class TextFinding:
    """One finding with its texts."""

    seed_row: int
    phase: str
    label: str
    witness_label: str
    value: str
    witness_value: str
    score: float  # of the label, for the text
    witness_score: float  # of the same label, for the witness
    l0: int
    bleu: float
    similarity: float | None
    clarity: float
    original: str
    text: str
    witness: str


@dataclass(frozen=True)
class ReplacedWord:
    """A word, in how many findings it was replaced, and by what most often."""

    word: str
    findings: int
    by: list[tuple[str, int]]


@dataclass(frozen=True)
class TextStatistics:
    """Everything that the report says about findings in texts."""

    findings: int
    flips: Flips[str]
    clearest: list[TextFinding]  # one of each seed: of the global phase where it has one, the clearest first


def choose_examples(clearest: list[TextFinding], count: int) -> list[TextFinding]:
    """Some of the clearest findings: the global phase first; short texts without strong words, and values in turn."""
    left, chosen = list(clearest), list[TextFinding]()
    costs = {finding: LENGTH_COST * len(finding.text) + STRONG_COST * is_strong(finding) for finding in clearest}
    values: Counter[str] = Counter()
    pairs: Counter[frozenset[str]] = Counter()

    def rank(finding: TextFinding) -> tuple[bool, float]:
        both = frozenset((finding.value, finding.witness_value))
        cost = costs[finding] + SAME_PAIR_COST * pairs[both]
        cost += SAME_VALUE_COST * sum(values[value] for value in both)
        return finding.phase != "global", cost - finding.clarity

    while left and len(chosen) < count:
        best = min(left, key=rank)
        left.remove(best)
        chosen.append(best)
        values.update((best.value, best.witness_value))
        pairs[frozenset((best.value, best.witness_value))] += 1
    return chosen


def is_strong(finding: TextFinding) -> bool:
    """Whether any of its texts has strong words."""
    return has_strong_words(" ".join((finding.original, finding.text, finding.witness)))


def replaced_words(findings: list[TextFinding], most: int) -> list[ReplacedWord]:
    """The words that were replaced in most findings, whatever their case."""
    words: Counter[str] = Counter()
    by: dict[str, Counter[str]] = {}
    for finding in findings:
        values = (finding.value, finding.witness_value)
        changes = marks(finding.original, finding.text, finding.witness, values).changes
        pairs = {(before.lower(), after.lower()) for before, after in changes}
        words.update({before for before, _ in pairs})
        for before, after in pairs:
            by.setdefault(before, Counter())[after] += 1
    return [ReplacedWord(word, words[word], _first(by[word])[:REPLACEMENTS]) for word, _ in _first(words)[:most]]


def _first(counter: Counter[str]) -> list[tuple[str, int]]:
    """The most frequent first; equal ones by name, so that a report does not hang on the order of a set."""
    return sorted(counter.items(), key=lambda item: (-item[1], item[0]))


def text_statistics_of(summary: dict[str, Any], findings: Path) -> TextStatistics:
    """The statistics of an audit's findings."""
    dataset = summary["dataset"]
    return read_text_statistics(findings, dataset["classes"], dataset["favourable"])


def read_text_statistics(path: Path, classes: list[str], favourable: str | None) -> TextStatistics:
    """The statistics of a file of findings."""
    total = 0
    groups: Counter[tuple[str, str, str, str]] = Counter()
    clearest = _Clearest()
    with pq.ParquetFile(path) as file:
        for rows in file.iter_batches(BATCH_ROWS, columns=[*SIDES, *FIGURES]):
            groups.update(counted_groups(rows, SIDES))
            clearest.add(rows, total)
            total += len(rows)
        return TextStatistics(total, flips_of(groups, classes, favourable), clearest.read(file))


class _Clearest:
    """Chooses one finding of each seed: of the global phase where it has one, there the clearest."""

    def __init__(self) -> None:
        self._best: dict[int, tuple[bool, float, int]] = {}  # of each seed: whether local, - clarity, place in the file

    def add(self, rows: pa.RecordBatch, first: int) -> None:
        """Look through a batch whose rows begin at `first`."""
        local, clarity = ~array(pc.equal(rows["phase"].cast("string"), "global")), clarity_of(rows)
        seeds = array(rows["seed_row"])
        order = np.lexsort((-clarity, local, seeds))
        _, begins = np.unique(seeds[order], return_index=True)
        for place in order[begins].tolist():
            found = (bool(local[place]), -float(clarity[place]), first + place)
            seed = int(seeds[place])
            self._best[seed] = min(found, self._best.get(seed, found))

    def read(self, file: Any) -> list[TextFinding]:
        """The chosen findings with their texts."""
        chosen = sorted(self._best.values())[:MOST_TEXTS]
        texts = _read_rows(file, np.array(sorted(place for _, _, place in chosen), dtype=np.int64))
        return [TextFinding(clarity=-cost, **texts[place]) for _, cost, place in chosen]


def clarity_of(rows: pa.RecordBatch | pa.Table) -> NDArray[np.float64]:
    """(n,) how plain a pair is: scores far apart, few words replaced, close to the original text."""
    score, witness_score, l0, bleu, similarity = (
        array(rows[name]).astype(np.float64) for name in ("score", "witness_score", "l0", "bleu", "similarity")
    )
    clarity: NDArray[np.float64] = np.abs(score - witness_score) - CHANGE_COST * l0
    return clarity + np.where(np.isnan(similarity), bleu, similarity)


def _read_rows(file: Any, places: NDArray[np.int64]) -> dict[int, dict[str, Any]]:
    """Some rows of a file by their places; row groups without any of them are not read."""
    rows: dict[int, dict[str, Any]] = {}
    columns = [field.name for field in fields(TextFinding) if field.name != "clarity"]
    first = 0
    for group in range(file.num_row_groups):
        end = first + file.metadata.row_group(group).num_rows
        if ((places >= first) & (places < end)).any():
            for batch in file.iter_batches(TEXT_ROWS, row_groups=[group], columns=columns):
                wanted = places[(places >= first) & (places < first + len(batch))]
                rows |= zip(wanted.tolist(), batch.take(pa.array(wanted - first)).to_pylist(), strict=True)
                first += len(batch)
        first = end
    return rows
