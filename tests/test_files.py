"""Files appear whole or not at all."""

import os
import stat
from pathlib import Path

import pytest

from evenhand.errors import EvenhandError
from evenhand.files import read_json, replacing, writable_folder, write_json, write_text


def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_text(path, "old")

    def interrupted() -> None:
        with replacing(path) as temporary:
            temporary.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_json_round_trip_and_broken_json(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(path, {"words": "30–39"})
    assert read_json(path) == {"words": "30–39"}
    assert path.stat().st_mode & 0o777 == 0o666 & ~current_umask()
    path.write_text("{")
    with pytest.raises(EvenhandError, match="not valid JSON"):
        read_json(path)
    path.write_text("[]")
    with pytest.raises(EvenhandError, match="JSON object"):
        read_json(path)
    with pytest.raises(EvenhandError, match="Cannot read"):
        read_json(tmp_path / "absent.json")


def test_places_that_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EvenhandError, match="Cannot write to"):
        writable_folder(tmp_path / "file" / "folder")
    with pytest.raises(EvenhandError, match="Cannot write to"):
        write_text(tmp_path / "absent" / "file", "x")


def current_umask() -> int:
    import os

    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.skipif(os.name == "nt", reason="Windows has no umask")
@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_a_file_gets_the_usual_permissions_and_the_umask_stays(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        write_text(tmp_path / "text", "a")
        assert os.umask(umask) == umask
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "text").stat().st_mode) == mode
