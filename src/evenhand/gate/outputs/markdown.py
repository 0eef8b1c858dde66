"""A gate's run as Markdown, for a job's summary page or a comment."""

import re

from evenhand.gate.run import HELD, CheckRun, GateRun
from evenhand.gate.words import details, share
from evenhand.report.words import counted, percent


def markdown(run: GateRun) -> str:
    """A table of all checks, then what to know about those that did not pass."""
    lines = [
        "## evenhand gate",
        "",
        _result(run),
        "",
        "| check | verdict | rate | at most | allowed | samples |",
        "|---|---|--:|--:|--:|--:|",
        *(_row(check) for check in run.checks),
    ]
    for check in run.checks:
        if not check.passed or check.warned:
            lines += ["", *_section(check)]
    return "\n".join(lines) + "\n"


def _result(run: GateRun) -> str:
    """How the checks ended, in a sentence; one that passed without being shown is not one that held."""
    undecided = sum(check.status == "not shown" for check in run.checks)
    statuses = {check.status for check in run.checks}
    if "error" in statuses:
        return "Some checks could not be made."
    if "exceeded" in statuses:
        return "Some checks did not hold."
    if "not tested" in statuses:
        return "Some checks were not tested: the model does not read what they would change, or no text mentions it."
    if not undecided and any(check.warned for check in run.checks):
        return "All checks held, some of them with a warning about the model: read it below before you rely on them."
    if not undecided:
        return "All checks held."
    passed = ", which is let pass" if run.exit_code == HELD else ""
    return f"{undecided} of {counted(len(run.checks), 'check')} could not be shown to hold{passed}; none is exceeded."


def _row(check: CheckRun) -> str:
    rate = None if check.outcome is None else check.outcome.rate
    allowed = share(check.entry.settings.max_rate)
    figures = ["", "", allowed, ""]
    if rate is not None:
        figures = [percent(rate.share, 2), percent(rate.interval[1], 2), allowed, f"{rate.samples:,}"]
    status = f"{check.status}, with a warning" if check.warned else check.status
    verdict = status if check.passed and not check.warned else f"**{status}**"
    return "| " + " | ".join([plain(check.entry.name), verdict, *figures]) + " |"


def _section(check: CheckRun) -> list[str]:
    lines = [f"### {plain(check.entry.name)}: {check.status}", "", plain(check.sentence)]
    if check.outcome is None:
        return lines
    for remark in details(check.outcome):
        lines += ["", plain(remark)]
    for number, pair in enumerate(check.outcome.pairs, 1):
        lines += ["", f"**Pair {number}.** {plain(pair.shared)}", ""]
        lines += [f"- {plain(side)}" for side in pair.sides]
        lines += ["", f"*{plain(pair.origin)}*"]
    return lines


def plain(text: str) -> str:
    """Text that Markdown shows as it is, in one line."""
    return re.sub(r"([\\`*_\[\]<>|#~$])", r"\\\1", " ".join(text.split()))
