"""A table with its schema, put to the test."""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from evenhand.choices import Domain
from evenhand.data.dataset import Dataset, load_dataset
from evenhand.data.decoding import Decoder
from evenhand.errors import EvenhandError
from evenhand.measures.people import audit_rates, discriminatory_rows
from evenhand.methods.registry import check_needs, chosen_method, make_method
from evenhand.models.adapters.base import person_reading, reads_raw_values
from evenhand.models.classifier import Classifier
from evenhand.models.devices import choose_device
from evenhand.models.trial import why_no_gradients
from evenhand.report.pairs import table_card
from evenhand.report.statistics import example_at, people_examples
from evenhand.runs.checkpoints import digest
from evenhand.runs.deadline import Deadline
from evenhand.runs.findings import FindingsWriter
from evenhand.runs.subject import Interrupted, OnProgress, PeopleChecked, SearchWorld, model_name
from evenhand.runs.summary import Stages
from evenhand.runs.tried_model import TriedModel, model_facts, try_model
from evenhand.search.method import Method
from evenhand.search.recorder import Findings
from evenhand.search.search import Progress
from evenhand.search.seeds import choose_seeds
from evenhand.search.space import TableSpace
from evenhand.settings import SETTINGS, TaskName

TRIAL_ROWS = 32  # whose scores tell one model from another


@dataclass(frozen=True)
class TableWorld:
    """Where a search walks among the samples of a table."""

    space: TableSpace
    model: Classifier
    samples: NDArray[np.int32]
    rows: NDArray[np.int64]


@dataclass(frozen=True)
class TableSubject:
    """A table, its protected attributes, and the model, tried on its rows."""

    domain: ClassVar[Domain] = "table"
    data: Dataset
    settings: Any
    tried: TriedModel
    asked: list[str]  # the protected attributes that were named, read or not
    why_no_gradients: str = ""  # empty where the model gives some, or where nobody needs any

    @property
    def device(self) -> torch.device:
        """Where the model is asked."""
        return self.tried.classifier.device

    @property
    def warnings(self) -> list[str]:
        """What every output says first."""
        return self.tried.warnings

    @property
    def is_tested(self) -> bool:
        """Whether the model reads any of the protected attributes."""
        return bool(self.tried.tested(self.asked))

    @property
    def protected(self) -> list[str]:
        """The attributes that change: those that the model reads, or all where it seems to read none."""
        return self.tried.tested(self.asked) or self.asked

    @cached_property
    def space(self) -> TableSpace:
        """Where samples live."""
        return self.tried.space(self.data, self.protected)

    @property
    def _two_rows(self) -> torch.Tensor:
        return torch.tensor(self.data.clipped[:2], dtype=torch.float32, device=self.device)

    def facts(self) -> dict[str, Any]:
        """What a summary says of the data, of what is protected and of the model."""
        groups = {"groups": self.tried.groups} if self.tried.groups else {}
        return {
            "dataset": {"name": self.data.name, "title": self.data.schema.title, "rows": len(self.data.codes)},
            "protected": self.protected,
            "model": model_facts(self.tried, self.why_no_gradients),
            "warnings": self.warnings,
            **groups,
        }

    def with_method(self) -> "TableSubject":
        """The same with a method that the model can serve."""
        name = chosen_method(self.settings.method, self.why_no_gradients)
        make_method(name, self.settings.settings)
        check_needs([name], self.tried.classifier, self._two_rows)
        return replace(self, settings=self.settings.model_copy(update={"method": name}))

    def method(self, name: str, settings: dict[str, Any] | None = None) -> Method[Any, Any]:
        """A method by name."""
        return make_method(name, settings)

    def world(self, seeds: int, seed: int) -> TableWorld:
        """The space, and rows of the data to start from."""
        rows = choose_seeds(self.data, seeds, seed)
        return TableWorld(self.space, self.tried.classifier, self.data.codes[rows], rows)

    def check_people(self, on_progress: OnProgress, interrupted: Interrupted) -> PeopleChecked:
        """Look at the people of the data as they stand there."""
        start = time.perf_counter()

        def on_done(done: int, total: int) -> None:
            seconds = time.perf_counter() - start
            on_progress(Progress("data", total, done, total, 0, seconds, seconds / done * (total - done)))

        model, space = self.tried.classifier, self.space
        found = discriminatory_rows(
            model, space, self.data, seed=self.settings.seed, interrupted=interrupted, on_done=on_done
        )
        clearest = people_examples(found, space, person_reading(model.module))
        return PeopleChecked(
            audit_rates(space, self.data, found),
            {"people": [asdict(example) for example in clearest]},
            len(found.rows),
            space.variant_count,
            time.perf_counter() - start,
        )

    def settled_by(self, people: PeopleChecked) -> "TableSubject":
        """The same, its protected attributes read after all where changing them had an effect in some row."""
        shown = any(rate.discriminatory for rate in people.rates.values())
        tried = self.tried if self.is_tested or not shown else self.tried.read_after_all(self.asked)
        settled = replace(self, tried=tried)
        return replace(settled, settings=self.settings.model_copy(update={"protected": settled.protected}))

    def writer(self, path: Path, world: SearchWorld | None) -> FindingsWriter:  # noqa: ARG002 - texts need it
        """What writes findings; a network of codes never needs raw values beyond the domain."""
        raw = reads_raw_values(self.tried.classifier.module)
        return FindingsWriter(path, self.space, self.data.decoder if raw else Decoder(self.data.schema))

    def pair_card(self, world: SearchWorld, findings: Findings, row: int) -> dict[str, Any]:
        """A finding in words."""
        space: TableSpace = world.space
        example = example_at(findings, row, space.protected)
        return table_card(example, self.data, space.protected, space.unread).as_dict()

    def fingerprint(self, world: SearchWorld) -> dict[str, Any]:
        """The part of the schema that decides, the seeds, and how the model scores some of them."""
        schema, rows = self.data.schema.model_dump_json(include={"attributes", "label", "impossible"}), world.rows
        x = torch.tensor(self.data.clipped[rows[:TRIAL_ROWS]], dtype=torch.float32, device=self.device)
        return {
            "schema": digest(schema.encode()),
            "data": digest(rows.tobytes() + self.data.codes[rows].tobytes()),  # a search knows no others
            "model": self.tried.classifier.outputs(x).scores.double().cpu().tolist(),
            "unread": json.loads(json.dumps(self.space.unread)),
        }


