"""Every code block of README and the documentation is run, or, where that takes too long, its commands are parsed."""

from pathlib import Path

import pytest

from evenhand.text.corpus import load_corpus
from evenhand.text.vectors import load_vectors
from tests.text.test_real_data import real
from tests.worlds.doc_blocks import Block, blocks_in, blocks_of, commands_of, pages, parse_command, run_in

PAGES = pages()
# A page shows what readers write; what a framework will change some day is no failure of theirs.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::PendingDeprecationWarning")


@pytest.mark.parametrize("page", [page for page in PAGES if any(b.runs and not b.needs_texts for b in blocks_of(page))])
def test_blocks_run(page: str, tmp_path: Path) -> None:
    with run_in(tmp_path) as runner:
        for block in blocks_of(page):
            if block.runs and not block.needs_texts:
                runner.run(block)


@pytest.mark.real_text
@pytest.mark.parametrize("page", [page for page in PAGES if any(b.runs and b.needs_texts for b in blocks_of(page))])
def test_blocks_on_real_texts_run(page: str, tmp_path: Path) -> None:
    real(load_vectors)
    real(lambda: load_corpus("wiki"))
    with run_in(tmp_path) as runner:
        for block in blocks_of(page):
            if block.runs and block.needs_texts:
                runner.run(block)


@pytest.mark.parametrize("page", [page for page in PAGES if commands_of(page)])
def test_commands_exist(page: str) -> None:
    for where, words in commands_of(page):
        try:
            parse_command(words)
        except Exception as error:  # whichever class of click's, bundled or not
            message = error.format_message() if hasattr(error, "format_message") else str(error)
            pytest.fail(f"{where}: {' '.join(words)}: {message}")


def test_blocks_have_known_marks_and_reasons() -> None:
    for page in PAGES:
        for block in blocks_of(page):
            assert set(block.marks.values()) != {""}, f"{block.where}: a mark says nothing"
            assert block.marks.get("needs", "texts") == "texts", block.where


PAGE = """
Text.

<!-- setup
z = 3
-->

<!-- file: a.toml -->
```toml
x = 1
```

<!-- not run: takes an hour -->
<!-- exit: 1 -->
```bash
evenhand audit census \\
  -p sex   # all of it
pip install x
```

- an item:
  ```python
  y = 2
  ```

```{toctree}
index
```

```console
$ evenhand data list
census
```
"""


def test_blocks_are_found_with_their_marks() -> None:
    setup, toml, bash, python, console = blocks_in(PAGE, "page.md")
    assert setup == Block("page.md", 4, "python", "z = 3\n")
    assert toml == Block("page.md", 9, "toml", "x = 1\n", {"file": "a.toml"})
    assert bash.marks == {"not run": "takes an hour", "exit": "1"}
    assert not bash.runs
    assert bash.commands() == [["evenhand", "audit", "census", "-p", "sex"], ["pip", "install", "x"]]
    assert python.text == "y = 2\n"
    assert console.commands() == [["evenhand", "data", "list"]]


@pytest.mark.parametrize("line", ["evenhand audti census", "evenhand audit census --sideways", "evenhand data shwo x"])
def test_commands_that_do_not_exist_are_noticed(line: str) -> None:
    with pytest.raises(Exception, match="No such"):
        parse_command(line.split())


def test_parsing_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    parse_command(["evenhand", "audit", "census", "-p", "sex", "--out", "there"])
    assert not list(tmp_path.iterdir())


def test_blocks_that_fail_fail(tmp_path: Path) -> None:
    with run_in(tmp_path) as runner:
        runner.run(Block("page.md", 1, "python", "x = 1\n"))
        runner.run(Block("page.md", 3, "python", "assert x == 1\n"))
        with pytest.raises(AssertionError):
            runner.run(Block("page.md", 5, "python", "assert x == 2\n"))
        with pytest.raises(AssertionError, match="ended with 2"):
            runner.run(Block("page.md", 7, "bash", "evenhand data show no-such-data\n"))
        with pytest.raises(pytest.fail.Exception, match="do not run 'rm'"):
            runner.run(Block("page.md", 9, "bash", "rm -r x\n"))
