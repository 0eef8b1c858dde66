"""Pages of a file of findings, at any depth, filtered and sorted, without reading the file.

Parquet is compressed in groups of rows, so fifty rows from all over a file would cost the reading of fifty groups.
Beside `findings.parquet` there is therefore an index, written once: the same columns, each value as its place in a
list of words in as few bytes as will do, uncompressed and one after the other, so that it is mapped into memory and
any row is read at once; and the order of the rows by score gap. The Parquet file stays the one that counts.
"""

import json
from bisect import bisect_right
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from evenhand.errors import EvenhandError, unknown_name
from evenhand.files import replacing

INDEX = "findings.index"
VERSION = 1
MOST_ROWS = 500  # of a page
ALIGNMENT = 64
SHORT_LOOK = 1 << 16  # rows that are looked at one after the other before all that match are taken and sorted
ORDER, PLACE = "order", "place"  # rows from the widest gap on; where each row stands there
NUMBERS = ("seed_row", "step", "score", "witness_score")
COMMON_WORDS = ("phase", "label", "witness_label")

Sort = Literal["order", "gap"]


@dataclass(frozen=True)
class Filters:
    """Which findings to show; what is None does not matter."""

    values: tuple[tuple[str, str], ...] = ()  # attribute and value that the sample or its witness has
    label: str | None = None  # of the sample
    phase: str | None = None
    least_gap: float | None = None  # of the scores


@dataclass(frozen=True)
class Finding:
    """One pair, in words."""

    row: int  # in the file, from 0
    phase: str
    seed_row: int | None  # of the data; none: the search started from a random sample
    step: int
    label: str
    witness_label: str
    score: float  # of the sample's label, for the sample
    witness_score: float  # of the sample's label, for the witness
    gap: float
    sample: dict[str, str]
    witness: dict[str, str]  # the protected attributes; all others are as in the sample


@dataclass(frozen=True)
class Page:
    """Some findings, and where the next page begins."""

    rows: list[Finding]
    total: int  # findings that the filters let through
    after: int | None  # what to ask for to see the next page; none: this is the last


@dataclass(frozen=True)
class _Column:
    name: str
    kind: str  # numpy's name of the type
    offset: int
    words: list[str] | None  # what the numbers stand for


def index_path(findings: Path) -> Path:
    """Where the index of a file of findings is."""
    return findings.with_name(INDEX)


def write_index(findings: Path) -> Path:
    """Write the index of a file of findings, whole or not at all; returns its path."""
    with pq.ParquetFile(findings) as file:
        names = [name for name in file.schema_arrow.names if name.startswith(("sample.", "witness."))]
        if not names:
            raise EvenhandError(f"{findings.name} does not hold findings in tables, so it cannot be paged.")
        words = [*COMMON_WORDS, *names]
    rows, path = pq.read_metadata(findings).num_rows, index_path(findings)
    with replacing(path) as temporary, temporary.open("wb") as stream:
        columns = _write_columns(stream, findings, words, rows)
        _write_description(stream, columns, rows, findings.stat().st_size)
    return path


def _write_columns(stream: Any, findings: Path, words: list[str], rows: int) -> list[_Column]:
    """The columns, one after the other: a pass over the file each, so that memory is bounded by a column."""
    columns = [_append(stream, name, *_places(findings, name, rows)) for name in words]
    scores = {}
    for name in NUMBERS:
        values = pq.read_table(findings, columns=[name])[name].to_numpy()
        columns.append(_append(stream, name, _narrow(values), None))
        if name in ("score", "witness_score"):
            scores[name] = values
    order = _by_gap(np.abs(scores["score"] - scores["witness_score"]))
    place = np.empty_like(order)
    place[order] = np.arange(rows, dtype=order.dtype)
    return [*columns, _append(stream, ORDER, order, None), _append(stream, PLACE, place, None)]


def _by_gap(gap: NDArray[np.float32]) -> NDArray[np.uint32]:
    """(rows,) rows from the widest gap to the narrowest, equal ones in the order of the file.

    The bits of numbers above zero rise as the numbers do, so gap and row make one whole number: that sorts fastest.
    """
    bits = ~np.nan_to_num(gap.astype(np.float32), posinf=1.0).view(np.uint32)
    keys = bits.astype(np.uint64) << np.uint64(32)
    keys |= np.arange(len(gap), dtype=np.uint64)
    keys.sort()
    return keys.astype(np.uint32)


