"""Files received from outside: counted and hashed on the way to a temporary place, under names of our own."""

import hashlib
import os
import shutil
import uuid
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from evenhand.errors import EvenhandError
from evenhand.files import cannot_write, flush
from evenhand.service.storage.home import Home

CHUNK = 1 << 20


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
            raise TooLargeError(f"The file is larger than {size_text(self.limit)}, which is the most that is taken.")
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


def received(home: Home, source: "Upload | IO[bytes] | Iterable[bytes]", limit: int) -> Upload:
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
    return iter(lambda: source.read(CHUNK), b"") if hasattr(source, "read") else source
