"""Writing files so that nobody ever sees half of one."""

import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from evenhand.errors import EvenhandError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; it takes the name `path` on success and is removed on failure."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.partial")
    try:  # with the usual permissions: `tempfile` gives others none, and to ask for the umask is to change it for all
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
    except OSError as error:
        raise cannot_write(path, error) from error
    try:
        yield temporary
        temporary.replace(path)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file that a person can read, whole or not at all."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; an unreadable one is the user's to mend."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise EvenhandError(f"Cannot read {path}: {error.strerror}.") from error
    except ValueError as error:
        raise EvenhandError(f"{path} is not valid JSON: {error}.") from error
    if not isinstance(content, dict):
        raise EvenhandError(f"{path} does not hold a JSON object.")
    return content


def writable_folder(folder: Path) -> Path:
    """Make the folder if need be, and find out now rather than after the work whether it can be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        raise cannot_write(folder, error) from error


def flush(path: Path) -> None:
    """Wait until the disk has a file, or a folder's list of names where the platform has a way to."""
    if os.name == "nt" and path.is_dir():
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def result_folder(out: str | Path | None) -> Iterator[Path]:
    """The folder for results (a temporary one for None), tried before the work.

    One that was made for work that then failed goes away again.
    """
    existed = out is not None and Path(out).exists()
    folder = writable_folder(Path(tempfile.mkdtemp(prefix="evenhand-") if out is None else out))
    try:
        yield folder
    except BaseException:
        if not existed:
            shutil.rmtree(folder, ignore_errors=True)
        raise


def cannot_write(path: Path, error: OSError) -> EvenhandError:
    """The error for a place that cannot be written to."""
    return EvenhandError(f"Cannot write to {path}: {error.strerror}. Choose another place or free it.")
