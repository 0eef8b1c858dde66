"""Checkpoints of an audit in a folder: a small state that is replaced, and segments of what was seen, which only grow.

A state names the segments that belong to it, with their checksums; it is written last. Every file gets its name when
all of it is on the disk, so a process can be killed at any moment. Arrays and JSON only: nothing is ever unpickled.
"""

import hashlib
import io
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel

import evenhand
from evenhand.errors import EvenhandError
from evenhand.files import flush, writable_folder
from evenhand.search.checkpoint import Place, State
from evenhand.search.method import Method
from evenhand.search.recorder import Findings, Fresh

SECONDS = 30.0
REFUSED = "refused"  # a folder for what is set aside
SPILL_BYTES = 64 << 20  # of what was seen, before it is written without waiting for a checkpoint
FORMAT = 2
SAME_SCORE = 1e-3  # another size of chunks may change the last digits
FREE = {"chunk_rows", "device"}  # settings that do not decide what is found
TYPES: dict[str, Any] = {
    "sample": np.int32, "witness": np.int32, "label": np.int64, "witness_label": np.int64, "score": np.float32,
    "witness_score": np.float32, "phase": np.int8, "seed": np.int64, "step": np.int32,
}  # fmt: skip


Arrays = dict[str, NDArray[Any]]
STATE, SEGMENT = "state.npz", "segment-{:06}.npz"
OURS = re.compile(r"\.?(state|segment-\d+)\.npz(\.partial)?")
DIGEST_BYTES = 20


class TornFile(Exception):  # noqa: N818 - what is to be done about it is for the caller to say
    """A file is not as it was written."""


class CheckpointGone(EvenhandError):  # noqa: N818 - the news that another process has the run
    """The folder was taken away: another process has the run."""


@dataclass(frozen=True)
class News:
    """Something that happened to checkpoints, in words and figures."""

    kind: Literal["resumed", "saved", "refused", "unsaved"]
    text: str
    step: int = 0
    total: int = 0
    findings: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Checkpoints:
    """Where an audit keeps its checkpoints, and how often it writes one. The folder's parent must be there."""

    folder: Path
    seconds: float = SECONDS  # 0: at every step
    on_news: Callable[[News], None] = lambda news: None
    keep: bool = False  # whether those of an audit that completed stay

    def completed(self) -> None:
        """The audit needs its checkpoints no more."""
        if not self.keep:
            self.discard()

    def discard(self) -> None:
        """Remove the checkpoints, but not what was set aside."""
        (self.folder / STATE).unlink(missing_ok=True)  # first: without it the others are nothing
        remove_all_but(self.folder, set())
        with suppress(OSError):
            self.folder.rmdir()


def as_checkpoints(where: str | Path | Checkpoints | None) -> Checkpoints | None:
    """Checkpoints in a folder, as often as usual, or as they are given."""
    if not isinstance(where, str | Path):
        return where
    writable_folder(Path(where).absolute().parent)  # found out now, and not after half a minute of work
    return Checkpoints(Path(where))


def keeper_for(
    checkpoints: Checkpoints | None,
    method: Method,
    settings: BaseModel,
    device: torch.device,
    subject: Callable[[], dict[str, Any]],
) -> "FolderKeeper | None":
    """What keeps the checkpoints of an audit, if it has any.

    `subject` makes the fingerprint of what is audited, which asks the model about some rows.
    """
    if checkpoints is None or not method.resumable:
        return None
    found = {
        "format": FORMAT,
        "evenhand": evenhand.__version__,
        "torch": torch.__version__,
        "device": device.type,
        "settings": settings.model_dump(exclude=FREE),
        **subject(),
    }
    return FolderKeeper(checkpoints, dict(json.loads(json.dumps(found))))


