"""What is put to the test: a table with its schema, or a corpus with its lexicon, and the model.

What differs between the two stands in `table_subject` and `text_subject`; audits, measurements, comparisons, repairs
and checks are written once, over this.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from evenhand.choices import Domain
from evenhand.measures.rates import Rate
from evenhand.runs.deadline import Deadline
from evenhand.runs.findings import RowsWriter
from evenhand.runs.summary import Stages
from evenhand.runs.tasks import domain_of
from evenhand.search.method import Method
from evenhand.search.recorder import Findings
from evenhand.search.search import Progress
from evenhand.settings import TaskName

Interrupted = Callable[[], bool]
OnDownload = Callable[[str, int, int], None]  # what, bytes so far, bytes in all
OnProgress = Callable[[Progress], None]
OnCount = Callable[[str, int, int], None]  # what is measured, samples so far, samples planned


class SearchWorld(Protocol):
    """Where a search walks: a space, the model that it asks, and its seeds with the rows of the data that they are."""

    @property
    def space(self) -> Any:
        """Where samples live."""

    @property
    def model(self) -> Any:
        """The model as a search asks it."""

    @property
    def samples(self) -> NDArray[np.int32]:
        """(n, d) the seeds."""

    @property
    def rows(self) -> NDArray[np.int64]:
        """(n,) the rows of the data that they are."""


@dataclass(frozen=True)
class PeopleChecked:
    """How many of the people or texts of the data, as they stand there, have a witness."""

    rates: dict[str, Rate]
    facts: dict[str, Any]  # what the summary says of some of them
    checked: int = 0  # how many were looked at, each with `variants` variants, in so many seconds
    variants: int = 0
    seconds: float = 0.0


class Subject(Protocol):
    """A table or a corpus, what of it is protected, and the model, tried and ready to be asked."""

    @property
    def domain(self) -> Domain:
        """Which kind it is."""

    @property
    def data(self) -> Any:
        """The `Dataset` or the `Corpus`."""

    @property
    def settings(self) -> Any:
        """What the task is told, with what was settled on the way: the method, the attributes that can be tested."""

    @property
    def device(self) -> torch.device:
        """Where the model is asked."""

    @property
    def warnings(self) -> list[str]:
        """What every output says first."""

    @property
    def is_tested(self) -> bool:
        """Whether the model reads anything that is protected."""

    def facts(self) -> dict[str, Any]:
        """What a summary says of the data, of what is protected and of the model."""

    def method(self, name: str, settings: dict[str, Any] | None = None) -> Method[Any, Any]:
        """A method by name."""

    def world(self, seeds: int, seed: int) -> SearchWorld:
        """The space around so many seeds."""

    def check_people(self, on_progress: OnProgress, interrupted: Interrupted) -> PeopleChecked:
        """Look at the people or texts of the data as they stand there."""

    def settled_by(self, people: PeopleChecked) -> "Subject":
        """The same after all of them were looked at: they may show an effect that a part of them had not shown."""

    def writer(self, path: Path, world: SearchWorld | None) -> RowsWriter:
        """What writes the findings of a search; without a world, a file without findings."""

    def pair_card(self, world: SearchWorld, findings: Findings, row: int) -> dict[str, Any]:
        """A finding in words."""

    def fingerprint(self, world: SearchWorld) -> dict[str, Any]:
        """All that decides how a search goes, beside its settings: a checkpoint of another search is no use."""


def open_subject(
    task: TaskName,
    data: Any,
    protected: str | list[str] | None,
    *,
    model: Any = None,
    label: str | None = None,
    deadline: Callable[[float | None], Deadline] = Deadline,
    on_download: OnDownload = lambda what, done, total: None,
    stages: Stages | None = None,
    plain_names: bool = False,
    **given: Any,
) -> Subject:
    """Open the data, try the model, and settle what the task is told; every task comes through here.

    `deadline` makes the limit of time from the setting; `given` are the settings that were said. With `plain_names` the
    configuration names the model's file as it was given, and not by its full path, which is not everybody's to know.
    """
    from evenhand.runs.table_subject import open_table
    from evenhand.runs.text_subject import open_texts

    stages = stages or Stages()
    if domain_of(data, given.get("text")) == "table":
        return open_table(task, data, names_of(protected), model, label, given, deadline, stages, plain_names)
    given |= {} if label is None else {"label": label}
    named = model_name(model, plain_names)
    return open_texts(task, data, names_of(protected), named, given, on_download, stages)


def names_of(protected: str | list[str] | None) -> list[str]:
    """Attributes' names, given as a list or separated by commas."""
    names = protected.split(",") if isinstance(protected, str) else protected or []
    return [name.strip() for name in names]


def model_name(model: Any, plain: bool = True) -> str | None:
    """How a configuration names a model: its text, or the class of an object, which no command line can load.

    A file is named by its full path unless `plain`, so that the run can be repeated from another folder.
    """
    if model is None:
        return None
    if isinstance(model, str | Path):
        is_file = not plain and Path(model).exists()
        return str(Path(model).resolve()) if is_file else without_secrets(str(model))
    kind = model if callable(model) and hasattr(model, "__qualname__") else type(model)
    return f"{kind.__module__}.{kind.__qualname__}"


def without_secrets(model: str) -> str:
    """An address without its query, which may hold a key that no file should keep."""
    return model.partition("?")[0] if model.startswith(("http://", "https://")) else model
