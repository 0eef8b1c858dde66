"""The file of findings in texts, with how far each is from the text it came from."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from evenhand.measures.similarity import Encoder, similarities
from evenhand.measures.validity import validity
from evenhand.runs.findings import RowGroups, common_columns, no_findings
from evenhand.runs.text_world import TextSearchWorld
from evenhand.search.recorder import PHASES, Findings
from evenhand.search.text_space import CODES

PART = 4096  # findings that become rows together
SAMPLED = 1000  # findings of the local phase whose similarity is measured for the mean
METRICS = ("l0", "l2", "jaccard", "bleu")


class TextFindingsWriter:
    """Turns findings in texts into rows of a file, and adds up how valid they are.

    A sentence encoder takes milliseconds for each text. So the similarity of local findings, which can be hundreds of
    thousands, is measured on a sample of them, unless a least similarity is asked for; first findings are kept until
    the search is over, and all of them are measured then.
    """

    def __init__(
        self,
        path: Path,
        world: TextSearchWorld,
        classes: Sequence[str],
        encoder: Encoder | None = None,
        min_similarity: float | None = None,
    ) -> None:
        self.ruled_out = 0  # findings that are less similar than asked
        self._world, self._labels = world, pa.array(classes)
        self._encoder, self._least = encoder, min_similarity
        self._vectors = world.model.vectors.cpu().numpy()
        self._first: list[Findings] = []
        self._sums = {phase: _Means() for phase in PHASES}
        self._rng = np.random.default_rng(0)
        self._file = RowGroups(path, self._table(no_findings(CODES + world.space.width, 1)).schema)

    def write(self, findings: Findings) -> None:
        """Add findings; those of the global phase wait."""
        for start in range(0, len(findings), PART):
            part = _slice(findings, slice(start, start + PART))
            first = part.phase == PHASES.index("global")
            self._first.append(_slice(part, first))
            self._add(_slice(part, ~first), measure=self._least is not None)

    def finish(self) -> dict[str, dict[str, float | int | None]]:
        """Write the first findings when the search is over; the means of the measures, by phase.

        The mean similarity of local findings is that of a sample of them.
        """
        for part in self._first:
            self._add(part, measure=True)
        self._sums["local"].measure(self._encoder)
        return {phase: sums.as_dict() for phase, sums in self._sums.items()}

    def close(self, complete: bool) -> None:
        """End the file, unless it is to be thrown away."""
        self._file.close(complete)

    def _add(self, findings: Findings, measure: bool) -> None:
        if not len(findings):
            return
        table = self._table(findings)
        similarity: NDArray[np.float32] | None = None
        if measure and self._encoder is not None:
            similarity = similarities(self._encoder, table["original"].to_pylist(), table["text"].to_pylist())
            table = table.set_column(table.column_names.index("similarity"), "similarity", pa.array(similarity))
            if self._least is not None:
                keep = similarity >= self._least
                self.ruled_out += int((~keep).sum())
                table, similarity = table.filter(pa.array(keep)), similarity[keep]
        phase = PHASES[int(findings.phase[0])]
        self._sums[phase].add(table, similarity, self._rng)
        self._file.add(table)

    def _table(self, findings: Findings) -> pa.Table:
        space, texts = self._world.space, self._world.space.texts
        x = torch.tensor(findings.sample, dtype=torch.long, device=space.device)
        swap = torch.tensor(findings.witness[:, 0], dtype=torch.long, device=space.device)
        source = findings.sample[:, 0]
        units, witness = (space.inputs(of)[:, 1:].cpu().numpy() for of in (x, space.with_combination(x, swap)))
        originals = texts.rows[source]
        measures = validity(originals, units, self._vectors)
        values = pa.array(texts.words.values)
        own, other = space.swapped_values(x, swap)
        strings = {
            "original": pa.array([texts.tokens[number].text for number in source], pa.string()),
            "text": pa.array([texts.render(*pair) for pair in zip(source, units, strict=True)], pa.string()),
            "witness": pa.array([texts.render(*pair) for pair in zip(source, witness, strict=True)], pa.string()),
        }
        columns = common_columns(findings, self._labels) | strings
        columns["value"] = pa.DictionaryArray.from_arrays(pa.array(own.astype(np.int32)), values)
        columns["witness_value"] = pa.DictionaryArray.from_arrays(pa.array(other.astype(np.int32)), values)
        columns |= {name: pa.array(getattr(measures, name)) for name in METRICS}
        columns["similarity"] = pa.nulls(len(findings), pa.float32())
        return pa.table(columns)


class _Means:
    """Means of the measures, and a random sample of pairs for the one that is too dear to measure for all."""

    def __init__(self) -> None:
        self.count, self.similar, self.similar_of = 0, 0.0, 0
        self.sums = dict.fromkeys(METRICS, 0.0)
        self._keys: NDArray[np.float64] = np.zeros(0)
        self._pairs: list[tuple[str, str]] = []

    def add(self, table: pa.Table, similarity: NDArray[np.float32] | None, rng: np.random.Generator) -> None:
        self.count += len(table)
        for name in METRICS:
            self.sums[name] += float(np.asarray(table[name], dtype=np.float64).sum())
        if similarity is not None:
            self.similar, self.similar_of = self.similar + float(similarity.sum()), self.similar_of + len(similarity)
            return
        keys = np.concatenate([self._keys, rng.random(len(table))])  # the pairs with the lowest keys are the sample
        kept = np.argsort(keys, kind="stable")[:SAMPLED]
        fresh = kept[kept >= len(self._keys)] - len(self._keys)
        new = dict(zip(fresh.tolist(), _pairs(table.take(pa.array(fresh))), strict=True))
        before = len(self._keys)
        self._pairs = [self._pairs[place] if place < before else new[place - before] for place in kept.tolist()]
        self._keys = keys[kept]

    def measure(self, encoder: Encoder | None) -> None:
        """Measure the sample."""
        if encoder is not None and self._pairs:
            originals, generated = ([pair[side] for pair in self._pairs] for side in (0, 1))
            found = similarities(encoder, originals, generated)
            self.similar, self.similar_of = float(found.sum()), len(found)
            self._pairs = []

    def as_dict(self) -> dict[str, float | int | None]:
        means = {name: round(total / self.count, 4) if self.count else None for name, total in self.sums.items()}
        similar = round(self.similar / self.similar_of, 4) if self.similar_of else None
        return {"findings": self.count, **means, "similarity": similar, "similarity_of": self.similar_of}


def _pairs(table: pa.Table) -> list[tuple[str, str]]:
    return list(zip(table["original"].to_pylist(), table["text"].to_pylist(), strict=True))


def _slice(findings: Findings, rows: slice | NDArray[np.bool_]) -> Findings:
    return Findings(**{name: getattr(findings, name)[rows] for name in Findings.__dataclass_fields__})