def open_table(
    task: TaskName,
    data: Any,
    protected: list[str],
    model: Any,
    label: str | None,
    given: dict[str, Any],
    deadline: Callable[[float | None], Deadline],
    stages: Stages,
    plain_names: bool,
) -> TableSubject:
    """Open a table and try the model on it."""
    with stages.timed("load"):
        dataset, name = as_dataset(data, label, protected)
        settings: Any = SETTINGS[task]["table"].checked(
            dataset=name, protected=protected or dataset.schema.protected, model=model_name(model, plain_names), **given
        )
        dataset = dataset.compared_within(settings.within, settings.protected)
        device = choose_device(getattr(settings, "device", "cpu"))
        TableSpace(dataset.schema, settings.protected, device)  # wrong names are said before the model is asked
    with stages.timed("model"):
        tried = try_model(
            dataset, model, settings.protected, device, output=settings.output, inputs=settings.inputs,
            chunk_rows=getattr(settings, "chunk_rows", None), threshold=settings.threshold,
            accept_poor_model=settings.accept_poor_model, seed=settings.seed,
            seconds=deadline(getattr(settings, "max_seconds", None)).for_model(),
        )  # fmt: skip
        searches = task in ("audit", "compare")
        x = torch.tensor(dataset.clipped[:2], dtype=torch.float32, device=device)
        why = why_no_gradients(tried.classifier, x) if searches else ""
        subject = TableSubject(dataset, settings, tried, settings.protected, why)
        return subject.with_method() if task == "audit" else subject


def as_dataset(data: Any, label: str | None, protected: list[str]) -> tuple[Dataset, str]:
    """The data of a run and how a summary names them: a built-in name, a schema file, a `Dataset`, or a data frame.

    A schema for a data frame is inferred, and `label` says which column the model predicts.
    """
    if isinstance(data, Dataset):
        return data, data.name
    if isinstance(data, str | Path):
        name = str(data)
        return load_dataset(name), str(Path(name).resolve()) if name.endswith(".toml") else name
    if label is None:
        raise EvenhandError(
            f"The data are a {type(data).__name__}: say which column the model predicts (label=…), or write a schema "
            "with `evenhand schema infer` and name that."
        )
    from evenhand.data.infer.schema import dataset_from

    dataset = dataset_from(data, label=label, protected=protected or None)
    return dataset, dataset.name
