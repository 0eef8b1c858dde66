"""Files received from outside: counted and hashed on the way, given names of our own, checked without being run."""

import hashlib
import json
import os
import shutil
import tomllib
import uuid
import zipfile
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from evenhand.choices import Domain
from evenhand.errors import EvenhandError
from evenhand.files import cannot_write, flush
from evenhand.service.storage.home import Home

DATA_FILES = {".csv": "table.csv", ".csv.gz": "table.csv.gz", ".parquet": "table.parquet"}
TEXT_FILES = {
    ".csv": "texts.csv", ".tsv": "texts.tsv", ".parquet": "texts.parquet", ".jsonl": "texts.jsonl",
    ".ndjson": "texts.jsonl",
}  # fmt: skip
MODEL_FILES = {
    suffix: f"model{suffix}" for suffix in (".safetensors", ".skops", ".onnx", ".keras", ".txt", ".ubj", ".zip")
}
DESCRIPTION = "model.json"
MOST_COLUMNS = 5_000
LONGEST_HEADER = 1 << 20
LONGEST_DESCRIPTION = 1 << 20
LONGEST_SCHEMA = 4 << 20
MOST_UNPACKED = 8  # a compressed table may be as large as this many uploads once it is unpacked
PIECE = 1 << 20


def data_file(filename: str, domain: Domain = "table") -> str:
    """Our name for uploaded data, by the end of its own name."""
    if domain == "text":
        return _own_name(filename, TEXT_FILES, "a file of texts")
    return _own_name(filename, DATA_FILES, "a table")


def model_file(filename: str) -> str:
    """Our name for an uploaded model, by the end of its own name."""
    return _own_name(filename, MODEL_FILES, "a model that is safe to open")


def _own_name(filename: str, names: dict[str, str], what: str) -> str:
    for suffix in sorted(names, key=len, reverse=True):
        if filename.lower().endswith(suffix):
            return names[suffix]
    raise EvenhandError(f"'{filename[-80:]}' is not {what}. Allowed are: {', '.join(names)}.")


def check_table(path: Path, limit: int) -> int | None:
    """Refuse what is no table, or unpacks to far more than was sent; returns the number of rows where it is cheap.

    A file of texts is a table too, or JSON, one object a line.
    """
    if path.stat().st_size == 0:
        raise EvenhandError("The table is empty.")
    if path.suffix == ".parquet":
        return _check_parquet(path, limit * MOST_UNPACKED)
    start = _unpacked_start(path, limit * MOST_UNPACKED) if path.suffix == ".gz" else _start(path)
    if path.suffix == ".jsonl":
        if not start.removeprefix(BOM_UTF8).lstrip().startswith(b"{"):
            raise EvenhandError("The file is not JSON lines: each line is an object, {...}.")
        return None
    _check_header(start)
    return None


def _check_parquet(path: Path, most: int) -> int:
    import pyarrow as pa
    import pyarrow.parquet

    with path.open("rb") as stream:
        if stream.read(4) != b"PAR1":
            raise EvenhandError("The file is not Parquet, though its name says so.")
    try:
        facts = pa.parquet.read_metadata(path)
    except (pa.ArrowException, OSError) as error:
        raise EvenhandError(f"The Parquet file cannot be read: {error}") from error
    _check_columns(facts.num_columns)
    if sum(facts.row_group(group).total_byte_size for group in range(facts.num_row_groups)) > most:
        raise EvenhandError("The Parquet file unpacks to more than is accepted. Upload fewer rows or columns.")
    return int(facts.num_rows)


def _start(path: Path) -> bytes:
    with path.open("rb") as stream:
        return stream.read(LONGEST_HEADER)


def _unpacked_start(path: Path, most: int) -> bytes:
    """The beginning of a gzip file's content; the rest is unpacked too, piece by piece, only to know its size."""
    unpacker, size, start = zlib.decompressobj(wbits=31), 0, b""
    try:
        with path.open("rb") as stream:
            while piece := stream.read(PIECE):
                while piece:
                    if unpacker.eof:  # several files one after another are one to gzip
                        unpacker = zlib.decompressobj(wbits=31)
                    out = unpacker.decompress(piece, PIECE)
                    piece = unpacker.unconsumed_tail or unpacker.unused_data
                    size += len(out)
                    start += out if len(start) < LONGEST_HEADER else b""
                    if size > most:
                        raise EvenhandError("The compressed table unpacks to more than is accepted. Upload fewer rows.")
    except zlib.error as error:
        raise EvenhandError(f"The file is not a sound .gz: {error}.") from error
    if not unpacker.eof:
        raise EvenhandError("The .gz file is cut off. Upload it again.")
    return start


def _check_header(start: bytes) -> None:
    if b"\0" in start or start.startswith(b"\x80"):
        raise EvenhandError("The file is not text, so it is no CSV table.")
    header, newline, _ = start.partition(b"\n")
    if not newline and len(start) >= LONGEST_HEADER:
        raise EvenhandError(f"The first line of the table has more than {LONGEST_HEADER:,} bytes.")
    _check_columns(1 + max(header.count(separator) for separator in (b",", b";", b"\t", b"|")))


