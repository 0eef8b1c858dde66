"""`evenhand audit`: search a classifier for discriminatory pairs."""

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenhand.cli import text as text_options
from evenhand.cli.folders import free_folder
from evenhand.cli.kept import Done, KeptOut, Place, both, is_kept, names_in, place_for
from evenhand.cli.options import (
    AcceptPoorModel,
    AnyData,
    DataOption,
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
from evenhand.cli.printing import print_facts
from evenhand.cli.progress import ProgressDisplay
from evenhand.errors import EvenhandError

if TYPE_CHECKING:
    from evenhand.data.dataset import Dataset
    from evenhand.service.commands import Command

SHOWN_EXAMPLES = 3


def audit(
    data: AnyData = None,
    data_option: DataOption = None,
    protected: Protected = None,
    within: Within = None,
    each: Annotated[bool, typer.Option("--each", help="One audit per protected attribute, not all together.")] = False,
    model: Model = None,
    inputs: Inputs = None,
    output: Output = None,
    threshold: Threshold = None,
    accept_poor_model: AcceptPoorModel = False,
    seeds: Annotated[int, typer.Option(help="Rows of the data to start from.")] = 1000,
    iterations: Annotated[int, typer.Option(help="Global iterations per seed.")] = 10,
    steps: Annotated[int, typer.Option(help="Local steps around each first finding.")] = 1000,
    method: Annotated[
        str | None,
        typer.Option(
            help="How to search; `evenhand compare --help` lists all for tables. For texts: boundary, adf-asc, "
            "adf-hotflip, asc, hotflip, random.",
            show_default="margin; probe where the model gives no gradients; boundary for texts",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting of the method, NAME=VALUE; may be repeated.", show_default=False),
    ] = None,
    seed: Seed = 0,
    device: Device = "auto",
    max_seconds: Annotated[
        float | None, typer.Option(help="Maximum time in seconds, from the start of the command.")
    ] = None,
    max_findings: Annotated[int | None, typer.Option(help="Maximum number of findings.")] = None,
    max_rows: Annotated[
        int | None, typer.Option(help="Maximum number of rows that the search asks the model about.")
    ] = None,
    chunk_rows: Annotated[int | None, typer.Option(help="Rows per model call, to save memory.")] = None,
    text: text_options.Text = None,
    label: text_options.Label = None,
    split: text_options.Split = None,
    favourable: text_options.Favourable = None,
    network: text_options.Network = None,
    lexicon: text_options.LexiconName = None,
    vectors: text_options.Vectors = None,
    k: text_options.K = None,
    moves: text_options.Moves = None,
    same_part_of_speech: text_options.PartOfSpeech = None,
    swap: text_options.SwapOption = None,
    ambiguous: text_options.AmbiguousOption = None,
    max_changes: text_options.MaxChanges = None,
    local_changes: text_options.LocalChanges = None,
    min_similarity: text_options.MinSimilarity = None,
    encoder: text_options.EncoderOption = None,
    out: KeptOut = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Search a classifier for pairs that differ only in protected attributes or words and get different labels.

    Writes findings.parquet, summary.json and report.html, and keeps the run for `evenhand runs`, or writes to --out.
    Ctrl-C keeps what was found.

    Examples:
      evenhand audit census --protected sex

      evenhand audit census -p age,race,sex          all combinations

      evenhand audit census -p age,race,sex --each   three audits in turn

      evenhand audit bank -p age --model my_models:load --max-seconds 60

      evenhand audit people.toml -p gender --model pipeline.skops

      evenhand audit wiki -p religion --network lstm --lexicon paper

      evenhand audit my.csv --text comment --label toxic -p gender --model DIR
    """
    started = time.perf_counter()
    from evenhand.runs.text_audit import is_text

    data = one_data(data, data_option)
    options: dict[str, Any] = {
        "model": model, "settings": parse_settings(settings or []), "seeds": seeds, "iterations": iterations,
        "steps": steps, "seed": seed, "device": device, "max_seconds": max_seconds, "max_findings": max_findings,
        "max_rows": max_rows, "chunk_rows": chunk_rows,
    }  # fmt: skip
    if method is not None:
        options["method"] = method
    for_texts: dict[str, Any] = {
        "text": text, "label": label, "split": split, "favourable": favourable, "network": network,
        "lexicon": lexicon, "vectors": vectors, "k": k, "moves": moves, "same_part_of_speech": same_part_of_speech,
        "swap": swap, "ambiguous": ambiguous, "max_changes": max_changes, "local_changes": local_changes,
        "min_similarity": min_similarity, "encoder": encoder,
    }  # fmt: skip
    if is_text(data, text):
        if within is not None:
            raise EvenhandError("--within is for protected numbers of tables.")
        for_models = bool(output or inputs or threshold or accept_poor_model)
        audits = _audit_texts(data, protected, each, for_models, options | for_texts, out, quiet, as_json, started)
    else:
        text_options.check_table(data, for_texts)
        options |= {"output": output or "auto", "inputs": inputs, "threshold": threshold}
        options |= {"within": sizes_in("--within", within or [])}
        options |= {"accept_poor_model": True} if accept_poor_model else {}
        audits = _audit_table(data, protected, each, options, out, quiet, as_json, started)
    end(audits, each, as_json)


def one_data(argument: str | None, option: str | None) -> str:
    """What the data are, said as an argument or as --data."""
    if (argument is None) == (option is None):
        raise EvenhandError(
            "Name the data once, as the first argument or with --data: census, wiki, PATH/TO/SCHEMA.toml, …"
        )
    return argument or option or ""


def _audit_texts(
    data: str,
    protected: str | None,
    each: bool,
    for_tables: bool,
    options: dict[str, Any],
    out: Path | None,
    quiet: bool,
    as_json: bool,
    started: float,
) -> list[Done]:
    from evenhand.choices import DEFAULT_LEXICON
    from evenhand.text.lexicon import load_lexicon

    if for_tables:
        raise EvenhandError(
            "--output, --inputs, --threshold and --accept-poor-model are for models of tables; models of text return "
            "logits."
        )
    if Path(data).suffix and options["text"] is None and options["label"] is None:
        raise EvenhandError(
            f"{data} is a file without a schema. For a table write one: `evenhand schema infer {data} --label COLUMN "
            f"-o {Path(data).stem}.toml`, then audit that. For texts name the columns: --text COLUMN --label COLUMN."
        )
    words = load_lexicon(options["lexicon"] or DEFAULT_LEXICON)
    if protected is None:
        raise EvenhandError(
            f"Say which words are protected: --protected with one of {', '.join(words.attributes)} "
            f"(lexicon {words.name})."
        )
    names = names_in(protected)
    for name in names:
        words.attribute(name)  # all names are checked before the first search starts
    if len(names) > 1 and not each:
        raise EvenhandError("Texts are audited for one protected attribute at a time. Add --each for one audit each.")
    commands = _commands(data, [[name] for name in names], options, texts=True)
    name = "-".join([Path(data).stem, *names])
    return _run(commands, None, out, name, quiet=quiet, silent=quiet or as_json, started=started)


def _audit_table(
    data: str,
    protected: str | None,
    each: bool,
    options: dict[str, Any],
    out: Path | None,
    quiet: bool,
    as_json: bool,
    started: float,
) -> list[Done]:
    from evenhand.data.dataset import load_dataset

    dataset = load_dataset(data)
    names = names_in(protected) if protected is not None else dataset.schema.protected
    groups = [[name] for name in names] if each else [names]
    for group in groups:
        dataset.schema.protected_indices(group)  # all names are checked before the first search starts
    dataset.schema.compared_within(options["within"], names)
    commands = _commands(data, groups, options)
    name = "-".join([dataset.name, *names])
    return _run(commands, dataset, out, name, quiet=quiet, silent=quiet or as_json, started=started)


def _commands(data: str, groups: list[list[str]], options: dict[str, Any], texts: bool = False) -> list["Command"]:
    """One for each group of protected attributes."""
    from evenhand.service.commands import Command

    given = {name: value for name, value in options.items() if value is not None and name != "model"}
    limits = given.pop("within", {})
    return [Command("audit", data, group, options["model"], given | _limits(limits, group), texts) for group in groups]


def _limits(limits: dict[str, float], protected: list[str]) -> dict[str, Any]:
    """The limits of --within that concern these attributes, as an option of an audit if there are some."""
    own = {name: distance for name, distance in limits.items() if name in protected}
    return {"within": own} if own else {}


def _run(
    commands: list["Command"],
    dataset: "Dataset | None",
    out: Path | None,
    name: str,
    *,
    quiet: bool,
    silent: bool,
    started: float | None,
) -> list[Done]:
    """One audit after the other; one that was interrupted or failed is the last.

    `started` is when the command began: what it did until the first audit is part of that one's time.
    """
    from evenhand.runs.audit import UNFINISHED

    kept = is_kept(out, quiet)
    folder = None if kept else out or free_folder(name)
    audits: list[Done] = []
    for command in commands:
        several = folder is not None and len(commands) > 1
        own = folder / "-".join(command.protected) if folder is not None and several else folder
        with place_for(command, kept, own) as place:
            audits.append(do_audit(command, place, quiet, dataset, started))
        started = None
        if not silent:
            tell(audits[-1])
        if audits[-1].summary["search"]["stopped"] in UNFINISHED:
            break
    return audits


def do_audit(
    command: "Command", place: Place, quiet: bool, dataset: "Dataset | None" = None, started: float | None = None
) -> Done:
    """One audit; `dataset` is what the command names, where it is at hand."""
    if command.texts:
        return text_options.do_text_audit(command, place, quiet, started)
    from evenhand.data.dataset import load_dataset
    from evenhand.runs.audit import audit as run_audit

    dataset = dataset or load_dataset(command.data)
    pairs = place.pairs(dataset, command.protected)
    with ProgressDisplay(f"{Path(command.data).stem}/{'+'.join(command.protected)}", quiet=quiet) as display:
        audit = run_audit(
            command.data,
            command.protected,
            model=command.model,
            out=place.folder,
            on_progress=both(display, place.search),
            on_findings=pairs,
            on_reading=pairs.reading,
            checkpoints=place.checkpoints(),
            started=started,
            **command.options,
        )
    return Done(place.run, place.keep(audit.summary), audit.summary)


def tell(audit: Done) -> None:
    """Print what came of an audit: the result in words, with the clearest pairs."""
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    from evenhand.report.sentences import example_lines, rows_of

    console = Console(highlight=False)
    print_facts(console, rows_of(audit.summary))
    for number, example in enumerate(audit.summary["examples"][:SHOWN_EXAMPLES], 1):
        shared, *sides, origin = example_lines(example)
        console.print(Text.assemble((f"\npair {number}", "bold"), f"  {shared}"))
        for side in sides:
            console.print(Padding(Text(f"→ {side}"), (0, 0, 0, 2)))
        console.print(Padding(Text(origin), (0, 0, 0, 2)), style="dim")
    typer.echo(f"\nreport: {audit.files / 'report.html'}")
    audit.print_run()
    typer.echo()


def end(audits: list[Done], each: bool, as_json: bool) -> None:
    """What the command says last, and the code that it ends with."""
    if as_json:
        cards = [audit.card() for audit in audits]
        typer.echo(json.dumps(cards if each else cards[0], indent=2, ensure_ascii=False))
    search = audits[-1].summary["search"]
    if search.get("error"):
        raise EvenhandError(f"{search['error']} What was found until then is kept in {audits[-1].folder}.")
    if search["stopped"] == "interrupted":
        raise typer.Exit(130)


def parse_settings(pairs: list[str]) -> dict[str, int | float | str]:
    """NAME=VALUE pairs; values that read as numbers are numbers."""
    settings: dict[str, int | float | str] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not name or not equals:
            raise EvenhandError(f"--set needs NAME=VALUE; '{pair}' is not.")
        settings[name.replace("-", "_")] = _number(text)
    return settings


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
