"""`evenhand repair`: a model whose decisions depend less on protected attributes, and what that costs."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from evenhand.cli.folders import free_folder
from evenhand.cli.options import AnyData, DataOption, Json, Quiet
from evenhand.cli.settings_options import takes_settings
from evenhand.cli.tasks import RunOut, TaskResult, do_task, is_storage_usable, one_data, place_for, task_of

UNMET = 1  # the exit code where no repair keeps to --choose


@takes_settings("repair")
def repair(
    given: dict[str, Any],
    data: AnyData = None,
    data_option: DataOption = None,
    out: RunOut = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Make a model whose decisions depend less, or not at all, on protected attributes; say what it costs.

    Learns from the training split only and is judged on held-out data. Writes model.safetensors and model.json (for
    --model), report.html and summary.json, and keeps the run for `evenhand runs`, or writes to --out. Exit code 1 where
    no repair keeps to --choose.

    Examples:
      evenhand repair census --protected sex --by average

      evenhand repair census -p sex --by augment --share 0.05 --repeats 5

      evenhand repair census -p age --by all --choose "accuracy_loss<=0.005"

      evenhand repair wiki -p religion --network lstm --by pairing
    """
    task = task_of("repair", one_data(data, data_option), given)
    in_storage = is_storage_usable(out, quiet)
    folder = None if in_storage else out or free_folder(f"repair-{Path(task.data).stem}")
    with ending_without_result(), place_for(task, in_storage, folder) as place:
        repaired = do_task(task, place, quiet)
    tell(repaired, quiet, as_json)


def tell(repaired: TaskResult, quiet: bool, as_json: bool) -> None:
    """What the command prints, and the code that it ends with."""
    summary = repaired.summary
    if as_json:
        repaired.print_json()
    elif not quiet:
        _print(summary, repaired.files)
        repaired.print_run()
    if summary["chosen"] is None:
        report = repaired.files / "report.html"
        typer.echo(f"error: no repair keeps to {summary['config']['choose']}; {report} shows all of them", err=True)
        raise typer.Exit(UNMET)


@contextmanager
def ending_without_result(is_repair: bool = True) -> Iterator[None]:
    """Ctrl-C ends a repair; half of one is of no use."""
    try:
        yield
    except KeyboardInterrupt:
        if not is_repair:
            raise
        typer.echo("stopped; nothing was written", err=True)
        raise typer.Exit(130) from None


def _print(summary: dict[str, Any], folder: Path) -> None:
    """The people affected and the accuracy lost, all models in a table, then the rest of the result in sentences."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from evenhand.report.repair import repair_sentences
    from evenhand.report.sentences import warning_rows
    from evenhand.report.words import percent

    console = Console(highlight=False)
    shown = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    shown.add_column("")
    names = {"people": "people", "uniform": "domain", "remaining": "findings left", "certified": "proved"}
    if summary["domain"] == "text":
        del names["people"]
        names["uniform"] = "texts"
    for heading in ("accuracy", *names.values()):
        shown.add_column(heading, justify="right")
    for row in summary["rows"]:
        rates = [row[name] for name in names]
        cells = ["–" if rate is None else percent(rate["rate"], 2) for rate in rates]
        if row["certified"] is None and row["by"] in ("blind", "average"):
            cells[-1] = "built in"
        accuracy = "–" if row["accuracy"] is None else f"{row['accuracy']:.2%}"
        style = "bold" if row["name"] == summary["chosen"] else ""
        shown.add_row(Text(row["name"], style=style), accuracy, *cells)
    headline, *rest = repair_sentences(summary)
    for name, warning in warning_rows(summary):
        console.print(Text(f"{name.capitalize()}: {warning}", style="bold"), end="\n\n")
    console.print(Text(headline, style="bold"), end="\n\n")
    console.print(shown)
    for sentence in rest:
        console.print(Text(f"- {sentence}"))
    if summary["chosen"] is not None:
        typer.echo(f"\nmodel:  {folder / 'model.safetensors'}\nreport: {folder / 'report.html'}")
