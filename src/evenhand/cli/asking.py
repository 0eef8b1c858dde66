"""Questions to whoever types; where nobody can answer, the way without a question is said."""

import sys
import warnings
from getpass import GetPassWarning

import typer

from evenhand.errors import EvenhandError


def confirm(question: str) -> None:
    """Go on only if the answer is yes; --yes is the way without a question."""
    try:
        is_meant = typer.confirm(question)
    except typer.Abort:
        if sys.stdin.isatty():
            raise _interrupted() from None
        typer.echo()  # the question stands on this line
        raise EvenhandError(
            "Nobody can be asked here, so nothing was done. To do it all the same, say --yes."
        ) from None
    if not is_meant:
        raise typer.Abort


def new_password() -> str:
    """A password that is typed twice without being shown; --password-stdin is the way without a question."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", GetPassWarning)  # what is typed would be shown, or nobody types
            return str(typer.prompt("Password", hide_input=True, confirmation_prompt="The same once more"))
    except GetPassWarning:
        typer.echo()  # the question stands on this line
        raise _no_terminal() from None
    except typer.Abort:
        if sys.stdin.isatty():
            raise _interrupted() from None
        raise _no_terminal() from None


def _interrupted() -> typer.Exit:
    """Ctrl-C or Ctrl-D in the place of an answer: as Ctrl-C anywhere else."""
    typer.echo("\nInterrupted.", err=True)
    return typer.Exit(130)


def _no_terminal() -> EvenhandError:
    return EvenhandError(
        "There is no terminal to ask for the password at. Pipe it in, as the first line, and say --password-stdin."
    )
