"""The pytest plugin, in runs of its own."""

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import evenhand.gate.check  # noqa: F401 - runs in this process forget what they import, and numpy loads only once

pytest_plugins = ["pytester"]

WORLD = """
import pytest
from tests.worlds.gate import blind, by_sex, by_sex_and_city, loans

pytestmark = pytest.mark.evenhand(inputs="codes", accept_poor_model=True)  # all have one label
"""


@pytest.fixture(autouse=True)
def _only_this_plugin(monkeypatch: pytest.MonkeyPatch, pytester: pytest.Pytester) -> None:
    """Whatever else is installed must not matter; the runs find the world that these tests share."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.syspathinsert(Path(__file__).parents[2])


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    plugin = ("-p", "evenhand.pytest_plugin", "--strict-markers", "-p", "no:cacheprovider")
    return pytester.runpytest_inprocess(*plugin, *arguments)


def test_pytest_finds_the_plugin_where_evenhand_is_installed() -> None:
    (found,) = entry_points(group="pytest11", name="evenhand")
    assert found.value == "evenhand.pytest_plugin"


def test_the_plugin_imports_nothing_that_takes_time() -> None:
    heavy = ("torch", "numpy", "pandas", "pydantic", "scipy", "typer", "rich", "pyarrow")
    code = f"import evenhand.pytest_plugin, sys; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_run_that_does_not_use_it_says_nothing_of_it(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_nothing():\n    pass")
    result = run(pytester)
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*evenhand*")


def test_a_check_that_holds_and_one_that_does_not(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_loans=WORLD
        + """
def test_blind(evenhand_check):
    outcome = evenhand_check(blind(), loans([5] * 400), ["sex"])
    assert outcome.verdict == "held"

def test_by_sex(evenhand_check):
    evenhand_check(by_sex(), loans([5, 14, 5]), ["sex"], max_rate=0)
"""
    )
    result = run(pytester)
    result.assert_outcomes(passed=1, failed=1)
    text = result.stdout.str()
    assert "33.33% of all 3 rows of loans get another decision when only sex changes (1 of 3)" in text
    assert "A real person of the data, row 2, as they are." in text
    result.stdout.fnmatch_lines(["*= evenhand =*"])
    result.stdout.fnmatch_lines(["test_loans.py::test_blind  held: Warning: All *0.00% of all 400 rows of loans *"])
    result.stdout.fnmatch_lines(["test_loans.py::test_by_sex  exceeded: *"])
    assert "gate/check.py" not in text  # the traceback ends at the test


def test_a_failure_is_replayed_first_in_the_next_run(pytester: pytest.Pytester) -> None:
    test = (
        WORLD
        + """
@pytest.mark.evenhand(protected=["sex"], max_rate=0)
def test_by_sex(evenhand_check):
    evenhand_check({model}, loans({people}))
"""
    )
    pytester.makepyfile(test_loans=test.format(model="by_sex()", people=[5, 14, 5]))
    run(pytester).assert_outcomes(failed=1)
    (stored,) = (pytester.path / ".evenhand").iterdir()
    assert stored.name.startswith("test_loans.py-test_by_sex-")
    pytester.makepyfile(test_loans=test.format(model="by_sex()", people=[5, 5, 5]))
    again = run(pytester)
    again.assert_outcomes(failed=1)
    assert "1 of 1 stored pair, replayed first, still gets another decision" in again.stdout.str()
    pytester.makepyfile(test_loans=test.format(model="blind()", people=[5, 14, 5]))
    run(pytester).assert_outcomes(passed=1)
    assert not stored.exists()


MARKED = (
    WORLD
    + """
pytestmark = pytest.mark.evenhand(protected=["sex"], failures=None, inputs="codes", accept_poor_model=True)
PEOPLE = loans([14] * 40 + [5] * 960)  # 4 %

def test_as_configured(evenhand_check):
    evenhand_check(by_sex(), PEOPLE)

@pytest.mark.evenhand(max_rate=0.06)
def test_by_marker(evenhand_check):
    assert evenhand_check(by_sex(), PEOPLE).settings.max_rate == 0.06

@pytest.mark.evenhand(max_rate=0.001)
def test_by_call(evenhand_check):
    assert evenhand_check(by_sex(), PEOPLE, max_rate=0.07).settings.max_rate == 0.07
"""
)


def test_the_nearest_setting_counts(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_marked=MARKED)
    run(pytester).assert_outcomes(passed=2, failed=1)  # the default allows 1 %
    run(pytester, "--evenhand-max-rate", "0.06").assert_outcomes(passed=3)


def test_options_in_pyproject(pytester: pytest.Pytester) -> None:
    pytester.makepyprojecttoml(
        """
        [tool.pytest.ini_options]
        evenhand_max_rate = "0.05"
        evenhand_confidence = "0.6"
        evenhand_protected = ["sex", "city"]
        evenhand_failures = "kept/pairs"
        """
    )
    pytester.makepyfile(
        test_configured=WORLD
        + """
def test_configured(evenhand_check):
    outcome = evenhand_check(by_sex_and_city(), loans([14] * 40 + [5] * 960))
    assert (outcome.settings.max_rate, outcome.settings.confidence) == (0.05, 0.6)
    assert outcome.protected == ["sex", "city"]

def test_failing(evenhand_check):
    evenhand_check(by_sex_and_city(), loans([14] * 100))
"""
    )
    run(pytester).assert_outcomes(passed=1, failed=1)
    assert len(list((pytester.path / "kept" / "pairs").iterdir())) == 1
    run(pytester, "--evenhand-max-rate", "0.01").assert_outcomes(failed=2)


def test_mistakes_are_said(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nevenhand_max_rate = little")
    pytester.makepyfile(
        test_mistakes=WORLD
        + """
@pytest.mark.evenhand("sex")
def test_by_place(evenhand_check):
    pass

def test_no_number(evenhand_check):
    pass
"""
    )
    result = run(pytester)
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["*evenhand_max_rate is 'little', which is no number.*"])


def test_a_test_with_the_marker_must_use_the_fixture(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_forgotten="import pytest\n\n@pytest.mark.evenhand(max_rate=0)\ndef test_it():\n    pass")
    result = run(pytester)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*test_forgotten.py::test_it has @pytest.mark.evenhand but does not use*"])


def test_the_marker_of_a_module_is_for_those_that_use_the_fixture(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_module="""
import pytest
pytestmark = pytest.mark.evenhand(max_rate=0.5)

@pytest.fixture
def through(evenhand_check):
    return evenhand_check

@pytest.mark.evenhand(max_rate=0)
def test_with(through):
    pass

def test_without():
    pass
"""
    )
    run(pytester).assert_outcomes(passed=2)


def test_two_checks_of_one_test_keep_their_pairs_apart(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_twice=WORLD
        + """
def test_twice(evenhand_check):
    for people in ([14, 5], [5, 5, 14]):
        with pytest.raises(AssertionError):
            evenhand_check(by_sex(), loans(people), "sex", max_rate=0)
"""
    )
    run(pytester).assert_outcomes(passed=1)
    assert len(list((pytester.path / ".evenhand").iterdir())) == 2
