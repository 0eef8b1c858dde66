"""A gate's run as workflow commands, which GitHub shows as annotations of the gate file."""

from evenhand.gate.run import GateRun
from evenhand.gate.words import message

COMMANDS = {"exceeded": "error", "not shown": "warning", "not tested": "error", "error": "error", "held": "warning"}


def annotations(run: GateRun) -> list[str]:
    """A line for each check that did not pass, or passed with a warning about the model."""
    return [
        f"::{COMMANDS[check.status]} file={_property(run.shown_path)},line={check.entry.line},"
        f"title={_property(f'evenhand: {check.entry.name} ({check.status})')}::"
        f"{_data(check.sentence if check.outcome is None else message(check.outcome))}"
        for check in run.checks
        if not check.passed or check.warned
    ]


def _data(text: str) -> str:
    """Text in one line, as workflow commands want it."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
