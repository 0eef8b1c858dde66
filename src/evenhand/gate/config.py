"""The gate file: checks in TOML, with defaults at its top, and where to write what they found."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from evenhand.data.attribute import repeated
from evenhand.data.dataset import builtin_names
from evenhand.errors import EvenhandError
from evenhand.gate.failures import FOLDER
from evenhand.gate.settings import CheckSettings
from evenhand.mistakes import ended, first_mistake
from evenhand.toml_files import Location, place_of, read_toml

OUTPUTS = ("junit", "sarif", "markdown")


class CheckEntry(CheckSettings):
    """One [[check]]."""

    name: Annotated[str, Field(min_length=1)]
    data: str
    model: str | None = None  # None: the built-in network
    line: int = 1  # of the gate file, where its [[check]] stands

    @property
    def settings(self) -> CheckSettings:
        """What the check is asked to do, without its name, data and model."""
        return CheckSettings(**{name: getattr(self, name) for name in CheckSettings.model_fields})


class OutputFiles(BaseModel):
    """Files to write."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    junit: str | None = None
    sarif: str | None = None
    markdown: str | None = None


@dataclass(frozen=True)
class GateFile:
    """A gate file that was read and found right; its paths are those of the gate file's folder."""

    path: Path
    checks: list[CheckEntry]
    outputs: dict[str, Path]
    failures: Path

    @classmethod
    def load(cls, path: Path) -> "GateFile":
        """Read and validate a gate file."""
        content, text = read_toml(path, "gate file")
        entries = content.pop("check", [])
        if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
            raise EvenhandError(f"The gate file {path} has no checks: write at least one [[check]] with name and data.")
        outputs = _validated(OutputFiles, content.pop("outputs", {}), path, text, ("outputs",))
        failures = content.pop("failures", FOLDER)
        if not isinstance(failures, str):
            raise _wrong(path, text, ("failures",), "it must be the name of a folder")
        _validated(CheckSettings, content, path, text, ())  # defaults are right even if every check has its own
        checks = [_entry(path, text, content, number, entry) for number, entry in enumerate(entries)]
        if twice := repeated([check.name for check in checks]):
            raise EvenhandError(f"Checks of {path} must have names of their own; found twice: {', '.join(twice)}.")
        folder = path.parent
        files = {kind: folder / name for kind in OUTPUTS if (name := getattr(outputs, kind)) is not None}
        return cls(path, checks, files, folder / failures)


def _entry(path: Path, text: str, defaults: dict[str, Any], number: int, entry: dict[str, Any]) -> CheckEntry:
    """A check with the defaults filled in and its files found beside the gate file."""
    location = ("check", number)
    place = place_of(text, location)
    if "line" in entry:
        raise _wrong(path, text, (*location, "line"), "there is no such setting")
    filled = defaults | entry | {"line": 1 if place is None else place.line}
    check: CheckEntry = _validated(CheckEntry, filled, path, text, location)
    model = None if check.model is None else _located(check.model, path.parent)
    data = check.data if check.data in builtin_names() else str(path.parent / check.data)
    return check.model_copy(update={"data": data, "model": model})


def _located(model: str, folder: Path) -> str:
    """A file beside the gate file; an address or module:function is left as it is."""
    return model if ":" in model and not (folder / model).exists() else str(folder / model)


def _validated(kind: type[Any], content: Any, path: Path, text: str, location: Location) -> Any:
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        within, reason = first_mistake(error, kind)
        what = f"{'.'.join(map(str, within)) or 'this table'}: {reason}"
        raise _wrong(path, text, (*location, *within), what) from error


def _wrong(path: Path, text: str, location: Location, what: str) -> EvenhandError:
    place = place_of(text, location)
    return EvenhandError(f"The gate file {path} is wrong{f' at {place}' if place else ''}: {ended(what)}")
