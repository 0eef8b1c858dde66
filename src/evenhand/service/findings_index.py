"""The index beside a file of findings: what it holds, how it is written, how it is mapped into memory.

Parquet is compressed in groups of rows, so fifty rows from all over a file would cost the reading of fifty groups. The
index has the same findings uncompressed, for the two questions that a page asks:

- Which rows? For each value of a protected attribute, each label and each phase there is one bit a row, whether the row
  has it; attributes that have no bits have a column. The order of the rows by score gap, and where in it each row
  stands, are there too, the latter also to the 256th part in one byte.
- What do they say? The values of a row stand side by side, so that a row is one place on the disk.

Words are kept as their places in lists of words; they are made from codes, by what the file says that these mean. The
Parquet file stays the one that counts.
"""

import json
import mmap
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import EvenhandError
from evenhand.files import replacing

INDEX = "findings.index"
VERSION = 3
ALIGNMENT = 64
MOST_BITS = 32  # values of an attribute that have bits: a column is smaller than more of them
PARTS = 256  # of the order by gap, so that a part's number is one byte
ROWS, ORDER, PLACE, PART = "rows", "order", "place", "part"
NUMBERS = ("seed_row", "step", "score", "witness_score")
COMMON_WORDS = ("phase", "label", "witness_label")
CODES = ("sample_code.", "witness_code.")
MEANINGS = b"evenhand.attributes"  # in the file's metadata
FILTERED = ("phase", "label")  # of the common ones
Bits = NDArray[np.uint8]

if TYPE_CHECKING:
    from evenhand.data.attribute import Attribute


@dataclass(frozen=True)
class Section:
    """Where something stands in the file."""

    kind: str  # numpy's name of the type
    offset: int
    count: int


@dataclass(frozen=True)
class Layout:
    """What an index says about itself."""

    version: int
    rows: int
    size: int  # of the file of findings: an index of another one is not used
    fields: list[list[str]]  # of a row: name and type
    words: dict[str, list[str]]  # by field: what its numbers stand for
    bits: dict[str, list[str]]  # by field: the values that have bits, in a section `bits FIELD` one after the other
    sections: dict[str, Section]

    @property
    def record(self) -> np.dtype[np.void]:
        """The type of a row."""
        return np.dtype([(name, kind) for name, kind in self.fields])


def index_path(findings: Path) -> Path:
    """Where the index of a file of findings is."""
    return findings.with_name(INDEX)


