"""What a task of a terminal was asked to do, as its run keeps it: to be shown, and to be done again."""

import os
from pathlib import Path
from typing import Any

from evenhand.choices import Domain
from evenhand.errors import EvenhandError
from evenhand.runs.tasks import Task
from evenhand.service.requests import TERMINAL, is_id, request_of, title_words
from evenhand.settings import SETTINGS
from evenhand.text.corpus import BUILTIN

SHARED = ("dataset", "protected", "model", "domain", TERMINAL)


def title_of_task(task: Task) -> str:
    """How lists name the run."""
    return title_words(task.kind, task.protected, task.given.get("by", []), task.data, _without_query(task.model))


def stored_config(task: Task) -> dict[str, Any]:
    """What is kept: a request of the service where it says everything, otherwise the settings as they were given."""
    asked: dict[str, Any] = {"dataset": task.data, "model": task.model, "protected": task.protected}
    asked |= {name: _plain(value) for name, value in task.given.items()}
    if (request := _as_request(task, asked)) is not None:
        return request
    kept = _without_query(task.model)
    here = {"folder": str(Path.cwd()), "secret": kept != task.model, "texts": task.domain == "text"}
    return asked | {"model": kept, TERMINAL: here}


def _as_request(task: Task, asked: dict[str, Any]) -> dict[str, Any] | None:
    """The same as a request that a worker could do as well; None where it has settings that the service has not."""
    if task.model is not None or is_id(task.data):
        return None
    usual = {"device": "auto", "settings": {}}  # what every worker does anyway
    shared = {name: value for name, value in asked.items() if usual.get(name) != value}
    try:
        return request_of(task.kind, shared).model_dump(mode="json")
    except EvenhandError:
        return None


def stored_task(kind: Any, config: dict[str, Any]) -> Task:
    """The task of a run, to be done again."""
    texts = bool(config.get(TERMINAL, {}).get("texts", False)) or config["dataset"] in BUILTIN
    domain: Domain = "text" if texts else "table"
    fields = SETTINGS[kind][domain].model_fields
    given = {name: value for name, value in config.items() if name not in SHARED}
    unsaid = [name for name, value in given.items() if value is None and fields[name].get_default() is None]
    given = {name: value for name, value in given.items() if name not in (*unsaid, "domain")}
    return Task(kind, config["dataset"], config["protected"], config["model"], given, domain)


def folder_of(config: dict[str, Any]) -> Path:
    """Where a command was started; one that reads no file can be done anywhere. What it needs must still be there."""
    here = config.get(TERMINAL)
    if here is None:
        return Path.cwd()
    folder, model, data = Path(here["folder"]), config["model"], config["dataset"]
    if here["secret"]:
        raise EvenhandError(
            f"The address of the model ({model}) had a query, which may hold a key and was not kept. Start a new run."
        )
    if not folder.is_dir():
        raise EvenhandError(f"The run was started in {folder}, which is not there any more. Start a new run.")
    if model is not None and ":" not in model and not (folder / model).exists():
        raise EvenhandError(
            f"The run's model, {folder / model}, is not there any more. Put it back or start a new run."
        )
    if Path(data).suffix and not (folder / data).exists():
        raise EvenhandError(
            f"The run's data, {folder / data}, are not there any more. Put them back or start a new run."
        )
    return folder


def _without_query(model: str | None) -> str | None:
    from evenhand.runs.subject import without_secrets

    return None if model is None else without_secrets(model)


def _plain(value: Any) -> Any:
    """As JSON has it."""
    return os.fspath(value) if isinstance(value, Path) else value
