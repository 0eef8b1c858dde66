"""`evenhand report`: write an audit's HTML report again."""

from pathlib import Path
from typing import Annotated

import typer

from evenhand.cli.stored_runs import results_of


def report(
    folder: Annotated[Path, typer.Argument(help="The folder of an audit, or the id of a stored run.", metavar="RUN")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The file to write.", show_default="report.html in the folder")
    ] = None,
) -> None:
    """Write the HTML report of an audit again from its findings.

    Examples:
      evenhand report results/sex --out report-for-review.html

      evenhand report 3f2a91bc
    """
    from evenhand.runs.audit import Audit
    from evenhand.runs.summary import REPORT

    folder = results_of(folder)
    typer.echo(Audit.load(folder).report(out or folder / REPORT))
