"""Checkpoints of an audit in a folder: a small state that is replaced, and segments of what was seen, which only grow.

A state names the segments that belong to it, with their checksums; it is written last. Every file gets its name when
all of it is on the disk, so a process can be killed at any moment. Arrays and JSON only: nothing is ever unpickled.
"""

import json
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

import evenhand
from evenhand.data.dataset import Dataset
from evenhand.errors import EvenhandError
from evenhand.files import writable_folder
from evenhand.models.classifier import Classifier
from evenhand.runs.checkpoint_files import (
    SEGMENT,
    STATE,
    Arrays,
    Torn,
    compact,
    digest,
    ours,
    read_arrays,
    read_sealed,
    remove_all_but,
    write_arrays,
    write_sealed,
)
from evenhand.runs.config import SearchConfig
from evenhand.search.checkpoint import Place, State
from evenhand.search.method import Method
from evenhand.search.recorder import Findings, Fresh

SECONDS = 30.0
REFUSED = "refused"  # a folder for what is set aside
SPILL_BYTES = 64 << 20  # of what was seen, before it is written without waiting for a checkpoint
FORMAT = 2
TRIAL_ROWS = 32  # whose scores tell one model from another
SAME_SCORE = 1e-3  # another size of chunks may change the last digits
FREE = {"chunk_rows", "device"}  # settings that do not decide what is found
TYPES: dict[str, Any] = {
    "sample": np.int32, "witness": np.int32, "label": np.int64, "witness_label": np.int64, "score": np.float32,
    "witness_score": np.float32, "phase": np.int8, "seed": np.int64, "step": np.int32,
}  # fmt: skip


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
    config: SearchConfig,
    data: Dataset,
    rows: NDArray[np.int64],
    model: Classifier,
    unread: list[int],
) -> "FolderKeeper | None":
    """What keeps the checkpoints of an audit, if it has any."""
    if checkpoints is None or not method.resumable:
        return None
    return FolderKeeper(checkpoints, fingerprint(config, data, rows, model) | {"unread": unread})


def fingerprint(config: SearchConfig, data: Dataset, rows: NDArray[np.int64], model: Classifier) -> dict[str, Any]:
    """All that decides how a search goes. A checkpoint of another search is no use."""
    schema = data.schema.model_dump_json(include={"attributes", "label", "impossible"})
    x = torch.tensor(data.clipped[rows[:TRIAL_ROWS]], dtype=torch.float32, device=model.device)
    found = {
        "format": FORMAT,
        "evenhand": evenhand.__version__,
        "torch": torch.__version__,
        "device": model.device.type,
        "settings": config.model_dump(exclude=FREE),
        "schema": digest(schema.encode()),
        "data": digest(rows.tobytes() + data.codes[rows].tobytes()),  # a search knows no others
        "model": model.outputs(x).scores.double().cpu().tolist(),
    }
    return dict(json.loads(json.dumps(found)))


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
        except Torn as error:
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
