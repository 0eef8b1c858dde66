"""Ctrl-C, wherever it comes: one line and 130, never a traceback. Raised where it would come, not sent by the clock."""

import subprocess
import sys

import pytest
import typer

from evenhand.cli import main as command_line

DURING_IMPORTS = """
import sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupting())
from evenhand.cli.main import main
main()
"""


@pytest.mark.parametrize("name", ["typer", "evenhand.cli.audit", "evenhand.cli.users"])
def test_during_the_imports(name: str) -> None:
    command = [sys.executable, "-c", DURING_IMPORTS.format(name=name), "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "Interrupted.\n")


def interrupted() -> None:
    raise KeyboardInterrupt


def explained() -> None:
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        typer.echo("stopped; nothing was written", err=True)
        raise typer.Exit(130) from None


def run(command: object, monkeypatch: pytest.MonkeyPatch) -> object:
    """The exit code of `evenhand` with one command."""
    app = typer.Typer()
    app.command()(command)  # type: ignore[type-var]
    monkeypatch.setattr(command_line, "app", app)
    monkeypatch.setattr(sys, "argv", ["evenhand"])
    with pytest.raises(SystemExit) as end:
        command_line.main()
    return end.value.code


def test_in_a_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(interrupted, monkeypatch) == 130
    assert capsys.readouterr() == ("", "Interrupted.\n")


def test_before_a_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(command_line, "app", interrupted)
    with pytest.raises(SystemExit) as end:
        command_line.main()
    assert end.value.code == 130
    assert capsys.readouterr() == ("", "Interrupted.\n")


def test_a_command_that_has_said_more_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(explained, monkeypatch) == 130
    assert capsys.readouterr() == ("", "stopped; nothing was written\n")
