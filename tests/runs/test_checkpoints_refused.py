"""Checkpoints that are damaged, of something else, or taken away: a search starts anew, or ends, and says so."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from evenhand.data.dataset import Dataset
from evenhand.errors import EvenhandError
from evenhand.runs import checkpoints as checkpoint_files
from evenhand.runs.checkpoints import REFUSED, STATE, CheckpointGone, Checkpoints, FolderKeeper, News, as_checkpoints
from evenhand.search.checkpoint import Place, State
from evenhand.search.recorder import Fresh
from tests.worlds.checkpoints import World, limited
from tests.worlds.schemas import dataset_of

pytest_plugins = ["tests.worlds.checkpoints"]


def torn_state(folder: Path) -> None:
    os.truncate(folder / STATE, 1000)


def changed_state(folder: Path) -> None:
    content = bytearray((folder / STATE).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / STATE).write_bytes(content)


def empty_state(folder: Path) -> None:
    os.truncate(folder / STATE, 0)


def torn_segment(folder: Path) -> None:
    os.truncate(folder / "segment-000002.npz", 100)


def missing_segment(folder: Path) -> None:
    (folder / "segment-000001.npz").unlink()


def swapped_segments(folder: Path) -> None:
    first, second = ((folder / f"segment-00000{number}.npz").read_bytes() for number in (1, 2))
    (folder / "segment-000001.npz").write_bytes(second)
    (folder / "segment-000002.npz").write_bytes(first)


@pytest.mark.parametrize(
    "damage", [torn_state, changed_state, empty_state, torn_segment, missing_segment, swapped_segments]
)
def test_a_damaged_checkpoint_is_set_aside(world: Callable[..., World], damage: Callable[[Path], None]) -> None:
    search = world()
    search.killed_after(6)
    damage(search.checkpoints)
    assert search.finished() == search.whole()
    assert not search.heard("resumed")
    (refused,) = search.heard("refused")
    assert "is not whole" in refused.text
    assert "starts from the beginning" in refused.text
    assert str(search.folder) not in refused.text
    assert (search.checkpoints / REFUSED / STATE).is_file()


def test_pickles_are_not_opened(tmp_path: Path) -> None:
    """Even with the right checksum."""
    checkpoint_files.write_sealed(tmp_path / STATE, {"bad": np.array([{}], dtype=object)})
    with pytest.raises(ValueError, match="allow_pickle"):
        checkpoint_files.read_sealed(tmp_path / STATE)


def test_a_kill_in_the_middle_of_writing(world: Callable[..., World]) -> None:
    """What a killed process wrote after its last state does not count, and does not stay."""
    search = world()
    search.killed_after(6)
    segments = sorted(path.name for path in search.checkpoints.glob("segment-*"))
    beyond = f"segment-{len(segments) + 1:06}.npz"
    for stray in (beyond, f".{STATE}.partial", f".{beyond}.partial"):
        (search.checkpoints / stray).write_bytes(b"half")
    search.killed_after(1)
    assert {path.name for path in search.checkpoints.iterdir()} == {STATE, *segments}
    assert search.finished().counted == search.whole().counted
    assert len(search.heard("resumed")) == 2


@pytest.mark.parametrize(
    "changes",
    [{"seed": 6}, {"method": "adf"}, {"settings": {"caution": 0.2}}, {"steps": 26}, {"max_findings": 9}],
    ids=["seed", "method", "setting of the method", "steps", "budget"],
)
def test_a_checkpoint_of_other_settings_is_set_aside(world: Callable[..., World], changes: dict[str, Any]) -> None:
    search = world()
    search.killed_after(6)
    assert search.finished(**changes).findings == search.whole(**changes).findings
    assert "(other settings)" in search.heard("refused")[0].text
    assert not search.heard("resumed")


def other_data(search: World, _: pytest.MonkeyPatch) -> None:
    search.data = dataset_of(search.data.schema, 60, 2)


def other_schema(search: World, _: pytest.MonkeyPatch) -> None:
    search.data = Dataset(limited(), search.data.codes, search.data.labels, search.data.train)


def other_model(search: World, _: pytest.MonkeyPatch) -> None:
    with torch.no_grad():
        next(search.model.parameters()).add_(0.05)


def other_evenhand(_: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenhand.__version__", "0.0.0")


@pytest.mark.parametrize("change", [other_data, other_schema, other_model, other_evenhand])
def test_a_checkpoint_of_something_else_is_set_aside(
    world: Callable[..., World], change: Callable[[World, pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    search = world()
    search.killed_after(6)
    change(search, monkeypatch)
    assert search.finished() == search.whole()
    assert f"({change.__name__.replace('_', ' ')})" in search.heard("refused")[0].text
    assert not search.heard("resumed")


def test_other_files_in_the_folder_are_left_alone(world: Callable[..., World]) -> None:
    search = world()
    search.checkpoints.mkdir()
    (search.checkpoints / "notes.txt").write_text("mine")
    search.killed_after(6)
    search.finished(seed=6)
    Checkpoints(search.checkpoints).discard()
    assert {path.name for path in search.checkpoints.iterdir()} == {"notes.txt", REFUSED}


def test_a_process_whose_folder_was_taken_away_ends(world: Callable[..., World]) -> None:
    """As when another one has the run now. The folder does not come back, and what was taken is whole."""
    search = world()

    def take(news: News) -> None:
        if news.kind == "saved" and news.step == 5:
            search.checkpoints.rename(search.folder / "taken")

    with pytest.raises(CheckpointGone, match="another process goes on"):
        search.search(Checkpoints(search.checkpoints, 0.0, take))
    assert not search.checkpoints.exists()
    (search.folder / "taken").rename(search.checkpoints)
    assert search.finished().findings == search.whole().findings
    assert search.heard("resumed")[0].step == 5


def test_a_full_disk_ends_the_checkpoints_and_not_the_search(
    world: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    search, fsync, room = world(), os.fsync, iter(range(9))

    def while_there_is_room(handle: int) -> None:
        if next(room, None) is None:
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", while_there_is_room)
        pieces = search.finished()
    assert pieces == search.whole()
    (unsaved,) = search.heard("unsaved")
    assert "No space left on device" in unsaved.text
    assert str(search.folder) not in unsaved.text
    assert not list(search.checkpoints.glob(".*"))
    assert search.finished().findings == pieces.findings
    assert search.heard("resumed")  # what was written before is whole


def test_after_a_full_disk_no_checkpoint_has_gaps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wish to stop asks for one more; it is not written, although there is room again."""
    keeper = FolderKeeper(Checkpoints(tmp_path / "kept", 0.0), {"model": []})
    state = State(Place({"step": 1}, {}), {"done": 1, "total": 2, "findings": 0, "passed": 0.0})
    keeper.save(state)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full_disk)
        keeper.add(Fresh(np.arange(3), None))
        keeper.save(State(Place({"step": 2}, {}), state.counters))
    keeper.save(State(Place({"step": 3}, {}), state.counters))
    last = FolderKeeper(Checkpoints(tmp_path / "kept"), {"model": []}).state()
    assert last is not None
    assert last.place.numbers == {"step": 1}


def full_disk(_handle: int) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_folder_for_checkpoints_is_tried_before_the_work(tmp_path: Path) -> None:
    assert as_checkpoints(tmp_path / "made" / "here") == Checkpoints(tmp_path / "made" / "here")
    assert (tmp_path / "made").is_dir()
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(EvenhandError, match="file"):
        as_checkpoints(tmp_path / "file" / "here")
