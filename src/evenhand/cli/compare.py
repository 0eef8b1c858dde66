"""`evenhand compare`: several methods on the same network, seeds and budget."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenhand.cli.folders import free_folder
from evenhand.cli.options import (
    AcceptPoorModel,
    Data,
    Device,
    Inputs,
    Json,
    Model,
    Out,
    Output,
    Protected,
    Quiet,
    Seed,
    Threshold,
    Within,
    sizes_in,
)
from evenhand.cli.progress import ProgressDisplay

if TYPE_CHECKING:
    from evenhand.runs.compare import Comparison


def compare(
    data: Data,
    protected: Protected = None,
    methods: Annotated[
        str | None,
        typer.Option(
            "--methods",
            "-m",
            help="Names, or all.",
            show_default="margin,adf,eidig,aequitas; without gradients probe,maft,genetic,aequitas",
        ),
    ] = None,
    budget: Annotated[
        str, typer.Option("--budget", "-b", help="paper, or rows=N, seconds=N, seeds=N, steps=N, with commas.")
    ] = "paper",
    model: Model = None,
    inputs: Inputs = None,
    output: Output = None,
    threshold: Threshold = None,
    accept_poor_model: AcceptPoorModel = False,
    within: Within = None,
    seed: Seed = 0,
    device: Device = "auto",
    out: Out = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Compare search methods on the same network, seeds and budget, under the same counters.

    Writes comparison.md, .html, .json and .csv. Uniform sampling (themis) is always a row.

    Methods: margin (ours), adf, eidig, probe (ours, without gradients), maft, labels, genetic, sg, aequitas,
    aequitas-semi, aequitas-random, themis.

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
    dataset = dataset.compared_within(sizes_in("--within", within or []), names)
    allowed, chosen = Budget.parse(budget), None if methods is None else method_names(methods)
    with result_folder(out or free_folder(f"compare-{'-'.join([dataset.name, *names])}")) as folder:
        with ProgressDisplay(dataset.name, quiet=quiet) as display:
            comparison = run_comparison(
                dataset, names, chosen, allowed, model, seed, device, inputs, display.of_method,
                output=output or "auto", threshold=threshold, accept_poor_model=accept_poor_model,
            )  # fmt: skip
        comparison.write(folder)
    if as_json:
        typer.echo(json.dumps(asdict(comparison), indent=2, ensure_ascii=False))
    elif not quiet:
        _print(comparison, folder)
    if comparison.left_out:
        raise typer.Exit(130)


def _print(comparison: "Comparison", folder: Path) -> None:
    from evenhand.cli.printing import print_tables

    print_tables("\n".join(filter(None, [comparison.warned, comparison.title])), comparison.tables())
    typer.echo(f"\nwritten: {folder}/comparison.html, .md, .json, .csv")
