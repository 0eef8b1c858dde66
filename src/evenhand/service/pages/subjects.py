"""Data by its id or built-in name, with the schema that belongs to it."""

from dataclasses import dataclass
from functools import cache

from evenhand.data.dataset import builtin_names, load_schema
from evenhand.data.schema import Schema
from evenhand.errors import EvenhandError
from evenhand.service.api.answers import file_name
from evenhand.service.api.errors import ApiError, otherwise
from evenhand.service.pages.schema_form import schema_of
from evenhand.service.requests import is_id
from evenhand.service.settings import Service
from evenhand.service.storage.tables import DataFile, Run

TERMINAL = "terminal"  # in the configuration of a run whose data and model are as a command line named them


@dataclass(frozen=True)
class Subject:
    """Data to audit; `file` is none where it is built in."""

    known_as: str
    name: str
    file: DataFile | None
    schema: Schema | None


@cache
def _builtin(name: str) -> Schema:
    return load_schema(name)


def subject_of(service: Service, known_as: str, project: str) -> Subject:
    """The data with this id or name."""
    if known_as in builtin_names():
        schema = _builtin(known_as)
        return Subject(known_as, schema.title, None, schema)
    if not is_id(known_as):
        raise ApiError("not-found", f"There is no data set '{known_as[:80]}'. Choose one at step 1 of a new audit.")
    with otherwise("not-found"):
        file = service.assets.dataset(known_as, project)
    return Subject(known_as, file.name, file, None if file.schema_text is None else schema_of(file.schema_text))


def schema_of_run(service: Service, run: Run) -> Schema | None:
    """The schema that a run worked with; None where nothing has it any more."""
    try:
        if run.schema_text is not None:
            return schema_of(run.schema_text)
        return subject_of(service, str(run.config.get("dataset")), run.project).schema
    except EvenhandError:
        return None


def data_name(service: Service, run: Run) -> str:
    """What a run's data is called; it may have been deleted since, or be known to a terminal only."""
    if TERMINAL in run.config:
        return str(((run.result or {}).get("data") or {}).get("title") or file_name(run.config.get("dataset")))
    try:
        return subject_of(service, str(run.config.get("dataset")), run.project).name
    except EvenhandError:
        return "a table that was deleted"


def model_name(service: Service, run: Run) -> str:
    """What a run's model is called."""
    known_as = run.config.get("model")
    if known_as is None:
        return "the built-in network"
    if TERMINAL in run.config:
        return str(file_name((run.result or {}).get("model") or known_as))
    try:
        return service.assets.model(str(known_as), run.project).name
    except EvenhandError:
        return "a model that was deleted"
