"""Projects and the log keep their promises, on SQLite and on PostgreSQL alike."""

import io
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from evenhand.errors import EvenhandError
from evenhand.service.settings import Service
from evenhand.service.storage.accounts import Accounts
from evenhand.service.storage.backup import tables_of
from evenhand.service.storage.home import Home
from evenhand.service.storage.log import Log
from evenhand.service.storage.maintenance import check
from evenhand.service.storage.projects import Projects
from evenhand.service.storage.tables import LogEntry, Run
from tests.worlds.accounts import GOOD
from tests.worlds.service import small_run

pytest_plugins = ["tests.worlds.service", "tests.worlds.accounts"]


@pytest.fixture
def projects(service: Service) -> Projects:
    return Projects(service.database, service.home)


def filled(service: Service, accounts: Accounts, project: str) -> set[str]:
    """One of everything in a project, a user included; returns the ids."""
    table = service.assets.add_dataset(project, "people", io.BytesIO(b"sex,age\nf,20\n"), "x.csv", 1000)
    model = service.assets.add_model(project, "model", io.BytesIO(b"tree\nversion=v4\n"), "x.txt", 1000)
    audit = small_run(service, project, dataset=table.id)
    claim = service.runs.claim("w")
    assert claim is not None
    service.runs.finish(claim, "done")
    service.home.run(audit.id).mkdir()
    (service.home.run(audit.id) / "report.html").write_text("the report")
    repair = service.runs.create(project, "repair", "repair", {}, parent=audit.id)
    service.runs.cancel(repair.id)
    person = accounts.add_user(f"user-{project}", GOOD)
    accounts.set_role(person.name, project, "auditor")
    token, _ = accounts.add_token(person, project, "viewer", "ci", 1)
    return {table.id, model.id, audit.id, repair.id, token.id}


def all_rows(service: Service) -> dict[str, list[str]]:
    with service.database.engine.connect() as connection:
        return {
            table.name: sorted(str(tuple(row)) for row in connection.execute(table.select()))
            for table in tables_of(connection)
        }


def all_files(service: Service) -> list[Path]:
    kinds = ("runs", "datasets", "models", "trash", "uploads")
    return sorted(path for kind in kinds for path in (service.home.path / kind).rglob("*"))


def test_a_project_goes_with_its_rows_and_folders_and_no_others(
    service: Service, projects: Projects, accounts: Accounts
) -> None:
    filled(service, accounts, "default")
    rows, files = all_rows(service), all_files(service)
    loans = projects.add("loans")
    ids = filled(service, accounts, loans.id)
    assert len(all_files(service)) == 2 * len(files) == 12
    assert projects.delete(loans.id).name == "loans"
    after = all_rows(service)
    assert len(after["users"]) == len(rows["users"]) + 1  # people are in no project
    assert {**after, "users": None} == {**rows, "users": None}
    assert all_files(service) == files
    assert not any(known_as in str(after) for known_as in ids)
    assert check(service.database, service.home, grace=0) == []
    with pytest.raises(EvenhandError, match="There is no project"):
        projects.delete(loans.id)


@pytest.mark.parametrize("state", ["running", "cancelling"])
def test_a_project_at_work_is_not_deleted(service: Service, projects: Projects, state: str) -> None:
    loans = projects.add("loans")
    waiting, run = small_run(service, loans.id), small_run(service, loans.id)
    with service.database.writing() as session:
        for found in session.scalars(select(Run).where(Run.id == run.id)):
            found.state = state
    with pytest.raises(EvenhandError, match=rf"runs that are not over, for instance {run.id}\. Cancel them first"):
        projects.delete(loans.id)
    assert {found.id for found in service.runs.newest(loans.id)} == {waiting.id, run.id}


def test_a_run_that_waits_goes_with_its_project_and_no_worker_gets_it(service: Service, projects: Projects) -> None:
    loans = projects.add("loans")
    small_run(service, loans.id)
    projects.delete(loans.id)
    assert service.runs.claim("w") is None


