"""What commands that only look share: whether anything is stored in a place, and the run that is meant."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from evenhand.cli.service import is_new, opened, settings_from
from evenhand.errors import EvenhandError

if TYPE_CHECKING:
    from evenhand.service.settings import Service, Settings
    from evenhand.service.storage.tables import Run

LEAST_LETTERS = 4  # of an id: fewer may be a slip of the finger
BEGINNING = re.compile(rf"[0-9a-f]{{{LEAST_LETTERS},32}}", re.IGNORECASE)
SUMMARY = "summary.json"


def holds_nothing(settings: "Settings") -> bool:
    """Whether nothing was ever stored there, so that nothing need be made; what can never be a storage is refused."""
    from evenhand.service.storage.database import sqlite_file
    from evenhand.service.storage.home import check_no_file

    check_no_file(settings.home)
    file = None if settings.database is None else sqlite_file(settings.database)
    try:
        return is_new(settings) or (file is not None and not file.exists())
    except OSError as error:
        raise EvenhandError(f"Cannot look into {settings.home}: {error.strerror}. Choose another --home.") from error


def check_storage_exists(settings: "Settings") -> None:
    """Refuse a place where nothing was ever stored: its name is probably mistyped."""
    if holds_nothing(settings):
        place = settings.home if settings.database is None else settings.database
        raise EvenhandError(
            f"There is no storage in {place}. Name the folder of one with --home; `evenhand audit` and "
            "`evenhand serve` make one."
        )


def run_named(service: "Service", beginning: str) -> "Run":
    """The run whose id begins so."""
    found = service.runs.with_prefix(beginning.lower()) if len(beginning) >= LEAST_LETTERS else []
    if len(found) > 1:
        raise EvenhandError(f"Several runs begin with '{beginning}': {', '.join(run.id for run in found)}.")
    return found[0] if found else service.runs.get(beginning)


def results_of(named: Path) -> Path:
    """The folder of a finished run: the one that is named, else that of the stored run whose id begins so."""
    if named.is_dir():
        return named
    if not BEGINNING.fullmatch(str(named)):
        raise EvenhandError(
            f"There is no folder {named}, and it is no run's id. Name the folder of a run, or the id of a stored "
            "run: `evenhand runs list` shows them."
        )
    settings = settings_from(None, None)
    if holds_nothing(settings):
        raise EvenhandError(
            f"There is no folder {named}, and no run is stored in {settings.home}. Name the folder of a run."
        )
    with opened(settings) as service:
        return _stored_results(service, str(named))


def _stored_results(service: "Service", beginning: str) -> Path:
    if not service.runs.with_prefix(beginning.lower(), limit=1):
        raise EvenhandError(
            f"There is no folder {beginning}, and no run whose id begins so. `evenhand runs list` shows the runs."
        )
    run = run_named(service, beginning)
    folder = service.home.run(run.id)
    if not (folder / SUMMARY).is_file():
        raise EvenhandError(
            f"The run {run.id} is {run.state} and has no {SUMMARY}. `evenhand runs show {run.id[:8]}` shows it."
        )
    return folder
