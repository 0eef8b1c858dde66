"""What repairs of tables and of texts share: the comparison, the choice, and the files."""

import math
import shutil
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import EvenhandError
from evenhand.files import read_json, result_folder, write_json
from evenhand.measures.choice import Trade, choose, front, parse_conditions
from evenhand.measures.rates import effective_samples
from evenhand.measures.verdict import JudgedRepair
from evenhand.models.network import network_files
from evenhand.models.repaired import MODEL, RepairedModel
from evenhand.report.notebook import repair_html
from evenhand.report.repair import write_repair_report
from evenhand.report.sentences import introduced
from evenhand.runs.audit import REPORT, SUMMARY
from evenhand.search.method import Method
from evenhand.search.recorder import Findings
from evenhand.search.search import Limits, Search
from evenhand.search.space import ModelT, SpaceT

if TYPE_CHECKING:
    import pandas as pd

OnStep = Callable[[str, float], None]  # what is being made, and the share of it that is done


@dataclass
class Repair:
    """A finished repair: a folder with the model, a summary and a report. `model` is None where none was chosen."""

    folder: Path
    summary: dict[str, Any]
    model: Any  # of tables a torch.nn.Module, of texts a model that `evenhand.audit_text` could load
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


class Work(Protocol):
    """A repair of tables or of texts, in parts."""

    def judged(self) -> tuple[list[JudgedRepair], list[JudgedRepair]]:
        """The repairs, and what they are compared with, of which the first is the model as it was."""

    def summary(
        self, rows: list[JudgedRepair], originals: list[JudgedRepair], chosen: JudgedRepair | None
    ) -> dict[str, Any]:
        """What `summary.json` holds."""

    def save(self, model: Any, summary: dict[str, Any], path: Path) -> None:
        """Write the repaired model."""


def finished(out: str | Path | None, condition: str | None, work: Work) -> Repair:
    """Do the work, choose, and write model, summary and report. What is there already is replaced at the end."""
    conditions = [] if condition is None else parse_conditions(condition)
    with result_folder(out) as folder:
        rows, originals = work.judged()
        trades = [Trade(row.kept.validation_accuracy, row.kept.validation_bound) for row in [originals[0], *rows]]
        number = choose(trades[1:], trades[0], conditions)
        chosen = None if number is None else rows[number]
        summary = work.summary(rows, originals, chosen)
        if chosen is None:
            for file in network_files(folder / MODEL):
                file.unlink(missing_ok=True)
        else:
            work.save(chosen.network, summary, folder / MODEL)
        write_json(folder / SUMMARY, summary)
        write_repair_report(folder / REPORT, summary)
    result = Repair(folder, read_json(folder / SUMMARY), None if chosen is None else chosen.network)
    if out is None:
        weakref.finalize(result, shutil.rmtree, folder, ignore_errors=True)
    return result


def compared(
    rows: list[JudgedRepair], originals: list[JudgedRepair], weights: NDArray[np.float64] | None = None
) -> list[dict[str, Any]]:
    """All models once, with which of them are not beaten in both accuracy and rate.

    `weights` (held-out rows,) are those of the people whom they are judged on.
    """
    everything = list({row.name: row for row in (*originals, *rows)}.values())
    kept = [row.kept for row in everything]
    trades = [
        Trade(one.validation_accuracy if one.accuracy is None else one.accuracy, one.uniform.share) for one in kept
    ]
    return [
        row.as_dict() | {"front": best, "accuracy_change": paired(everything[0].kept.right, row.kept.right, weights)}
        for row, best in zip(everything, front(trades), strict=True)
    ]


def paired(
    before: NDArray[np.bool_], after: NDArray[np.bool_], weights: NDArray[np.float64] | None = None
) -> dict[str, Any] | None:
    """By how much accuracy on the same rows changes, with a 95 % interval (normal approximation); None without rows.

    With weights the interval is that of as many rows as they are worth.
    """
    weights = np.ones(len(before)) if weights is None else weights
    if not weights.any():
        return None
    change = after.astype(float) - before
    middle = float(np.average(change, weights=weights))
    variance = float(np.average((change - middle) ** 2, weights=weights))
    error = 1.96 * math.sqrt(variance / effective_samples(weights))
    return {"mean": middle, "interval": [middle - error, middle + error]}


def search_all(
    model: ModelT,
    space: SpaceT,
    method: Method[SpaceT, ModelT],
    samples: NDArray[np.int32],
    rows: NDArray[np.int64],
    seed: int,
    limits: Limits,
) -> list[Findings]:
    """All findings of a search."""
    found: list[Findings] = []
    Search(model, space, method, seed=seed, limits=limits, sink=found.append).run(samples, rows)
    return found
