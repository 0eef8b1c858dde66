"""The first files that a stranger opens: short, with links that lead somewhere and pictures that a command makes."""

import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import evenhand
from tests.worlds.doc_blocks import parse_command
from tests.worlds.service import needs

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PICTURES = {path.name for path in (ROOT / "docs" / "pictures").glob("*.png")}
SHOWN = re.compile(r"!\[([^\]]*)\]\((?:\.\./)?(?:docs/)?pictures/([^)]+)\)")


def size_of(picture: Path) -> tuple[int, int]:
    """Width and height of a PNG file."""
    content = picture.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", content[16:24])
    return width, height


def test_the_front_page_is_short_and_its_links_lead_somewhere() -> None:
    assert len(README) <= 9_000
    links = re.findall(r"\]\(([^)]+)\)", README)
    assert "docs/pictures/report.png" in links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_citation_is_of_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == evenhand.__version__
    assert citation["license"] == "Apache-2.0"


def test_the_action_calls_the_gate_as_it_is() -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    steps = action["runs"]["steps"]
    words = next(step["run"] for step in steps if step.get("run", "").startswith("evenhand gate")).split()
    assert [word for word in words if word.startswith("--")] == ["--junit", "--sarif"]
    parse_command(words)
    used = set(re.findall(r"inputs\.([a-z-]+)", str(steps)))
    assert used == set(action["inputs"])


def test_the_pictures_are_made_by_a_command(tmp_path: Path) -> None:
    pytest.importorskip("playwright.sync_api")
    needs("chromium", "chromium")
    few = ["--few", "--data", "credit", "--seeds", "20", "--steps", "10"]
    command = [sys.executable, "-m", "tools.pictures", str(tmp_path), *few]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    made = {path.name for path in tmp_path.glob("*.png")}
    assert made == PICTURES - {"measurement.png", "comparison.png"}
    for name in made:
        width, height = size_of(tmp_path / name)
        assert width == 1000
        assert 400 < height <= 860


def test_every_picture_is_small_and_shown_with_its_words() -> None:
    """Pictures travel with every clone, and somebody who does not see them is told what they show."""
    sizes = {path.name: path.stat().st_size for path in (ROOT / "docs" / "pictures").iterdir()}
    assert max(sizes.values()) < 200_000
    assert sum(sizes.values()) < 2_000_000
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    shown = [found for page in pages for found in SHOWN.findall(page.read_text(encoding="utf-8"))]
    assert {name for _, name in shown} == set(sizes) == PICTURES
    assert all(len(words.split()) >= 5 for words, _ in shown)
