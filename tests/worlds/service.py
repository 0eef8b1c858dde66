"""A service for tests, on SQLite and on a real PostgreSQL.   PYTEST_DONT_REWRITE

A test file that wants the fixtures says `pytest_plugins = ["tests.worlds.service"]`.
"""

import os
import pwd
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from evenhand.service.settings import Service, Settings
from evenhand.service.storage.tables import Run

PROGRAMS = Path("/usr/lib/postgresql")
SMALL_AUDIT: dict[str, Any] = {
    "dataset": "census", "model": None, "protected": ["sex"], "seeds": 10, "steps": 5, "iterations": 2, "seed": 1,
}  # fmt: skip
DATABASES = ("sqlite", "postgresql")
LASTING_LEASE = 60.0  # seconds: it does not run out, even if the machine stands still for a while
LONG_LEASE = 10.0  # seconds: it runs out when its holder is gone, and hardly before


def needs(program: str, package: str) -> str:
    """The path of a program; where it is missing the test is skipped, or fails where everything is to be tested."""
    newest = sorted(PROGRAMS.glob(f"*/bin/{program}"), key=lambda path: int(path.parts[-3]))
    found = shutil.which(program) or (str(newest[-1]) if newest else None)
    if found is not None:
        return found
    words = f"{program} is not installed: apt install {package}"
    if os.environ.get("EVENHAND_TEST_EVERYTHING") == "1":
        pytest.fail(words)
    pytest.skip(words)


@dataclass
class Cluster:
    """A PostgreSQL server of the tests' own, reached through a socket in its folder."""

    folder: Path

    def start(self) -> None:
        options = f"-k {self.folder} -c listen_addresses='' -c max_connections=200 -c fsync=off -c autovacuum=off"
        self.call("pg_ctl", "-D", self.data, "-w", "-t", "600", "-o", options, "-l", f"{self.folder}/log", "start")

    def stop(self) -> None:
        self.call("pg_ctl", "-D", self.data, "-m", "immediate", "-w", "-t", "600", "stop")

    @property
    def data(self) -> str:
        return str(self.folder / "data")

    def call(self, program: str, *arguments: str) -> None:
        """Run a program of PostgreSQL, which refuses to be run by root."""
        user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        command = [*user, needs(program, "postgresql"), *arguments]
        with tempfile.TemporaryFile("w+") as words:  # a file: the server that pg_ctl starts would hold a pipe open
            done = subprocess.run(command, stdout=words, stderr=words, cwd=self.folder, check=False)
            words.seek(0)
            assert done.returncode == 0, f"{command}: {words.read()}"

    def url(self, name: str) -> str:
        return f"postgresql+psycopg://evenhand@/{name}?host={self.folder}"

    def new_database(self, template: str = "template0") -> str:
        """The address of a fresh database."""
        name = f"t{uuid.uuid4().hex}"
        self.sql(f"create database {name} template {template}")
        return self.url(name)

    def sql(self, statement: str) -> None:
        self.call("psql", "-h", str(self.folder), "-U", "evenhand", "-d", "postgres", "-qc", statement)

    @cached_property
    def template(self) -> str:
        """A database with our tables and the default project, which others are copies of."""
        url = self.new_database()
        with tempfile.TemporaryDirectory() as home:
            settings = Settings(home=Path(home), database=url)
            storage = settings.storage()
            from evenhand.service.storage.database import upgrade

            upgrade(storage.database)
            storage.close()
            settings.open().close()
        return url.partition("@/")[2].partition("?")[0]


def new_cluster(folder: Path) -> Cluster:
    """Make and start a server in an empty folder."""
    cluster = Cluster(folder)
    needs("initdb", "postgresql")
    if os.geteuid() == 0:
        os.chown(folder, pwd.getpwnam("postgres").pw_uid, -1)
    cluster.call("initdb", "-D", cluster.data, "-U", "evenhand", "-A", "trust", "-E", "UTF8", "--no-locale", "-N")
    cluster.start()
    return cluster


@pytest.fixture(scope="session")
def postgres() -> Iterator[Cluster]:
    """One server for all tests of a process. Its folder has a short name: sockets' names are limited."""
    with tempfile.TemporaryDirectory(prefix="pg") as folder:
        cluster = new_cluster(Path(folder))
        yield cluster
        cluster.stop()


@pytest.fixture(params=DATABASES)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a database for one test: SQLite has no file yet, PostgreSQL has the tables."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'home' / 'evenhand.db'}"
    cluster: Cluster = request.getfixturevalue("postgres")
    return cluster.new_database(cluster.template)


@pytest.fixture
def open_service(tmp_path: Path) -> Iterator[Callable[..., Service]]:
    """Opens services in the test's folder, with settings of one's own, and closes them after the test."""
    opened: list[Service] = []

    def opening(**settings: Any) -> Service:
        opened.append(Settings(**{"home": tmp_path / "home", "database": None} | settings).open())
        return opened[-1]

    yield opening
    for service in opened:
        service.close()


@pytest.fixture
def service(open_service: Callable[..., Service], database_url: str) -> Service:
    """A service without anything in it, on each database."""
    return open_service(database=database_url)


@pytest.fixture
def sqlite_service(open_service: Callable[..., Service]) -> Service:
    """The same on SQLite only, for tests to which the database makes no difference."""
    return open_service()


@pytest.fixture
def lasting_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of workers in which no lease has to run out."""
    monkeypatch.setattr("tests.worlds.worker_checks.LEASE", LASTING_LEASE)


@pytest.fixture
def long_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of workers that count how often a lease runs out."""
    monkeypatch.setattr("tests.worlds.worker_checks.LEASE", LONG_LEASE)


def small_run(service: Service, project: str = "default", **changes: Any) -> Run:
    """A small audit of the built-in census network, waiting for a worker."""
    return service.runs.create(project, "audit", "census, sex", SMALL_AUDIT | changes)


def lapse(service: Service, run_id: str) -> None:
    """As if the run's worker had been silent for an hour."""
    with service.database.writing() as session:
        run = session.get(Run, run_id)
        assert run is not None
        run.lease_until = service.database.now(session) - timedelta(hours=1)
