"""Several methods on the same network, seeds and budget, under the same counters."""

import csv
import io
from collections import Counter
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
from evenhand.measure.diversity import Diversity
from evenhand.methods.registry import METHODS, make_method
from evenhand.models.classifier import Classifier
from evenhand.models.devices import choose_device, one_thread
from evenhand.models.loading import load_module
from evenhand.models.trial import TRIAL_ROWS, classifier_for
from evenhand.report.tables import Table, html_page, markdown
from evenhand.runs.interrupt import interrupt_as_wish
from evenhand.search.recorder import Findings
from evenhand.search.search import Limits, Progress, Search, SearchResult
from evenhand.search.seeds import choose_seeds
from evenhand.search.space import TableSpace

UNIFORM = "themis"  # always a row: a method that does not beat it per model row has no point


@dataclass(frozen=True)
class Budget:
    """What every method may do: `paper`, or so many seeds, steps, model rows or seconds."""

    seeds: int = 1000
    limits: Limits = field(default_factory=Limits)

    @classmethod
    def parse(cls, text: str) -> "Budget":
        """`paper`, `rows=N`, `seconds=N`, `seeds=N`, `steps=N`, or several of them separated by commas."""
        values: dict[str, float] = {}
        for part in [] if text == "paper" else text.split(","):
            name, _, number = part.partition("=")
            if name not in ("rows", "seconds", "seeds", "steps") or not _positive(number):
                raise EvenhandError(
                    f"The budget '{part}' is not one. Use paper, or rows=N, seconds=N, seeds=N, steps=N above zero, "
                    "several of them separated by commas."
                )
            values[name] = float(number)
        rows, seconds = values.get("rows"), values.get("seconds")
        # A budget of rows or seconds is there to be used up, so steps do not end it unless they are asked for.
        steps = values.get("steps", 10**9 if rows or seconds else 1000)
        limits = Limits(steps=int(steps), max_rows=int(rows) if rows else None, max_seconds=seconds)
        return cls(int(values.get("seeds", 1000)), limits)


def _positive(number: str) -> bool:
    try:
        return float(number) > 0 and (float(number).is_integer() or "." in number)
    except ValueError:
        return False


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
    changed: dict[str, int]  # findings by which protected attributes differ between sample and witness


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
    changed: Counter[str] = Counter()

    def sink(findings: Findings) -> None:
        diversity.add(findings)
        changed.update(_changed(findings, space))

    search = Search(
        model,
        space,
        make_method(name, settings),
        seed=seed,
        limits=limits,
        sink=sink,
        on_progress=on_progress,
        interrupted=interrupted,
    )
    with one_thread(model.device):
        result = search.run(data.codes[rows], rows)
    return _outcome(name, model, result, diversity, changed), result


def _outcome(
    name: str, model: Classifier, result: SearchResult, diversity: Diversity, changed: Counter[str]
) -> Outcome:
    counts, seconds = result.counts, sum(result.seconds.values())
    found = counts.all_findings
    return Outcome(
        method=name,
        generated=counts.all_generated,
        findings=found,
        success_rate=found / counts.all_generated if counts.all_generated else 0.0,
        global_findings=counts.findings["global"],
        local_findings=counts.findings["local"],
        seeds_with_findings=result.seeds_with_findings,
        model_rows=model.rows,
        rows_per_finding=model.rows / found if found else None,
        seconds=seconds,
        seconds_per_1000_findings=1000 * seconds / found if found else None,
        cells=diversity.cells,
        coverage=diversity.coverage,
        mean_distance=diversity.mean_distance,
        stopped=result.stopped,
        changed=dict(changed.most_common()),
    )


def _changed(findings: Findings, space: TableSpace) -> Counter[str]:
    """Findings by the names of the protected attributes in which sample and witness differ."""
    differs = findings.sample[:, space.protected] != findings.witness  # (k, protected)
    distinct, counts = np.unique(differs, axis=0, return_counts=True)
    names = [space.schema.names[index] for index in space.protected]
    return Counter(
        {
            "+".join(name for name, there in zip(names, mask, strict=True) if there): int(count)
            for mask, count in zip(distinct, counts, strict=True)
        }
    )


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

    @property
    def title(self) -> str:
        """What was compared."""
        return f"Methods compared: {self.dataset}, changing {', '.join(self.protected)}"

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
        )
        diversity = Table(
            "Diversity of the findings, over their non-protected attributes",
            ["method", "pairs of values covered", "of all pairs", "mean distance"],
            [[o.method, f"{o.cells:,}", f"{o.coverage:.1%}", f"{o.mean_distance:.3f}"] for o in self.outcomes],
        )
        return [work, diversity, *self._changed_table()]

    def _changed_table(self) -> list[Table]:
        if len(self.protected) < 2:
            return []
        kinds = sorted({kind for outcome in self.outcomes for kind in outcome.changed})
        rows = [[o.method, *(f"{o.changed.get(kind, 0):,}" for kind in kinds)] for o in self.outcomes]
        return [Table("Which protected attributes changed with the label", ["method", *kinds], rows)]

    def write(self, folder: Path) -> None:
        """Write comparison.md, .html, .json and .csv."""
        write_text(folder / "comparison.md", markdown(self.title, self.tables()))
        write_text(folder / "comparison.html", html_page(self.title, self.tables()))
        write_json(folder / "comparison.json", asdict(self))
        write_text(folder / "comparison.csv", _as_csv(self.outcomes))


def _shown(number: float | None, digits: int) -> str:
    return "–" if number is None else f"{number:,.{digits}f}"


def _as_csv(outcomes: list[Outcome]) -> str:
    buffer = io.StringIO()
    rows = [
        asdict(outcome) | {"changed": "; ".join(f"{k}={v}" for k, v in outcome.changed.items())} for outcome in outcomes
    ]
    writer = csv.DictWriter(buffer, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()


def method_names(text: str) -> list[str]:
    """Method names from a list with commas, or all; uniform sampling is always among them. Each is tried at once."""
    names = list(METHODS) if text == "all" else [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        make_method(name)
    return names if UNIFORM in names else [*names, UNIFORM]


def check_needs(names: list[str], model: Classifier, x: torch.Tensor) -> None:
    """A model without gradients is no use to methods that need them; find out before the first search."""
    hungry = [name for name in names if METHODS[name].method.needs == "gradients"]
    if not hungry:
        return
    try:
        model.gradients(x, model.outputs(x).labels)
    except EvenhandError as error:
        others = ", ".join(name for name, entry in METHODS.items() if entry.method.needs != "gradients")
        raise EvenhandError(
            f"{', '.join(hungry)} need gradients, and this model gives none. Methods that do without: {others}."
        ) from error


def run_comparison(
    data: Dataset,
    protected: list[str],
    names: list[str],
    budget: Budget,
    budget_text: str,
    model: str | None,
    seed: int,
    device_name: str,
    on_progress: Callable[[str, Progress], None] = lambda method, progress: None,
) -> Comparison:
    """Run the methods one after the other; Ctrl-C ends the one that runs, keeps it, and leaves the rest out."""
    device = choose_device(device_name)
    module, model_name = load_module(data, model)
    sample = torch.tensor(data.clipped[:TRIAL_ROWS], dtype=torch.float32)
    classifier = classifier_for(module, sample, classes=len(data.schema.label.values), device=device)
    check_needs(names, classifier, sample[:2])
    space = TableSpace(data.schema, protected, device)
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
    return Comparison(data.name, protected, model_name, budget_text, seed, len(rows), outcomes)
