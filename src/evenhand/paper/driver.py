"""Makes a study of the paper's again: its rows are measured in processes, and an interrupted run can be resumed."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from evenhand.paper.figures import PaperFigures
from evenhand.paper.processes import Interrupted, Say, all_results, default_workers
from evenhand.report.tables import Table
from evenhand.runs.interrupt import noting_interrupts

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Row = tuple[str, ...]  # of the paper's tables, by its names
OnDownload = Callable[[str, int, int], None]  # what, bytes so far, bytes in all


@dataclass(frozen=True)
class MeasuredRow:
    """What was measured on one row of the paper's tables."""

    figures: ClassVar[Mapping[Any, PaperFigures]]  # what the paper says, by row

    row: Row
    seconds: float = field(default=0.0, kw_only=True)

    @property
    def name(self) -> str:
        """As tables and messages call it."""
        return "/".join(self.row)

    @property
    def paper(self) -> PaperFigures:
        """What the paper says about it."""
        return self.figures[self.row]


PlanT = TypeVar("PlanT", bound="DataclassInstance")
RowT = TypeVar("RowT", bound=MeasuredRow)


@dataclass(frozen=True)
class Study(Generic[PlanT, RowT]):
    """All that is special to one of the paper's studies."""

    noun: str  # what its tables call a row
    rows: Sequence[Row]
    plan: PlanT  # how much to spend
    quick: PlanT  # the same for a quick run
    measured: type[RowT]
    measure: Callable[..., RowT]  # of (row, say, interrupted, plan=); raises Stopped where the user wants to stop
    intro: Callable[["Reproduction[PlanT, RowT]"], list[str]]  # which budget the tables rest on
    tables: Callable[["Reproduction[PlanT, RowT]"], list[Table]]
    prepare: Callable[[OnDownload], None]  # downloads, and says now, not after minutes, what is missing
    first: Callable[[Any], bool] = lambda row: False  # rows that take long, so that no process ends with one alone
    most_workers: int | None = None


@dataclass(frozen=True)
class Reproduction(Generic[PlanT, RowT]):
    """The figures of all rows that were measured, in the paper's order."""

    study: Study[PlanT, RowT]
    plan: PlanT
    rows: list[RowT]
    left_out: list[Row]  # not measured, since the user wanted to stop
    seconds: float
    workers: int

    @property
    def interruption(self) -> str:
        """What was left out, as a sentence; empty where nothing was."""
        names = ", ".join("/".join(row) for row in self.left_out)
        return f"Interrupted; left out: {names}." if names else ""

    def tables(self) -> list[Table]:
        """The study's tables, if there is anything to show."""
        return self.study.tables(self) if self.rows else []

    def intro(self) -> str:
        """Which budget they rest on."""
        return " ".join(part for part in self.study.intro(self) if part)

    def as_dict(self) -> dict[str, Any]:
        """For a JSON file."""
        noun, rows = self.study.noun, [asdict(row) for row in self.rows]
        return {
            "plan": asdict(self.plan),
            "seconds": round(self.seconds, 1),
            "workers": self.workers,
            "left_out": ["/".join(row) for row in self.left_out],
            f"{noun}s": [{noun: list(row.pop("row"))} | row for row in rows],
        }


def earlier_run(study: Study[PlanT, RowT], plan: PlanT, content: dict[str, Any]) -> Reproduction[PlanT, RowT] | None:
    """What was measured before, from its JSON; None where it had another plan or is not of this study."""
    if content.get("plan") != json.loads(json.dumps(asdict(plan))):
        return None
    try:
        rows = [row | {"row": row[study.noun]} for row in content[f"{study.noun}s"]]
        measured = [TypeAdapter(study.measured).validate_python(row) for row in rows]
        return Reproduction(study, plan, measured, [], float(content["seconds"]), content.get("workers", 1))
    except (KeyError, TypeError, ValidationError):  # not written by us, or by a version that measured otherwise
        return None


def reproduce(
    study: Study[PlanT, RowT],
    plan: PlanT,
    say: Say = lambda message: None,
    *,
    workers: int | None = None,
    earlier: Reproduction[PlanT, RowT] | None = None,
    on_row: Callable[[Reproduction[PlanT, RowT]], None] = lambda made: None,
) -> Reproduction[PlanT, RowT]:
    """Measure all rows that an `earlier` run did not, `workers` at a time; Ctrl-C keeps those that are whole.

    A row's figures, but for seconds, are the same however many are measured at a time.
    """
    start = time.perf_counter() - (earlier.seconds if earlier else 0.0)
    results: dict[Row, RowT] = {row.row: row for row in earlier.rows} if earlier else {}
    missing = sorted((row for row in study.rows if row not in results), key=lambda row: not study.first(row))
    if earlier is not None and not missing:
        return earlier
    workers = min(workers or default_workers(), study.most_workers or len(missing), len(missing))

    def collect() -> Reproduction[PlanT, RowT]:
        rows = [results[row] for row in study.rows if row in results]
        left_out = [row for row in study.rows if row not in results]
        return Reproduction(study, plan, rows, left_out, time.perf_counter() - start, workers)

    with noting_interrupts() as interrupted:
        for measured in all_results(missing, partial(_timed, study.measure, plan), say, interrupted, workers):
            results[measured.row] = measured
            count = f"{len(results)} of {len(study.rows)} {study.noun}s"
            say(f"{measured.name}: done in {measured.seconds:,.0f} s, {count}")
            on_row(collect())
    made = collect()
    if made.left_out:
        say(f"stopped; the {study.noun}s that are whole are kept")
    return made


def _timed(measure: Callable[..., RowT], plan: PlanT, row: Row, say: Say, interrupted: Interrupted) -> RowT:
    start = time.perf_counter()
    measured = measure(row, say, interrupted, plan=plan)
    return replace(measured, seconds=time.perf_counter() - start)
