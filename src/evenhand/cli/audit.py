"""`evenhand audit`: search a classifier for discriminatory pairs."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenhand.cli.progress import ProgressDisplay

if TYPE_CHECKING:
    from evenhand.runs.audit import Audit

SHOWN_EXAMPLES = 3


def audit(
    data: Annotated[str, typer.Argument(help="A built-in data set (census, credit, bank) or a schema file (.toml).")],
    protected: Annotated[
        str | None,
        typer.Option("--protected", "-p", help="Attributes to change, separated by commas.", show_default="all marked"),
    ] = None,
    each: Annotated[bool, typer.Option("--each", help="One audit per protected attribute, not all together.")] = False,
    model: Annotated[
        str | None,
        typer.Option(
            help="module:function that returns a torch.nn.Module, or NAME.safetensors.", show_default="built in"
        ),
    ] = None,
    output: Annotated[str, typer.Option(help="What the model returns: auto, logits or probabilities.")] = "auto",
    seeds: Annotated[int, typer.Option(help="Rows of the data to start from.")] = 1000,
    iterations: Annotated[int, typer.Option(help="Global iterations per seed.")] = 10,
    steps: Annotated[int, typer.Option(help="Local steps around each first finding.")] = 1000,
    global_step: Annotated[int, typer.Option(help="Codes that a global move goes.")] = 1,
    local_step: Annotated[int, typer.Option(help="Codes that a local move goes.")] = 1,
    accept_failed: Annotated[
        float, typer.Option(help="Chance that a local walk goes on from a non-finding.", show_default="e^-1 = 0.368")
    ] = 0.36787944117144233,
    seed: Annotated[int, typer.Option(help="Decides all random choices.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    max_seconds: Annotated[float | None, typer.Option(help="Stop searching after so long.")] = None,
    max_findings: Annotated[int | None, typer.Option(help="Stop at so many findings.")] = None,
    chunk_rows: Annotated[int | None, typer.Option(help="Rows per model call, to save memory.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results.", show_default="a new one in evenhand-out")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Search a classifier for pairs of people who differ only in protected attributes and get different labels.

    Writes findings.parquet, summary.json and report.html. Ctrl-C keeps what was found.

    Examples:
      evenhand audit census --protected sex

      evenhand audit census --protected age,race,sex          every combination of the three

      evenhand audit census --protected age,race,sex --each   three audits, one after the other

      evenhand audit bank -p age --model my_models:load --max-seconds 60
    """
    from evenhand.data.dataset import load_dataset

    dataset = load_dataset(data)
    names = [name.strip() for name in protected.split(",")] if protected is not None else dataset.schema.protected
    groups = [[name] for name in names] if each else [names]
    for group in groups:
        dataset.schema.protected_indices(group)  # all names are checked before the first search starts
    settings: dict[str, Any] = {
        "model": model, "output": output, "seeds": seeds, "iterations": iterations, "steps": steps,
        "global_step": global_step, "local_step": local_step, "accept_failed": accept_failed, "seed": seed,
        "device": device, "max_seconds": max_seconds, "max_findings": max_findings, "chunk_rows": chunk_rows,
    }  # fmt: skip
    folder = out or _free_folder(Path("evenhand-out"), "-".join([dataset.name, *names]))
    audits = _run(data, groups, folder, settings, quiet=quiet, silent=quiet or as_json)
    if as_json:
        summaries = [audit.summary for audit in audits]
        typer.echo(json.dumps(summaries if each else summaries[0], indent=2, ensure_ascii=False))
    if _interrupted(audits[-1]):
        raise typer.Exit(130)


def _run(
    data: str, groups: list[list[str]], folder: Path, settings: dict[str, Any], *, quiet: bool, silent: bool
) -> list["Audit"]:
    """One audit per group of protected attributes; an interrupted one is the last."""
    from evenhand.runs.audit import audit as run_audit

    audits: list[Audit] = []
    for group in groups:
        place = folder / "-".join(group) if len(groups) > 1 else folder
        with ProgressDisplay(f"{Path(data).stem}/{'+'.join(group)}", quiet=quiet) as display:
            audits.append(run_audit(data, group, out=place, on_progress=display, **settings))
        if not silent:
            _print_audit(audits[-1])
        if _interrupted(audits[-1]):
            break
    return audits


def _interrupted(audit: "Audit") -> bool:
    return bool(audit.summary["search"]["stopped"] == "interrupted")


def _print_audit(audit: "Audit") -> None:
    """The result in words, with the clearest pairs."""
    from rich.console import Console
    from rich.markup import escape
    from rich.padding import Padding
    from rich.table import Table

    from evenhand.report.text import example_text, rows_of

    console = Console(highlight=False)
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    for name, value in rows_of(audit.summary):
        table.add_row(name, escape(value))
    console.print(table)
    for number, example in enumerate(audit.summary["examples"][:SHOWN_EXAMPLES], 1):
        shared, *sides = example_text(example)
        console.print(f"\n[bold]pair {number}[/bold]  {escape(shared)}")
        for side in sides:
            console.print(Padding(f"→ {escape(side)}", (0, 0, 0, 2)))
        console.print(Padding(escape(example["origin"]), (0, 0, 0, 2)), style="dim")
    console.print(f"\nreport: {audit.folder / 'report.html'}\n", soft_wrap=True)


def _free_folder(parent: Path, name: str) -> Path:
    """A folder that does not exist yet, so that no earlier result is lost."""
    candidates = (parent / (name if number == 1 else f"{name}-{number}") for number in range(1, 1_000_000))
    return next(folder for folder in candidates if not folder.exists())
