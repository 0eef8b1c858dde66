"""Files appear whole or not at all."""

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
