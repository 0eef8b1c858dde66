"""Runs of commands in a terminal are kept in the storage: live, killed, gone on with, deleted."""

import errno
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from evenhand.errors import EvenhandError
from evenhand.local_runs import held_run
from evenhand.local_runs import storage as run_storage
from evenhand.local_runs.stored_task import folder_of, stored_config, stored_task, title_of_task
from evenhand.runs.tasks import Task
from evenhand.service.findings import FindingsIndex
from evenhand.service.jobs import figures_of
from evenhand.service.requests import request_of
from evenhand.service.run_folder import attempt_folder, checkpoint_of, sweep
from evenhand.service.settings import Service, Settings
from evenhand.service.storage.database import known_revisions, newest_revision, upgrade
from evenhand.service.storage.tables import Run
from evenhand.settings import TaskName
from tests.worlds.service import lapse
from tests.worlds.terminal import PATIENCE, SMALL, evenhand, findings_in, kept, only_run, started

pytest_plugins = ["tests.worlds.service", "tests.worlds.terminal"]

OWN = """
from evenhand.models.loading import BUILTIN
from evenhand.models.network import load_network

def make():
    return load_network(BUILTIN / "census")[0]
"""
DIES = """
import os, signal
from evenhand.cli.main import main
from evenhand.local_runs import held_run

told = held_run.HeldRun.search

def search(run, progress):
    told(run, progress)
    if progress.phase == "local" and progress.done >= 20:
        os.kill(os.getpid(), signal.SIGKILL)

held_run.HeldRun.search = search
main()
"""
WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "sqlalchemy":
            raise ModuleNotFoundError("No module named 'sqlalchemy'", name="sqlalchemy")