def test_folders_that_could_not_be_removed_are_swept_away_later(
    service: Service, projects: Projects, accounts: Accounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    loans = projects.add("loans")
    filled(service, accounts, loans.id)

    def broken(_: Home, folder: Path) -> None:
        raise OSError(5, "Input/output error", str(folder))

    with monkeypatch.context() as patch:
        patch.setattr(Home, "remove", broken)
        with pytest.raises(OSError, match="Input/output error"):
            projects.delete(loans.id)
    assert len(service.home.sweep(service.database, grace=0)) == 3
    assert all_files(service) == []


def test_the_first_project_stays(projects: Projects) -> None:
    with pytest.raises(EvenhandError, match="'default' is always there"):
        projects.delete("default")
    assert [project.id for project in projects.all()] == ["default"]


def test_projects_are_found_by_id_and_by_name(projects: Projects) -> None:
    loans = projects.add(" loans \t of\n2026 ")
    assert loans.name == "loans of 2026"
    assert projects.get(loans.id).name == projects.get("loans of 2026").name == loans.name
    projects.rename(loans.id, "Aus Zürich")
    projects.rename("default", "everything else")
    assert [project.name for project in projects.all()] == ["Aus Zürich", "everything else"]
    assert projects.get("default").name == "everything else"
    projects.rename("default", "default")
    for known_as in ("loans of 2026", "", "\0", "\ud800"):
        with pytest.raises(EvenhandError, match="There is no project"):
            projects.get(known_as)
    with pytest.raises(EvenhandError, match="There is no project"):
        projects.rename("none", "new")


def test_names_that_cannot_be_are_refused(projects: Projects) -> None:
    projects.add("loans")
    people = projects.add("people")
    for name, words in (
        ("", "has 1 to 100 characters"),
        (" \n\0", "has 1 to 100 characters"),
        ("x" * 101, "has 1 to 100 characters"),
        ("default", "could be mistaken for a project's id"),
        ("a" * 32, "could be mistaken for a project's id"),
        ("loans", "There is a project 'loans' already"),
    ):
        with pytest.raises(EvenhandError, match=words):
            projects.add(name)
        with pytest.raises(EvenhandError, match=words):
            projects.rename(people.id, name)
    assert [project.name for project in projects.all()] == ["default", "loans", "people"]


# The log.


def told(entries: list[LogEntry]) -> list[str]:
    return [entry.action for entry in entries]


def test_the_log_is_read_from_the_newest_on(service: Service) -> None:
    log = Log(service.database)
    for number in range(5):
        log.note(f"deed {number}", user="anna" if number % 2 else "ben", project="default" if number < 4 else None)
    first = log.entries(limit=2)
    assert told(first) == ["deed 4", "deed 3"]
    assert told(log.entries(after=first[-1].id)) == ["deed 2", "deed 1", "deed 0"]
    assert told(log.entries(user="anna")) == ["deed 3", "deed 1"]
    assert told(log.entries(action="deed 2")) == ["deed 2"]
    assert told(log.entries(project="default", user="ben")) == ["deed 2", "deed 0"]
    assert log.entries(user="carl\0") == []


def test_an_entry_keeps_who_what_where_and_more(service: Service) -> None:
    log = Log(service.database)
    log.note("uploaded", user="anna", address="::1", project="default", subject="x.csv", size=3, words=["ä"])
    entry = log.entries()[0]
    assert (entry.user, entry.address, entry.project, entry.subject) == ("anna", "::1", "default", "x.csv")
    assert entry.data == {"size": 3, "words": ["ä"]}
    assert entry.at.tzinfo is not None


def test_what_a_terminal_would_obey_is_not_kept(service: Service) -> None:
    log = Log(service.database)
    for letter in ("\0", "\n", "\x1b", "\u202e", "\ud800"):
        hostile: dict[str, Any] = dict.fromkeys(("user", "address", "project", "subject", "browser"), f"a{letter}b")
        log.note("uploaded", **hostile)
        entry = log.entries(user=f"a{letter}b")[0]
        kept = (entry.user, entry.address, entry.project, entry.subject, entry.data["browser"])
        assert kept == ("a\N{REPLACEMENT CHARACTER}b",) * 5
    assert len(log.entries()) == 5


def test_long_texts_are_cut(service: Service) -> None:
    log = Log(service.database)
    log.note("uploaded", user="u" * 999, address="a" * 999, project="p" * 999, subject="s" * 999, browser="x" * 999)
    entry = log.entries()[0]
    assert (entry.user, entry.address, entry.project) == ("u" * 100, "a" * 100, "p" * 32)
    assert (entry.subject, entry.data) == ("s" * 200, {"browser": "x" * 500})
