"""`evenhand compare`: several methods on the same network, seeds and budget."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenhand.cli.folders import free_folder
from evenhand.cli.progress import ProgressDisplay

if TYPE_CHECKING:
    from evenhand.runs.compare import Comparison


def compare(
    data: Annotated[str, typer.Argument(help="A built-in data set (census, credit, bank) or a schema file (.toml).")],
    protected: Annotated[
        str | None,
        typer.Option("--protected", "-p", help="Attributes to change, separated by commas.", show_default="all marked"),
    ] = None,
    methods: Annotated[str, typer.Option("--methods", "-m", help="Names, or all.")] = "margin,adf,eidig,aequitas",
    budget: Annotated[
        str, typer.Option("--budget", "-b", help="paper, or rows=N, seconds=N, seeds=N, steps=N, with commas.")
    ] = "paper",
    model: Annotated[
        str | None,
        typer.Option(
            help="module:function that returns a torch.nn.Module, or NAME.safetensors.", show_default="built in"
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Decides all random choices.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results.", show_default="a new one in evenhand-out")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare search methods on the same network, seeds and budget, under the same counters.

    Writes comparison.md, .html, .json and .csv. Uniform sampling (themis) is always a row.

    Methods: margin (ours), adf, eidig, maft, labels, genetic, sg, aequitas, aequitas-semi, aequitas-random, themis.

    Examples:
      evenhand compare census --protected sex

      evenhand compare census -p sex -m all --budget rows=2000000

      evenhand compare bank -p age -m adf,sg --budget seconds=30
    """
    from evenhand.data.dataset import load_dataset
    from evenhand.files import result_folder
    from evenhand.runs.compare import Budget, method_names, run_comparison

    dataset = load_dataset(data)
    names = [name.strip() for name in protected.split(",")] if protected is not None else dataset.schema.protected
    dataset.schema.protected_indices(names)
    allowed, chosen = Budget.parse(budget), method_names(methods)
    with result_folder(out or free_folder(f"compare-{'-'.join([dataset.name, *names])}")) as folder:
        with ProgressDisplay(dataset.name, quiet=quiet) as display:
            comparison = run_comparison(dataset, names, chosen, allowed, model, seed, device, display.of_method)
        comparison.write(folder)
    if as_json:
        typer.echo(json.dumps(asdict(comparison), indent=2, ensure_ascii=False))
    elif not quiet:
        _print(comparison, folder)
    if comparison.left_out:
        raise typer.Exit(130)


def _print(comparison: "Comparison", folder: Path) -> None:
    from evenhand.cli.printing import print_tables

    print_tables(comparison.title, comparison.tables())
    typer.echo(f"\nwritten: {folder}/comparison.html, .md, .json, .csv")
