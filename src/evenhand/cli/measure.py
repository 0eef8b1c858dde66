"""`evenhand measure`: how often, how sure, and which way."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenhand.cli import text as text_options
from evenhand.cli.kept import Done, KeptOut, Place, both, is_kept, names_in, place_for
from evenhand.cli.looking import results_of
from evenhand.cli.options import (
    AcceptPoorModel,
    Device,
    Inputs,
    Json,
    Model,
    Output,
    Protected,
    Quiet,
    Seed,
    Threshold,
    Within,
    sizes_in,
)
from evenhand.cli.progress import CountDisplay, DownloadDisplay
from evenhand.errors import EvenhandError

if TYPE_CHECKING:
    from evenhand.runs.measure import Measurement
    from evenhand.service.commands import Command

Data = Annotated[
    str,
    typer.Argument(
        help="A built-in data set (census, credit, bank), a corpus (wiki, jigsaw), a schema file (.toml) or a file of "
        "texts (.csv, .parquet, .jsonl).",
        metavar="DATA",
    ),
]
Findings = Annotated[
    Path | None,
    typer.Option(
        help="Folder of an earlier audit, or the id of a kept one: how many of its findings are findings with this "
        "model."
    ),
]


def measure(
    data: Data,
    protected: Protected = None,
    within: Within = None,
    half_width: Annotated[
        float | None,
        typer.Option(help="Sample until the interval is so narrow: half its length.", show_default="0.005"),
    ] = None,
    confidence: Annotated[float, typer.Option(help="Confidence level of the intervals.")] = 0.95,
    changes: Annotated[
        int | None, typer.Option(help="Attributes that the neighbourhood of the data changes.", show_default="2")
    ] = None,
    model: Model = None,
    inputs: Inputs = None,
    output: Output = None,
    threshold: Threshold = None,
    accept_poor_model: AcceptPoorModel = False,
    findings: Findings = None,
    seed: Seed = 0,
    device: Device = "auto",
    texts: Annotated[
        int | None,
        typer.Option(help="Look at so many of each split.", rich_help_panel=text_options.PANEL, show_default="2000"),
    ] = None,
    text: text_options.Text = None,
    label: text_options.Label = None,
    split: text_options.Split = None,
    favourable: text_options.Favourable = None,
    network: text_options.Network = None,
    lexicon: text_options.LexiconName = None,
    vectors: text_options.Vectors = None,
    swap: text_options.SwapOption = None,
    ambiguous: text_options.AmbiguousOption = None,
    out: KeptOut = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Measure how often a classifier decides otherwise only because of protected attributes, and for whom.

    Tables: over the whole domain, the rows of the data, and their neighbourhood. Texts: over real texts with protected
    words. Each rate has an exact interval. The run is kept for `evenhand runs`, or summary.json is written to --out.
    Ctrl-C keeps what is measured.

    Examples:
      evenhand measure census --protected sex

      evenhand measure census -p sex --half-width 0.001 --confidence 0.99

      evenhand measure census                 each attribute, and all together

      evenhand measure bank -p age --findings FOLDER-OF-AN-AUDIT

      evenhand measure wiki -p religion --network lstm
    """
    from evenhand.runs.text_audit import is_text
    from evenhand.service.commands import Command

    findings = None if findings is None else results_of(findings)
    options: dict[str, Any] = {"confidence": confidence, "findings": findings, "seed": seed, "device": device}
    for_tables = {
        "half_width": half_width, "changes": changes, "inputs": inputs, "output": output, "threshold": threshold,
        "accept_poor_model": accept_poor_model or None,
        "within": None if within is None else sizes_in("--within", within),
    }  # fmt: skip
    for_texts: dict[str, Any] = {
        "texts": texts, "text": text, "label": label, "split": split, "favourable": favourable, "network": network,
        "lexicon": lexicon, "vectors": vectors, "swap": swap, "ambiguous": ambiguous,
    }  # fmt: skip
    is_of_texts = is_text(data, text)
    if is_of_texts:
        _check_texts(for_tables)
        if protected is None:
            raise EvenhandError("Say which words are protected: --protected with attributes of the lexicon.")
    else:
        text_options.check_table(data, for_texts)
    given = _given(options | (for_texts if is_of_texts else for_tables))
    command = Command("measure", data, names_in(protected), model, given, is_of_texts)
    with place_for(command, is_kept(out, quiet), out) as place:
        measured = do_measure(command, place, quiet)
    tell(measured, quiet, as_json)


def do_measure(command: "Command", place: Place, quiet: bool) -> Done:
    """One measurement."""
    with CountDisplay(Path(command.data).stem, quiet) as display, DownloadDisplay(quiet) as downloads:
        measured = _measured(command, place, both(display, place.count), downloads)
    return Done(place.run, place.keep(measured.summary, command.texts), measured.summary)


def _measured(
    command: "Command", place: Place, on_progress: Callable[..., None], downloads: DownloadDisplay
) -> "Measurement":
    options = command.options | {"model": command.model, "out": place.folder, "on_progress": on_progress}
    if command.texts:
        from evenhand.runs.text_measure import measure_text

        return measure_text(command.data, command.protected, on_download=downloads, **options)
    from evenhand.runs.measure import measure_table

    return measure_table(command.data, command.protected, **options)


def tell(measured: Done, quiet: bool, as_json: bool) -> None:
    """What the command prints, and the code that it ends with."""
    if as_json:
        shown = measured.summary if measured.run is None else measured.card()
        typer.echo(json.dumps(shown, indent=2, ensure_ascii=False))
    elif not quiet:
        _print(measured)
    if measured.summary["stopped"] == "interrupted":
        raise typer.Exit(130)


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _check_texts(for_tables: dict[str, Any]) -> None:
    for name in _given(for_tables):
        raise EvenhandError(f"--{name.replace('_', '-')} is for tables; for texts use --texts to look at more of them.")


def _print(measured: Done) -> None:
    from evenhand.cli.printing import print_tables
    from evenhand.report.sentences import model_rows
    from evenhand.runs.measure_tables import heading_of, tables_of

    print_tables(heading_of(measured.summary), tables_of(measured.summary), model_rows(measured.summary))
    if measured.folder is not None:
        typer.echo(f"\nwritten: {measured.folder / 'summary.json'}")
    measured.print_run()
