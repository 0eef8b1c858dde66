"""Running a gate file: every check, whatever becomes of the others."""

import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import evenhand
from evenhand.errors import EvenhandError
from evenhand.gate.check import run_check
from evenhand.gate.config import CheckEntry, GateFile
from evenhand.gate.outcome import Outcome
from evenhand.gate.words import headline

Status = Literal["held", "exceeded", "not shown", "not tested", "error"]
OnProgress = Callable[[str, str, int, int], None]  # check, what, done, total
HELD, EXCEEDED, ERROR = 0, 1, 2  # exit codes


@dataclass(frozen=True)
class CheckRun:
    """One check of a gate: its outcome, or the error that kept it from one."""

    entry: CheckEntry
    outcome: Outcome | None
    error: str | None = None
    trace: str = ""  # of an error that is not the user's to mend
    seconds: float = 0.0

    @property
    def status(self) -> Status:
        """How it ended."""
        return "error" if self.outcome is None else self.outcome.verdict

    @property
    def passed(self) -> bool:
        """Whether it lets a build go on."""
        return self.outcome is not None and self.outcome.passed

    @property
    def warned(self) -> bool:
        """Whether something has to be known of the model before a figure of it is relied on."""
        return self.outcome is not None and self.status != "not tested" and bool(self.outcome.warnings)

    @property
    def sentence(self) -> str:
        """What was seen, or what went wrong."""
        return headline(self.outcome) if self.outcome is not None else self.error or ""

    def as_dict(self) -> dict[str, Any]:
        """The check for a summary file."""
        if self.outcome is not None:
            return {**self.outcome.as_dict(), "line": self.entry.line, "words": self.sentence}
        return {"name": self.entry.name, "verdict": "error", "passed": False, "error": self.error,
                "line": self.entry.line}  # fmt: skip


@dataclass(frozen=True)
class GateRun:
    """All checks of a gate file."""

    path: Path
    started: datetime
    checks: list[CheckRun] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """0 where all passed, 1 where some did not, 2 where some could not be made."""
        if any(check.status == "error" for check in self.checks):
            return ERROR
        return HELD if all(check.passed for check in self.checks) else EXCEEDED

    @property
    def shown_path(self) -> str:
        """The gate file as people and tools find it: from the folder where the gate runs, if it is within."""
        here, file = Path.cwd(), self.path.resolve()
        return (file.relative_to(here) if file.is_relative_to(here) else file).as_posix()

    def as_dict(self) -> dict[str, Any]:
        """The run for a summary file."""
        return {
            "evenhand": evenhand.__version__,
            "kind": "gate",
            "started": self.started.isoformat(timespec="seconds"),
            "gate": self.shown_path,
            "exit_code": self.exit_code,
            "checks": [check.as_dict() for check in self.checks],
        }


def run_gate(
    gate: GateFile,
    on_progress: OnProgress = lambda check, what, done, total: None,
    on_check: Callable[[CheckRun], None] = lambda check: None,
) -> GateRun:
    """Run all checks in their order."""
    folder = str(gate.path.parent.resolve())
    if folder not in sys.path:
        sys.path.insert(0, folder)  # a model may be module:function beside the gate file
    run = GateRun(gate.path, datetime.now(UTC))
    for entry in gate.checks:
        run.checks.append(_run_one(entry, gate.failures, on_progress))
        on_check(run.checks[-1])
    return run


def _run_one(entry: CheckEntry, failures: Path, on_progress: OnProgress) -> CheckRun:
    started = time.perf_counter()

    def progress(what: str, done: int, total: int) -> None:
        on_progress(entry.name, what, done, total)

    try:
        said = {"model": None} | entry.said
        outcome = run_check(data=entry.data, name=entry.name, failures=failures, on_progress=progress, **said)
    except EvenhandError as error:
        return CheckRun(entry, None, str(error), seconds=time.perf_counter() - started)
    except (Exception, SystemExit) as error:  # one check must not take the others with it, nor end the gate
        reason = f"{type(error).__name__}: {error}"
        return CheckRun(entry, None, reason, traceback.format_exc(), time.perf_counter() - started)
    return CheckRun(entry, outcome, seconds=outcome.seconds)
