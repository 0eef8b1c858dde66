"""The file of findings: Parquet, written as the search goes, the same bytes for the same findings."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from evenhand.data.decoding import LARGEST_TABLE, Decoder
from evenhand.files import replacing
from evenhand.search.recorder import PHASES, Findings
from evenhand.search.space import TableSpace

ROW_GROUP = 65_536
MEANINGS = "evenhand.attributes"  # in the file's metadata: what codes mean; the pages of findings read it


class _AnyWriter(Protocol):
    def close(self, complete: bool) -> None: ...


Writer = TypeVar("Writer", bound=_AnyWriter)


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
