"""The database: lists in pages, projects apart, blocks whole or not at all, and addresses that are refused."""

import math
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from evenhand.errors import EvenhandError
from evenhand.service.settings import Service, Settings
from evenhand.service.storage.database import Database
from evenhand.service.storage.projects import NoSuchProject
from evenhand.service.storage.tables import Project, Run
from tests.worlds.service import small_run
from tests.worlds.storage import claimed, in_state, kinds

pytest_plugins = ["tests.worlds.service"]


def test_runs_are_listed_page_by_page_without_gap_or_repetition(service: Service) -> None:
    made = [small_run(service).id for _ in range(7)]
    seen: list[Run] = []
    while page := service.runs.newest("default", after=(seen[-1].created, seen[-1].id) if seen else None, limit=3):
        seen += page
        small_run(service, project="default")  # newer ones do not disturb the pages that follow
    assert [run.id for run in seen] == made[::-1]


def test_runs_made_at_the_same_moment_are_listed_by_their_ids(service: Service) -> None:
    with service.database.writing() as session:
        moment = datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=5)))
        for letter in "abc":
            values = {"id": letter * 32, "created": moment, "project": "default", "state": "done", "title": "t"}
            session.add(Run(**values, kind="audit", config={}, cancel=False, progress={}, attempts=0, lease=0))
    first = service.runs.newest(limit=2)
    assert [run.id[0] for run in first] == ["c", "b"]
    assert first[0].created == moment
    assert [run.id[0] for run in service.runs.newest(after=(first[1].created, first[1].id))] == ["a"]


def test_lists_are_filtered(service: Service) -> None:
    done, waiting = in_state(service, "done"), small_run(service)
    measure = service.runs.create("default", "measure", "m", {})
    assert [run.id for run in service.runs.newest(state="done")] == [done.id]
    assert [run.id for run in service.runs.newest(kind="measure")] == [measure.id]
    assert [run.id for run in service.runs.newest(state="queued", kind="audit")] == [waiting.id]
    assert service.runs.newest("another") == []


def test_events_are_read_on_from_the_last_one_that_was_seen(service: Service) -> None:
    run, other = small_run(service), small_run(service)
    claim = claimed(service)
    for number in range(5):
        service.runs.tell(claim, "pair", {"number": number})
    first = service.runs.events(run.id, limit=3)
    rest = service.runs.events(run.id, after=first[-1].id)
    assert [event.data.get("number") for event in first + rest] == [None, None, 0, 1, 2, 3, 4]
    assert kinds(service, other.id) == ["queued"]


def test_another_projects_run_is_as_if_it_were_not_there(service: Service) -> None:
    run = in_state(service, "failed")
    for ask in (service.runs.get, service.runs.cancel, service.runs.resume, service.runs.delete):
        with pytest.raises(EvenhandError, match="There is no run"):
            ask(run.id, "another")
    assert service.runs.get(run.id, "default").state == "failed"


def test_a_run_belongs_to_a_project_that_there_is(service: Service) -> None:
    with pytest.raises(NoSuchProject):
        small_run(service, project="nobody")
    assert service.runs.newest() == []


def test_what_people_keep_is_not_in_the_words_of_an_error(service: Service) -> None:
    """They go to the log of the server, which others read."""

    def twice() -> None:
        with service.database.writing() as session:
            session.add(Project(id="default", name="a secret name", created=service.database.now(session)))

    with pytest.raises(IntegrityError) as failed:
        twice()
    assert "a secret name" not in str(failed.value)


def test_a_failed_block_leaves_nothing_behind(service: Service) -> None:
    def broken() -> None:
        with service.database.writing() as session:
            session.add(Project(id="half", name="half", created=service.database.now(session)))
            session.flush()
            raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError):
        broken()
    with service.database.reading() as session:
        assert list(session.scalars(select(Project.id))) == ["default"]


def test_a_reader_does_not_wait_for_a_writer(service: Service) -> None:
    run = small_run(service)
    with service.database.writing() as session:
        written = session.get(Run, run.id)
        assert written is not None
        written.title = "changed"
        session.flush()
        assert service.runs.get(run.id).title == run.title
    assert service.runs.get(run.id).title == "changed"


def test_opening_a_second_time_changes_nothing(open_service: Callable[..., Service], database_url: str) -> None:
    run = small_run(open_service(database=database_url))
    assert open_service(database=database_url).runs.get(run.id).title == run.title


def test_the_address_shows_no_password(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, database="postgresql+psycopg://me:geheim@127.0.0.1:1/none")
    with pytest.raises(EvenhandError, match="does not answer") as caught:
        settings.open()
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize("url", ["nonsense", "oracle9://x", "mysql+nothing://me:geheim@host/db"])
def test_an_address_that_cannot_be_used_is_said(url: str) -> None:
    with pytest.raises(EvenhandError, match="sqlite:///PATH") as caught:
        Database(url)
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "localhost", "::1", "[::1]"])
def test_this_machine_is_a_place_to_listen(host: str) -> None:
    Settings(host=host).check_host()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org", "", "127.0.0.1.example.org"])
def test_every_other_place_is_refused_without_tls(host: str) -> None:
    with pytest.raises(EvenhandError, match="Without TLS"):
        Settings(host=host).check_host()


def test_what_a_database_would_refuse_is_kept_without_it(service: Service) -> None:
    small_run(service)
    claim = service.runs.claim("a worker")
    assert claim is not None
    odd = {"text": "m\0x", "number": math.nan, "list": [math.inf, 1.5, "\ud800"], "m\0": 1}
    service.runs.tell(claim, "note", odd)
    service.runs.beat(claim, odd)
    service.runs.finish(claim, "failed", odd, error="Row 301: 'm\0x' is not among them.")
    kept = {"text": "m\ufffdx", "number": None, "list": [None, 1.5, "?"], "m\ufffd": 1}
    run = service.runs.get(claim.run)
    assert (run.state, run.error) == ("failed", "Row 301: 'm\ufffdx' is not among them.")
    assert (run.result, run.progress) == (kept, kept)
    assert [event.data for event in service.runs.events(run.id) if event.kind == "note"] == [kept]
