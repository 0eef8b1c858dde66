"""The file of findings: Parquet, written as the search goes, the same bytes for the same findings."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray

from evenhand.data.decoding import LARGEST_TABLE, Decoder
from evenhand.files import replacing
from evenhand.measures.similarity import Encoder, similarities
from evenhand.measures.validity import validity
from evenhand.runs.text_world import TextSearchWorld
from evenhand.search.recorder import PHASES, Findings
from evenhand.search.space import TableSpace
from evenhand.search.text_space import CODES

ROW_GROUP = 65_536
MEANINGS = "evenhand.attributes"  # in the file's metadata: what codes mean; the pages of findings read it


PART = 4096  # findings that become rows together
SAMPLED = 1000  # findings of the local phase whose similarity is measured for the mean
METRICS = ("l0", "l2", "jaccard", "bleu")


class RowsWriter(Protocol):
    """Turns findings into rows of a file."""

    def write(self, findings: Findings) -> None:
        """Add findings."""

    def finish(self) -> dict[str, Any]:
        """End the work on them when the search is over; what the summary says of all of them."""

    def close(self, complete: bool) -> None:
        """End the file, unless it is to be thrown away."""


Writer = TypeVar("Writer", bound=RowsWriter)


class RowGroups:
    """A Parquet file that grows. Row groups have a fixed length, so how rows arrive leaves no trace in the file."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._waiting: list[pa.Table] = []
        self._rows = 0
        self._writer = pq.ParquetWriter(path, schema, compression="zstd")

    def add(self, table: pa.Table) -> None:
        """Add rows; full row groups go to the file at once."""
        self._waiting.append(table)
        self._rows += len(table)
        if self._rows >= ROW_GROUP:
            table = pa.concat_tables(self._waiting).combine_chunks()  # pages would show where the parts met
            whole = self._rows - self._rows % ROW_GROUP
            self._writer.write_table(table.slice(0, whole), row_group_size=ROW_GROUP)
            self._waiting, self._rows = [table.slice(whole)], self._rows - whole

    def close(self, complete: bool) -> None:
        """Write what waits, unless the file is to be thrown away."""
        if complete and self._rows:
            self._writer.write_table(pa.concat_tables(self._waiting).combine_chunks(), row_group_size=ROW_GROUP)
        self._writer.close()


def common_columns(findings: Findings, labels: pa.Array) -> dict[str, pa.Array]:
    """The columns that findings in tables and in texts share."""
    return {
        "phase": pa.DictionaryArray.from_arrays(pa.array(findings.phase), pa.array(PHASES)),
        "seed_row": pa.array(findings.seed),
        "step": pa.array(findings.step),
        "label": pa.DictionaryArray.from_arrays(pa.array(findings.label.astype(np.int32)), labels),
        "witness_label": pa.DictionaryArray.from_arrays(pa.array(findings.witness_label.astype(np.int32)), labels),
        "score": pa.array(findings.score),
        "witness_score": pa.array(findings.witness_score),
    }


