"""`evenhand measure`: how often, how sure, and which way."""

from pathlib import Path
from typing import Any

import typer

from evenhand.cli.options import AnyData, DataOption, Json, Quiet
from evenhand.cli.settings_options import takes_settings
from evenhand.cli.stored_runs import results_of
from evenhand.cli.tasks import RunOut, TaskResult, do_task, is_storage_usable, one_data, place_for, task_of


@takes_settings("measure")
def measure(
    given: dict[str, Any],
    data: AnyData = None,
    data_option: DataOption = None,
    out: RunOut = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Measure how often a classifier decides otherwise only because of protected attributes, and for whom.

    Tables: over the whole domain, the rows of the data, and their neighbourhood. Texts: over real texts with protected
    words. Each rate has an exact interval. The run is stored for `evenhand runs`, or summary.json is written to --out.
    Ctrl-C keeps what is measured.

    Examples:
      evenhand measure census --protected sex

      evenhand measure census -p sex --half-width 0.001 --confidence 0.99

      evenhand measure census                 each attribute, and all together

      evenhand measure bank -p age --findings FOLDER-OF-AN-AUDIT

      evenhand measure wiki -p religion --network lstm
    """
    if "findings" in given:
        given["findings"] = str(results_of(Path(given["findings"])).resolve())
    task = task_of("measure", one_data(data, data_option), given)
    with place_for(task, is_storage_usable(out, quiet), out) as place:
        measured = do_task(task, place, quiet)
    tell(measured, quiet, as_json)


def tell(measured: TaskResult, quiet: bool, as_json: bool) -> None:
    """What the command prints, and the code that it ends with."""
    if as_json:
        measured.print_json()
    elif not quiet:
        _print(measured)
    if measured.summary["stopped"] == "interrupted":
        raise typer.Exit(130)


def _print(measured: TaskResult) -> None:
    from evenhand.cli.printing import print_tables
    from evenhand.report.sentences import model_rows
    from evenhand.runs.measure_tables import heading_of, tables_of

    print_tables(heading_of(measured.summary), tables_of(measured.summary), model_rows(measured.summary))
    if measured.folder is not None:
        typer.echo(f"\nwritten: {measured.folder / 'summary.json'}")
    measured.print_run()
