"""Commands in a terminal and their storage, for tests.   PYTEST_DONT_REWRITE

A test file that wants the fixtures says `pytest_plugins = ["tests.worlds.service", "tests.worlds.terminal"]`.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from evenhand.cli.main import app
from evenhand.errors import EvenhandError
from evenhand.service.settings import Service
from evenhand.service.storage.tables import Run

PATIENCE = 600.0  # seconds; only a broken test waits so long
SMALL = ("audit", "census", "-p", "sex", "--seeds", "10", "--steps", "5", "--iterations", "2")
LONG = ("audit", "census", "-p", "sex", "--seeds", "10", "--steps", "100000000")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, and a storage of the test's own."""
    monkeypatch.setenv("EVENHAND_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "120")
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def storage(here: Path, service: Service, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Service:
    """The storage that commands of this test use, on each database."""
    monkeypatch.setenv("EVENHAND_DATABASE", database_url)
    return service


def evenhand(*arguments: str, code: int = 0) -> str:
    """What a command prints; an error of the user's is raised."""
    done = CliRunner().invoke(app, arguments)
    if isinstance(done.exception, EvenhandError):
        raise done.exception
    assert done.exit_code == code, (done.output, done.exception)
    return done.stdout


def kept(*arguments: str) -> dict[str, Any]:
    card = json.loads(evenhand(*arguments, "--json", "--quiet"))
    assert isinstance(card, dict)
    return card


@contextmanager
def started(
    *arguments: str, code: str = "from evenhand.cli.main import main; main()", before: tuple[str, ...] = ()
) -> Iterator["subprocess.Popen[str]"]:
    """A command in a process of its own, which is ended by force if it is still there."""
    pipe = subprocess.PIPE
    command = [*before, sys.executable, "-c", code, *arguments]
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def only_run(service: Service) -> Run | None:
    found = service.runs.newest()
    assert len(found) <= 1
    return found[0] if found else None


def is_searching(service: Service) -> bool:
    run = only_run(service)
    return run is not None and run.progress.get("phase") == "local"


def findings_in(folder: str | Path) -> bytes:
    return (Path(folder) / "findings.parquet").read_bytes()
