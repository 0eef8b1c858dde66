"""The file of findings: Parquet, written as the search goes, the same bytes for the same findings."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from evenhand.files import replacing
from evenhand.search.recorder import PHASES, Findings
from evenhand.search.space import TableSpace

ROW_GROUP = 65_536


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
    """Turns findings in tables into rows of a file."""

    def __init__(self, path: Path, space: TableSpace) -> None:
        self._schema = space.schema
        self._protected = space.protected
        self._labels = pa.array(space.schema.label.values)
        self._texts = {index: pa.array(attribute.texts()) for index, attribute in enumerate(space.schema.attributes)}
        self._file = RowGroups(path, self._table(no_findings(len(space.sizes), len(space.protected))).schema)

    def write(self, findings: Findings) -> None:
        """Add findings."""
        self._file.add(self._table(findings))

    def close(self, complete: bool) -> None:
        """End the file, unless it is to be thrown away."""
        self._file.close(complete)

    def _table(self, findings: Findings) -> pa.Table:
        columns = common_columns(findings, self._labels)
        for index, attribute in enumerate(self._schema.attributes):
            columns[f"sample.{attribute.name}"] = self._words(index, findings.sample[:, index])
        for position, index in enumerate(self._protected):
            name = self._schema.attributes[index].name
            columns[f"witness.{name}"] = self._words(index, findings.witness[:, position])
        for index, attribute in enumerate(self._schema.attributes):
            columns[f"sample_code.{attribute.name}"] = pa.array(findings.sample[:, index])
        for position, index in enumerate(self._protected):
            columns[f"witness_code.{self._schema.attributes[index].name}"] = pa.array(findings.witness[:, position])
        return pa.table(columns)

    def _words(self, index: int, codes: NDArray[np.int32]) -> pa.Array:
        low = self._schema.attributes[index].domain[0]
        return pa.DictionaryArray.from_arrays(pa.array(codes - np.int32(low)), self._texts[index])


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
