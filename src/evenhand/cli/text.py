"""What the commands need for texts: the options, downloads shown, results in words."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenhand.cli.kept import Done, Place, both
from evenhand.cli.progress import DownloadDisplay, ProgressDisplay
from evenhand.errors import EvenhandError, unknown_name

if TYPE_CHECKING:
    from evenhand.service.commands import Command

PANEL = "For texts"

Text = Annotated[str | None, typer.Option("--text", help="The column with the texts.", rich_help_panel=PANEL)]
Label = Annotated[str | None, typer.Option("--label", help="The column with the labels.", rich_help_panel=PANEL)]
Split = Annotated[
    str | None,
    typer.Option(help="A column that says train or test.", rich_help_panel=PANEL, show_default="a fifth is test"),
]
Favourable = Annotated[str | None, typer.Option(help="The label that is good for the author.", rich_help_panel=PANEL)]
Network = Annotated[
    str | None, typer.Option(help="The recurrent network: lstm or gru.", rich_help_panel=PANEL, show_default="lstm")
]
Vectors = Annotated[str | None, typer.Option(help="glove, or a file of word vectors.", rich_help_panel=PANEL)]
LexiconName = Annotated[
    str | None,
    typer.Option(
        "--lexicon", help="evenhand, paper, or a TOML file of your own.", rich_help_panel=PANEL, show_default="evenhand"
    ),
]
K = Annotated[
    int | None,
    typer.Option("--k", help="Nearest words that a word may become.", rich_help_panel=PANEL, show_default="10"),
]
Moves = Annotated[
    str | None,
    typer.Option(
        help="What may be replaced: tokens (any but protected ones, as in the paper) or words (no stop words, numbers, "
        "signs).",
        rich_help_panel=PANEL,
        show_default="tokens",
    ),
]
PartOfSpeech = Annotated[
    bool | None,
    typer.Option(
        "--same-part-of-speech", help="A word only becomes one of its own part of speech.", rich_help_panel=PANEL
    ),
]
SwapOption = Annotated[
    str | None,
    typer.Option("--swap", help="Change one mention, or all of a value.", rich_help_panel=PANEL, show_default="one"),
]
AmbiguousOption = Annotated[
    str | None,
    typer.Option(
        "--ambiguous",
        help="keep or exclude words such as black and white as colours.",
        rich_help_panel=PANEL,
        show_default="keep",
    ),
]
MaxChanges = Annotated[
    int | None,
    typer.Option(help="Replace at most so many words of a text.", rich_help_panel=PANEL, show_default="no limit"),
]
LocalChanges = Annotated[
    int | None,
    typer.Option(
        help="Words that a local walk may replace beyond its start's.", rich_help_panel=PANEL, show_default="2"
    ),
]
MinSimilarity = Annotated[
    float | None,
    typer.Option(help="Drop findings less similar to their original than this.", rich_help_panel=PANEL),
]
EncoderOption = Annotated[
    str | None,
    typer.Option(
        "--encoder",
        help="Measures similarity: use, minilm or none.",
        rich_help_panel=PANEL,
        show_default="use with the extra text, else none",
    ),
]


def check_table(data: str, options: dict[str, Any]) -> None:
    """What is no text must be the name of a table, and options that only mean something for texts are an error."""
    from evenhand.data.dataset import builtin_names
    from evenhand.text.corpus import BUILTIN

    if data not in builtin_names() and not data.endswith(".toml"):
        names = [*builtin_names(), *BUILTIN, "PATH/TO/SCHEMA.toml", "PATH/TO/TEXTS.csv"]
        raise unknown_name("data set", data, names)
    for name, value in options.items():
        if value is not None:
            raise EvenhandError(
                f"--{name.replace('_', '-')} is for texts, and this is a table. For a file of texts name its text "
                "column with --text; for a table of people give a schema file (.toml)."
            )


def do_text_audit(command: "Command", place: Place, quiet: bool, started: float | None = None) -> Done:
    """One audit of texts."""
    from evenhand.runs.text_audit import audit_text

    title = f"{Path(command.data).stem}/{command.protected[0]}"
    with DownloadDisplay(quiet) as downloads, ProgressDisplay(title, quiet=quiet) as display:
        audit = audit_text(
            command.data,
            command.protected,
            model=command.model,
            out=place.folder,
            on_progress=both(display, place.search),
            on_download=downloads,
            started=started,
            **command.options,
        )
    return Done(place.run, place.keep(audit.summary, texts=True), audit.summary)
