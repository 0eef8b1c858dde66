"""What the commands around the service share: where it is, and opening it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenhand.errors import EvenhandError

if TYPE_CHECKING:
    from evenhand.service.settings import Service, Settings

HomeFolder = Annotated[
    Path | None,
    typer.Option("--home", help="Folder of the service's files.", show_default="$EVENHAND_HOME or the data folder"),
]
DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        "--database",
        help="Address of the database: sqlite:///PATH or postgresql+psycopg://USER@HOST/NAME. One with a password is "
        "better kept in $EVENHAND_DATABASE, where other users do not see it.",
        metavar="URL",
        show_default="$EVENHAND_DATABASE or SQLite in --home",
    ),
]


def settings_from(home: Path | None, database: str | None, **others: Any) -> "Settings":
    """Settings with what was said on the command line; the rest is as usual."""
    try:
        from evenhand.service.settings import Settings
    except ModuleNotFoundError as error:
        raise service_missing(error) from error
    said = {"home": home, "database": database, **others}
    return Settings(**{name: value for name, value in said.items() if value is not None})


@contextmanager
def opened(settings: "Settings", *, checked: bool = True) -> Iterator["Service"]:
    """The service, closed at the end; not `checked`: whatever the state of its tables."""
    try:
        service = settings.open() if checked else settings.storage()
    except ModuleNotFoundError as error:
        raise service_missing(error) from error
    try:
        yield service
    finally:
        service.close()


def is_new(settings: "Settings") -> bool:
    """Whether nothing was ever stored there, so that a command that only looks need not make anything."""
    return settings.database is None and not (settings.home / "evenhand.db").exists()


def service_missing(error: ModuleNotFoundError) -> EvenhandError:
    """The error where the extra is not installed."""
    extra = "postgres" if (error.name or "").startswith("psycopg") else "service"
    return EvenhandError(f'This needs {error.name}, which is not installed. Run `pip install "evenhand[{extra}]"`.')
