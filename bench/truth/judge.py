"""One combination of data and model, judged: evenhand's rate beside the brute-force count, findings asked again."""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import evenhand
from bench.truth.brute import Predict, Value, discriminatory, domains_of, label_texts
from bench.truth.models import Build
from bench.truth.world import Subject, World
from evenhand.data.infer.schema import infer_file, infer_schema

BUDGET: dict[str, Any] = {"seeds": 15, "iterations": 4, "steps": 8, "max_findings": 1000, "seed": 0, "device": "cpu"}
T = TypeVar("T")


@dataclass(frozen=True)
class Case:
    """A table, a model of it, and what is protected."""

    data: str
    model: str
    table: Callable[[Path], Path]  # writes the CSV file into a folder
    label: str
    protected: str  # attributes, separated by commas
    build: Build
    reads: Sequence[str] | None = None  # the columns that the model is fitted on; None: all but the label
    without: Sequence[str] = ()
    csv: dict[str, Any] = field(default_factory=dict)  # how pandas reads the file
    infer: dict[str, Any] = field(default_factory=dict)  # options of the inferred schema
    schema: str | None = None  # written by hand, instead of inferred
    typed: Callable[[pd.DataFrame], pd.DataFrame] | None = None  # the table in memory, with these types
    domains: Sequence[Sequence[Value]] | None = None  # of the protected attributes, where several columns are one
    settings: dict[str, Any] = field(default_factory=dict)  # of the audit

    @property
    def name(self) -> str:
        """How it is called."""
        return f"{self.data} × {self.model}"


class Ending(NamedTuple):
    """How evenhand ended without an answer: in words for people, or in another way."""

    refused: str = ""
    crash: str = ""


@dataclass(frozen=True)
class Judged:
    """What came of a case."""

    case: Case
    rows: int = 0
    true: int | None = None  # None: refused before it could be counted
    said: int | None = None
    said_of: int = 0
    at_gate: int | None = None  # the same by a gate, and by `measure`
    measured: int | None = None
    findings: int = 0
    true_findings: int = 0
    refused: str = ""
    crash: str = ""
    seconds: float = 0.0

    @property
    def equal(self) -> bool:
        """Whether the rate in the data is that of the brute force, of all rows."""
        return self.said == self.at_gate == self.measured == self.true and self.said_of == self.rows

    @property
    def right(self) -> bool:
        """Whether all is true, or refused with a reason."""
        if self.crash:
            return False
        return bool(self.refused) or (self.equal and self.findings == self.true_findings)


def judge(case: Case, folder: Path) -> Judged:
    """Run a case in an empty folder. What evenhand raises is judged; a mistake of the bench's own is not caught."""
    started = time.perf_counter()
    path = case.table(folder)
    frame = read(case, path)
    known: dict[str, Any] = {"rows": len(frame)}
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        world, ending = attempt(lambda: world_of(case, path, frame))
        if world is not None:
            subject = case.build(world)
            domains = case.domains or domains_of(world.schema, case.protected.split(","), frame)
            known["true"] = int(discriminatory(subject.predict, frame, domains).sum())
            summary, ending = attempt(lambda: audited(case, world, subject))
            if summary is not None:
                known |= said(summary, world, subject)
                counts, ending = attempt(lambda: counted_elsewhere(case, world, subject))
                known |= counts or {}
            subject.close()
    return Judged(case, **known, **ending._asdict(), seconds=time.perf_counter() - started)


def attempt(work: Callable[[], T]) -> tuple[T | None, Ending]:
    """What evenhand answers, or how it ended: with an error for people, or in another way."""
    try:
        return work(), Ending()
    except evenhand.EvenhandError as error:
        return None, Ending(refused=" ".join(str(error).split()))
    except Exception as error:
        return None, Ending(crash=f"{type(error).__name__}: {' '.join(str(error).split())}")


def read(case: Case, path: Path) -> pd.DataFrame:
    """The table as pandas reads it, in other types where a case has it in memory."""
    frame = pd.read_csv(path, **case.csv)
    return frame if case.typed is None else case.typed(frame)


