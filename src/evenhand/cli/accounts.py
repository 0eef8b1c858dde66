"""What commands about users and projects share: opening the service, questions to whoever types, and the log."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from getpass import GetPassWarning
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenhand.cli.service import opened, settings_from
from evenhand.cli.stored_runs import holds_nothing
from evenhand.errors import EvenhandError

if TYPE_CHECKING:
    from evenhand.service.settings import Service

COMMAND_LINE = "command line"  # as the log calls whoever uses it; no user can be called so
Name = Annotated[str, typer.Argument(help="The user's name.", metavar="NAME")]
ProjectName = Annotated[str, typer.Option("--project", help="A project, by its name or id.", metavar="PROJECT")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@contextmanager
def existing_service(home: Path | None, database: str | None) -> Iterator["Service"]:
    """The service; where there is none yet, nothing is made."""
    settings = settings_from(home, database)
    if holds_nothing(settings):
        place = settings.home if settings.database is None else settings.database
        raise EvenhandError(
            f"There is no service in {place} yet. `evenhand users add NAME --admin` makes it with its first "
            "user; or name another --home."
        )
    with opened(settings) as service:
        yield service


def note(service: "Service", action: str, subject: str, project: str | None = None, **data: Any) -> None:
    """Keep in the log what the command line did."""
    service.log.note(action, user=COMMAND_LINE, project=project, subject=subject, **data)


def asked_password(from_stdin: bool) -> str:
    """A new password: typed twice without being shown, or the first line of what is piped in. Never an argument."""
    if not from_stdin:
        return new_password()
    try:
        return sys.stdin.buffer.readline().decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise EvenhandError("The password that was piped in is not UTF-8. Save it in that encoding.") from error


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