sys.meta_path.insert(0, Missing())
from evenhand.cli.main import main
main()
"""


# Kept.


def test_a_run_is_kept_as_a_workers_is_and_no_worker_claims_it(storage: Service, here: Path) -> None:
    words = evenhand(*SMALL)
    run = only_run(storage)
    assert run is not None
    assert (run.state, run.place, run.project, run.worker) == ("done", "terminal", "default", None)
    assert f"evenhand runs show {run.id[:8]}" in words
    folder = storage.home.run(run.id)
    assert f"report: {folder}/report.html" in words
    assert run.title == "Audit of the built-in network on census: sex"
    assert request_of("audit", run.config).model_dump(mode="json") == run.config
    summary = json.loads((folder / "summary.json").read_text())
    files = {path.name: path.stat().st_size for path in folder.iterdir()}
    assert run.result == figures_of("audit", summary) | {"files": files}
    assert FindingsIndex.open(folder / "findings.parquet").rows == run.result["findings"] > 0
    assert {event.kind for event in storage.runs.events(run.id)} == {"started", "pair", "done"}
    assert storage.runs.claim("worker") is None
    assert not list(here.iterdir())


def test_a_named_folder_is_as_it_always_was(storage: Service, here: Path) -> None:
    card = kept(*SMALL, "--out", "mine")
    assert (card["folder"], "run" in card) == ("mine", False)
    assert sorted(path.name for path in (here / "mine").iterdir()) == [
        "findings.parquet",
        "report.html",
        "summary.json",
    ]
    assert only_run(storage) is None


def test_a_measurement_is_kept(storage: Service) -> None:
    card = kept("measure", "census", "-p", "sex", "--half-width", "0.2")
    run = storage.runs.get(card["run"])
    assert (run.kind, run.state, run.config["half_width"]) == ("measure", "done", 0.2)
    assert run.result is not None
    assert run.result["rates"]
    assert list(run.result["files"]) == ["summary.json"]


@pytest.mark.parametrize(
    "mistake",
    [["--method", "addf"], ["--seeds", "0"], ["--model", "none.safetensors"]],
    ids=["method", "seeds", "model"],
)
def test_a_mistake_is_no_run(here: Path, sqlite_service: Service, mistake: list[str]) -> None:
    with pytest.raises(EvenhandError):
        evenhand(*SMALL, *mistake)
    assert only_run(sqlite_service) is None
    assert not list(sqlite_service.home.path.glob("runs/*"))


def test_a_run_is_listed_shown_and_deleted_with_its_files(here: Path, sqlite_service: Service) -> None:
    card = kept(*SMALL)
    assert evenhand("runs", "list").splitlines()[1].split()[:4] == [card["run"][:8], "audit", "done", "terminal"]
    shown = json.loads(evenhand("runs", "show", card["run"], "--json"))
    assert (shown["place"], shown["folder"]) == ("terminal", card["folder"])
    with pytest.raises(EvenhandError, match="is done; there is nothing to resume"):
        evenhand("runs", "resume", card["run"])
    evenhand("runs", "delete", card["run"], "--yes")
    assert only_run(sqlite_service) is None
    assert not list(sqlite_service.home.path.glob("runs/*"))
    assert not list(sqlite_service.home.path.glob("trash/*"))


def test_a_storage_that_is_up_to_date_is_opened_without_what_is_slow_to_import(here: Path, tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home", database=None)
    assert run_storage._newest_version() == newest_revision()
    run_storage.opened(settings).close()  # the first time, which makes the tables
    code = (
        "import sys; from evenhand.service.settings import Settings; "
        "from evenhand.local_runs import storage as run_storage; "
        "run_storage.opened(Settings()).runs.newest(); print('alembic' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=here)
    assert done.stdout.strip() == "False"


def test_a_killed_run_is_interrupted_and_goes_on_to_the_same_end(
    here: Path, sqlite_service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENHAND_CHECKPOINT_SECONDS", "0")
    command = ("audit", "census", "-p", "sex", "--seeds", "20", "--steps", "40")
    with started(*command, code=DIES) as process:
        process.communicate(timeout=PATIENCE)
    assert process.returncode == -signal.SIGKILL
    run = only_run(sqlite_service)
    assert run is not None
    assert run.state == "running"  # nobody can know yet
    lapse(sqlite_service, run.id)
    assert sqlite_service.runs.claim("worker") is None
    assert sqlite_service.runs.get(run.id).state == "interrupted"
    with pytest.raises(EvenhandError, match=f"evenhand runs resume {run.id[:8]}"):
        sqlite_service.runs.resume(run.id)  # as a page would
    card = json.loads(evenhand("runs", "resume", run.id, "--json"))
    ended = sqlite_service.runs.get(run.id)
    assert (ended.state, ended.attempts, card["search"].get("taken_up")) == ("done", 2, 1)
    folder = sqlite_service.home.run(run.id)
    assert {path.name for path in folder.iterdir()} == {
        "findings.index", "findings.parquet", "report.html", "summary.json",
    }  # fmt: skip
    whole = kept(*command, "--out", "whole")
    assert findings_in(folder) == findings_in(here / "whole")
    assert card["search"]["growth"] == whole["search"]["growth"]


def test_the_attempt_of_a_terminal_that_only_slept_is_not_swept_away(storage: Service) -> None:
    claim = storage.runs.begin("default", "audit", "census, sex", {}, "asleep")
    attempt = attempt_folder(storage.home, claim)
    (attempt / "findings.parquet").write_text("half of it")
    checkpoint_of(attempt).mkdir()
    lapse(storage, claim.run)
    assert storage.runs.get(claim.run).state == "interrupted"
    assert sweep(storage.home, storage.runs) == []
    assert storage.runs.beat(claim) is False  # it wakes up
    assert {path.name for path in attempt.iterdir()} == {"findings.parquet", "checkpoint"}
    storage.runs.finish(claim, "cancelled")
    assert sweep(storage.home, storage.runs) == [attempt]


def test_a_run_cannot_be_taken_up_while_somebody_does_it(storage: Service) -> None:
    claim = held_run.begin(storage, Task("audit", "census", ["sex"], None, {}))
    with pytest.raises(EvenhandError, match=r"is being done already, by .*, process \d+"):
        evenhand("runs", "resume", claim.run)
    assert storage.runs.beat(claim) is False


def test_only_one_of_many_takes_a_run_up(storage: Service) -> None:
    claim = held_run.begin(storage, Task("audit", "census", ["sex"], None, {}))
    lapse(storage, claim.run)
    start, won, lost = threading.Barrier(6), list[int](), list[str]()

    def take_up(number: int) -> None:
        start.wait()
        try:
            storage.runs.claim_again(claim.run, f"terminal {number}")
            won.append(number)
        except EvenhandError as error:
            lost.append(str(error))

    threads = [threading.Thread(target=take_up, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(won), len(lost)) == (1, 5)
    assert all(f"by terminal {won[0]}" in words for words in lost)


# In its own folder, with its own files.


@pytest.fixture
def own_run(here: Path, sqlite_service: Service) -> Run:
    """An audit of a model of one's own, whose process has died."""
    (here / "own_network.py").write_text(OWN)
    settings = {"seeds": 10, "steps": 5, "iterations": 2, "inputs": "codes", "accept_poor_model": True}
    command = Task("audit", "census", ["sex"], "own_network:make", settings)
    claim = held_run.begin(sqlite_service, command)
    lapse(sqlite_service, claim.run)
    return sqlite_service.runs.get(claim.run)


