"""`evenhand repair`: a model whose labels depend less on protected attributes, and what that costs."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenhand.cli import text as text_options
from evenhand.cli.audit import one_data
from evenhand.cli.folders import free_folder
from evenhand.cli.kept import Done, KeptOut, Place, both, is_kept, names_in, place_for
from evenhand.cli.options import (
    AcceptPoorModel,
    AnyData,
    DataOption,
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
from evenhand.cli.progress import DownloadDisplay, StepDisplay
from evenhand.errors import EvenhandError

if TYPE_CHECKING:
    from evenhand.service.commands import Command

UNMET = 1  # the exit code where no repair keeps to --choose


def repair(
    data: AnyData = None,
    data_option: DataOption = None,
    protected: Protected = None,
    by: Annotated[
        str | None,
        typer.Option(
            help="augment, certified, pairing, average, blind; several with commas between; or all.",
            show_default="blind; average for a model that cannot be trained again; pairing for texts",
        ),
    ] = None,
    model: Model = None,
    inputs: Inputs = None,
    threshold: Threshold = None,
    accept_poor_model: AcceptPoorModel = False,
    within: Within = None,
    share: Annotated[float, typer.Option(help="augment: the share of the findings to learn from.")] = 0.05,
    vote: Annotated[
        str | None,
        typer.Option(
            help="augment: who labels findings; models (retrained ones) or own (the model itself).",
            show_default="models; own for texts",
        ),
    ] = None,
    repeats: Annotated[
        int | None,
        typer.Option(help="Networks trained for each repair; the best is kept.", show_default="5; 1 for texts"),
    ] = None,
    strength: Annotated[
        float | None, typer.Option(help="pairing, certified: the weight of the penalty.", show_default="by repair")
    ] = None,
    output: Output = None,
    choose: Annotated[
        str | None,
        typer.Option(
            help="Keep the repair with the lowest rate among those with, say, accuracy_loss<=0.005. rate is that of "
            "`evenhand measure` over the whole domain, impossible samples left out (texts: over training texts set "
            "aside), the upper end of its interval."
        ),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(help="How findings are searched.", show_default="adf; probe without gradients; adf-asc for texts"),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(help="Rows to start searches from.", show_default="1000; 300 for texts")
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="Local steps of searches.", show_default="1000; 100 for texts")
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Tables: passes over the training rows.", show_default="20")
    ] = None,
    half_width: Annotated[
        float | None, typer.Option(help="Tables: precision of the rates.", show_default="0.001")
    ] = None,
    confidence: Annotated[float, typer.Option(help="Of all intervals.")] = 0.95,
    network: text_options.Network = None,
    lexicon: text_options.LexiconName = None,
    text: text_options.Text = None,
    label: text_options.Label = None,
    split: text_options.Split = None,
    vectors: text_options.Vectors = None,
    seed: Seed = 0,
    out: KeptOut = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Make a model whose labels depend less, or not at all, on protected attributes; say what it costs.

    Learns from the training split only and is judged on held-out data. Writes model.safetensors and model.json (for
    --model), report.html and summary.json, and keeps the run for `evenhand runs`, or writes to --out. Exit code 1 where
    no repair keeps to --choose.

    Examples:
      evenhand repair census --protected sex --by average

      evenhand repair census -p sex --by augment --share 0.05 --repeats 5

      evenhand repair census -p age --by all --choose "accuracy_loss<=0.005"

      evenhand repair wiki -p religion --network lstm --by pairing
    """
    from evenhand.measures.sampling import check_confidence
    from evenhand.runs.text_audit import is_text
    from evenhand.service.commands import Command

    data = one_data(data, data_option)
    check_confidence(confidence)
    settings: dict[str, Any] = {
        "share": share, "vote": vote, "repeats": repeats, "strength": strength, "choose": choose,
        "method": method, "output": output, "seeds": seeds, "steps": steps, "epochs": epochs, "half_width": half_width,
        "confidence": confidence, "seed": seed, "inputs": inputs, "threshold": threshold,
        "accept_poor_model": accept_poor_model or None,
        "within": None if within is None else sizes_in("--within", within),
    }  # fmt: skip
    for_texts = {
        "network": network, "lexicon": lexicon, "text": text, "label": label, "split": split, "vectors": vectors,
    }  # fmt: skip
    texts = is_text(data, text)
    if texts:
        for_tables = ("vote", "epochs", "half_width", "output", "inputs", "threshold", "accept_poor_model", "within")
        _check_texts({name: settings[name] for name in for_tables})
    else:
        text_options.check_table(data, for_texts)
    if texts and protected is None:
        raise EvenhandError("Say which words are protected: --protected with an attribute of the lexicon.")
    given = {name: value for name, value in (settings | (for_texts if texts else {})).items() if value is not None}
    if by is not None or texts:
        given["by"] = names_in("pairing" if by is None else by)
    command = Command("repair", data, names_in(protected), model, given, texts)
    kept = is_kept(out, quiet)
    folder = (
        None if kept else out or free_folder("-".join([Path(data).stem, *(protected or "all").split(","), "repair"]))
    )
    with saying_that_nothing_is_kept(), place_for(command, kept, folder) as place:
        repaired = do_repair(command, place, quiet)
    tell(repaired, quiet, as_json)


def do_repair(command: "Command", place: Place, quiet: bool) -> Done:
    """One repair."""
    with StepDisplay(f"{Path(command.data).stem}, repair", quiet=quiet) as display, DownloadDisplay(quiet) as downloads:
        summary = _repaired(command, place, both(display, place.step), downloads)
    return Done(place.run, place.keep(summary, command.texts), summary)


def _repaired(
    command: "Command", place: Place, on_step: Callable[..., None], downloads: DownloadDisplay
) -> dict[str, Any]:
    options = command.options | {"model": command.model, "out": place.folder, "on_step": on_step}
    if command.texts:
        from evenhand.runs.text_repair import repair_text

        return repair_text(command.data, command.protected, on_download=downloads, **options).summary
    from evenhand.runs.table_repair import repair_table

    return repair_table(command.data, command.protected, **options).summary


def tell(repaired: Done, quiet: bool, as_json: bool) -> None:
    """What the command prints, and the code that it ends with."""
    summary = repaired.summary
    if as_json:
        typer.echo(json.dumps(repaired.card(), indent=2, ensure_ascii=False))
    elif not quiet:
        _print(summary, repaired.files)
        repaired.print_run()
    if summary["chosen"] is None:
        report = repaired.files / "report.html"
        typer.echo(f"error: no repair keeps to {summary['config']['choose']}; {report} shows all of them", err=True)
        raise typer.Exit(UNMET)


@contextmanager
def saying_that_nothing_is_kept(is_repair: bool = True) -> Iterator[None]:
    """Ctrl-C ends a repair; half of one is of no use."""
    try:
        yield
    except KeyboardInterrupt:
        if not is_repair:
            raise
        typer.echo("stopped; nothing was written", err=True)
        raise typer.Exit(130) from None


def _check_texts(for_tables: dict[str, Any]) -> None:
    for name, value in for_tables.items():
        if value is not None:
            raise EvenhandError(f"--{name.replace('_', '-')} is for tables. Leave it out for texts.")


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
