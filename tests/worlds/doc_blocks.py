"""The code blocks of Markdown pages, and how tests run them.

Comments right above a block, which readers of the page do not see, say what it is:
`<!-- file: NAME -->` it is the content of a file that later blocks use; `<!-- append: NAME -->` what a reader adds to
such a file; `<!-- not run: REASON -->` it takes too long or
changes the machine, so its commands are only parsed; `<!-- needs: texts -->` it needs the downloaded corpora;
`<!-- exit: N -->` its last command ends with that exit code. A comment of several lines that begins with `<!-- setup`
holds Python that runs in its place, such as the making of a table that the page speaks of.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from evenhand.cli.main import app, main

ROOT = Path(__file__).parents[2]
FENCE = re.compile(
    r"^(?P<indent> *)(?P<ticks>`{3,}|~{3,})(?P<info>[^`\n]*)\n(?P<body>.*?)^ *(?P=ticks)[ \t]*$", re.S | re.M
)
SETUP = re.compile(r"^<!-- setup\n(?P<body>.*?)^-->", re.S | re.M)
MARKS = re.compile(r"((?:^<!--[^>]*-->[ \t]*\n\s*)+)\Z", re.M)
MARK = re.compile(r"<!--\s*(file|append|not run|needs|exit)\s*:\s*(.*?)\s*-->")
INLINE = re.compile(r"(?<!`)`(evenhand [^`]+)`(?!`)")
COMMANDS, SHOWN = ("bash", "console", "sh", "shell"), ("", "text", "html", "xml", "csv")
ANSWERED = ("-h", "--help", "--version")  # options after which nothing else counts
READERS: dict[str, Callable[[str], Any]] = {"toml": tomllib.loads, "json": json.loads, "yaml": yaml.safe_load}


@dataclass(frozen=True)
class Block:
    """A fenced block with the marks above it."""

    page: str
    line: int
    language: str
    text: str
    marks: dict[str, str] = field(default_factory=dict)

    @property
    def where(self) -> str:
        """For messages."""
        return f"{self.page}, line {self.line}"

    @property
    def runs(self) -> bool:
        """Whether tests run it, or only parse it."""
        return "not run" not in self.marks

    @property
    def needs_texts(self) -> bool:
        """Whether it runs on the downloaded corpora."""
        return self.marks.get("needs") == "texts"

    def commands(self) -> list[list[str]]:
        """The command lines of the block, split into words, comments left out."""
        joined = self.text.replace("\\\n", " ")
        lines = [line.strip() for line in joined.splitlines()]
        if any(line.startswith("$ ") for line in lines):  # then all other lines are output
            lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        if self.language not in COMMANDS:
            lines = [line for line in lines if not self.language and line.startswith("evenhand ")]
        return [words for line in lines if (words := shlex.split(line, comments=True))]


def pages() -> list[str]:
    """README and all pages of the documentation, from the repository's root."""
    found = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    return sorted(str(path.relative_to(ROOT)) for path in found if "_build" not in path.parts)


def blocks_of(page: str) -> list[Block]:
    """The blocks of a page, in order. Directives of the site generator are no code."""
    return blocks_in((ROOT / page).read_text(encoding="utf-8"), page)


def blocks_in(text: str, page: str) -> list[Block]:
    """The blocks of a Markdown text."""
    found = []
    for match in FENCE.finditer(text):
        info = match["info"].strip()
        if info.startswith("{"):
            continue
        above = MARKS.search(text[: match.start()])
        marks = dict(MARK.findall(above[1])) if above else {}
        line, indent = text.count("\n", 0, match.start()) + 1, match["indent"]
        body = re.sub(rf"^{indent}", "", match["body"], flags=re.M)
        found.append(Block(page, line, info.split()[0] if info else "", body, marks))
    for match in SETUP.finditer(text):
        found.append(Block(page, text.count("\n", 0, match.start()) + 1, "python", match["body"]))
    return sorted(found, key=lambda block: block.line)


def commands_of(page: str) -> list[tuple[str, list[str]]]:
    """All `evenhand` command lines of a page, in blocks and in sentences, and where each stands."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = [(block.where, words) for block in blocks_in(text, page) for words in block.commands()]
    prose = FENCE.sub("", text)
    found += [(page, shlex.split(" ".join(inline.split()))) for inline in INLINE.findall(prose)]
    return [(where, words) for where, words in found if words[0] == "evenhand"]


@cache
def _commands() -> Any:
    """The tree of commands; to build it takes longer than to parse a line."""
    return get_command(app)


def parse_command(words: list[str]) -> None:
    """Parse an `evenhand` command line as the command itself would, and run nothing."""
    command = _commands()
    rest = [word for word in words[1:] if word not in ANSWERED]
    answered = len(rest) + 1 < len(words)
    context, name = None, "evenhand"
    while hasattr(command, "resolve_command"):
        if not rest:
            return  # a group by itself shows its help
        context = command.make_context(name, rest, parent=context)
        name, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])
    if rest and not answered:  # a sentence may name a command by itself
        command.make_context(name, rest, parent=context)


class Runner:
    """Runs the blocks of one page in order: one folder, one namespace."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.namespace: dict[str, Any] = {"__name__": "__main__"}
        shutil.copytree(ROOT / "examples", folder / "examples", dirs_exist_ok=True)

    def run(self, block: Block) -> None:
        """Run a block, or write the file that it is."""
        if "file" in block.marks:
            place = self.folder / block.marks["file"]
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(block.text, encoding="utf-8")
        if "append" in block.marks:
            with (self.folder / block.marks["append"]).open("a", encoding="utf-8") as stream:
                stream.write("\n" + block.text)
        if block.language in READERS:
            READERS[block.language](block.text)
        elif block.language == "python" and "file" not in block.marks:
            exec(compile("\n" * block.line + block.text, str(ROOT / block.page), "exec"), self.namespace)
        elif block.language in COMMANDS:
            *first, last = block.commands()
            for words in first:
                self.command(words, block.where, 0)
            self.command(last, block.where, int(block.marks.get("exit", 0)))
        elif block.language not in (*SHOWN, "python"):
            pytest.fail(f"{block.where}: nobody runs blocks of '{block.language}'")

    def command(self, words: list[str], where: str, expected: int) -> None:
        """Run one command line: evenhand in this process, python and pytest in another."""
        if words[0] == "evenhand":
            code = evenhand(words[1:])
        elif words[0] in ("python", "pytest"):
            start = (
                [sys.executable] if words[0] == "python" else [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
            )
            environment = os.environ | {"OMP_NUM_THREADS": "1"}
            code = subprocess.run([*start, *words[1:]], cwd=self.folder, env=environment).returncode
        else:
            pytest.fail(f"{where}: tests do not run '{words[0]}'; mark the block as <!-- not run: REASON -->")
        assert code == expected, f"{where}: {shlex.join(words)} ended with {code}, not {expected}"


def evenhand(words: list[str]) -> int:
    """The exit code of a command line, run in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["evenhand", *words])
        try:
            main()
        except SystemExit as end:
            return int(end.code or 0)
    return 0


@contextmanager
def run_in(folder: Path) -> Iterator[Runner]:
    """A runner in an empty folder; modules that a page wrote there are forgotten afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "path", [str(folder), *sys.path])
        try:
            yield Runner(folder)
        finally:
            for name, module in list(sys.modules.items()):
                if str(getattr(module, "__file__", None) or "").startswith(str(folder)):
                    del sys.modules[name]