def _narrow(values: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers in as few bytes as will do."""
    if not len(values) or values.dtype.kind == "f":
        return values
    return values.astype(np.result_type(np.min_scalar_type(values.min()), np.min_scalar_type(values.max())))


def _places(findings: Path, name: str, rows: int) -> tuple[NDArray[Any], list[str]]:
    """(rows,) each value of a column of words as its place in the list of words, in as few bytes as will do."""
    known: dict[str, int] = {}
    places = np.zeros(rows, dtype=np.uint32)
    start = 0
    for chunk in pq.read_table(findings, columns=[name], read_dictionary=[name])[name].chunks:
        own = [known.setdefault(word, len(known)) for word in chunk.dictionary.to_pylist()]
        indices = chunk.indices.to_numpy(zero_copy_only=False)
        places[start : start + len(chunk)] = np.array(own, dtype=np.uint32)[indices]
        start += len(chunk)
    return places.astype(np.min_scalar_type(max(len(known) - 1, 0))), list(known)


def _append(stream: Any, name: str, values: NDArray[Any], words: list[str] | None) -> _Column:
    stream.write(b"\0" * (-stream.tell() % ALIGNMENT))
    column = _Column(name, values.dtype.name, stream.tell(), words)
    values.tofile(stream)
    stream.flush()
    return column


def _write_description(stream: Any, columns: list[_Column], rows: int, size: int) -> None:
    """What the columns are, at the end of the file, and in its last eight bytes where that begins."""
    about = {
        "version": VERSION,
        "rows": rows,
        "size": size,  # of the file of findings: an index of another one is not used
        "columns": [vars(column) for column in columns],
    }
    start = stream.tell()
    stream.write(json.dumps(about).encode())
    stream.write(start.to_bytes(8, "little"))


@dataclass(frozen=True)
class FindingsIndex:
    """The findings of one file, ready to be paged."""

    path: Path
    rows: int
    columns: dict[str, _Column] = field(repr=False)

    @classmethod
    def open(cls, findings: Path) -> "FindingsIndex":
        """The index of a file of findings; it is written where it is missing or that of another file."""
        if not findings.is_file():
            raise EvenhandError("There are no findings to show: the run has not ended, or it is not an audit.")
        path = index_path(findings)
        about = _description(path)
        if about is None or about["version"] != VERSION or about["size"] != findings.stat().st_size:
            about = _description(write_index(findings))
            assert about is not None
        return cls(path, about["rows"], {entry["name"]: _Column(**entry) for entry in about["columns"]})

    @property
    def attributes(self) -> list[str]:
        """The names of all attributes."""
        return [name.removeprefix("sample.") for name in self.columns if name.startswith("sample.")]

    @property
    def protected(self) -> list[str]:
        """The attributes in which a sample and its witness may differ."""
        return [name.removeprefix("witness.") for name in self.columns if name.startswith("witness.")]

    def words(self, column: str) -> list[str]:
        """The values that a column may have: sample.NAME, label, phase."""
        return self.columns[column].words or []

    def page(
        self, filters: Filters | None = None, *, sort: Sort = "order", after: int | None = None, limit: int = 50
    ) -> Page:
        """Findings in the order of the file or from the widest score gap on, after the key of an earlier page.

        The key is a row's number in the file, or its place in the order by gap: both are found without counting rows.
        """
        filters = filters or Filters()
        keep = self._mask(filters)
        total = self.rows if keep is None else int(np.count_nonzero(keep))
        start = 0 if after is None else max(0, after + 1)
        limit = min(limit, MOST_ROWS)
        keys = self._in_order(keep, start, limit + 1) if sort == "order" else self._by_gap(keep, start, limit + 1)
        shown = keys[:limit]
        rows = shown if sort == "order" else self._column(ORDER)[shown].astype(np.int64)
        return Page(self._findings(rows), total, int(shown[-1]) if len(keys) > limit else None)

    def _mask(self, filters: Filters) -> NDArray[np.bool_] | None:
        """(rows,) whether the filters let a row through; None: all."""
        masks = [self._is(name, value) for name, value in filters.values]
        if filters.label is not None:
            masks.append(self._equal("label", filters.label))
        if filters.phase is not None:
            masks.append(self._equal("phase", filters.phase))
        if filters.least_gap is not None and filters.least_gap > 0:
            masks.append(self._column(PLACE) < self._wider(filters.least_gap))
        for mask in masks[1:]:
            masks[0] &= mask
        return masks[0] if masks else None

    def _is(self, attribute: str, value: str) -> NDArray[np.bool_]:
        """(rows,) whether the sample or its witness has a value."""
        if attribute not in self.attributes:
            raise unknown_name("attribute", attribute, self.attributes)
        mask = self._equal(f"sample.{attribute}", value)
        if attribute in self.protected:
            mask |= self._equal(f"witness.{attribute}", value)
        return mask

    def _equal(self, column: str, word: str) -> NDArray[np.bool_]:
        words = self.words(column)
        if word not in words:
            # A witness may have values that no sample has, and the other way round.
            return np.zeros(self.rows, dtype=bool)
        same: NDArray[np.bool_] = self._column(column) == words.index(word)
        return same

    def _wider(self, gap: float) -> int:
        """How many findings have a gap of at least so much: they stand first in the order by gap."""
        order, score, witness = (self._column(name) for name in (ORDER, "score", "witness_score"))
        return bisect_right(order, -np.float32(gap), key=lambda row: -np.abs(score[row] - witness[row]))

    def _gap(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        gap: NDArray[np.float32] = np.abs(self._column("score")[rows] - self._column("witness_score")[rows])
        return gap

    def _in_order(self, keep: NDArray[np.bool_] | None, start: int, wanted: int) -> NDArray[np.int64]:
        """The next rows that are let through."""
        if keep is None:
            return np.arange(start, max(start, min(start + wanted, self.rows)))
        near = np.flatnonzero(keep[start : start + SHORT_LOOK])[:wanted]
        if len(near) < wanted:
            near = np.flatnonzero(keep[start:])[:wanted]
        return near + start

    def _by_gap(self, keep: NDArray[np.bool_] | None, start: int, wanted: int) -> NDArray[np.int64]:
        """The places of the next rows that are let through, in the order by gap."""
        if keep is None:
            return self._in_order(None, start, wanted)
        near = np.flatnonzero(keep[self._column(ORDER)[start : start + SHORT_LOOK]])[:wanted]
        if len(near) == wanted:
            return near + start
        # Few match, or those that do are far: their places are sorted rather than all rows looked at.
        places = self._column(PLACE)[keep]
        places = places[places >= start]
        if len(places) > wanted:
            places = np.partition(places, wanted)[:wanted]
        return np.sort(places).astype(np.int64)

    def _findings(self, rows: NDArray[np.int64]) -> list[Finding]:
        """Rows in words."""
        values = {name: self._read(name, rows) for name in self.columns if name not in (ORDER, PLACE)}
        gap = self._gap(rows).tolist()
        return [
            Finding(
                row=int(row),
                phase=values["phase"][i],
                seed_row=values["seed_row"][i] if values["seed_row"][i] >= 0 else None,
                step=values["step"][i],
                label=values["label"][i],
                witness_label=values["witness_label"][i],
                score=values["score"][i],
                witness_score=values["witness_score"][i],
                gap=gap[i],
                sample={name: values[f"sample.{name}"][i] for name in self.attributes},
                witness={name: values[f"witness.{name}"][i] for name in self.protected},
            )
            for i, row in enumerate(rows)
        ]

    def _read(self, name: str, rows: NDArray[np.int64]) -> list[Any]:
        values: list[Any] = self._column(name)[rows].tolist()
        words = self.columns[name].words
        return values if words is None else [words[place] for place in values]

    def _column(self, name: str) -> NDArray[Any]:
        column = self.columns[name]
        if not self.rows:  # nothing cannot be mapped
            return np.zeros(0, dtype=column.kind)
        return np.memmap(self.path, column.kind, "r", column.offset, (self.rows,))


def _description(path: Path) -> dict[str, Any] | None:
    """What an index says about itself; None where there is none that can be read."""
    try:
        with path.open("rb") as stream:
            end = stream.seek(-8, 2)
            start = int.from_bytes(stream.read(8), "little")
            stream.seek(start)
            about = json.loads(stream.read(end - start))
    except (OSError, ValueError):
        return None
    return about if isinstance(about, dict) and {"version", "rows", "size", "columns"} <= about.keys() else None
