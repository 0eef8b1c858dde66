"""Several methods on the same network, seeds and budget, under the same counters."""

import csv
import io
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from evenhand.data.dataset import Dataset
from evenhand.errors import EvenhandError
from evenhand.files import write_json, write_text
from evenhand.measures.diversity import SAMPLE, Diversity
from evenhand.measures.people import limit_words
from evenhand.methods.registry import METHODS, check_needs, make_method
from evenhand.models.classifier import Classifier
from evenhand.models.devices import choose_device, one_thread
from evenhand.models.trial import why_no_gradients
from evenhand.report.tables import Table, html_page, markdown
from evenhand.runs.interrupt import interrupt_as_wish
from evenhand.runs.subject import subject_of
from evenhand.search.check import check
from evenhand.search.search import Limits, Progress, Search, SearchResult
from evenhand.search.seeds import choose_seeds
from evenhand.search.space import TableSpace

UNIFORM = "themis"  # always a row: a method that does not beat it per model row has no point


@dataclass(frozen=True)
class Budget:
    """What every method may do: `paper`, or so many seeds, steps, model rows or seconds."""

    text: str = "paper"
    seeds: int = 1000
    limits: Limits = field(default_factory=Limits)

    @classmethod
    def parse(cls, text: str) -> "Budget":
        """`paper`, `rows=N`, `seconds=N`, `seeds=N`, `steps=N`, or several of them separated by commas."""
        values: dict[str, float] = {}
        for part in [] if text == "paper" else text.split(","):
            name, _, number = part.partition("=")
            if name not in ("rows", "seconds", "seeds", "steps") or not _positive(number, whole=name != "seconds"):
                raise EvenhandError(
                    f"The budget '{part}' is not one. Use paper, or rows=N, seconds=N, seeds=N, steps=N above zero, "
                    "several of them separated by commas."
                )
            values[name] = float(number)
        rows, seconds = values.get("rows"), values.get("seconds")
        # A budget of rows or seconds is there to be used up, so steps do not end it unless they are asked for.
        steps = values.get("steps", 10**9 if rows or seconds else 1000)
        limits = Limits(steps=int(steps), max_rows=int(rows) if rows else None, max_seconds=seconds)
        return cls(text, int(values.get("seeds", 1000)), limits)


def _positive(number: str, whole: bool) -> bool:
    try:
        value = float(number)
    except ValueError:
        return False
    return 0 < value < float("inf") and (value.is_integer() or not whole)


@dataclass(frozen=True)
class Outcome:
    """One method's row of a comparison."""

    method: str
    generated: int
    findings: int
    success_rate: float
    global_findings: int
    local_findings: int
    seeds_with_findings: int
    model_rows: int
    rows_per_finding: float | None
    seconds: float
    seconds_per_1000_findings: float | None
    cells: int
    coverage: float
    mean_distance: float
    stopped: str
    notes: dict[str, float]  # what the method measured on the way
    alone: dict[str, float]  # share of findings whose label a change of this protected attribute alone changes


def run_method(
    model: Classifier,
    space: TableSpace,
    data: Dataset,
    rows: NDArray[np.int64],
    name: str,
    *,
    limits: Limits,
    seed: int = 0,
    settings: dict[str, Any] | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    interrupted: Callable[[], bool] = lambda: False,
) -> tuple[Outcome, SearchResult]:
    """Run one method and measure what it found."""
    diversity = Diversity(space)
    search = Search(
        model,
        space,
        make_method(name, settings),
        seed=seed,
        limits=limits,
        sink=diversity.add,
        on_progress=on_progress,
        interrupted=interrupted,
    )
    with one_thread(model.device):
        result = search.run(data.codes[rows], rows)
        rows_asked = model.rows
        alone = _alone(model, space, diversity.sample)
    return _outcome(name, rows_asked, result, diversity, alone), result