def bytes_of_bits(rows: int) -> int:
    """How many bytes hold a bit for each row, in whole numbers of 64 bits."""
    return -(-rows // 64) * 8


def packed(mask: NDArray[np.bool_]) -> Bits:
    """(bytes_of_bits,) a mask as bits."""
    bits = np.zeros(bytes_of_bits(len(mask)), dtype=np.uint8)
    bits[: -(-len(mask) // 8)] = np.packbits(mask, bitorder="little")
    return bits


def write_index(findings: Path) -> Path:
    """Write the index of a file of findings, whole or not at all; returns its path."""
    import pyarrow.parquet as pq  # here: a server only reads what is written already

    schema = pq.read_schema(findings)
    columns = {name.replace("_code.", ".", 1): name for name in schema.names if name.startswith(CODES)}
    if not columns:
        raise EvenhandError(f"{findings.name} does not hold findings in tables, so it cannot be paged.")
    words = {name: _Words() for name in COMMON_WORDS} | {
        name: _Words(attribute) for name, attribute in _meanings(schema, columns).items()
    }
    path, sources = index_path(findings), {name: name for name in COMMON_WORDS} | columns
    with (
        pq.ParquetFile(findings, read_dictionary=list(COMMON_WORDS)) as file,
        replacing(path) as temporary,
        temporary.open("wb") as stream,
    ):
        _Writer(stream, temporary, file, words, sources).write(findings.stat().st_size)
    return path


def _meanings(schema: Any, columns: dict[str, str]) -> "dict[str, Attribute]":
    """By field of the index, what the codes of a column mean."""
    from evenhand.data.attribute import Attribute

    said = json.loads((schema.metadata or {}).get(MEANINGS, b"[]"))
    attributes = {entry["name"]: Attribute.model_validate(entry) for entry in said}
    if not attributes:
        raise EvenhandError("The file of findings does not say what its codes mean: an earlier version made it.")
    return {name: attributes[name.partition(".")[2]] for name in columns}


class _Words:
    """Numbers the words of a column as they come: of texts, or of codes by what they mean."""

    def __init__(self, attribute: "Attribute | None" = None) -> None:
        self._attribute = attribute
        self.known: dict[str, int] = {}
        self._list: Any = None
        self._numbers: NDArray[np.uint32] = np.zeros(0, dtype=np.uint32)

    def places(self, column: Any) -> NDArray[np.uint32]:
        """(rows,) the numbers of a group's words."""
        if self._attribute is not None:
            codes, places = np.unique(column.to_numpy(), return_inverse=True)
            texts = [self._attribute.text(int(code)) for code in codes]
            numbers = [self.known.setdefault(text, len(self.known)) for text in texts]
            return np.array(numbers, dtype=np.uint32)[places]
        if self._list is None or not column.dictionary.equals(self._list):
            self._list = column.dictionary
            numbers = [self.known.setdefault(word, len(self.known)) for word in self._list.to_pylist()]
            self._numbers = np.array(numbers, dtype=np.uint32)
        indices: NDArray[np.int32] = column.indices.to_numpy(zero_copy_only=False)
        return self._numbers[indices]


class _Writer:
    """Writes one index: the rows group by group, then what can be read off them, one column in memory at a time."""

    def __init__(
        self, stream: IO[bytes], path: Path, file: Any, words: dict[str, _Words], columns: dict[str, str]
    ) -> None:
        self._stream, self._path, self._file, self._words, self._columns = stream, path, file, words, columns
        self._rows: int = file.metadata.num_rows
        self._sections: dict[str, Section] = {}

    def write(self, size: int) -> None:
        """All of it."""
        fields, words = self._write_rows(dict.fromkeys(self._words, "uint8"))
        record = np.dtype(list(fields.items()))
        self._sections[ROWS] = Section("record", 0, self._rows)
        rows = np.memmap(self._path, record, "r", 0, (self._rows,)) if self._rows else np.zeros(0, dtype=record)
        bits = self._write_filters(rows, words)
        self._write_order(np.abs(rows["score"] - rows["witness_score"]))
        listed = [[name, kind] for name, kind in fields.items()]
        about = asdict(Layout(VERSION, self._rows, size, listed, words, bits, self._sections))
        start = self._stream.tell()
        self._stream.write(json.dumps(about).encode())
        self._stream.write(start.to_bytes(8, "little"))  # last: where the description begins

    def _write_rows(self, kinds: dict[str, str]) -> tuple[dict[str, str], dict[str, list[str]]]:
        """The rows; returns their fields, and the words that the numbers of some stand for."""
        fields = kinds | {name: _narrow(self._file, name) for name in NUMBERS}
        known = self._words
        record = np.dtype(list(fields.items()))
        for group in range(self._file.num_row_groups):
            table = self._file.read_row_group(group, columns=[self._columns.get(name, name) for name in fields])
            block = np.empty(len(table), dtype=record)
            for name in fields:
                column = table[self._columns.get(name, name)].combine_chunks()
                block[name] = known[name].places(column) if name in known else column.to_numpy()
                if name in known and len(known[name].known) > np.iinfo(kinds[name]).max + 1:
                    self._stream.seek(0)
                    self._stream.truncate()
                    return self._write_rows(kinds | {name: "uint16" if kinds[name] == "uint8" else "uint32"})
            block.tofile(self._stream)
            self._stream.flush()
        return fields, {name: list(words.known) for name, words in known.items()}

    def _write_filters(self, rows: NDArray[np.void], words: dict[str, list[str]]) -> dict[str, list[str]]:
        """What says which rows have a value: bits where there are few values, else columns; returns whose are bits."""
        values = {name: words[name] for name in FILTERED}
        for name in (name for name in words if name.startswith("sample.")):
            witness = name.replace("sample.", "witness.", 1)
            both = list(dict.fromkeys([*words[name], *words[witness]])) if witness in words else []
            if both and len(both) <= MOST_BITS:
                values[name] = both
            else:
                for column in (name, witness):
                    if column in words:
                        self._append(f"column {column}", np.ascontiguousarray(rows[column]))
        for name, own in values.items():
            self._append(f"bits {name}", self._bits(rows, words, name, own))
        return values

    def _bits(self, rows: NDArray[np.void], words: dict[str, list[str]], name: str, values: list[str]) -> Bits:
        """(values * bytes_of_bits,) whether a row, or its witness, has a value."""
        columns = [column for column in (name, name.replace("sample.", "witness.", 1)) if column in words]
        codes = {column: np.ascontiguousarray(rows[column]) for column in dict.fromkeys(columns)}
        places = {column: {word: place for place, word in enumerate(words[column])} for column in codes}
        every = np.zeros((len(values), bytes_of_bits(self._rows)), dtype=np.uint8)
        for bits, value in zip(every, values, strict=True):
            for column, numbers in codes.items():
                if value in places[column]:
                    bits |= packed(numbers == places[column][value])
        return every.reshape(-1)

    def _write_order(self, gap: NDArray[np.float32]) -> None:
        """The rows from the widest gap on, and where each row stands there."""
        order = by_gap(gap)
        place = np.empty_like(order)
        place[order] = np.arange(self._rows, dtype=order.dtype)
        self._append(ORDER, order)
        self._append(PLACE, place)
        part = place.astype(np.uint64)
        part *= PARTS
        part //= max(1, self._rows)
        self._append(PART, part.astype(np.uint8))

    def _append(self, name: str, values: NDArray[Any]) -> None:
        self._stream.write(b"\0" * (-self._stream.tell() % ALIGNMENT))
        self._sections[name] = Section(values.dtype.name, self._stream.tell(), len(values))
        values.tofile(self._stream)
        self._stream.flush()


def by_gap(gap: NDArray[np.float32]) -> NDArray[np.uint32]:
    """(rows,) rows from the widest gap to the narrowest, equal ones in the order of the file.

    The bits of numbers above zero rise as the numbers do, so gap and row make one whole number: that sorts fastest.
    """
    bits = ~np.nan_to_num(gap.astype(np.float32), posinf=1.0).view(np.uint32)
    keys = bits.astype(np.uint64) << np.uint64(32)
    keys |= np.arange(len(gap), dtype=np.uint64)
    keys.sort()
    return keys.astype(np.uint32)


def _narrow(file: Any, name: str) -> str:
    """The smallest type for a column of numbers; that of the file where it does not say what its numbers are."""
    field = file.schema_arrow.get_field_index(name)
    own = np.dtype(file.schema_arrow.field(field).type.to_pandas_dtype())
    groups = (file.metadata.row_group(number).column(field).statistics for number in range(file.num_row_groups))
    ranges = [(said.min, said.max) if said is not None and said.has_min_max else None for said in groups]
    if own.kind == "f" or not ranges or None in ranges:
        return str(own.name)
    ends = [number for pair in ranges if pair is not None for number in pair]
    narrow: np.dtype[Any] = np.result_type(np.min_scalar_type(min(ends)), np.min_scalar_type(max(ends)))
    return str(narrow.name)


def layout_of(findings: Path) -> Layout | None:
    """What the index of a file of findings says; None where there is none that can be used."""
    path = index_path(findings)
    try:
        state = path.stat()
        about = _layout(path, (state.st_ino, state.st_mtime_ns, state.st_size))
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return about if about.version == VERSION and about.size == findings.stat().st_size else None


@lru_cache(maxsize=32)
def _layout(path: Path, _state: tuple[int, ...]) -> Layout:
    """Read once for as long as the file stays the same."""
    with path.open("rb") as stream:
        end = stream.seek(-8, 2)
        start = int.from_bytes(stream.read(8), "little")
        stream.seek(start)
        about = json.loads(stream.read(end - start))
    return Layout(**about | {"sections": {name: Section(**entry) for name, entry in about["sections"].items()}})


class Mapped:
    """The sections of an index as arrays. They are read from the disk where they are looked at."""

    def __init__(self, path: Path, layout: Layout) -> None:
        self._layout = layout
        with path.open("rb") as stream:
            self._map = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        self._advise("MADV_RANDOM", layout.sections[ROWS], layout.record.itemsize)

    def __getitem__(self, name: str) -> NDArray[Any]:
        section = self._layout.sections[name]
        kind = self._layout.record if name == ROWS else np.dtype(section.kind)
        return np.frombuffer(self._map, kind, section.count, section.offset)

    def whole(self, name: str) -> NDArray[Any]:
        """A section that is read from its beginning to its end: the disk may fetch it at once."""
        section = self._layout.sections[name]
        self._advise("MADV_WILLNEED", section, np.dtype(section.kind).itemsize)
        return self[name]

    def bits(self, name: str, place: int) -> Bits:
        """The bits of one of the values that have them."""
        section, size = self._layout.sections[f"bits {name}"], bytes_of_bits(self._layout.rows)
        own = Section(section.kind, section.offset + place * size, size)
        self._advise("MADV_WILLNEED", own, 1)
        return np.frombuffer(self._map, np.uint8, size, own.offset)

    def _advise(self, advice: str, section: Section, size: int) -> None:
        """Tell the system how a section will be read, where it can be told."""
        number = getattr(mmap, advice, None)
        start = section.offset - section.offset % mmap.PAGESIZE
        if number is not None and section.count:
            self._map.madvise(number, start, section.offset + section.count * size - start)
