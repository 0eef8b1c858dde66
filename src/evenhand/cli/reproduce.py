"""`evenhand reproduce`: the paper's tables with the paper's numbers beside ours."""

import json
from typing import Annotated

import typer

from evenhand.cli.folders import free_folder
from evenhand.cli.options import Json, Out, Quiet

reproduce_app = typer.Typer(
    no_args_is_help=True, help="Make the paper's figures again: evenhand reproduce tables --quick."
)


@reproduce_app.callback()
def root() -> None:
    """Make the paper's figures again: evenhand reproduce tables --quick."""


@reproduce_app.command("tables")
def tables(
    quick: Annotated[bool, typer.Option("--quick", help="A fifth of the seeds and steps, within minutes.")] = False,
    equal_seconds: Annotated[
        float | None, typer.Option(min=0.1, help="Seconds for SG and ADF each.", show_default="500, quick 3")
    ] = None,
    out: Out = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Make the paper's tables for all six pairs of data set and attribute, with the paper's numbers beside ours.

    Writes tables.html, tables.md and tables.json. The full run spends the paper's budget; most of its time is SG's.

    Ctrl-C keeps the pairs that are whole.

    Examples:
      evenhand reproduce tables --quick

      evenhand reproduce tables --equal-seconds 60
    """
    from dataclasses import replace

    from evenhand.files import result_folder
    from evenhand.runs.reproduce import QUICK, Plan, reproduce
    from evenhand.runs.reproduction_page import TITLE, tables_of, write_reproduction

    plan = QUICK if quick else Plan()
    if equal_seconds is not None:
        plan = replace(plan, equal_seconds=equal_seconds)
    say = (lambda text: None) if quiet else (lambda text: typer.echo(text, err=True))
    with result_folder(out or free_folder("tables-quick" if quick else "tables")) as folder:
        result = reproduce(plan, say)
        if not result.pairs:
            raise typer.Exit(130)
        write_reproduction(result, folder)
    if as_json:
        typer.echo(json.dumps(result.as_dict(), indent=2, ensure_ascii=False))
    elif not quiet:
        from evenhand.cli.printing import print_tables

        print_tables(TITLE, tables_of(result))
        typer.echo(f"\nwritten: {folder}/tables.html, .md, .json")
    if result.left_out:
        raise typer.Exit(130)
