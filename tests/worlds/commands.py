"""The command line for tests, in this process or in one of its own.   PYTEST_DONT_REWRITE

A test file that wants the fixture says `pytest_plugins = ["tests.worlds.commands"]`.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.worlds.doc_blocks import evenhand as in_process

COMMAND = [sys.executable, "-c", "from evenhand.cli.main import main; main()"]
PLAIN = {"COLUMNS": "80", "NO_COLOR": "1"}


class Done(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    out: str
    error: str

    @property
    def words(self) -> str:
        """What it printed, whatever its lines."""
        return " ".join(self.out.split())


Shell = Callable[..., Done]


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    """Runs a command in this process and in the test's folder: for all that needs no process of its own."""
    for name, value in PLAIN.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    return lambda *arguments: Done(in_process(list(arguments)), *capsys.readouterr())


def in_own_process(*arguments: str) -> Done:
    """Runs a command as a shell does."""
    environment = os.environ | PLAIN
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, env=environment, timeout=300)
    return Done(done.returncode, done.stdout, done.stderr)
