"""A repair: a model whose labels depend less, or not at all, on what is protected, and what that costs."""

import shutil
import weakref
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

import evenhand
from evenhand.choices import Domain
from evenhand.errors import EvenhandError
from evenhand.files import read_json, result_folder, write_json
from evenhand.measures.choice import Trade, choose, parse_conditions
from evenhand.measures.verdict import JudgedRepair
from evenhand.models.devices import one_thread
from evenhand.models.network import network_files
from evenhand.models.repaired import MODEL, RepairedModel
from evenhand.report.notebook import repair_html
from evenhand.report.repair import write_repair_report
from evenhand.report.sentences import introduced
from evenhand.runs.notebook_progress import shown_in_notebook, silent
from evenhand.runs.repair_rows import OnStep
from evenhand.runs.subject import OnDownload, names_of, open_subject
from evenhand.runs.summary import REPORT, SUMMARY, Stages, circumstances
from evenhand.runs.table_repair import table_repair
from evenhand.runs.table_subject import TableSubject
from evenhand.runs.text_repair import text_repair_work
from evenhand.runs.text_subject import TextSubject
from evenhand.settings import repeat_command

if TYPE_CHECKING:
    import pandas as pd


@dataclass
class Repair:
    """A finished repair: a folder with the model, a summary and a report. `model` is None where none was chosen."""

    folder: Path
    summary: dict[str, Any]
    model: Any  # of tables a torch.nn.Module, of texts a model of ours
    predictor: RepairedModel | None = None  # of tables, where a repair was chosen

    def __repr__(self) -> str:
        words = f"{self.summary['dataset']['name']}: {self.summary['chosen'] or 'nothing chosen'}"
        return f"<evenhand repair: {introduced(self.summary, words)}>"

    def predict(self, frame: "pd.DataFrame") -> NDArray[Any]:
        """(n,) the label that the repaired model gives to each row of a frame with the raw columns of the table."""
        return self._predictor.predict(frame)

    def predict_proba(self, frame: "pd.DataFrame") -> NDArray[np.float32]:
        """(n, classes) the score of each label, in the order of `classes_`."""
        return self._predictor.predict_proba(frame)

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels in the order of the scores."""
        return self._predictor.classes_

    @property
    def _predictor(self) -> RepairedModel:
        if self.predictor is not None:
            return self.predictor
        if self.model is None:
            raise EvenhandError(f"No repair keeps to {self.summary['config']['choose']}, so there is no model to ask.")
        raise EvenhandError("Predictions for data frames are for tables; the model of a repair of texts is `model`.")

    def _repr_html_(self) -> str:
        return repair_html(self.summary)


class RepairWork(Protocol):
    """A repair of a model of a table or of texts, in parts."""

    @property
    def domain(self) -> Domain:
        """What the model is about."""

    @property
    def settings(self) -> Any:
        """What the repair is told, with what was settled on the way."""

    def judged(self) -> tuple[list[JudgedRepair], list[JudgedRepair]]:
        """The repairs, and what they are compared with, of which the first is the model as it was."""

    def facts(
        self, rows: list[JudgedRepair], originals: list[JudgedRepair], chosen: JudgedRepair | None
    ) -> dict[str, Any]:
        """What the summary says beside what all repairs have."""

    def save(self, model: Any, summary: dict[str, Any], path: Path) -> None:
        """Write the repaired model."""

    def predictor(self, model: Any) -> RepairedModel | None:
        """The repaired model for data frames; None where it reads none."""


def repair(
    data: Any = "census",
    protected: str | list[str] | None = None,
    by: str | list[str] | None = None,
    *,
    model: Any = None,
    label: str | None = None,
    out: str | Path | None = None,
    on_step: OnStep = silent,
    on_download: OnDownload = lambda what, done, total: None,
    **settings: Any,
) -> Repair:
    """Make a model whose labels depend less, or not at all, on what is protected, and say what that costs.

    `by` is one or several of augment, certified, pairing, average and blind, or "all", which tries what can be done to
    the model, of tables in several strengths. By default blind, or average for a model that cannot be trained again;
    pairing for texts, whose model must be one of our recurrent networks. Learns from training rows only; judged on
    held-out ones. `data` and `model` are those of `evenhand.audit`; other settings: see `RepairSettings` and
    `TextRepairSettings`.
    """
    stages = Stages()
    ways = {} if by is None else {"by": names_of(by)}
    if settings.get("choose") is not None:
        parse_conditions(settings["choose"])  # a mistake is said before the work
    subject = open_subject(
        "repair", data, protected, model=model, label=label, on_download=on_download, stages=stages, **(settings | ways)
    )
    on_step = shown_in_notebook(on_step, f"repair of {subject.data.name}")
    with stages.timed("load"):
        work: RepairWork
        if isinstance(subject, TableSubject):
            work = table_repair(subject, model, stages, on_step)
        else:
            assert isinstance(subject, TextSubject)
            work = text_repair_work(subject, stages, on_step)
    with one_thread(subject.device):
        return finished(out, work, stages)


def finished(out: str | Path | None, work: RepairWork, stages: Stages) -> Repair:
    """Do the work, choose, and write model, summary and report. What is there already is replaced at the end."""
    settings = work.settings
    conditions = [] if settings.choose is None else parse_conditions(settings.choose)
    with result_folder(out) as folder:
        rows, originals = work.judged()
        trades = [Trade(row.kept.validation_accuracy, row.kept.validation_bound) for row in [originals[0], *rows]]
        number = choose(trades[1:], trades[0], conditions)
        chosen = None if number is None else rows[number]
        summary = {
            "evenhand": evenhand.__version__,
            "kind": "repair",
            "domain": work.domain,
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            "protected": settings.protected,
            "config": settings.model_dump(),
            "command": repeat_command("repair", settings),
            "chosen": None if chosen is None else chosen.name,
            **work.facts(rows, originals, chosen),
            **circumstances(torch.device("cpu"), stages),
            "seed": settings.seed,
        }
        if chosen is None:
            for file in network_files(folder / MODEL):
                file.unlink(missing_ok=True)
        else:
            work.save(chosen.network, summary, folder / MODEL)
        write_json(folder / SUMMARY, summary)
        write_repair_report(folder / REPORT, summary)
    repaired = None if chosen is None else chosen.network
    predictor = None if repaired is None else work.predictor(repaired)
    result = Repair(folder, read_json(folder / SUMMARY), repaired, predictor)
    if out is None:
        weakref.finalize(result, shutil.rmtree, folder, ignore_errors=True)
    return result
