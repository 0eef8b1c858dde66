"""A gate's run as Markdown, for a job's summary page or a comment."""

import re

from evenhand.gate.run import CheckRun, GateRun
from evenhand.gate.words import details, share
from evenhand.report.text import percent

RESULT = {0: "All checks held.", 1: "Some checks did not hold.", 2: "Some checks could not be made."}


def markdown(run: GateRun) -> str:
    """A table of all checks, then what to know about those that did not pass."""
    lines = [
        "## evenhand gate",
        "",
        RESULT[run.exit_code],
        "",
        "| check | verdict | rate | at most | allowed | samples |",
        "|---|---|--:|--:|--:|--:|",
        *(_row(check) for check in run.checks),
    ]
    for check in run.checks:
        if not check.passed:
            lines += ["", *_section(check)]
    return "\n".join(lines) + "\n"


def _row(check: CheckRun) -> str:
    rate = None if check.outcome is None else check.outcome.rate
    figures = (
        ["", "", share(check.entry.max_rate), ""]
        if rate is None
        else [percent(rate.share, 2), percent(rate.interval[1], 2), share(check.entry.max_rate), f"{rate.samples:,}"]
    )
    verdict = check.status if check.passed else f"**{check.status}**"
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
