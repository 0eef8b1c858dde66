"""What a run left in its folder, for its pages: the summary and the list of files."""

from pathlib import Path
from typing import Any

from evenhand.errors import EvenhandError
from evenhand.files import read_json
from evenhand.service.pages.view import View
from evenhand.service.pages.words import FILE_WORDS
from evenhand.service.storage.runs import OVER
from evenhand.service.storage.tables import Run

HIDDEN_FILES = ("findings.index",)


def summary_of(view: View, run: Run) -> dict[str, Any] | None:
    """The summary of a run that is over; None where it is not there. One that was stopped may have one too."""
    path = view.service.home.run(run.id) / "summary.json"
    try:
        return read_json(path) if run.state in OVER and path.is_file() else None
    except EvenhandError:
        return None


def files_of_run(view: View, run: Run) -> dict[str, int]:
    """The files of a run that is over with their sizes, the report first."""
    folder: Path = view.service.home.run(run.id)
    if run.state not in OVER or not folder.is_dir():
        return {}
    found = [path for path in folder.iterdir() if path.is_file() and path.name not in HIDDEN_FILES]
    order = list(FILE_WORDS)
    found.sort(key=lambda path: (order.index(path.name) if path.name in order else len(order), path.name))
    return {path.name: path.stat().st_size for path in found if not path.name.startswith(".")}


def is_about_texts(summary: dict[str, Any] | None) -> bool:
    """Whether a run was about texts: its figures are others, and its findings are not a table."""
    return summary is not None and summary.get("domain") == "text"
