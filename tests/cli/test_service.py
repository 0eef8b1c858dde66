"""`evenhand runs`, `storage`, `serve` and `worker` as a user meets them."""

import io
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.main import get_command
from typer.testing import CliRunner

from evenhand.cli.runs import runs_app
from evenhand.cli.serve import serve, worker
from evenhand.cli.storage import storage_app
from evenhand.errors import EvenhandError
from evenhand.service.settings import Service
from tests.worlds.quick_child import is_alive
from tests.worlds.service import SMALL_AUDIT, Cluster, small_run
from tests.worlds.workers import kill

pytest_plugins = ["tests.worlds.service"]

PATIENCE = 600.0  # seconds; only a broken test waits so long
FILES = Path(__file__).parents[2] / "docs" / "service"
app = typer.Typer(rich_markup_mode="rich")
app.add_typer(runs_app, name="runs")
app.add_typer(storage_app, name="storage")
app.command()(serve)
app.command()(worker)


@pytest.fixture(autouse=True)
def _own_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The user's own service must not be found, or made."""
    monkeypatch.setenv("EVENHAND_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("EVENHAND_DATABASE", raising=False)
    monkeypatch.setenv("COLUMNS", "120")


def evenhand(*arguments: str, code: int = 0, typed: str | None = None) -> str:
    """What a command prints; an error of the user's is raised."""
    done = CliRunner().invoke(app, arguments, input=typed)
    if isinstance(done.exception, EvenhandError):
        raise done.exception
    assert done.exit_code == code, (done.output, done.exception)
    return done.output


def printed_json(*arguments: str) -> Any:
    return json.loads(evenhand(*arguments, "--json"))


@pytest.mark.parametrize(
    "arguments",
    [
        *(["runs", name] for name in ("list", "show", "resume", "cancel", "delete")),
        *(["storage", name] for name in ("upgrade", "backup", "restore", "check")),
        ["serve"],
        ["worker"],
        ["runs"],
        ["storage"],
    ],
)
def test_help_fits_80_columns_and_gives_examples(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    words = evenhand(*arguments, "--help")
    assert max(map(len, words.splitlines())) <= 80
    assert "evenhand " in words


# Runs.


def test_where_there_is_nothing_the_list_says_so_and_makes_nothing(tmp_path: Path) -> None:
    assert "There are no runs" in evenhand("runs", "list")
    assert printed_json("runs", "list") == []
    assert not (tmp_path / "home").exists()


def test_runs_are_listed_and_filtered(sqlite_service: Service) -> None:
    first, second = small_run(sqlite_service), small_run(sqlite_service)
    sqlite_service.runs.cancel(first.id)
    assert [run["id"] for run in printed_json("runs", "list")] == [second.id, first.id]
    assert [run["id"] for run in printed_json("runs", "list", "--state", "cancelled")] == [first.id]
    assert [run["id"] for run in printed_json("runs", "list", "--limit", "1")] == [second.id]
    assert printed_json("runs", "list", "--kind", "repair") == []
    lines = evenhand("runs", "list").splitlines()
    assert [line.split()[:3] for line in lines[1:]] == [
        [second.id[:8], "audit", "queued"],
        [first.id[:8], "audit", "cancelled"],
    ]
    assert "of that kind" in evenhand("runs", "list", "--state", "failed")


@pytest.mark.parametrize(("option", "value"), [("--state", "runing"), ("--kind", "audits")])
def test_a_filter_that_is_no_state_or_kind_is_said(option: str, value: str) -> None:
    with pytest.raises(EvenhandError, match=r"Did you mean '(running|audit)'"):
        evenhand("runs", "list", option, value)


def test_a_run_is_shown_with_its_files_and_events(sqlite_service: Service) -> None:
    run = small_run(sqlite_service)
    claim = sqlite_service.runs.claim("me")
    assert claim is not None
    sqlite_service.runs.beat(claim, {"done": 1, "total": 4})
    assert "25%" in evenhand("runs", "list")
    folder = sqlite_service.home.run(run.id)
    folder.mkdir()
    (folder / "report.html").write_text("words")
    sqlite_service.runs.finish(claim, "failed", error="[bold]It[/bold] broke.")
    shown = evenhand("runs", "show", run.id[:6].upper())
    assert "[bold]It[/bold] broke." in shown
    assert "report.html" in shown
    card = printed_json("runs", "show", run.id)
    assert (card["state"], card["files"], card["folder"]) == ("failed", ["report.html"], str(folder))
    assert [event["kind"] for event in card["events"]] == ["queued", "started", "failed"]
    assert card["config"] == SMALL_AUDIT


def test_a_run_is_cancelled_resumed_and_deleted(sqlite_service: Service) -> None:
    run = small_run(sqlite_service).id
    sqlite_service.home.run(run).mkdir()
    assert evenhand("runs", "cancel", run) == f"{run} is cancelled.\n"
    assert evenhand("runs", "resume", run) == f"{run} waits for a worker.\n"
    with pytest.raises(EvenhandError, match="only a run that failed or was cancelled"):
        evenhand("runs", "resume", run)
    evenhand("runs", "delete", run, typed="n\n", code=1)
    assert sqlite_service.runs.get(run).state == "queued"
    evenhand("runs", "delete", run, typed="y\n")
    assert not sqlite_service.home.run(run).exists()
    with pytest.raises(EvenhandError, match="There is no run"):
        evenhand("runs", "show", run)


def test_a_run_whose_data_are_gone_does_not_wait_again(sqlite_service: Service) -> None:
    table = sqlite_service.assets.add_dataset("default", "people", io.BytesIO(b"sex,age\nf,20\n"), "x.csv", 1000)
    run = small_run(sqlite_service, dataset=table.id)
    sqlite_service.runs.cancel(run.id)
    sqlite_service.assets.delete_dataset(table.id)
    with pytest.raises(EvenhandError, match=f"There is no data set '{table.id}'"):
        evenhand("runs", "resume", run.id)
    assert sqlite_service.runs.get(run.id).state == "cancelled"


def test_a_run_at_work_is_asked_to_end(sqlite_service: Service) -> None:
    run = small_run(sqlite_service).id
    assert sqlite_service.runs.claim("me") is not None
    assert evenhand("runs", "cancel", run) == f"{run} will end soon.\n"
    with pytest.raises(EvenhandError, match="Cancel it first"):
        evenhand("runs", "delete", run, "--yes")


@pytest.mark.parametrize("beginning", ["", "%", "____", "zzzz"])
def test_what_names_no_run_touches_none(sqlite_service: Service, beginning: str) -> None:
    small_run(sqlite_service)
    with pytest.raises(EvenhandError, match="There is no run"):
        evenhand("runs", "delete", "--yes", "--", beginning)
    assert len(sqlite_service.runs.newest()) == 1


def test_a_beginning_that_several_runs_share_is_not_enough(
    sqlite_service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    for letter in "ab":
        monkeypatch.setattr("evenhand.service.storage.runs.uuid.uuid4", lambda end=letter: _Id("abcd" + end * 28))
        small_run(sqlite_service)
    with pytest.raises(EvenhandError, match="Several runs begin with 'abcd'"):
        evenhand("runs", "cancel", "abcd")
    assert "abcdb" in evenhand("runs", "cancel", "abcdb")


class _Id:
    def __init__(self, text: str) -> None:
        self.hex = text


# Storage.


def test_postgresql_gets_its_tables_when_asked(postgres: Cluster) -> None:
    url = postgres.new_database()
    with pytest.raises(EvenhandError, match="Run `evenhand storage upgrade`"):
        evenhand("runs", "list", "--database", url)
    assert "is up to date now" in evenhand("storage", "upgrade", "--database", url)
    assert "is up to date already" in evenhand("storage", "upgrade", "--database", url)
    assert printed_json("runs", "list", "--database", url) == []


def test_the_database_may_be_named_by_the_environment(postgres: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENHAND_DATABASE", postgres.new_database(postgres.template))
    assert printed_json("storage", "check")["problems"] == []


def test_a_service_moves_from_sqlite_to_postgresql_by_a_copy(
    sqlite_service: Service, postgres: Cluster, tmp_path: Path
) -> None:
    run = small_run(sqlite_service)
    copy = str(tmp_path / "copy.tar")
    assert "1 runs" in evenhand("storage", "backup", copy)
    with pytest.raises(EvenhandError, match="never overwritten"):
        evenhand("storage", "backup", copy)
    place = ["--home", str(tmp_path / "new"), "--database", postgres.new_database()]
    assert "Restored: 0 data sets, 0 models, 1 runs" in evenhand("storage", "restore", copy, *place)
    assert [shown["id"] for shown in printed_json("runs", "list", *place)] == [run.id]
    with pytest.raises(EvenhandError, match="There is no file"):
        evenhand("storage", "restore", str(tmp_path / "none.tar"))


def test_where_there_is_nothing_there_is_nothing_to_copy(postgres: Cluster, tmp_path: Path) -> None:
    with pytest.raises(EvenhandError, match="There is no storage in"):
        evenhand("storage", "backup", str(tmp_path / "copy.tar"))
    assert not (tmp_path / "home").exists()
    with pytest.raises(EvenhandError, match="nothing to copy"):
        evenhand("storage", "backup", str(tmp_path / "copy.tar"), "--database", postgres.new_database())
    assert not (tmp_path / "copy.tar").exists()


def test_the_check_says_by_its_exit_code_whether_all_is_well(sqlite_service: Service) -> None:
    assert "all is well" in evenhand("storage", "check")
    stray = sqlite_service.home.run("f" * 32)
    stray.mkdir()
    os.utime(stray, (0, 0))
    assert f"{stray}: belongs to nothing" in evenhand("storage", "check", code=1)
    assert f"removed {stray}" in evenhand("storage", "check", "--sweep")
    assert "all is well" in evenhand("storage", "check")


# Serve and worker.


def written_commands() -> list[list[str]]:
    """The command lines of the files that the documentation hands out."""
    compose = yaml.safe_load((FILES / "compose.yaml").read_text())["services"]
    units = [
        line.removeprefix("ExecStart=") for path in FILES.glob("*.service") for line in path.read_text().split("\n")
    ]
    started = [shlex.split(line) for line in units if line.startswith("/opt/evenhand/bin/evenhand")]
    return started + [service["command"] for service in compose.values() if "command" in service]


def test_the_files_for_servers_start_commands_that_exist() -> None:
    found = written_commands()
    assert len(found) == 5
    for program, *rest in found:
        assert Path(program).name == "evenhand"
        command: Any = get_command(app)
        context = None
        while hasattr(command, "resolve_command"):
            context = command.make_context("evenhand", rest, parent=context)
            _, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        command.make_context("evenhand", rest, parent=context)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "example.org"])
def test_other_machines_are_not_served(host: str, tmp_path: Path) -> None:
    with pytest.raises(EvenhandError, match="Without TLS"):
        evenhand("serve", "--host", host)
    assert not (tmp_path / "home").exists()


def test_a_port_that_somebody_has_is_said() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(EvenhandError, match="Choose another --port"):
            evenhand("serve", "--workers", "0", "--port", str(taken.getsockname()[1]))


def test_a_worker_that_finds_nothing_to_do_ends_when_asked_to() -> None:
    evenhand("worker", "--once")
    assert printed_json("runs", "list") == []


@contextmanager
def serving(*arguments: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """A service in a process of its own, and its address."""
    code = "import typer; from evenhand.cli.serve import serve; typer.run(serve)"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "--port", "0", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
        assert found is not None, process.communicate()[1]
        yield process, found[0]
    finally:
        process.kill()
        process.communicate()


def ask(address: str, content: Any = None) -> Any:
    body = None if content is None else json.dumps(content).encode()
    request = urllib.request.Request(address, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        return json.load(answer)


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.2)


def children_of(process: int) -> set[int]:
    """A process's children and theirs."""
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if fields[0] != "Z":
            parents[int(status.parent.name)] = int(fields[1])
    found, new = set(), {process}
    while new:
        new = {child for child, parent in parents.items() if parent in new}
        found |= new
    return found


def alive(processes: set[int]) -> set[int]:
    return {process for process in processes if is_alive(process)}


needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes through /proc")


@needs_proc
def test_the_service_does_an_audit_and_ends_with_its_workers(sqlite_service: Service) -> None:
    with serving() as (process, address):
        assert ask(f"{address}/healthz")["status"] == "ok"
        run = ask(f"{address}/api/v1/runs", {"kind": "audit", "request": SMALL_AUDIT})["id"]
        until(lambda: sqlite_service.runs.get(run).state not in ("queued", "running"))
        ended = sqlite_service.runs.get(run)
        assert (ended.state, ended.error) == ("done", None)
        children = children_of(process.pid)
        assert children
        process.send_signal(signal.SIGINT)
        _, words = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, words
        assert alive(children) == set()
        assert "Traceback" not in words


@needs_proc
def test_a_killed_service_takes_its_workers_with_it() -> None:
    with serving() as (process, _):
        until(lambda: len(children_of(process.pid)) > 0)
        children = children_of(process.pid)
        process.kill()
        until(lambda: alive(children) == set())
        assert process.wait(PATIENCE) == -signal.SIGKILL


@needs_proc
def test_a_worker_that_dies_is_replaced() -> None:
    with serving() as (process, address):
        assert ask(f"{address}/healthz")["status"] == "ok"  # from now on it hears signals
        until(lambda: len(children_of(process.pid)) > 0)
        first = children_of(process.pid)
        for child in first:
            kill(child)  # one may have gone with another
        until(lambda: len(children_of(process.pid) - first) > 0)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE)
        assert process.returncode == 0
