"""Looking into a model file that is a zip archive before anything in it is used."""

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from evenhand.errors import EvenhandError

LARGEST_CONTENT = 4 * 2**30  # bytes of an archive when unpacked
LARGEST_RATIO = 200  # of unpacked to packed; weights are packed to little less than their size
SMALL_FILE = 2**20  # bytes that may be packed as densely as they like
MOST_FILES = 100_000


def open_archive(path: Path, kind: str, how_to_save: str) -> zipfile.ZipFile:
    """A zip archive whose names stay inside it and whose content is no larger than a model may be.

    `how_to_save` is a sentence for those whose file is none of that kind.
    """
    with path.open("rb") as file:
        start = file.read(4)
    if start[:1] == b"\x80":
        raise EvenhandError(
            f"{path} is a pickle and not {kind}. A pickle can run any code when it is read, so it was not opened. "
            f"{how_to_save}"
        )
    if start != b"PK\x03\x04":
        raise EvenhandError(f"{path} is not {kind}: it is no zip archive. {how_to_save}")
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError, NotImplementedError) as error:
        raise EvenhandError(f"{path} is not {kind}: {error}. {how_to_save}") from error
    try:
        _check(archive, path)
    except EvenhandError:
        archive.close()
        raise
    return archive


def repacked(archive: zipfile.ZipFile, instead: Mapping[str, bytes]) -> io.BytesIO:
    """The files of an archive as Python read them, some of them replaced, as an archive of their own.

    Readers differ in where they look for the list of files, so that a crafted archive can be two: one that was
    checked, and another that the framework would load.
    """
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as copy:
        for entry in archive.infolist():
            if not entry.is_dir():
                content = instead.get(entry.filename)
                copy.writestr(entry.filename, archive.read(entry) if content is None else content)
    target.seek(0)
    return target


def _check(archive: zipfile.ZipFile, path: Path) -> None:
    entries = archive.infolist()
    names = [entry.filename for entry in entries]
    if len(entries) > MOST_FILES or len(set(names)) < len(names):
        raise EvenhandError(f"{path} holds too many files, or two of the same name, so it was not opened.")
    for name in names:
        pure = PurePosixPath(name)
        if pure.is_absolute() or ".." in pure.parts or "\\" in name or ":" in name or "\0" in name:
            raise EvenhandError(f"{path} holds the name '{name}', which leads out of the archive. It was not opened.")
    for entry in entries:
        dense = entry.file_size > SMALL_FILE and entry.file_size > LARGEST_RATIO * max(1, entry.compress_size)
        if dense or entry.flag_bits & 1:
            raise EvenhandError(
                f"{path}: '{entry.filename}' says it unpacks from {entry.compress_size:,} to {entry.file_size:,} "
                "bytes, or is encrypted. No model is packed like this, so it was not opened."
            )
    total = sum(entry.file_size for entry in entries)
    if total > LARGEST_CONTENT:
        raise EvenhandError(
            f"{path} would unpack to {total:,} bytes; a model may have {LARGEST_CONTENT:,}. It was not opened."
        )
