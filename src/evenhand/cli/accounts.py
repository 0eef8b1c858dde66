"""What `evenhand users` and `evenhand projects` share: opening the service, asking, noting, printing."""

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenhand.cli.asking import new_password
from evenhand.cli.looking import holds_nothing
from evenhand.cli.service import opened, settings_from
from evenhand.errors import EvenhandError

if TYPE_CHECKING:
    from evenhand.service.settings import Service

COMMAND_LINE = "command line"  # as the log calls whoever uses it; no user can be called so
Name = Annotated[str, typer.Argument(help="The user's name.", metavar="NAME")]
ProjectName = Annotated[str, typer.Option("--project", help="A project, by its name or id.", metavar="PROJECT")]
YES = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@contextmanager
def existing(home: Path | None, database: str | None) -> Iterator["Service"]:
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


def print_rows(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    """A table; text from outside is never read as markup."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    Console(highlight=False).print(table)


def print_json(content: Any) -> None:
    """For programs."""
    typer.echo(json.dumps(content, indent=2, ensure_ascii=False, default=_as_text))


def moment_text(moment: datetime | None) -> str:
    """For people, in the time zone of this machine."""
    return "" if moment is None else moment.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _as_text(value: Any) -> str:
    assert isinstance(value, datetime)
    return value.isoformat()
