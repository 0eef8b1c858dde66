"""Wrong set-ups judged: each must be refused, or said at the head of every output and held by no gate.

Some only look wrong, such as a threshold of the model's own: there the right answer is as good as a refusal.
"""

import contextlib
import html
import io
import time
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from threadpoolctl import threadpool_limits

import evenhand
from bench.truth.brute import discriminatory, domains_of
from bench.truth.judge import Case, Ending, attempt, audited, data_of, read, said, world_of
from bench.truth.world import Subject, World
from evenhand.cli.audit import tell
from evenhand.cli.tasks import TaskResult

GENEROUS = 0.9  # what a gate allows where no answer can be right: only a refusal or "not tested" keeps it shut
Expected = Literal["refused or warned", "answered or refused"]


@dataclass(frozen=True)
class SetUp:
    """A case that is wrong in some way."""

    case: Case
    expected: Expected = "refused or warned"
    weights: str | None = None  # the column that says for how many a row stands

    @property
    def name(self) -> str:
        """What is wrong."""
        return self.case.model


@dataclass(frozen=True)
class JudgedSetUp:
    """What came of it: in the audit and at a gate, in words, and whether both will do."""

    set_up: SetUp
    audit: str
    gate: str
    right: bool
    reason: str = ""
    seconds: float = 0.0


def judge_wrong(set_up: SetUp, folder: Path) -> JudgedSetUp:
    """Run a wrong set-up in an empty folder."""
    started = time.perf_counter()
    case = set_up.case
    path = case.table(folder)
    frame = read(case, path)
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        world, ending = attempt(lambda: world_of(case, path, frame))
        if world is None:
            return JudgedSetUp(set_up, _word(ending), _word(ending), bool(ending.refused), _reason(ending))
        subject = case.build(world)
        try:
            judge = _answered if set_up.expected == "answered or refused" else _stopped
            judged = judge(set_up, world, subject)
        finally:
            subject.close()
    return replace(judged, seconds=time.perf_counter() - started)


def _stopped(set_up: SetUp, world: World, subject: Subject) -> JudgedSetUp:
    """Both the audit and a generous gate must say that something is wrong."""
    summary, ending = attempt(lambda: audited(set_up.case, world, subject))
    audit, fine, reason = _word(ending), bool(ending.refused), _reason(ending)
    if summary is not None:
        unsaid = _not_said(summary, world.folder / "out")
        audit, fine = f"silent in {', '.join(unsaid)}" if unsaid else "warned", not unsaid
        reason = " ".join(map(str, summary.get("warnings", [])))
    gate, shut, why = _gate(set_up.case, world, subject, GENEROUS)
    return JudgedSetUp(set_up, audit, gate, fine and shut, reason or why)


def _answered(set_up: SetUp, world: World, subject: Subject) -> JudgedSetUp:
    """The audit must give the true rate, and a gate that allows half of it must not hold."""
    true = _true_rate(set_up, world, subject)
    summary, ending = attempt(lambda: audited(set_up.case, world, subject))
    audit, fine = _word(ending), bool(ending.refused)
    if summary is not None:
        answer, rate = said(summary, world, subject), summary["data_rate"]["all"]["rate"]
        fine = abs(rate - true) < 1e-9 and answer["findings"] == answer["true_findings"]
        audit = f"{rate:.2%}, true {true:.2%}, {answer['true_findings']} of {answer['findings']} findings true"
    gate, shut, why = _gate(set_up.case, world, subject, true / 2)
    return JudgedSetUp(set_up, audit, gate, fine and shut, _reason(ending) or why)


def _true_rate(set_up: SetUp, world: World, subject: Subject) -> float:
    """The share of people whose label changes, counted without evenhand."""
    case = set_up.case
    domains = case.domains or domains_of(world.schema, case.protected.split(","), world.frame)
    weights = None if set_up.weights is None else world.frame[set_up.weights]
    true = float(np.average(discriminatory(subject.predict, world.frame, domains), weights=weights))
    assert true > 0.02, f"{set_up.name}: nobody to find, {true:.2%}"
    return true


def _not_said(summary: dict[str, Any], out: Path) -> list[str]:
    """The outputs that do not say at their head that something is wrong."""
    begins = [" ".join(str(text).split())[:40] for text in summary.get("warnings", [])]
    if not begins:
        return ["summary", "report", "terminal"]
    report = html.unescape((out / "report.html").read_text(encoding="utf-8")).partition("<h2")[0]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        tell(TaskResult(None, out, summary))
    heads = {"report": report, "terminal": printed.getvalue()}
    return [name for name, text in heads.items() if not all(begin in " ".join(text.split()) for begin in begins)]


def _gate(case: Case, world: World, subject: Subject, max_rate: float) -> tuple[str, bool, str]:
    """How a gate ends that allows this rate, whether it stays shut, and why."""
    settings = subject.settings | case.settings | data_of(case, world)

    def look() -> Any:
        try:
            return evenhand.assert_fair(
                subject.given, protected=case.protected, max_rate=max_rate, failures=None, device="cpu", search=False,
                **settings,
            )  # fmt: skip
        except evenhand.DiscriminationFound as found:
            return found.outcome

    outcome, ending = attempt(look)
    if outcome is None:
        return _word(ending), bool(ending.refused), _reason(ending)
    return outcome.verdict, not outcome.passed and outcome.verdict != "held", ""


def _word(ending: Ending) -> str:
    return "crash" if ending.crash else "refused"


def _reason(ending: Ending) -> str:
    return ending.crash or ending.refused
