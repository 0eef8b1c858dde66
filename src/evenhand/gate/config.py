"""The gate file: checks in TOML, with defaults at its top, and where to write what they found."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from evenhand.choices import Domain
from evenhand.data.attribute import repeated
from evenhand.data.dataset import builtin_names
from evenhand.errors import EvenhandError
from evenhand.gate.failures import FOLDER
from evenhand.mistakes import ended, first_mistake
from evenhand.runs.tasks import domain_of
from evenhand.settings import SETTINGS, CheckSettings, TextCheckSettings, foreign_setting
from evenhand.text.corpus import BUILTIN
from evenhand.toml_files import Location, place_of, read_toml

OUTPUTS = ("junit", "sarif", "markdown")
NOT_SAID = ("dataset", "line")  # of an entry, but not of its table in the file


class GateDefaults(CheckSettings, TextCheckSettings):
    """What stands at the top: each check has those of them that are for its kind of data."""

    dataset: str = ""


class CheckName(BaseModel):
    """What a [[check]] is called and what it is about; the rest of it are settings."""

    name: Annotated[str, Field(min_length=1)]
    data: str


@dataclass(frozen=True)
class CheckEntry:
    """One [[check]]."""

    name: str
    data: str
    settings: CheckSettings | TextCheckSettings
    line: int = 1  # of the gate file, where its [[check]] stands

    @property
    def said(self) -> dict[str, Any]:
        """The settings that are not defaults of evenhand, for `run_check`; the model among them."""
        return {name: getattr(self.settings, name) for name in self.settings.model_fields_set - {"dataset"}}


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
        _validated(GateDefaults, content, path, text, ())  # defaults are right even if every check has its own
        checks = [_entry(path, text, content, number, entry) for number, entry in enumerate(entries)]
        if twice := repeated([check.name for check in checks]):
            raise EvenhandError(f"Checks of {path} must have names of their own; found twice: {', '.join(twice)}.")
        folder = path.parent
        files = {kind: folder / name for kind in OUTPUTS if (name := getattr(outputs, kind)) is not None}
        return cls(path, checks, files, folder / failures)


def _entry(path: Path, text: str, defaults: dict[str, Any], number: int, entry: dict[str, Any]) -> CheckEntry:
    """A check with the defaults filled in and its files found beside the gate file."""
    location = ("check", number)
    if unknown := [name for name in NOT_SAID if name in entry]:
        raise _wrong(path, text, (*location, unknown[0]), "there is no such setting")
    named: CheckName = _validated(CheckName, entry, path, text, location)
    place, kind = place_of(text, location), domain_of(named.data, entry.get("text"))
    fields = SETTINGS["check"][kind].model_fields
    own = {name: value for name, value in entry.items() if name not in CheckName.model_fields}
    data = named.data if named.data in (*builtin_names(), *BUILTIN) else str(path.parent / named.data)
    filled = {name: value for name, value in defaults.items() if name in fields} | own | {"dataset": data}
    settings = _validated(SETTINGS["check"][kind], filled, path, text, location)
    return CheckEntry(named.name, data, _with_files(settings, path.parent, kind), 1 if place is None else place.line)


def _with_files(settings: Any, folder: Path, kind: Domain) -> Any:
    """The settings with files beside the gate file under their paths; an address or module:function stays as it is."""
    model, found = settings.model, {}
    if model is not None and (":" not in model or (folder / model).exists()):
        found["model"] = str(folder / model)
    for name in ("lexicon", "vectors") if kind == "text" else ():
        if (file := folder / getattr(settings, name)).is_file():
            found[name] = str(file)
    return settings.model_copy(update=found)


def _validated(kind: type[Any], content: Any, path: Path, text: str, location: Location) -> Any:
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        within, reason = first_mistake(error, kind)
        foreign = foreign_setting(kind, str(within[-1])) if len(within) == 1 else ""
        what = foreign.rstrip(".") or f"{'.'.join(map(str, within)) or 'this table'}: {reason}"
        raise _wrong(path, text, (*location, *within), what) from error


def _wrong(path: Path, text: str, location: Location, what: str) -> EvenhandError:
    place = place_of(text, location)
    return EvenhandError(f"The gate file {path} is wrong{f' at {place}' if place else ''}: {ended(what)}")