def test_a_run_goes_on_in_the_folder_it_was_started_from(
    here: Path, own_run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert own_run.config["terminal"] == {"folder": str(here), "secret": False, "texts": False}
    with pytest.raises(EvenhandError, match="The setting 'terminal' is wrong"):
        request_of("audit", own_run.config)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    card = json.loads(evenhand("runs", "resume", own_run.id, "--json"))
    assert card["config"]["model"] == "own_network:make"
    assert card["search"]["findings"]["total"] > 0
    assert Path.cwd() == tmp_path


def test_what_a_run_needs_and_is_gone_is_said_and_the_run_stays(
    here: Path, own_run: Run, sqlite_service: Service, tmp_path: Path
) -> None:
    here.rename(tmp_path / "elsewhere")
    with pytest.raises(EvenhandError, match="which is not there any more"):
        evenhand("runs", "resume", own_run.id)
    assert sqlite_service.runs.get(own_run.id).state == "interrupted"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (Task("audit", "census", ["sex"], "net.safetensors", {}), "net.safetensors, is not there"),
        (Task("audit", "people.toml", ["sex"], "my:net", {}), "people.toml, are not there"),
        (Task("audit", "census", ["sex"], "https://a.example/x?key=1", {}), "may hold a key"),
    ],
    ids=["model", "data", "key"],
)
def test_what_is_gone_is_said(here: Path, command: Task, words: str) -> None:
    with pytest.raises(EvenhandError, match=words):
        folder_of(stored_config(command))
    assert "key=1" not in json.dumps(stored_config(command)) + title_of_task(command)


@pytest.mark.parametrize(
    ("kind", "options", "plain"),
    [
        ("audit", {"seeds": 5, "settings": {}, "device": "auto", "output": "auto"}, True),
        ("audit", {"seeds": 5, "settings": {"caution": 1}}, False),
        ("audit", {"chunk_rows": 100}, False),
        ("measure", {"half_width": 0.1}, True),
        ("measure", {"findings": Path("earlier")}, False),
        ("repair", {"by": ["average", "blind"], "share": 0.1}, True),
    ],
    ids=["audit", "settings", "chunks", "measure", "findings", "repair"],
)
def test_a_configuration_is_the_services_where_it_can_be_and_makes_the_command_again(
    kind: TaskName, options: dict[str, Any], plain: bool
) -> None:
    command = Task(kind, "census", ["sex"], None, options)
    config = json.loads(json.dumps(stored_config(command)))
    assert ("terminal" in config) is not plain
    again = stored_task(kind, config)
    assert (again.data, again.protected, again.model) == ("census", ["sex"], None)
    given = {name: str(value) if isinstance(value, Path) else value for name, value in options.items()}
    left_out = {"device": "auto", "settings": {}}  # what is usual need not be said again
    assert {name: again.given.get(name, left_out.get(name)) for name in given} == given


def test_no_limit_is_a_setting_and_is_kept() -> None:
    """None where the usual is a number: a run that is done again has no limit either."""
    task = Task("audit", "my.csv", ["race"], "net.safetensors", {"text": "comment", "local_changes": None}, "text")
    again = stored_task("audit", json.loads(json.dumps(stored_config(task))))
    assert (again.given, again.domain) == (task.given, "text")


# Where it cannot be kept.


def test_without_the_extra_the_files_go_to_a_folder_as_before(here: Path, tmp_path: Path) -> None:
    with started(*SMALL, code=WITHOUT) as process:
        words, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    assert "report: evenhand-out/census-sex/report.html" in words
    assert [line for line in errors.splitlines() if line.startswith("note:")] == [
        'note: This run is not stored: `pip install "evenhand[service]"` adds `evenhand runs` and the service.'
    ]
    assert (here / "evenhand-out" / "census-sex" / "findings.parquet").is_file()
    assert not (tmp_path / "home").exists()


def test_a_storage_that_cannot_be_written_to_is_said(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "file").write_text("")
    monkeypatch.setenv("EVENHAND_HOME", str(here / "file" / "home"))
    with pytest.raises(EvenhandError, match=r"Cannot write to .*--out DIR"):
        evenhand(*SMALL)


def test_tables_of_an_older_version_are_said(here: Path, tmp_path: Path) -> None:
    service = Settings(home=tmp_path / "home", database=None).storage()
    upgrade(service.database, known_revisions()[0])
    service.close()
    with pytest.raises(EvenhandError, match=r"evenhand storage upgrade.*--out DIR"):
        evenhand(*SMALL)


def test_a_database_that_does_not_answer_is_said(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENHAND_DATABASE", f"postgresql+psycopg://somebody@/nothing?host={here}")
    with pytest.raises(EvenhandError, match=r"does not answer.*--out DIR"):
        evenhand(*SMALL)


def test_a_full_disk_is_said_and_nothing_is_left(
    here: Path, sqlite_service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(folder: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))

    monkeypatch.setattr("evenhand.service.jobs.flush", full)
    with pytest.raises(EvenhandError, match=r"No space left on device.*--out DIR"):
        evenhand(*SMALL)
    run = only_run(sqlite_service)
    assert run is not None
    assert (run.state, run.result) == ("failed", None)
    assert "No space left" in (run.error or "")
    assert not list(sqlite_service.home.path.glob("runs/*"))
    assert not list(here.iterdir())
