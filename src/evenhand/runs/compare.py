"""A comparison: several methods on the same model, seeds and budget, under the same counters."""

import csv
import io
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from evenhand.choices import Domain
from evenhand.errors import EvenhandError
from evenhand.files import result_folder, write_json, write_text
from evenhand.measures.diversity import SAMPLE, Diversity
from evenhand.measures.people import limit_words
from evenhand.methods.registry import METHODS, TEXT_METHODS, check_needs, make_method, make_text_method
from evenhand.models.classifier import Classifier
from evenhand.models.devices import one_thread
from evenhand.report.tables import Table, html_page, markdown
from evenhand.runs.findings import METRICS, PART, TextMeans, text_table
from evenhand.runs.interrupt import noting_interrupts
from evenhand.runs.subject import OnDownload, SearchWorld, Subject, names_of, open_subject
from evenhand.runs.table_subject import TableSubject
from evenhand.runs.tasks import domain_of
from evenhand.runs.text_world import TextSearchWorld
from evenhand.search.check import check
from evenhand.search.method import Method
from evenhand.search.recorder import Findings
from evenhand.search.search import Limits, Progress, Search, SearchResult
from evenhand.search.space import TableSpace
from evenhand.settings import CompareOptions

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
class MethodOutcome:
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
    stopped: str
    notes: dict[str, float]  # what the method measured on the way
    cells: int | None = None  # tables: pairs of values that some finding has
    coverage: float | None = None
    mean_distance: float | None = None
    alone: dict[str, float] = field(default_factory=dict)  # tables: share of findings that this attribute alone changes
    validity: dict[str, float | None] = field(default_factory=dict)  # texts: how far findings are from their originals


class FindingsSpread(Protocol):
    """How different the findings of a method are from each other, or from where they came from."""

    def add(self, findings: Findings) -> None:
        """Take in some findings."""

    def figures(self) -> dict[str, Any]:
        """Fields of an outcome."""


def run_method(
    world: SearchWorld,
    name: str,
    method: Method[Any, Any],
    spread: FindingsSpread,
    *,
    limits: Limits,
    seed: int = 0,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    interrupted: Callable[[], bool] = lambda: False,
) -> tuple[MethodOutcome, SearchResult]:
    """Run one method and measure what it found."""
    search = Search(
        world.model,
        world.space,
        method,
        seed=seed,
        limits=limits,
        sink=spread.add,
        on_progress=on_progress,
        interrupted=interrupted,
    )
    with one_thread(world.model.device):
        result = search.run(world.samples, world.rows)
        rows_asked = world.model.rows
        figures = spread.figures()
    return _outcome(name, rows_asked, result, figures), result


def _outcome(name: str, rows: int, result: SearchResult, figures: dict[str, Any]) -> MethodOutcome:
    counts, seconds = result.counts, sum(result.seconds.values())
    found = counts.all_findings
    return MethodOutcome(
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
        stopped=result.stopped,
        notes=dict(result.notes),
        **figures,
    )


class TableSpread:
    """How different findings in a table are, and which protected attribute changes their label."""

    def __init__(self, space: TableSpace, model: Classifier) -> None:
        self._space, self._model, self._diversity = space, model, Diversity(space)

    def add(self, findings: Findings) -> None:
        """Take in some findings."""
        self._diversity.add(findings)

    def figures(self) -> dict[str, Any]:
        """Fields of an outcome."""
        found = self._diversity
        shares = {"coverage": found.coverage, "mean_distance": found.mean_distance}
        return {"cells": found.cells, **shares, "alone": self._alone(found.sample)}

    def _alone(self, sample: NDArray[np.int64]) -> dict[str, float]:
        """For a sample of the findings: how often one attribute alone changes the decision, or only several do."""
        space, model = self._space, self._model
        if len(space.protected) < 2 or not len(sample):
            return {}
        x = torch.tensor(sample, dtype=torch.float32, device=model.device)
        names = [space.schema.names[index] for index in space.protected]
        hits = {name: check(model, TableSpace(space.schema, [name], model.device), x).hit for name in names}
        together = ~torch.stack(list(hits.values())).any(dim=0)
        return {f"{name} alone": _share(hit) for name, hit in hits.items()} | {"only together": _share(together)}


class TextSpread:
    """How far findings in texts are from the texts that they came from."""

    def __init__(self, world: TextSearchWorld, classes: Sequence[str]) -> None:
        self._world, self._classes, self._means = world, classes, TextMeans()

    def add(self, findings: Findings) -> None:
        """Take in some findings."""
        for start in range(0, len(findings), PART):
            table = text_table(self._world, self._classes, findings.part(slice(start, start + PART)))
            self._means.add_table(table)

    def figures(self) -> dict[str, Any]:
        """Fields of an outcome."""
        return {"validity": {name: mean for name, mean in self._means.as_dict().items() if name in METRICS}}


def _share(mask: torch.Tensor) -> float:
    return float(mask.double().mean())