class FindingsWriter:
    """Turns findings in tables into rows of a file: raw values by column of the table, and codes by attribute.

    What the codes mean in words stands in the file's metadata, so that words are made where they are shown.
    """

    def __init__(self, path: Path, space: TableSpace, decoder: Decoder | None = None) -> None:
        decoder = decoder or Decoder(space.schema)
        self._schema, self._protected = space.schema, space.protected
        self._labels = pa.array(space.schema.label.values)
        self._raw = [_RawColumns(decoder, index) for index in range(len(space.sizes))]
        attributes = space.schema.attributes
        # What passes and is not read says nothing about a finding, and may be somebody's name.
        self._told = [i for i in range(len(attributes)) if attributes[i].kind != "pass" or i not in space.unread]
        columns = self._table(no_findings(len(space.sizes), len(space.protected))).schema
        meanings = [attribute.model_dump(mode="json", exclude_unset=True) for attribute in space.schema.attributes]
        self._file = RowGroups(path, columns.with_metadata({MEANINGS: json.dumps(meanings)}))

    def write(self, findings: Findings) -> None:
        """Add findings."""
        self._file.add(self._table(findings))

    def finish(self) -> dict[str, Any]:
        """Nothing is left to do: each finding is complete as it comes."""
        return {}

    def close(self, complete: bool) -> None:
        """End the file, unless it is to be thrown away."""
        self._file.close(complete)

    def _table(self, findings: Findings) -> pa.Table:
        columns = common_columns(findings, self._labels)
        witness = dict(zip(self._protected, findings.witness.T, strict=True))
        sample = {index: findings.sample[:, index] for index in self._told}
        for kind, codes in (("sample", sample), ("witness", witness)):
            for index, values in codes.items():
                for name, array in self._raw[index](values).items():
                    columns.setdefault(f"{kind}.{name}", array)  # a column of two attributes is the first's
        for kind, codes in (("sample", dict(enumerate(findings.sample.T))), ("witness", witness)):
            for index, values in codes.items():
                columns[f"{kind}_code.{self._schema.attributes[index].name}"] = pa.array(np.ascontiguousarray(values))
        return pa.table(columns)


class _RawColumns:
    """The raw values of one attribute as columns of a file, in their own types."""

    def __init__(self, decoder: Decoder, index: int) -> None:
        self._decoder, self._index = decoder, index
        self._low, high = decoder.schema.attributes[index].domain
        self._tables: dict[str, pa.Array] | None = None
        if high - self._low < LARGEST_TABLE:
            domain = np.arange(self._low, high + 1, dtype=np.int32)
            self._tables = {name: _arrow(cells) for name, cells in decoder.cells(index, domain).items()}

    def __call__(self, codes: NDArray[np.int32]) -> dict[str, pa.Array]:
        """(n,) codes as arrays, by column of the table."""
        if self._tables is None:
            return {name: _arrow(cells) for name, cells in self._decoder.cells(self._index, codes).items()}
        return {name: _taken(table, codes - np.int32(self._low)) for name, table in self._tables.items()}


def _arrow(cells: Any) -> pa.Array:
    array = pa.array(pd.Series(cells), from_pandas=True)
    return array.cast(array.type.value_type) if pa.types.is_dictionary(array.type) else array


def _taken(table: pa.Array, places: NDArray[np.int32]) -> pa.Array:
    """(n,) values from a table; text refers to all of it, so that batches have no lists of their own."""
    if not (pa.types.is_string(table.type) or pa.types.is_large_string(table.type)):
        return table.take(pa.array(places))
    there = table.is_valid().to_numpy(zero_copy_only=False)
    numbers = (np.cumsum(there) - 1).astype(np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(numbers[places], mask=~there[places]), table.drop_null())


def no_findings(columns: int, witness_columns: int) -> Findings:
    """No findings, in the right shapes: what the file's columns are made from."""
    return Findings(
        sample=np.zeros((0, columns), dtype=np.int32),
        witness=np.zeros((0, witness_columns), dtype=np.int32),
        label=np.zeros(0, dtype=np.int64),
        witness_label=np.zeros(0, dtype=np.int64),
        score=np.zeros(0, dtype=np.float32),
        witness_score=np.zeros(0, dtype=np.float32),
        phase=np.zeros(0, dtype=np.int8),
        seed=np.zeros(0, dtype=np.int64),
        step=np.zeros(0, dtype=np.int32),
    )


