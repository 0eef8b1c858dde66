"""The `evenhand` command: one file per subcommand; torch is imported only by those that need it."""

import sys
import warnings
from typing import Annotated, TextIO

try:
    import typer

    import evenhand
    from evenhand.cli.audit import audit
    from evenhand.cli.card import card
    from evenhand.cli.compare import compare
    from evenhand.cli.data import data_app
    from evenhand.cli.gate import gate
    from evenhand.cli.help_text import unwrap
    from evenhand.cli.measure import measure
    from evenhand.cli.model import model
    from evenhand.cli.projects import projects_app
    from evenhand.cli.repair import repair
    from evenhand.cli.report import report
    from evenhand.cli.reproduce import reproduce_app
    from evenhand.cli.runs import runs_app
    from evenhand.cli.schema import schema_app
    from evenhand.cli.serve import serve, worker
    from evenhand.cli.storage import storage_app
    from evenhand.cli.train import train
    from evenhand.cli.users import users_app
    from evenhand.errors import EvenhandError, TableWarning
except KeyboardInterrupt:  # somebody was quicker than these imports
    sys.stderr.write("Interrupted.\n")
    sys.exit(130)

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="rich",
)
app.command()(audit)
app.command()(compare)
app.command()(measure)
app.command()(repair)
app.command()(train)
app.command()(report)
app.command()(model)
app.command()(gate)
app.command()(card)
app.command()(serve)
app.command()(worker)
app.add_typer(schema_app, name="schema")
app.add_typer(runs_app, name="runs")
app.add_typer(users_app, name="users")
app.add_typer(projects_app, name="projects")
app.add_typer(storage_app, name="storage")
app.add_typer(data_app, name="data")
app.add_typer(reproduce_app, name="reproduce")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"evenhand {evenhand.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which version this is.")
    ] = False,
) -> None:
    """Find individual discrimination in neural classifiers.

    Searches for pairs of people who differ only in protected attributes (age, race, sex …) and get different decisions,
    or of texts that differ only in protected words.

    Start here:  [bold]evenhand audit census --protected sex[/bold]
    """


unwrap(app)


def main() -> None:
    """Run the command line; a mistake of the user's ends with a message and exit code 2, never a traceback.

    So does Ctrl-C, with 130, wherever the command has not said more about it.
    """
    warnings.showwarning = _Warnings().show
    try:
        app()
    except EvenhandError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        _end_interrupted()
    except SystemExit as end:
        if end.__context__ is not None and isinstance(end.__context__.__cause__, KeyboardInterrupt):  # Typer is silent
            _end_interrupted()
        raise


class _Warnings:
    """What we have to say about a table is for its owner, who does not care which line of ours says it, nor how often.

    A command may read a table several times; one note is enough.
    """

    def __init__(self) -> None:
        self._said: set[str] = set()

    def show(
        self, message: Warning | str, category: type[Warning], filename: str, lineno: int, file: TextIO | None = None,
        line: str | None = None,
    ) -> None:  # fmt: skip
        plain = issubclass(category, TableWarning)
        text = f"note: {message}\n" if plain else warnings.formatwarning(message, category, filename, lineno, line)
        if not plain or text not in self._said:
            (file or sys.stderr).write(text)
        self._said.add(text)


def _end_interrupted() -> None:
    typer.echo("Interrupted.", err=True)
    sys.exit(130)
