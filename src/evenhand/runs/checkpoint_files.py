"""Files of a checkpoint: written so that a name never stands for half a file, small, and with a checksum."""

import hashlib
import io
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.files import flush

Arrays = dict[str, NDArray[Any]]
STATE, SEGMENT = "state.npz", "segment-{:06}.npz"
OURS = re.compile(r"\.?(state|segment-\d+)\.npz(\.partial)?")
DIGEST_BYTES = 20


class Torn(Exception):  # noqa: N818 - what is to be done about it is for the caller to say
    """A file is not as it was written."""


def write_arrays(path: Path, arrays: Arrays) -> str:
    """Write arrays to a file; returns its checksum."""
    content = _packed(arrays)
    _write(path, content)
    return digest(content)


def read_arrays(path: Path, checksum: str) -> Arrays:
    """Arrays from a file that has this checksum."""
    return _unpacked(_read(path), lambda content: digest(content) == checksum, path.name)


def write_sealed(path: Path, arrays: Arrays) -> None:
    """Write arrays to a file that begins with the checksum of the rest."""
    content = _packed(arrays)
    _write(path, _seal(content), content)


def read_sealed(path: Path) -> Arrays:
    """Arrays from such a file."""
    content = _read(path)
    seal, content = content[:DIGEST_BYTES], content[DIGEST_BYTES:]
    return _unpacked(content, lambda content: _seal(content) == seal, path.name)


def digest(content: Any) -> str:
    """The checksum of some bytes."""
    return _seal(content).hex()


def _seal(content: Any) -> bytes:
    return hashlib.blake2b(content, digest_size=DIGEST_BYTES).digest()


def _packed(arrays: Arrays) -> memoryview:
    stream = io.BytesIO()
    np.savez(stream, **arrays)  # type: ignore[arg-type]
    return stream.getbuffer()


def _unpacked(content: bytes, is_whole: Callable[[bytes], bool], name: str) -> Arrays:
    """Only what has its checksum is looked into."""
    if not is_whole(content):
        raise Torn(f"{name} has changed since it was written")
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays}


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Torn(f"{path.name} cannot be read: {error.strerror}") from error


def _write(path: Path, *parts: bytes | memoryview) -> None:
    """The file takes its name when the disk has all of it."""
    temporary = path.with_name(f".{path.name}.partial")
    try:
        with temporary.open("wb") as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)  # there may be no room for more than what was there before
        raise
    flush(path.parent)


def compact(array: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers in as few bytes as they need: most codes fit into one."""
    if array.dtype.kind != "i" or not array.size:
        return array
    low, high = int(array.min()), int(array.max())
    for kind in (np.int8, np.int16, np.int32):
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            return array.astype(kind)
    return array


def ours(folder: Path) -> list[Path]:
    """The files of a checkpoint in a folder, half-written ones too; others are none of our business."""
    return sorted(path for path in folder.iterdir() if OURS.fullmatch(path.name)) if folder.is_dir() else []


def remove_all_but(folder: Path, kept: set[str]) -> None:
    """Remove what a killed process left half-written, or wrote after its last state."""
    for path in ours(folder):
        if path.name not in kept:
            path.unlink(missing_ok=True)