def world_of(case: Case, path: Path, frame: pd.DataFrame) -> World:
    """The world of a case, with its schema in the folder of the table."""
    schema = path.with_name("schema.toml")
    text, protected = case.schema, case.protected.split(",")
    if case.typed is not None:
        text = infer_schema(frame, case.label, protected).toml
    elif text is None:
        text = infer_file(path, case.label, protected, **case.infer).toml
    schema.write_text(text, encoding="utf-8")
    reads = list(case.reads or [name for name in frame.columns if name not in (case.label, *case.without)])
    return World(frame, case.label, reads, schema, path.parent)


def data_of(case: Case, world: World) -> dict[str, Any]:
    """The data as evenhand is given them: a schema file, or a frame with its label."""
    if case.typed is not None:
        return {"data": world.frame, "label": case.label}
    return {"data": str(world.schema)}


def audited(case: Case, world: World, subject: Subject) -> dict[str, Any]:
    """The summary of an audit by evenhand; the findings lie beside it."""
    settings = BUDGET | subject.settings | case.settings | data_of(case, world)
    out = world.folder / "out"
    return evenhand.audit(protected=case.protected, model=subject.given, out=out, **settings).summary


def counted_elsewhere(case: Case, world: World, subject: Subject) -> dict[str, int]:
    """The people who are treated differently, as a gate and as `measure` count them."""
    settings = subject.settings | case.settings | data_of(case, world) | {"device": "cpu"}
    try:
        outcome = evenhand.assert_fair(
            subject.given, protected=case.protected, max_rate=0.999, failures=None, search=False, **settings
        )
    except evenhand.DiscriminationFound as found:
        outcome = found.outcome
    measurement = evenhand.measure(
        protected=case.protected, model=subject.given, half_width=0.4, most_samples=1000, changes=1, **settings
    )
    together = measurement.summary["measured"][-1]["populations"]
    people = [rate["discriminatory"] for rate in together if rate["name"] in ("train", "held_out")]
    return {"at_gate": -1 if outcome.rate is None else outcome.rate.discriminatory, "measured": sum(people)}


def said(summary: dict[str, Any], world: World, subject: Subject) -> dict[str, int]:
    """What an audit says, and how many of its findings are true."""
    rate = summary["data_rate"]["all"]
    findings = pd.read_parquet(world.folder / "out" / "findings.parquet")
    return {
        "said": rate["discriminatory"],
        "said_of": rate["samples"],
        "findings": len(findings),
        "true_findings": int(are_true(subject.predict, world, findings).sum()) if len(findings) else 0,
    }


def are_true(predict: Predict, world: World, findings: pd.DataFrame) -> NDArray[np.bool_]:
    """(n,) whether the bare model gives both people of a finding the labels that it says, and they differ."""
    sample, witness = raw_pairs(world, findings)
    own, other = label_texts(predict(sample)), label_texts(predict(witness))
    said = label_texts(findings["label"].astype(str)), label_texts(findings["witness_label"].astype(str))
    return np.asarray((own == said[0]) & (other == said[1]) & (own != other))


def raw_pairs(world: World, findings: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The people of findings in raw values; columns that a finding does not name are those of the row it began from."""
    seeds = findings["seed_row"].clip(lower=0).to_numpy()
    base = world.frame.iloc[seeds].reset_index(drop=True)
    sample, changed = _named(findings, "sample."), _named(findings, "witness.")
    person = base.assign(**{name: like(values, base[name]) for name, values in sample.items()})
    return person, person.assign(**{name: like(values, base[name]) for name, values in changed.items()})


def like(values: pd.Series, column: pd.Series) -> pd.Series:
    """Values with the type that their column has in the table, where it can hold them."""
    values = values.reset_index(drop=True)
    try:
        return values.astype(column.dtype)
    except (ValueError, TypeError):  # a gap among whole numbers
        return values.astype(object) if column.dtype.kind == "b" else values


def _named(findings: pd.DataFrame, prefix: str) -> dict[str, pd.Series]:
    return {name.removeprefix(prefix): findings[name] for name in findings.columns if name.startswith(prefix)}