@contextmanager
def findings_file(path: Path, writer_for: Callable[[Path], Writer]) -> Iterator[Writer]:
    """A writer whose file appears under `path` when the block ends well, and not at all when it fails."""
    with replacing(path) as temporary:
        writer = writer_for(temporary)
        complete = False
        try:
            yield writer
            complete = True
        finally:
            writer.close(complete)


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
        self._world, self._classes = world, classes
        self._encoder, self._least = encoder, min_similarity
        self._first: list[Findings] = []
        self._sums = {phase: TextMeans() for phase in PHASES}
        self._rng = np.random.default_rng(0)
        self._file = RowGroups(path, text_table(world, classes, no_findings(CODES + world.space.width, 1)).schema)

    def write(self, findings: Findings) -> None:
        """Add findings; those of the global phase wait."""
        for start in range(0, len(findings), PART):
            part = findings.part(slice(start, start + PART))
            first = part.phase == PHASES.index("global")
            self._first.append(part.part(first))
            self._add(part.part(~first), measure=self._least is not None)

    def finish(self) -> dict[str, Any]:
        """Write the first findings when the search is over; the means of the measures, by phase.

        The mean similarity of local findings is that of a sample of them.
        """
        first = Findings.joined(self._first) if self._first else no_findings(0, 0)
        for start in range(0, len(first), PART):
            self._add(first.part(slice(start, start + PART)), measure=True)
        self._sums["local"].measure(self._encoder)
        means = {phase: sums.as_dict() for phase, sums in self._sums.items()}
        encoder = None if self._encoder is None else self._encoder.name
        return {"validity": means | {"encoder": encoder}, "ruled_out": self.ruled_out}

    def close(self, complete: bool) -> None:
        """End the file, unless it is to be thrown away."""
        self._file.close(complete)

    def _add(self, findings: Findings, measure: bool) -> None:
        if not len(findings):
            return
        table = text_table(self._world, self._classes, findings)
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


def text_table(world: TextSearchWorld, classes: Sequence[str], findings: Findings) -> pa.Table:
    """Findings in texts as rows, without their similarity."""
    space, texts = world.space, world.space.texts
    x = torch.tensor(findings.sample, dtype=torch.long, device=space.device)
    swap = torch.tensor(findings.witness[:, 0], dtype=torch.long, device=space.device)
    source = findings.sample[:, 0]
    units, witness = (space.inputs(of)[:, 1:].cpu().numpy() for of in (x, space.with_combination(x, swap)))
    originals = texts.rows[source]
    measures = validity(originals, units, world.vectors)
    values = pa.array(texts.words.values)
    own, other = space.swapped_values(x, swap)
    strings = {
        "original": pa.array([texts.tokens[number].text for number in source], pa.string()),
        "text": pa.array([texts.render(*pair) for pair in zip(source, units, strict=True)], pa.string()),
        "witness": pa.array([texts.render(*pair) for pair in zip(source, witness, strict=True)], pa.string()),
    }
    columns = common_columns(findings, pa.array(classes)) | strings
    columns["value"] = pa.DictionaryArray.from_arrays(pa.array(own.astype(np.int32)), values)
    columns["witness_value"] = pa.DictionaryArray.from_arrays(pa.array(other.astype(np.int32)), values)
    columns |= {name: pa.array(getattr(measures, name)) for name in METRICS}
    columns["similarity"] = pa.nulls(len(findings), pa.float32())
    return pa.table(columns)


class TextMeans:
    """Means of the measures, and a random sample of pairs for the one that is too dear to measure for all."""

    def __init__(self) -> None:
        self.count, self.similar, self.similar_of = 0, 0.0, 0
        self.sums = dict.fromkeys(METRICS, 0.0)
        self._keys: NDArray[np.float64] = np.zeros(0)
        self._pairs: list[tuple[str, str]] = []

    def add_table(self, table: pa.Table) -> None:
        """Take in findings as rows."""
        self.count += len(table)
        for name in METRICS:
            self.sums[name] += float(np.asarray(table[name], dtype=np.float64).sum())

    def add(self, table: pa.Table, similarity: NDArray[np.float32] | None, rng: np.random.Generator) -> None:
        """Take in findings as rows, with how similar they are to their originals, or as pairs to be sampled."""
        self.add_table(table)
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
        """The means."""
        means = {name: round(total / self.count, 4) if self.count else None for name, total in self.sums.items()}
        similar = round(self.similar / self.similar_of, 4) if self.similar_of else None
        return {"findings": self.count, **means, "similarity": similar, "similarity_of": self.similar_of}


def _pairs(table: pa.Table) -> list[tuple[str, str]]:
    return list(zip(table["original"].to_pylist(), table["text"].to_pylist(), strict=True))