def _outcome(name: str, rows: int, result: SearchResult, diversity: Diversity, alone: dict[str, float]) -> Outcome:
    counts, seconds = result.counts, sum(result.seconds.values())
    found = counts.all_findings
    return Outcome(
        method=name,
        generated=counts.all_generated,
        findings=found,
        success_rate=counts.success_rate,
        global_findings=counts.findings["global"],
        local_findings=counts.findings["local"],
        seeds_with_findings=result.seeds_with_findings,
        model_rows=rows,
        rows_per_finding=rows / found if found else None,
        seconds=seconds,
        seconds_per_1000_findings=1000 * seconds / found if found else None,
        cells=diversity.cells,
        coverage=diversity.coverage,
        mean_distance=diversity.mean_distance,
        stopped=result.stopped,
        notes=dict(result.notes),
        alone=alone,
    )


def _alone(model: Classifier, space: TableSpace, sample: NDArray[np.int64]) -> dict[str, float]:
    """For a sample of the findings: how often one protected attribute alone changes the label, or only several do."""
    if len(space.protected) < 2 or not len(sample):
        return {}
    x = torch.tensor(sample, dtype=torch.float32, device=model.device)
    names = [space.schema.names[index] for index in space.protected]
    hits = {name: check(model, TableSpace(space.schema, [name], model.device), x).hit for name in names}
    together = ~torch.stack(list(hits.values())).any(dim=0)
    return {f"{name} alone": _share(hit) for name, hit in hits.items()} | {"only together": _share(together)}


def _share(mask: torch.Tensor) -> float:
    return float(mask.double().mean())


@dataclass(frozen=True)
class Comparison:
    """The outcome of several methods, with what they had in common."""

    dataset: str
    protected: list[str]
    model: str
    budget: str
    seed: int
    seeds: int
    outcomes: list[Outcome]
    left_out: list[str]  # methods that an interruption kept from running, or from running to their end
    warnings: list[str] = field(default_factory=list)  # what has to be known of the model before any figure
    limit: str = ""  # with whom samples are compared, where that is limited

    @property
    def title(self) -> str:
        """What was compared."""
        return f"Methods compared: {self.dataset}, changing {', '.join(self.protected)}{self.limit}"

    @property
    def warned(self) -> str:
        """What has to be known before any figure; empty where nothing has."""
        return " ".join(f"Warning: {warning}" for warning in self.warnings)

    def tables(self) -> list[Table]:
        """The comparison as tables."""
        note = f"model: {self.model}; budget: {self.budget}; {self.seeds:,} seeds; random seed {self.seed}"
        work = Table(
            f"Findings and work ({note})",
            [
                "method",
                "generated",
                "findings",
                "success",
                "global",
                "local",
                "seeds",
                "rows/finding",
                "s/1,000",
                "end",
            ],
            [
                [
                    o.method,
                    f"{o.generated:,}",
                    f"{o.findings:,}",
                    f"{o.success_rate:.1%}",
                    f"{o.global_findings:,}",
                    f"{o.local_findings:,}",
                    f"{o.seeds_with_findings:,}",
                    _shown(o.rows_per_finding, 1),
                    _shown(o.seconds_per_1000_findings, 3),
                    o.stopped,
                ]
                for o in self.outcomes
            ],
            self._remarks(),
        )
        diversity = Table(
            "Diversity of the findings, over their non-protected attributes",
            ["method", "pairs of values covered", "of all pairs", "mean distance"],
            [[o.method, f"{o.cells:,}", f"{o.coverage:.1%}", f"{o.mean_distance:.3f}"] for o in self.outcomes],
        )
        return [work, diversity, *self._alone_table()]

    def _alone_table(self) -> list[Table]:
        if len(self.protected) < 2:
            return []
        kinds = [*(f"{name} alone" for name in self.protected), "only together"]
        rows = [[o.method, *(f"{o.alone.get(kind, 0):.1%}" for kind in kinds)] for o in self.outcomes]
        remark = f"From a random sample of up to {SAMPLE:,} findings of each method; several may do so for one finding."
        return [Table("Which protected attribute changes the label", ["method", *kinds], rows, [remark])]

    def _remarks(self) -> list[str]:
        remarks = [
            f"{o.method}: discrimination score {o.notes['score']:.4f} ± {o.notes['margin']:.4f} "
            f"over {int(o.notes['samples']):,} possible samples, uniform over the domain"
            for o in self.outcomes
            if "score" in o.notes
        ]
        return remarks + ([f"Interrupted; left out: {', '.join(self.left_out)}"] if self.left_out else [])

    def write(self, folder: Path) -> None:
        """Write comparison.md, .html, .json and .csv."""
        write_text(folder / "comparison.md", markdown(self.title, self.tables(), self.warned))
        write_text(folder / "comparison.html", html_page(self.title, self.tables(), self.warned))
        write_json(folder / "comparison.json", asdict(self))
        write_text(folder / "comparison.csv", _as_csv(self.outcomes))


