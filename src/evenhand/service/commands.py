"""What a command in a terminal was asked to do, as its run keeps it: to be shown, and to be done again."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenhand.errors import EvenhandError
from evenhand.service.requests import REQUESTS, is_id, request_of, title_of

TERMINAL = "terminal"  # in a configuration: what only a terminal can do, so that no worker takes it for its own
SHARED = ("dataset", "protected", "model", TERMINAL)


@dataclass(frozen=True)
class Command:
    """An audit, a measurement or a repair: what the function that does it is given."""

    kind: str
    data: str  # a built-in name or a path
    protected: list[str]  # empty: what the schema marks
    model: str | None  # a path, an address, module:function; None: built in
    options: dict[str, Any]  # everything else
    texts: bool = False

    @property
    def title(self) -> str:
        """How lists name the run."""
        shown: dict[str, Any] = {"protected": self.protected, "by": self.options.get("by", [])}
        request = REQUESTS[self.kind].model_construct(**shown)
        return title_of(self.kind, request, self.data, _without_query(self.model))

    def config(self) -> dict[str, Any]:
        """What is kept: a request of the service where it says everything, otherwise the options as they were given."""
        asked: dict[str, Any] = {"dataset": self.data, "model": self.model, "protected": self.protected}
        asked |= {name: _plain(value) for name, value in self.options.items() if value is not None}
        if (request := self._request(asked)) is not None:
            return request
        kept = _without_query(self.model)
        here = {"folder": str(Path.cwd()), "secret": kept != self.model, "texts": self.texts}
        return asked | {"model": kept, TERMINAL: here}

    def _request(self, asked: dict[str, Any]) -> dict[str, Any] | None:
        """The same as a request that a worker could do as well; None where it has options that the service has not."""
        if self.texts or self.model is not None or is_id(self.data):
            return None
        usual = {"device": "auto", "settings": {}}  # what every worker does anyway
        shared = {name: value for name, value in asked.items() if usual.get(name) != value}
        try:
            return request_of(self.kind, shared).model_dump(mode="json")
        except EvenhandError:
            return None

    @classmethod
    def of_run(cls, kind: str, config: dict[str, Any]) -> "Command":
        """The command of a run, to be done again."""
        options = {name: value for name, value in config.items() if name not in SHARED and value is not None}
        texts = bool(config.get(TERMINAL, {}).get("texts", False))
        return cls(kind, config["dataset"], config["protected"], config["model"], options, texts)


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
