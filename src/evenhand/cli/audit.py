"""`evenhand audit`: search a classifier for discriminatory pairs."""

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from evenhand.choices import UNFINISHED
from evenhand.cli.folders import free_folder
from evenhand.cli.options import AnyData, DataOption, Json, Quiet
from evenhand.cli.printing import print_facts
from evenhand.cli.settings_options import takes_settings
from evenhand.cli.tasks import RunOut, TaskResult, do_task, is_storage_usable, one_data, place_for, task_of
from evenhand.errors import EvenhandError
from evenhand.runs.tasks import Task

SHOWN_EXAMPLES = 3


@takes_settings("audit")
def audit(
    given: dict[str, Any],
    data: AnyData = None,
    data_option: DataOption = None,
    each: Annotated[bool, typer.Option("--each", help="One audit per protected attribute, not all together.")] = False,
    out: RunOut = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Search a classifier for pairs that differ only in protected attributes or words and get different decisions.

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
    task = task_of("audit", one_data(data, data_option), given)
    tasks = _each(task) if each else [task]
    in_storage = is_storage_usable(out, quiet)
    name = "-".join([Path(task.data).stem, *dict.fromkeys(name for one in tasks for name in one.protected)])
    folder = None if in_storage else out or free_folder(name)
    audits: list[TaskResult] = []
    for one in tasks:  # one that was interrupted or failed is the last
        own = folder / "-".join(one.protected) if folder is not None and len(tasks) > 1 else folder
        with place_for(one, in_storage, own) as place:
            audits.append(do_task(one, place, quiet, None if audits else started))
        if not quiet and not as_json:
            tell(audits[-1])
        if audits[-1].summary["search"]["stopped"] in UNFINISHED:
            break
    end(audits, each, as_json)


def _each(task: Task) -> list[Task]:
    """A task for each protected attribute; every name is checked before the first begins."""
    if task.domain == "text":
        from evenhand.choices import DEFAULT_LEXICON
        from evenhand.text.lexicon import load_lexicon

        words = load_lexicon(task.given.get("lexicon", DEFAULT_LEXICON))
        for name in task.protected:
            words.attribute(name)
        return [replace(task, protected=[name]) for name in task.protected]
    from evenhand.data.dataset import load_schema

    schema, within = load_schema(task.data), task.given.get("within", {})
    names = task.protected or schema.protected
    schema.protected_indices(names)
    schema.compared_within(within, names)
    rest = {setting: value for setting, value in task.given.items() if setting != "within"}
    return [
        replace(task, protected=[name], given=rest | ({"within": {name: within[name]}} if name in within else {}))
        for name in names
    ]


def tell(audit: TaskResult) -> None:
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


def end(audits: list[TaskResult], each: bool, as_json: bool) -> None:
    """What the command says last, and the code that it ends with."""
    if as_json:
        found = [audit.as_dict() for audit in audits]
        typer.echo(json.dumps(found if each else found[0], indent=2, ensure_ascii=False))
    search = audits[-1].summary["search"]
    if search.get("error"):
        raise EvenhandError(f"{search['error']} What was found until then is kept in {audits[-1].folder}.")
    if search["stopped"] == "interrupted":
        raise typer.Exit(130)