def _shown(number: float | None, digits: int) -> str:
    return "–" if number is None else f"{number:,.{digits}f}"


def _as_csv(outcomes: list[Outcome]) -> str:
    buffer = io.StringIO()
    rows = [asdict(o) | {"alone": _pairs(o.alone), "notes": _pairs(o.notes)} for o in outcomes]
    writer = csv.DictWriter(buffer, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()


def _pairs(values: dict[str, float]) -> str:
    return "; ".join(f"{name}={value}" for name, value in values.items())


def method_names(text: str) -> list[str]:
    """Method names from a list with commas, or all; uniform sampling is always among them. Each is tried at once."""
    names = list(METHODS) if text == "all" else [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        make_method(name)
    return names if UNIFORM in names else [UNIFORM, *names]


USUAL, USUAL_BLACK_BOX = "margin,adf,eidig,aequitas", "probe,maft,genetic,aequitas"


def run_comparison(
    data: Dataset,
    protected: list[str],
    names: list[str] | None,
    budget: Budget,
    model: Any,
    seed: int,
    device_name: str,
    inputs: str | None = None,
    on_progress: Callable[[str, Progress], None] = lambda method, progress: None,
    *,
    output: str = "auto",
    threshold: float | None = None,
    accept_poor_model: bool = False,
) -> Comparison:
    """Run the methods one after the other; Ctrl-C ends the one that runs, keeps it, and leaves the rest out.

    `names` is None for the usual ones.
    """
    device = choose_device(device_name)
    subject = subject_of(
        data, model, protected, device, output=output, inputs=inputs, threshold=threshold,
        accept_poor_model=accept_poor_model, seed=seed,
    )  # fmt: skip
    classifier, protected = subject.classifier, subject.read_by(protected)
    x = torch.tensor(data.clipped[:2], dtype=torch.float32)
    if names is None:
        names = method_names(USUAL_BLACK_BOX if why_no_gradients(classifier, x) else USUAL)
    check_needs(names, classifier, x)
    space = subject.space(data, protected)
    rows = choose_seeds(data, budget.seeds, seed)
    outcomes: list[Outcome] = []
    with interrupt_as_wish() as interrupted:
        for name in names:
            outcome, _ = run_method(
                classifier,
                space,
                data,
                rows,
                name,
                limits=budget.limits,
                seed=seed,
                on_progress=partial(on_progress, name),
                interrupted=interrupted,
            )
            outcomes.append(outcome)
            if interrupted():
                break
    done = [outcome.method for outcome in outcomes if outcome.stopped != "interrupted"]
    left_out = [name for name in names if name not in done]
    return Comparison(
        data.name,
        protected,
        subject.name,
        budget.text,
        seed,
        len(rows),
        outcomes,
        left_out,
        subject.warnings,
        limit_words(space),
    )
