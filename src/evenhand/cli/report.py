"""`evenhand report`: write an audit's HTML report again."""

from pathlib import Path
from typing import Annotated

import typer


def report(
    folder: Annotated[Path, typer.Argument(help="The folder of an audit (it holds summary.json).")],
    out: Annotated[Path | None, typer.Option(help="Where to.", show_default="report.html in the folder")] = None,
) -> None:
    """Write the HTML report of an audit again from its findings.

    Example:  evenhand report results/sex --out report-for-review.html
    """
    from evenhand.runs.audit import REPORT, Audit
    from evenhand.runs.text_audit import TextAudit

    audit = TextAudit.load(folder) or Audit.load(folder)
    typer.echo(audit.report(out or folder / REPORT))
