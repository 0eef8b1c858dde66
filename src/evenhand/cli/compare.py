"""`evenhand compare`: several methods on the same model, seeds and budget."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from evenhand.cli.folders import free_folder
from evenhand.cli.options import AnyData, DataOption, Json, Out, Quiet
from evenhand.cli.progress import DownloadDisplay, ProgressDisplay
from evenhand.cli.settings_options import takes_settings
from evenhand.cli.tasks import one_data, task_of

if TYPE_CHECKING:
    from evenhand.runs.compare import MethodComparison


@takes_settings("compare")
def compare(
    given: dict[str, Any],
    data: AnyData = None,
    data_option: DataOption = None,
    out: Out = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Compare search methods on the same model, seeds and budget, under the same counters.

    Writes comparison.md, .html, .json and .csv. Uniform sampling of a table (themis) is always a row.

    Methods for tables: margin (ours), adf, eidig, probe (ours, without gradients), maft, labels, genetic, sg, aequitas,
    aequitas-semi, aequitas-random, themis; usually margin, adf, eidig, aequitas, without gradients probe, maft,
    genetic, aequitas. For texts: boundary (ours), adf-asc, adf-hotflip, asc, hotflip, random.

    Examples:
      evenhand compare census --protected sex

      evenhand compare census -p sex -m all --budget rows=2000000

      evenhand compare bank -p age -m adf,sg --budget seconds=30

      evenhand compare wiki -p religion -m boundary,random --budget seeds=50
    """
    from evenhand.runs.compare import compare as run_comparison

    task = task_of("compare", one_data(data, data_option), given)
    folder = out or free_folder("-".join(["compare", Path(task.data).stem, *task.protected]))
    with DownloadDisplay(quiet) as downloads, ProgressDisplay(Path(task.data).stem, quiet=quiet) as display:
        comparison = run_comparison(
            task.data, task.protected, model=task.model, out=folder, on_progress=display.of_method,
            on_download=downloads, **task.given,
        )  # fmt: skip
    if as_json:
        typer.echo(json.dumps(asdict(comparison), indent=2, ensure_ascii=False))
    elif not quiet:
        _print(comparison, folder)
    if comparison.left_out:
        raise typer.Exit(130)


def _print(comparison: "MethodComparison", folder: Path) -> None:
    from evenhand.cli.printing import print_tables

    print_tables("\n".join(filter(None, [comparison.warned, comparison.title])), comparison.tables())
    typer.echo(f"\nwritten: {folder}/comparison.html, .md, .json, .csv")
