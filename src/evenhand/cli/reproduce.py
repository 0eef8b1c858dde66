"""`evenhand reproduce`: the paper's tables with the paper's numbers beside ours."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenhand.cli.folders import free_folder
from evenhand.cli.options import Json, Out, Quiet
from evenhand.errors import EvenhandError

if TYPE_CHECKING:
    from evenhand.paper.repair_tables_page import AllRepairs
    from evenhand.paper.tables import Reproduction
    from evenhand.paper.text_tables import TextReproduction
    from evenhand.report.tables import Table

    Made = tuple[Reproduction | TextReproduction | AllRepairs, str, list[Table]]  # with the title of its tables

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

    Ctrl-C keeps the pairs or rows that are whole.

    Examples:
      evenhand reproduce tables --quick

      evenhand reproduce tables --equal-seconds 60

      evenhand reproduce tables --text --quick

      evenhand reproduce tables --repair --quick
    """
    from evenhand.files import result_folder

    if text and equal_seconds is not None:
        raise EvenhandError("--equal-seconds is for tables of data. Leave it out, or leave out --text.")
    if not (text or repair) and workers is not None:
        raise EvenhandError("--workers is for texts. Leave it out, or add --text.")
    if repair and equal_seconds is not None:
        raise EvenhandError("--equal-seconds is not for --repair. Leave it out.")
    name = f"{'text-' if text else ''}{'repair-' if repair else ''}tables"
    with result_folder(out or free_folder(f"{name}-quick" if quick else name)) as folder:
        result, title, shown = (
            _repairs(folder, text, quick, workers, quiet)
            if repair
            else _texts(folder, quick, workers, quiet)
            if text
            else _data(folder, quick, equal_seconds, quiet)
        )
    if as_json:
        typer.echo(json.dumps(result.as_dict(), indent=2, ensure_ascii=False))
    elif not quiet:
        from evenhand.cli.printing import print_tables

        print_tables(title, shown)
        typer.echo(f"\nwritten: {folder}/tables.html, .md, .json")
    if result.left_out:
        raise typer.Exit(130)


def _data(folder: Path, quick: bool, equal_seconds: float | None, quiet: bool) -> "Made":
    """The tables of data."""
    from dataclasses import replace

    from evenhand.paper.tables import QUICK, Plan, reproduce
    from evenhand.paper.tables_page import TITLE, tables_of, write_reproduction

    plan = QUICK if quick else Plan()
    if equal_seconds is not None:
        plan = replace(plan, equal_seconds=equal_seconds)
    result = reproduce(plan, _say(quiet))
    if not result.pairs:
        raise typer.Exit(130)
    write_reproduction(result, folder)
    return result, TITLE, tables_of(result)


def _repairs(folder: Path, text: bool, quick: bool, workers: int | None, quiet: bool) -> "Made":
    """The tables of retraining, of data and of texts; with --text those of texts only."""
    from evenhand.cli.progress import DownloadDisplay
    from evenhand.paper.repair_tables import QUICK_REPAIR, RepairPlan, reproduce_repairs
    from evenhand.paper.repair_tables_page import TITLE, AllRepairs, write_repair_reproduction
    from evenhand.paper.text_repair_tables import QUICK_TEXT_REPAIR, TextRepairPlan, reproduce_text_repairs
    from evenhand.paper.text_tables import download_all

    with DownloadDisplay(quiet) as downloads:
        download_all(downloads)
    data = None if text else reproduce_repairs(QUICK_REPAIR if quick else RepairPlan(), _say(quiet), workers=workers)
    stopped = data is not None and data.left_out
    plan = QUICK_TEXT_REPAIR if quick else TextRepairPlan()
    texts = None if stopped else reproduce_text_repairs(plan, _say(quiet), workers=workers)
    result = AllRepairs(data, texts)
    if not result.tables():
        raise typer.Exit(130)
    write_repair_reproduction(result, folder)
    return result, TITLE, result.tables()


def _texts(folder: Path, quick: bool, workers: int | None, quiet: bool) -> "Made":
    """The tables of texts."""
    from evenhand.cli.progress import DownloadDisplay
    from evenhand.paper.text_rows import QUICK_TEXT, TextPlan
    from evenhand.paper.text_tables import download_all, reproduce_text
    from evenhand.paper.text_tables_page import TITLE, text_tables, write_text_reproduction

    with DownloadDisplay(quiet) as downloads:
        download_all(downloads)
    result = reproduce_text(QUICK_TEXT if quick else TextPlan(), _say(quiet), workers=workers)
    if not result.rows:
        raise typer.Exit(130)
    write_text_reproduction(result, folder)
    return result, TITLE, text_tables(result)


def _say(quiet: bool) -> Callable[[str], None]:
    return (lambda text: None) if quiet else (lambda text: typer.echo(text, err=True))