class FolderKeeper:
    """Saves and restores a search in a folder."""

    def __init__(self, checkpoints: Checkpoints, fingerprint: dict[str, Any]) -> None:
        self._folder, self._every, self._tell = checkpoints.folder, checkpoints.seconds, checkpoints.on_news
        self._fingerprint = fingerprint
        self._segments: list[dict[str, Any]] = []
        self._waiting: list[Arrays] = []
        self._waiting_bytes = 0
        self._writes = True
        self._made = self._folder.is_dir()
        self._state = self._read()
        self._due_at = time.monotonic() + self._every

    @property
    def due(self) -> bool:
        """Whether it is time to save."""
        return self._writes and time.monotonic() >= self._due_at

    def state(self) -> State | None:
        """The last state, if it is whole and of this search; who listens hears that it is gone on from."""
        if self._state is not None:
            counters = self._state.counters
            text = f"Goes on from a checkpoint: step {counters['done']:,} of {counters['total']:,}."
            self._news("resumed", text, counters)
        return self._state

    def fresh(self) -> Iterator[Fresh]:
        """What the segments of the last state hold."""
        for segment in self._segments:
            arrays = read_arrays(self._folder / segment["name"], segment["digest"])
            found = {name: arrays[name].astype(TYPES[name]) for name in TYPES if name in arrays}
            yield Fresh(arrays["keys"], Findings(**found) if found else None)

    def add(self, fresh: Fresh) -> None:
        """Keep what is new until the next checkpoint; it is written earlier where there is much of it."""
        if not self._writes:
            return
        arrays = {"keys": fresh.keys}
        if fresh.findings is not None:
            arrays |= {field.name: compact(getattr(fresh.findings, field.name)) for field in fields(Findings)}
        self._waiting.append(arrays)
        self._waiting_bytes += sum(array.nbytes for array in arrays.values())
        if self._waiting_bytes > SPILL_BYTES:
            self._or_not(self._write_segment)

    def save(self, state: State) -> None:
        """Write a checkpoint. An audit does not end for want of room for it; it goes on without."""
        if not self._writes:  # what was added since is not kept, so a later state would have gaps
            return
        self._or_not(lambda: self._write(state))
        self._due_at = time.monotonic() + self._every
        if self._writes:
            self._news("saved", "A checkpoint was written.", state.counters)

    def _write(self, state: State) -> None:
        self._write_segment()
        words = {
            "fingerprint": self._fingerprint,
            "segments": self._segments,
            "numbers": state.place.numbers,
            "counters": state.counters,
        }
        arrays = {f"place/{name}": tensor.cpu().numpy() for name, tensor in state.place.tensors.items()}
        arrays["words"] = np.frombuffer(json.dumps(words).encode(), dtype=np.uint8)
        write_sealed(self._made_folder() / STATE, arrays)

    def _write_segment(self) -> None:
        if not self._waiting:
            return
        names = sorted({name for arrays in self._waiting for name in arrays})
        joined = {name: np.concatenate([part[name] for part in self._waiting if name in part]) for name in names}
        self._waiting, self._waiting_bytes = [], 0
        name = SEGMENT.format(len(self._segments) + 1)
        self._segments.append({"name": name, "digest": write_arrays(self._made_folder() / name, joined)})

    def _made_folder(self) -> Path:
        """The folder, made before the first file and never again: one that has gone is somebody else's now."""
        if not self._made:
            self._folder.mkdir(exist_ok=True)
            self._made = True
        return self._folder

    def _or_not(self, write: Callable[[], None]) -> None:
        try:
            write()
        except FileNotFoundError as error:
            raise CheckpointGone(
                "The folder of the checkpoints was taken away: another process goes on with this run."
            ) from error
        except OSError as error:
            self._writes, self._waiting = False, []
            self._news("unsaved", f"No checkpoint can be written: {error.strerror}. The audit goes on without.")

    def _read(self) -> State | None:
        """The last state, after a look at all of its segments; what cannot be used is set aside."""
        try:
            state = self._whole()
        except TornFile as error:
            self._set_aside(f"The checkpoint is not whole: {error}. The search starts from the beginning.")
            return None
        if self._made:
            remove_all_but(self._folder, {STATE, *(segment["name"] for segment in self._segments)})
        return state

    def _whole(self) -> State | None:
        if not (self._folder / STATE).is_file():
            return None
        arrays = read_sealed(self._folder / STATE)
        words = json.loads(arrays.pop("words").tobytes())
        if differ := _differences(words["fingerprint"], self._fingerprint):
            self._set_aside(
                f"The checkpoint is of another search (other {differ[0]}). This one starts from the beginning."
            )
            return None
        self._segments = words["segments"]
        for _ in self.fresh():  # before anything is told to anybody, all of it must be there
            pass
        tensors = {name.removeprefix("place/"): torch.from_numpy(array) for name, array in arrays.items()}
        return State(Place(words["numbers"], tensors), words["counters"])

    def _set_aside(self, why: str) -> None:
        self._segments = []
        refused = self._folder / REFUSED
        shutil.rmtree(refused, ignore_errors=True)
        refused.mkdir()
        for path in ours(self._folder):
            path.replace(refused / path.name)
        self._news("refused", why)

    def _news(self, kind: Literal["resumed", "saved", "refused", "unsaved"], text: str, counters: Any = None) -> None:
        figures = counters or {"done": 0, "total": 0, "findings": 0, "passed": 0.0}
        self._tell(News(kind, text, figures["done"], figures["total"], figures["findings"], figures["passed"]))


def _differences(saved: dict[str, Any], ours: dict[str, Any]) -> list[str]:
    """In what two fingerprints differ, causes first: other data alone give other scores."""
    names = [name for name in ours if name != "model" and saved.get(name) != ours[name]]
    scores, own_scores = np.array(saved["model"]), np.array(ours["model"])
    same = scores.shape == own_scores.shape and np.allclose(scores, own_scores, rtol=0, atol=SAME_SCORE, equal_nan=True)
    return names if same else [*names, "model"]


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
        raise TornFile(f"{name} has changed since it was written")
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays}


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise TornFile(f"{path.name} cannot be read: {error.strerror}") from error


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
