"""`evenhand reproduce`: the paper's tables with the paper's numbers beside ours."""

import json
from typing import Annotated

import typer

from evenhand.cli.folders import free_folder
from evenhand.cli.options import Json, Out, Quiet
from evenhand.errors import EvenhandError

reproduce_app = typer.Typer(
    no_args_is_help=True, help="Make the paper's figures again: evenhand reproduce tables --quick."
)


@reproduce_app.callback()
def root() -> None:
    """Make the paper's figures again: evenhand reproduce tables --quick."""


@reproduce_app.command("tables")
def tables(
    text: Annotated[bool, typer.Option("--text", help="The tables for texts, not those for tables of data.")] = False,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair", help="The tables of retraining (RQ4), of data and of texts; with --text of texts only."
        ),
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="A fifth of the seeds and steps, for texts fewer still: within minutes.")
    ] = False,
    equal_seconds: Annotated[
        float | None,
        typer.Option(min=0.1, help="Tables of data: seconds for SG and ADF each.", show_default="500, quick 3"),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1, max=64, help="Texts, --repair: rows at a time, one core each.", show_default="the cores, at most 4"
        ),
    ] = None,
    out: Out = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Make the paper's tables with the paper's numbers beside ours.

    For all six pairs of data set and attribute, or with --text for all sixteen rows of corpus, network and attribute.
    Writes tables.html, tables.md and tables.json. The full run spends the paper's budget; for tables of data most of
    its time is SG's, for texts it takes hours.

    Ctrl-C keeps the pairs or rows that are whole. The same command with that folder for --out measures the rest.

    Examples:
      evenhand reproduce tables --quick

      evenhand reproduce tables --equal-seconds 60

      evenhand reproduce tables --text --quick

      evenhand reproduce tables --repair --quick
    """
    from dataclasses import replace

    from evenhand.cli.progress import DownloadDisplay
    from evenhand.files import result_folder
    from evenhand.paper.pages import PAGES, make_page

    if text and equal_seconds is not None:
        raise EvenhandError("--equal-seconds is for tables of data. Leave it out, or leave out --text.")
    if not (text or repair) and workers is not None:
        raise EvenhandError("--workers is for texts. Leave it out, or add --text.")
    if repair and equal_seconds is not None:
        raise EvenhandError("--equal-seconds is not for --repair. Leave it out.")
    name = f"{'text-' if text else ''}{'repair-' if repair else ''}tables"
    with result_folder(out or free_folder(f"{name}-quick" if quick else name)) as folder:
        with DownloadDisplay(quiet) as downloads:
            PAGES[name].prepare(downloads)
        page = make_page(
            PAGES[name],
            folder,
            quick,
            (lambda message: None) if quiet else (lambda message: typer.echo(message, err=True)),
            workers=workers,
            change_plan=lambda plan: plan if equal_seconds is None else replace(plan, equal_seconds=equal_seconds),
        )
        if not page.tables():
            raise typer.Exit(130)
    if as_json:
        typer.echo(json.dumps(page.as_dict(), indent=2, ensure_ascii=False))
    elif not quiet:
        from evenhand.cli.printing import print_tables

        print_tables(page.title, page.tables())
        typer.echo(f"\nwritten: {folder}/tables.html, .md, .json")
    if page.left_out:
        raise typer.Exit(130)
