"""The documentation site is built without a warning, is complete, and needs no other host."""

import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest
from tools.docs_cli import command_reference, commands

import evenhand
from tests.worlds.doc_blocks import blocks_in, parse_command

ROOT = Path(__file__).parents[2]
LOADED = re.compile(
    r"<(?:script|link|img|iframe|source|video|audio)\b[^>]*(?:src|href)\s*=\s*[\"']?\s*(?:https?:)?//[^>]*>"
)
STYLED = re.compile(r"(?:@import\s+[\"']?|url\(\s*[\"']?)(?:https?:)?//")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "-d", str(folder / "doctrees")]
    done = subprocess.run([*command, "docs", str(folder / "html")], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "html"


def test_every_page_is_built_and_reached(site: Path) -> None:
    """Sphinx warns of pages that no table of contents names, so being there means being reached."""
    for page in (ROOT / "docs").rglob("*.md"):
        assert (site / page.relative_to(ROOT / "docs").with_suffix(".html")).is_file()


def test_every_public_name_is_described(site: Path) -> None:
    page = (site / "reference" / "api.html").read_text(encoding="utf-8")
    for name in evenhand.__all__:
        if not name.startswith("__"):
            assert f'id="evenhand.{name}"' in page, name


def test_every_command_and_option_is_described(site: Path) -> None:
    page = unescape((site / "reference" / "cli.html").read_text(encoding="utf-8"))
    found = dict(commands())
    assert {"evenhand audit", "evenhand data show", "evenhand reproduce tables"} <= set(found)
    for name, command in found.items():
        assert f'id="{name.replace(" ", "-")}"' in page, name
        for parameter in command.params:
            assert parameter.name == "help" or all(option in page for option in parameter.opts if option[0] == "-")


def test_the_site_needs_no_other_host(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 10
    for page in pages:
        assert not LOADED.findall(page.read_text(encoding="utf-8")), page
    for style in site.rglob("*.css"):
        assert not STYLED.findall(style.read_text(encoding="utf-8")), style


def test_marks_for_the_tests_are_not_shown(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = re.sub(r"<!--.*?-->", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert not re.search(r"&lt;!-- ?(setup|(not run|file|append|needs|exit):)", text), page


def test_examples_of_the_help_are_commands_that_exist() -> None:
    lines = [words for block in blocks_in(command_reference(), "help") for words in block.commands()]
    assert len(lines) > 10
    for words in lines:
        parse_command(words)


@pytest.mark.parametrize("tag", ['<script src="https://x.org/a.js">', "<link rel=x href=//x.org/a.css>"])
def test_other_hosts_would_be_noticed(tag: str) -> None:
    assert LOADED.search(tag)
    assert not LOADED.search('<a href="https://x.org">')
