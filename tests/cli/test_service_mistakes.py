"""Slips at the command line around the storage: they are said, with what to do, and leave nothing behind."""

import re
import subprocess
import sys
import tarfile
import warnings
from collections.abc import Callable
from getpass import GetPassWarning
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from evenhand.cli.accounts import confirm, new_password
from evenhand.cli.stored_runs import results_of
from evenhand.errors import EvenhandError
from evenhand.local_runs.held_run import begin, is_gone, this_process
from evenhand.runs.tasks import Task
from evenhand.service.settings import Service
from evenhand.service.storage.tables import Run
from tests.worlds.service import small_run
from tests.worlds.terminal import evenhand

pytest_plugins = ["tests.worlds.service", "tests.worlds.terminal"]

COMMAND = [sys.executable, "-c", "from evenhand.cli.main import main; main()"]
NEEDING = [
    ["storage", "check"], ["storage", "backup", "copy.tar"],
    *(["runs", deed, "3f2a"] for deed in ("show", "resume", "cancel", "delete")),
]  # fmt: skip
LOOKS = [["runs", "list"], ["users", "list"], ["projects", "list"], ["storage", "check"], ["users", "delete", "ada"]]


@pytest.fixture(autouse=True)
def _no_other_database(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EVENHAND_DATABASE", raising=False)


@pytest.fixture
def kept(sqlite_service: Service) -> Run:
    """A run of the service with a summary."""
    run = small_run(sqlite_service)
    folder = sqlite_service.home.run(run.id)
    folder.mkdir()
    (folder / "summary.json").write_text("{}")
    return run


# A place that holds nothing.


@pytest.mark.parametrize("arguments", NEEDING, ids=" ".join)
@pytest.mark.parametrize("place", [["--home", "nowhere"], ["--database", "sqlite:///nowhere/x.db"]], ids=" ".join)
def test_a_storage_that_is_not_there_is_not_made(here: Path, arguments: list[str], place: list[str]) -> None:
    with pytest.raises(EvenhandError, match=r"There is no storage in .*nowhere.*--home"):
        evenhand(*arguments, *place)
    assert list(here.parent.rglob("*")) == [here]


@pytest.mark.parametrize("arguments", LOOKS, ids=" ".join)
@pytest.mark.parametrize("below", ["", "/x/y"], ids=["the file", "below it"])
def test_a_file_is_no_home(here: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], below: str) -> None:
    (here / "file").write_text("words")
    monkeypatch.setenv("EVENHAND_HOME", f"{here}/file{below}")
    with pytest.raises(EvenhandError, match=r"file is a file, not a folder.*--home"):
        evenhand(*arguments)
    assert (here / "file").read_text() == "words"


def test_a_home_below_a_folder_that_is_not_there_has_no_runs(here: Path) -> None:
    assert "There are no runs in" in evenhand("runs", "list", "--home", "none/x")
    assert list(here.iterdir()) == []


# Copies.


def _text(path: Path) -> None:
    path.write_text("sex,age\nf,20\n")


def _other_archive(path: Path) -> None:
    with tarfile.open(path, "w") as archive:
        archive.add(Path(__file__), "notes.py")


def _no_facts(path: Path) -> None:
    Path("backup.json").write_text("[1]")
    with tarfile.open(path, "w") as archive:
        archive.add("backup.json")


def _cut_off(path: Path) -> None:
    evenhand("projects", "add", "loans", "--home", "source")
    evenhand("storage", "backup", str(path), "--home", "source")
    path.write_bytes(path.read_bytes()[:1000])


@pytest.mark.parametrize("write", [_text, _other_archive, _no_facts, _cut_off])
def test_what_is_no_copy_makes_no_storage(here: Path, write: Callable[[Path], None]) -> None:
    write(here / "loans.csv")
    with pytest.raises(EvenhandError, match=r"loans\.csv is (damaged|no copy)") as caught:
        evenhand("storage", "restore", "loans.csv", "--home", "new")
    assert len(str(caught.value).splitlines()) == 1
    assert not (here / "new").exists()


def test_a_file_that_is_no_archive_is_answered_with_what_to_name(here: Path) -> None:
    _text(here / "loans.csv")
    with pytest.raises(EvenhandError, match="Name a file that `evenhand storage backup` wrote"):
        evenhand("storage", "restore", "loans.csv", "--home", "new")


def test_a_sqlite_file_that_is_none_cannot_be_started(here: Path) -> None:
    (here / "home").mkdir()
    (here / "home" / "evenhand.db").write_text("words " * 100)
    with pytest.raises(EvenhandError, match=r"not a database\. Restore a backup .*another --home") as caught:
        evenhand("runs", "list", "--home", "home")
    assert "Start it" not in str(caught.value)


def test_a_sqlite_file_that_cannot_be_reached_is_looked_for(here: Path) -> None:
    (here / "x.db").mkdir()
    with pytest.raises(EvenhandError, match=r"unable to open database file\. Check where it is"):
        evenhand("runs", "list", "--database", "sqlite:///x.db")


