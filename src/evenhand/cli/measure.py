"""`evenhand measure`: how often, how sure, and which way."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenhand.cli import text as text_options
from evenhand.cli.options import Device, Inputs, Json, Model, Protected, Quiet, Seed
from evenhand.cli.progress import CountDisplay, DownloadDisplay
from evenhand.errors import EvenhandError

if TYPE_CHECKING:
    from evenhand.runs.measure import Measurement

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
    typer.Option(help="Folder of an earlier audit: how many of its findings are findings with this model."),
]


def measure(
    data: Data,
    protected: Protected = None,
    half_width: Annotated[
        float | None,
        typer.Option(help="Sample until the interval is so narrow: half its length.", show_default="0.005"),
    ] = None,
    confidence: Annotated[float, typer.Option(help="How often intervals cover the truth, at least.")] = 0.95,
    changes: Annotated[
        int | None, typer.Option(help="Attributes that the neighbourhood of the data changes.", show_default="2")
    ] = None,
    model: Model = None,
    inputs: Inputs = None,
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
    out: Annotated[Path | None, typer.Option(help="Folder for summary.json.", show_default="none")] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Measure how often a classifier decides otherwise only because of protected attributes, and for whom.

    Tables: over the whole domain, the rows of the data, and their neighbourhood. Texts: over real texts with protected
    words. Each rate has an exact interval. Ctrl-C keeps what is measured.

    Examples:
      evenhand measure census --protected sex

      evenhand measure census -p sex --half-width 0.001 --confidence 0.99

      evenhand measure census                 each attribute, and all together

      evenhand measure bank -p age --findings evenhand-out/bank-age

      evenhand measure wiki -p religion --network lstm
    """
    from evenhand.runs.text_audit import is_text

    options: dict[str, Any] = {
        "model": model, "confidence": confidence, "findings": findings, "seed": seed, "device": device, "out": out,
    }  # fmt: skip
    for_tables = {"half_width": half_width, "changes": changes, "inputs": inputs}
    for_texts: dict[str, Any] = {
        "texts": texts, "text": text, "label": label, "split": split, "favourable": favourable, "network": network,
        "lexicon": lexicon, "vectors": vectors, "swap": swap, "ambiguous": ambiguous,
    }  # fmt: skip
    if is_text(data, text):
        _check_texts(for_tables)
        measured = _measure_texts(data, protected, options | _given(for_texts), quiet)
    else:
        text_options.check_table(data, for_texts)
        measured = _measure_table(data, protected, options | _given(for_tables), quiet)
    if as_json:
        typer.echo(json.dumps(measured.summary, indent=2, ensure_ascii=False))
    elif not quiet:
        _print(measured)
    if measured.interrupted:
        raise typer.Exit(130)


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _check_texts(for_tables: dict[str, Any]) -> None:
    for name in _given(for_tables):
        raise EvenhandError(f"--{name.replace('_', '-')} is for tables; for texts use --texts to look at more of them.")


def _measure_table(data: str, protected: str | None, options: dict[str, Any], quiet: bool) -> "Measurement":
    from evenhand.runs.measure import measure_table

    with CountDisplay(Path(data).stem, quiet) as display:
        return measure_table(data, protected, on_progress=display, **options)


def _measure_texts(data: str, protected: str | None, options: dict[str, Any], quiet: bool) -> "Measurement":
    from evenhand.runs.text_measure import measure_text

    if protected is None:
        raise EvenhandError("Say which words are protected: --protected with attributes of the lexicon.")
    with CountDisplay(Path(data).stem, quiet) as display, DownloadDisplay(quiet) as downloads:
        return measure_text(data, protected, on_progress=display, on_download=downloads, **options)


def _print(measured: "Measurement") -> None:
    from evenhand.cli.printing import print_tables
    from evenhand.runs.measure_tables import tables_of, title_of

    print_tables(title_of(measured.summary), tables_of(measured.summary))
    if measured.folder is not None:
        typer.echo(f"\nwritten: {measured.folder / 'summary.json'}")
