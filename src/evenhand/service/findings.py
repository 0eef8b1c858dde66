"""Pages of a file of findings, at any depth, filtered and sorted, without reading the file: see `findings_index`."""

from bisect import bisect_right
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import EvenhandError, unknown_name
from evenhand.service.findings_index import (
    INDEX,
    ORDER,
    PART,
    PARTS,
    PLACE,
    ROWS,
    Bits,
    Layout,
    Mapped,
    bytes_of_bits,
    index_path,
    layout_of,
    packed,
    write_index,
)

__all__ = ["INDEX", "MOST_ROWS", "Filters", "Finding", "FindingsIndex", "Page", "Sort", "index_path", "write_index"]

MOST_ROWS = 500  # of a page
SHORT_LOOK = 1 << 16  # rows that are looked at first, one after the other
FEW = 64  # a filter that lets less than this part of the rows through: its rows are taken and sorted

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
class FindingsIndex:
    """The findings of one file, ready to be paged."""

    layout: Layout = field(repr=False)
    mapped: Mapped = field(repr=False)

    @classmethod
    def open(cls, findings: Path) -> "FindingsIndex":
        """The index of a file of findings; it is written where it is missing or that of another file."""
        if not findings.is_file():
            raise EvenhandError("There are no findings to show: the run has not ended, or it is not an audit.")
        layout = layout_of(findings)
        if layout is None:
            write_index(findings)
            layout = layout_of(findings)
            assert layout is not None
        return cls(layout, Mapped(index_path(findings), layout))

    @property
    def rows(self) -> int:
        """How many findings there are."""
        return self.layout.rows

    @property
    def attributes(self) -> list[str]:
        """The names of all attributes."""
        return [name.removeprefix("sample.") for name in self.layout.words if name.startswith("sample.")]

    @property
    def protected(self) -> list[str]:
        """The attributes in which a sample and its witness may differ."""
        return [name.removeprefix("witness.") for name in self.layout.words if name.startswith("witness.")]

    def words(self, column: str) -> list[str]:
        """The values that a column may have: sample.NAME, label, phase."""
        return self.layout.words[column]

    def page(
        self, filters: Filters | None = None, *, sort: Sort = "order", after: int | None = None, limit: int = 50
    ) -> Page:
        """Findings in the order of the file or from the widest score gap on, after the key of an earlier page.

        The key is a row's number in the file, or its place in the order by gap: both are found without counting rows.
        """
        filters = filters or Filters()
        start = 0 if after is None else min(max(0, after + 1), self.rows)
        limit = min(limit, MOST_ROWS)
        end = self._wider(filters.least_gap)
        if replace(filters, least_gap=None) == Filters() and (sort == "gap" or end == self.rows):
            total, keys = end, np.arange(start, min(start + limit + 1, end))
        else:
            keep = self._kept(filters, end)
            total = int(np.bitwise_count(keep.view(np.uint64)).sum())
            if sort == "order":
                keys = rows_of(keep, start, limit + 1)
            else:
                keys = self._by_gap(keep, total, start, end, limit + 1)
        shown = keys[:limit]
        rows = shown if sort == "order" else self.mapped[ORDER][shown].astype(np.int64)
        return Page(self._findings(rows), total, int(shown[-1]) if len(keys) > limit else None)

    def _kept(self, filters: Filters, wider: int) -> Bits:
        """(bytes_of_bits,) which rows the filters let through, of which there is one at least."""
        bits = [self._has(name, value) for name, value in filters.values]
        if filters.label is not None:
            bits.append(self._equal("label", filters.label))
        if filters.phase is not None:
            bits.append(self._equal("phase", filters.phase))
        if wider < self.rows:
            bits.append(self._first(wider))
        words: NDArray[np.uint64] = np.bitwise_and.reduce([one.view(np.uint64) for one in bits])
        return words.view(np.uint8)

    def _has(self, attribute: str, value: str) -> Bits:
        """Which samples, or their witnesses, have a value."""
        if attribute not in self.attributes:
            raise unknown_name("attribute", attribute, self.attributes)
        own = self._equal(f"sample.{attribute}", value)
        if f"sample.{attribute}" in self.layout.bits or attribute not in self.protected:
            return own
        return own | self._equal(f"witness.{attribute}", value)

    def _equal(self, name: str, word: str) -> Bits:
        """Which rows have a value; where there are bits, those of the witness are in them."""
        words = self.layout.bits.get(name) or self.words(name)
        if word not in words:
            # A witness may have values that no sample has, and the other way round.
            return np.zeros(bytes_of_bits(self.rows), dtype=np.uint8)
        place = words.index(word)
        if name in self.layout.bits:
            return self.mapped.bits(name, place)
        return packed(self.mapped.whole(f"column {name}") == place)

    def _wider(self, gap: float | None) -> int:
        """How many rows have a gap of at least so much: they stand first in the order by gap."""
        if gap is None or gap <= 0:
            return self.rows
        rows = self.mapped[ROWS]
        return bisect_right(
            self.mapped[ORDER], -np.float32(gap), key=lambda row: -np.nan_to_num(_gap(rows[row]), posinf=1.0)
        )

    def _first(self, count: int) -> Bits:
        """Which rows are the first ones in the order by gap.

        Whole parts of the order are told by one byte a row; the rows of the part that the end falls into, one by one.
        """
        part = count * PARTS // self.rows
        mask = self.mapped.whole(PART) < part
        mask[self.mapped[ORDER][-(-part * self.rows // PARTS) : count]] = True
        return packed(mask)

    def _by_gap(self, keep: Bits, total: int, start: int, end: int, wanted: int) -> NDArray[np.int64]:
        """The places of the next rows that are let through, in the order by gap, in which none comes after `end`."""
        found = [np.zeros(0, dtype=np.int64)]
        look = SHORT_LOOK
        while wanted > 0 and start < end:
            if look > SHORT_LOOK and total < self.rows // FEW:
                return np.concatenate([*found, self._sorted_places(keep, start)[:wanted]])
            near = self.mapped[ORDER][start : min(start + look, end)]
            found.append(np.flatnonzero((keep[near >> 3] >> (near & 7).astype(np.uint8)) & 1)[:wanted] + start)
            wanted, start, look = wanted - len(found[-1]), start + look, look * 4
        return np.concatenate(found)

    def _sorted_places(self, keep: Bits, start: int) -> NDArray[np.int64]:
        """The places of all rows that are let through, from one on: for few rows."""
        places = self.mapped[PLACE][rows_of(keep, 0, self.rows)]
        return np.sort(places[places >= start]).astype(np.int64)

    def _findings(self, rows: NDArray[np.int64]) -> list[Finding]:
        """Rows in words."""
        records = self.mapped[ROWS][rows]
        assert records.dtype.names is not None
        values = {name: self._read(name, records) for name in records.dtype.names}
        gap = _gap(records).tolist()
        samples, witnesses = (_people(values, start, len(rows)) for start in ("sample.", "witness."))
        return [
            Finding(
                row=row,
                phase=values["phase"][i],
                seed_row=values["seed_row"][i] if values["seed_row"][i] >= 0 else None,
                step=values["step"][i],
                label=values["label"][i],
                witness_label=values["witness_label"][i],
                score=values["score"][i],
                witness_score=values["witness_score"][i],
                gap=gap[i],
                sample=samples[i],
                witness=witnesses[i],
            )
            for i, row in enumerate(rows.tolist())
        ]

    def _read(self, name: str, records: NDArray[np.void]) -> list[Any]:
        values: list[Any] = records[name].tolist()
        words = self.layout.words.get(name)
        return values if words is None else [words[place] for place in values]


def _gap(records: Any) -> Any:
    return np.abs(records["score"] - records["witness_score"])


def _people(values: dict[str, list[Any]], beginning: str, count: int) -> list[dict[str, str]]:
    """The columns whose names begin so, as one dictionary a row."""
    names = [name for name in values if name.startswith(beginning)]
    plain = [name.removeprefix(beginning) for name in names]
    rows = zip(*(values[name] for name in names), strict=True) if names else [()] * count
    return [dict(zip(plain, row, strict=True)) for row in rows]


def rows_of(bits: Bits, start: int, most: int) -> NDArray[np.int64]:
    """The first rows from one on whose bit is set, at most so many. Bytes without any are passed over."""
    first = start >> 3
    near = bits[first : first + (SHORT_LOOK >> 3)]
    found = np.flatnonzero(np.unpackbits(near, bitorder="little")) + (first << 3)
    if len(found) < most + 8 and len(near) < len(bits) - first:
        some = np.flatnonzero(bits[first:])[: most + 1] + first  # each has one row at least, the first may be too early
        places = np.flatnonzero(np.unpackbits(bits[some], bitorder="little"))
        found = (some[places >> 3] << 3) + (places & 7)
    return found[found >= start][:most]