# Questions.


@pytest.mark.parametrize(
    "arguments",
    [["runs", "delete", "RUN"], ["users", "delete", "ada"], ["projects", "delete", "default"]],
    ids=lambda words: words[0],
)
def test_where_nobody_answers_yes_is_to_be_said(sqlite_service: Service, kept: Run, arguments: list[str]) -> None:
    sqlite_service.accounts.add_user("ada", "a long password indeed", admin=True)
    with pytest.raises(EvenhandError, match="say --yes"):
        evenhand(*(kept.id if word == "RUN" else word for word in arguments))
    assert sqlite_service.runs.get(kept.id).id == kept.id
    assert sqlite_service.accounts.any()


def test_where_nobody_answers_a_password_is_to_be_piped_in(here: Path) -> None:
    """In a session of its own, so that there is no terminal; Python would warn that what is typed is shown."""
    command = [*COMMAND, "users", "add", "ada", "--admin"]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, start_new_session=True
    )
    assert done.returncode == 2
    assert re.fullmatch(r"error: There is no terminal .*--password-stdin\.\n", done.stderr)


@pytest.mark.parametrize("ask", [lambda: confirm("Sure?"), new_password], ids=["yes or no", "password"])
def test_control_c_in_the_place_of_an_answer_ends_with_130(
    ask: Callable[[], object], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise typer.Abort

    monkeypatch.setattr(typer, "confirm", interrupted)
    monkeypatch.setattr(typer, "prompt", interrupted)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    with pytest.raises(typer.Exit) as ended:
        ask()
    assert ended.value.exit_code == 130
    assert "Interrupted." in capsys.readouterr().err


def test_a_password_is_never_typed_where_it_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def prompt(*_words: Any, **_options: Any) -> str:
        warnings.warn("Can not control echo on the terminal.", GetPassWarning, stacklevel=2)
        return "shown"

    monkeypatch.setattr("evenhand.cli.accounts.typer.prompt", prompt)
    with pytest.raises(EvenhandError, match="--password-stdin"):
        new_password()


# A run by its id.


def test_a_kept_run_is_found_by_its_id(sqlite_service: Service, kept: Run) -> None:
    folder = sqlite_service.home.run(kept.id)
    for named in (kept.id, kept.id[:8], kept.id[:8].upper()):
        assert results_of(Path(named)) == folder


def test_a_folder_wins_over_a_run(here: Path, kept: Run) -> None:
    (here / kept.id[:8]).mkdir()
    assert results_of(Path(kept.id[:8])) == Path(kept.id[:8])


@pytest.mark.parametrize(
    "arguments", [["card"], ["report"], ["measure", "census", "-p", "sex", "--findings"]], ids=lambda words: words[0]
)
def test_commands_that_read_results_take_the_id_of_a_run(
    sqlite_service: Service, kept: Run, arguments: list[str]
) -> None:
    with pytest.raises(EvenhandError, match=r"There is no folder results/sex.*`evenhand runs list`"):
        evenhand(*arguments, "results/sex")
    with pytest.raises(EvenhandError, match=r"There is no folder 00000000, and no run.*`evenhand runs list`"):
        evenhand(*arguments, "00000000")
    summary = sqlite_service.home.run(kept.id) / "summary.json"
    summary.write_text("words")
    with pytest.raises(EvenhandError, match=f"{summary} is not valid JSON"):
        evenhand(*arguments, kept.id[:8])
    summary.unlink()
    with pytest.raises(EvenhandError, match=r"is queued and has no summary\.json"):
        evenhand(*arguments, kept.id[:8])


def test_where_nothing_is_kept_an_id_makes_no_storage(here: Path) -> None:
    with pytest.raises(EvenhandError, match=r"There is no folder bd72d8ae, and no run is stored in"):
        evenhand("card", "bd72d8ae")
    assert list(here.parent.rglob("*")) == [here]


# A run whose process died.


def test_a_process_that_is_gone_is_known_as_gone() -> None:
    nobody = 2**31 - 1  # more than any system gives out
    machine = this_process().rpartition(", process ")[0]
    assert is_gone(f"{machine}, process {nobody}")
    assert not is_gone(this_process())
    assert not is_gone(f"another machine, process {nobody}")
    assert not is_gone("a worker")


@pytest.mark.parametrize(("gone", "words"), [(True, "That process is gone: try"), (False, "has died, try")])
def test_a_run_that_is_held_says_when_it_is_free(
    sqlite_service: Service, monkeypatch: pytest.MonkeyPatch, gone: bool, words: str
) -> None:
    claim = begin(sqlite_service, Task("audit", "census", ["sex"], None, {}))
    monkeypatch.setattr("evenhand.local_runs.held_run.is_gone", lambda worker: gone)
    with pytest.raises(EvenhandError, match=rf"is being done already, by .*{words} again in \d+ s\."):
        evenhand("runs", "resume", claim.run)
    assert sqlite_service.runs.beat(claim) is False