@dataclass(frozen=True, repr=False)
class MethodComparison:
    """The outcome of several methods, with what they had in common."""

    dataset: str
    protected: list[str]
    model: str
    budget: str
    seed: int
    seeds: int
    outcomes: list[MethodOutcome]
    left_out: list[str]  # methods that an interruption kept from running, or from running to their end
    warnings: list[str] = field(default_factory=list)  # what has to be known of the model before any figure
    limit: str = ""  # with whom samples are compared, where that is limited
    domain: Domain = "table"

    def __repr__(self) -> str:
        found = ", ".join(f"{outcome.method} {outcome.findings:,}" for outcome in self.outcomes)
        return f"<evenhand comparison: {self.title}; findings: {found}>"

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
        return [work, self._text_table()] if self.domain == "text" else [work, self._diversity(), *self._alone_table()]

    def _diversity(self) -> Table:
        return Table(
            "Diversity of the findings, over their non-protected attributes",
            ["method", "pairs of values covered", "of all pairs", "mean distance"],
            [[o.method, f"{o.cells:,}", f"{o.coverage:.1%}", f"{o.mean_distance:.3f}"] for o in self.outcomes],
        )

    def _text_table(self) -> Table:
        header = ["method", "words replaced (L0)", "distance (L2)", "Jaccard", "BLEU-4"]
        rows = [[o.method, *(_shown(o.validity[name], 3) for name in METRICS)] for o in self.outcomes]
        return Table("How far findings are from the texts that they came from, on average", header, rows)

    def _alone_table(self) -> list[Table]:
        if len(self.protected) < 2:
            return []
        kinds = [*(f"{name} alone" for name in self.protected), "only together"]
        rows = [[o.method, *(f"{o.alone.get(kind, 0):.1%}" for kind in kinds)] for o in self.outcomes]
        remark = f"From a random sample of up to {SAMPLE:,} findings of each method; several may do so for one finding."
        return [Table("Which protected attribute changes the decision", ["method", *kinds], rows, [remark])]

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


def _as_csv(outcomes: list[MethodOutcome]) -> str:
    buffer = io.StringIO()
    maps = ("alone", "notes", "validity")
    rows = [asdict(o) | {name: _pairs(getattr(o, name)) for name in maps} for o in outcomes]
    writer = csv.DictWriter(buffer, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()


def _pairs(values: dict[str, Any]) -> str:
    return "; ".join(f"{name}={value}" for name, value in values.items())


def method_names(names: list[str], domain: Domain = "table") -> list[str]:
    """Names of methods, or of all; uniform sampling of tables is always among them. Each is tried at once."""
    known, make = (METHODS, make_method) if domain == "table" else (TEXT_METHODS, make_text_method)
    found = list(known) if names == ["all"] else names
    for name in found:
        make(name)
    return found if domain == "text" or UNIFORM in found else [UNIFORM, *found]


USUAL = ["margin", "adf", "eidig", "aequitas"]
USUAL_BLACK_BOX = ["probe", "maft", "genetic", "aequitas"]
USUAL_TEXT = ["boundary", "adf-hotflip", "adf-asc", "random"]


def compare(
    data: Any = "census",
    protected: str | list[str] | None = None,
    methods: str | list[str] | None = None,
    *,
    model: Any = None,
    label: str | None = None,
    out: str | Path | None = None,
    on_progress: Callable[[str, Progress], None] = lambda method, progress: None,
    on_download: OnDownload = lambda what, done, total: None,
    **settings: Any,
) -> MethodComparison:
    """Run several methods on the same model, seeds and budget, under the same counters.

    `methods` are names, or "all"; by default the usual ones. Ctrl-C ends the one that runs, keeps it, and leaves the
    rest out. `data` and `model` are those of `evenhand.audit`; other settings: see `CompareSettings` and
    `TextCompareSettings`. With `out`, comparison.md, .html, .json and .csv are written there.
    """
    wanted, domain = names_of(methods), domain_of(data, settings.get("text"))
    if wanted:
        method_names(wanted, domain)  # mistakes are said before the data are read
    budget = Budget.parse(settings.get("budget") or CompareOptions.model_fields["budget"].get_default())
    subject = open_subject(
        "compare", data, protected, model=model, label=label, methods=wanted, on_download=on_download, **settings
    )
    names = method_names(wanted or _usual(subject), domain)
    if isinstance(subject, TableSubject):
        tested = subject.tried.read_by(subject.asked)
        check_needs(names, subject.tried.classifier, torch.tensor(subject.data.clipped[:2], dtype=torch.float32))
    else:
        tested = subject.settings.protected
    world = subject.world(budget.seeds, subject.settings.seed)
    outcomes: list[MethodOutcome] = []
    with nullcontext() if out is None else result_folder(out) as folder, noting_interrupts() as interrupted:
        for name in names:
            outcome, _ = run_method(
                world,
                name,
                subject.method(name),
                _spread(subject, world),
                limits=budget.limits,
                seed=subject.settings.seed,
                on_progress=partial(on_progress, name),
                interrupted=interrupted,
            )
            outcomes.append(outcome)
            if interrupted():
                break
        done = [outcome.method for outcome in outcomes if outcome.stopped != "interrupted"]
        comparison = MethodComparison(
            subject.data.name,
            tested,
            subject.facts()["model"]["name"],
            budget.text,
            subject.settings.seed,
            len(world.rows),
            outcomes,
            [name for name in names if name not in done],
            subject.warnings,
            limit_words(world.space) if domain == "table" else "",
            domain,
        )
        if folder is not None:
            comparison.write(folder)
    return comparison


def _usual(subject: Subject) -> list[str]:
    if not isinstance(subject, TableSubject):
        return USUAL_TEXT
    return USUAL_BLACK_BOX if subject.why_no_gradients else USUAL


def _spread(subject: Subject, world: SearchWorld) -> FindingsSpread:
    if isinstance(world, TextSearchWorld):
        return TextSpread(world, subject.data.classes)
    return TableSpread(world.space, world.model)