def _check_columns(count: int) -> None:
    if count > MOST_COLUMNS:
        raise EvenhandError(f"The table has {count:,} columns; at most {MOST_COLUMNS:,} are accepted.")


def check_model(path: Path) -> None:
    """A first look, by the format's own marks; the model itself is only opened by a run's process."""
    with path.open("rb") as stream:
        start = stream.read(9)
    if not start:
        raise EvenhandError("The model's file is empty.")
    sound = {
        ".safetensors": len(start) == 9 and start[8:] == b"{" and 0 < int.from_bytes(start[:8], "little") < 1 << 27,
        ".skops": zipfile.is_zipfile(path),
        ".keras": zipfile.is_zipfile(path),
        ".txt": start.startswith(b"tree"),
        ".ubj": start.startswith(b"{"),
        ".onnx": start[:1] == b"\x08",  # its version comes first
        ".zip": zipfile.is_zipfile(path),  # see `service.model_archive`
    }
    if not sound[path.suffix]:
        raise EvenhandError(f"The content is not that of a {path.suffix} file. Save the model again in that format.")


def check_description(content: bytes) -> dict[str, Any]:
    """The .json of a .safetensors file. One that names another model could make the service open anything."""
    if len(content) > LONGEST_DESCRIPTION:
        raise EvenhandError(f"The description has more than {LONGEST_DESCRIPTION:,} bytes.")
    try:
        described = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise EvenhandError(f"The description is not JSON: {error}.") from error
    if not isinstance(described, dict) or not str(described.get("format", "")).startswith("evenhand "):
        raise EvenhandError("The description was not made by evenhand: it has no `format` of ours.")
    if described.get("inner") is not None:
        raise EvenhandError(
            "The description only names another model (`inner`), which is not opened here. Repair a network of "
            "evenhand's own, whose files hold all of it."
        )
    return described


def check_schema(text: str, file: str) -> None:
    """A schema that is sound and is about this file and no other."""
    from evenhand.data.schema import Schema

    if len(text) > LONGEST_SCHEMA:
        raise EvenhandError(f"The schema has more than {LONGEST_SCHEMA:,} characters.")
    try:
        content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise EvenhandError(f"The schema is not valid TOML: {error}.") from error
    found = Schema.parse(content, where="of the data set", text=text).file
    if found != file:
        raise EvenhandError(f"The schema is about the file '{found[:80]}'. Write file = \"{file}\".")


class TooLargeError(EvenhandError):
    """More came than is allowed."""


class Upload:
    """A file that is being received. Give it chunks, then hand it to `Assets`; `abandon` where nothing comes of it."""

    def __init__(self, home: Home, limit: int) -> None:
        self.id = uuid.uuid4().hex
        self.limit, self.size = limit, 0
        self.folder = home.uploads / self.id
        self.file = self.folder / "received"
        self._hash = hashlib.sha256()
        try:
            self.folder.mkdir()
            self._stream: IO[bytes] = self.file.open("xb")
        except OSError as error:
            raise cannot_write(self.folder, error) from error

    @property
    def sha256(self) -> str:
        """The checksum of what has come so far."""
        return self._hash.hexdigest()

    def write(self, chunk: bytes) -> None:
        """Take the next part; nothing beyond the limit is ever written."""
        self.size += len(chunk)
        if self.size > self.limit:
            self.abandon()
            raise TooLargeError(f"The file is larger than {size_text(self.limit)}, the largest size that is accepted.")
        self._hash.update(chunk)
        try:
            self._stream.write(chunk)
        except OSError as error:
            self.abandon()
            raise cannot_write(self.folder, error) from error

    def finish(self, name: str) -> Path:
        """All has come: it is on the disk for good, under this name in the upload's folder."""
        try:
            self._stream.flush()
            os.fsync(self._stream.fileno())
            self._stream.close()
            return self.file.rename(self.folder / name)
        except OSError as error:
            self.abandon()
            raise cannot_write(self.folder, error) from error

    def move_to(self, folder: Path) -> None:
        """Give the upload's folder its place, and make sure that a power cut does not undo it."""
        flush(self.folder)
        self.folder.rename(folder)
        flush(folder.parent)

    def abandon(self) -> None:
        """Forget what has come."""
        with suppress(OSError):  # a full disk shows again when what is left in memory is to be written
            self._stream.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def receive_all(home: Home, source: "Upload | IO[bytes] | Iterable[bytes]", limit: int) -> Upload:
    """A whole file, a stream of chunks, or what was received already."""
    if isinstance(source, Upload):
        return source
    upload = Upload(home, limit)
    try:
        for chunk in _chunks(source):
            upload.write(chunk)
    except BaseException:
        upload.abandon()
        raise
    return upload


def size_text(size: int) -> str:
    """A number of bytes for people."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size} bytes"


def _chunks(source: Any) -> Iterable[bytes]:
    return iter(lambda: source.read(PIECE), b"") if hasattr(source, "read") else source
