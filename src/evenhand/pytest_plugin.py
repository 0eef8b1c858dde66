"""The pytest plugin: a fixture that checks a model, a marker and options that set it up.

pytest imports this file in every run where evenhand is installed, so it imports nothing that takes time; torch comes
with the first check.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from evenhand.gate.outcome import Outcome

MARKER = "evenhand"
FIXTURE = "evenhand_check"
PROPERTY = "evenhand"  # of a test's report: it reaches the summary from other processes too, and JUnit files


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the command line and of the configuration file."""
    group = parser.getgroup("evenhand", "checks for individual discrimination")
    group.addoption(
        "--evenhand-max-rate",
        type=float,
        metavar="RATE",
        help="the rate of discriminatory samples that evenhand_check allows where a test does not say (0.01)",
    )
    parser.addini("evenhand_max_rate", "the rate that evenhand_check allows where a test does not say")
    parser.addini("evenhand_confidence", "the confidence of evenhand_check where a test does not say")
    parser.addini("evenhand_protected", "attributes to change where a test names none", type="args", default=[])
    parser.addini("evenhand_failures", "folder for failing pairs, which are looked at first next time")


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers",
        f"{MARKER}(protected=…, max_rate=…, confidence=…, …): settings of evenhand_check; those of "
        "evenhand.assert_fair",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse a test that has the marker for itself but not the fixture: it would pass with nothing checked."""
    for item in items:
        marked = any(mark.name == MARKER for mark in item.own_markers)
        if marked and FIXTURE not in getattr(item, "fixturenames", ()):
            raise pytest.UsageError(
                f"{item.nodeid} has @pytest.mark.{MARKER} but does not use {FIXTURE}, so nothing would be checked. "
                f"Write {FIXTURE} among its arguments and call it, or remove the marker."
            )


@pytest.fixture
def evenhand_check(request: pytest.FixtureRequest) -> Callable[..., "Outcome"]:
    """`evenhand.assert_fair(model, data, …)` with the settings of the test's marker and of the configuration.

    What the call says comes first, then the test's own marker, then that of its class or module, then the command
    line, then the configuration file. Failing pairs are kept under the test's id.
    """
    settings = _settings(request.config)
    for marker in reversed(list(request.node.iter_markers(MARKER))):
        if marker.args:
            raise pytest.UsageError(f"{request.node.nodeid}: @pytest.mark.{MARKER} takes settings by name only.")
        settings |= marker.kwargs
    calls = 0

    def check(model: Any, data: Any, protected: str | list[str] | None = None, **overrides: Any) -> "Outcome":
        __tracebackhide__ = True
        nonlocal calls
        calls += 1
        from evenhand.gate.check import DiscriminationFound, assert_fair

        name = request.node.nodeid if calls == 1 else f"{request.node.nodeid} {calls}"
        given: dict[str, Any] = {"name": name, **settings, **overrides}
        if protected is not None:
            given["protected"] = protected
        try:
            outcome = assert_fair(model, data, **given)
        except DiscriminationFound as found:
            request.node.user_properties.append((PROPERTY, _line(found.outcome)))
            raise
        request.node.user_properties.append((PROPERTY, _line(outcome)))
        return outcome

    return check


def _settings(config: pytest.Config) -> dict[str, Any]:
    """What the command line and the configuration file say."""
    settings: dict[str, Any] = {}
    for name in ("max_rate", "confidence"):
        text = config.getini(f"evenhand_{name}")
        if text:
            settings[name] = _number(name, text)
    if config.getoption("evenhand_max_rate") is not None:
        settings["max_rate"] = config.getoption("evenhand_max_rate")
    names = [name for text in config.getini("evenhand_protected") for name in text.split(",") if name]
    if names:
        settings["protected"] = names
    settings["failures"] = config.rootpath / Path(config.getini("evenhand_failures") or ".evenhand")
    return settings


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise pytest.UsageError(f"evenhand_{name} is '{text}', which is no number.") from None


def _line(outcome: "Outcome") -> str:
    """A check in one line of the summary."""
    from evenhand.gate.words import headline

    return f"{outcome.verdict}: {headline(outcome)}"


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """What was checked, if anything was."""
    lines = [
        (report.nodeid, line)
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", None) == "call"
        for key, line in report.user_properties
        if key == PROPERTY
    ]
    if lines:
        terminalreporter.section("evenhand")
        for test, line in lines:
            terminalreporter.write_line(f"{test}  {line}")
