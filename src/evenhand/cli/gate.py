"""`evenhand gate`: checks for a pipeline, with an exit code and files that its tools read."""

import json
import os
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenhand.cli.options import Json, Quiet
from evenhand.cli.progress import CountDisplay
from evenhand.errors import EvenhandError

if TYPE_CHECKING:
    from evenhand.gate.config import GateFile
    from evenhand.gate.run import CheckRun, GateRun

FAILED, INTERRUPTED = 2, 130


def gate(
    file: Annotated[Path, typer.Argument(help="The gate file (.toml): what to check, and how much is allowed.")],
    junit: Annotated[Path | None, typer.Option(help="Write JUnit XML here.", show_default="[outputs] junit")] = None,
    sarif: Annotated[Path | None, typer.Option(help="Write SARIF here.", show_default="[outputs] sarif")] = None,
    markdown: Annotated[
        Path | None, typer.Option(help="Write a Markdown summary here.", show_default="[outputs] markdown")
    ] = None,
    annotations: Annotated[
        bool,
        typer.Option("--annotations", help="Print GitHub annotations; done by itself where GITHUB_ACTIONS is true."),
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Run the checks of a gate file: is the rate of discriminatory people or texts at most what is allowed?

    Exit code 0: all held, or pass without being shown (undecided = "pass"); 1: a rate is exceeded, there are too
    few samples to say, or the model does not read what would be changed or no text mentions it (not tested); 2: a check
    could not be made, or something else went wrong.

    Examples:
      evenhand gate gate.toml

      evenhand gate gate.toml --junit junit.xml --sarif evenhand.sarif
    """
    given = {"junit": junit, "sarif": sarif, "markdown": markdown}
    try:
        code = _gate(file, given, annotations=annotations, quiet=quiet, as_json=as_json)
    except EvenhandError:
        raise
    except KeyboardInterrupt:
        typer.echo("interrupted; no results were written", err=True)
        code = INTERRUPTED
    except Exception as error:  # Python's own exit code for it, 1, would mean that a rate is exceeded
        typer.echo(f"{traceback.format_exc()}error: the gate failed: {type(error).__name__}: {error}", err=True)
        code = FAILED
    raise typer.Exit(code)


def _gate(file: Path, given: dict[str, Path | None], *, annotations: bool, quiet: bool, as_json: bool) -> int:
    """The exit code. What tools read is written first, so that an error on the way hides as little as possible."""
    from evenhand.gate.config import GateFile

    gate_file = GateFile.load(file)
    places = gate_file.outputs | {kind: path for kind, path in given.items() if path is not None}
    _check_places(places)
    run = _run(gate_file, quiet=quiet, silent=quiet or as_json)
    _write(run, places)
    if as_json:
        typer.echo(json.dumps(run.as_dict(), indent=2, ensure_ascii=False))
    _annotate(run, asked=annotations, quiet=quiet, as_json=as_json)
    _add_to_summary(run)
    return run.exit_code


def _check_places(places: dict[str, Path]) -> None:
    """Find out before the work whether its results can be written."""
    from evenhand.files import writable_folder

    for path in places.values():
        if path.is_dir():
            raise EvenhandError(f"{path} is a folder; give the name of a file.")
        writable_folder(path.parent)


def _run(gate_file: "GateFile", *, quiet: bool, silent: bool) -> "GateRun":
    from evenhand.gate.run import run_gate

    with CountDisplay(gate_file.path.stem, quiet) as display:

        def progress(check: str, what: str, done: int, total: int) -> None:
            display(f"{check}, {what}", done, total)

        def finished(check: "CheckRun") -> None:
            if not silent:
                _print(check)

        return run_gate(gate_file, progress, finished)


def _print(check: "CheckRun") -> None:
    """A check's result in words."""
    from evenhand.gate.words import message

    typer.echo(f"{check.entry.name}")
    text = f"ERROR: {check.sentence}\n{check.trace}" if check.outcome is None else message(check.outcome)
    for line in text.rstrip().splitlines():
        typer.echo(f"  {line}".rstrip())
    typer.echo("")


def _write(run: "GateRun", places: dict[str, Path]) -> None:
    """The files that were asked for, each whole or not at all."""
    from evenhand.files import write_text
    from evenhand.gate.outputs.junit import junit
    from evenhand.gate.outputs.markdown import markdown
    from evenhand.gate.outputs.sarif import sarif

    writers = {"junit": junit, "sarif": sarif, "markdown": markdown}
    for kind, path in places.items():
        write_text(path, writers[kind](run))


def _add_to_summary(run: "GateRun") -> None:
    """The page of a GitHub job, which other steps write to as well."""
    from evenhand.files import cannot_write
    from evenhand.gate.outputs.markdown import markdown

    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if not summary:
        return
    try:
        with Path(summary).open("a", encoding="utf-8") as stream:
            stream.write(markdown(run))
    except OSError as error:
        raise cannot_write(Path(summary), error) from error


def _annotate(run: "GateRun", *, asked: bool, quiet: bool, as_json: bool) -> None:
    from evenhand.gate.outputs.annotations import annotations

    on_github = os.environ.get("GITHUB_ACTIONS") == "true"
    if asked or (on_github and not quiet):
        for line in annotations(run):
            typer.echo(line, err=as_json)  # GitHub reads both, and JSON must stay JSON
