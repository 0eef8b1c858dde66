"""The tables in the database are those that the program knows, however old the database is."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import alembic.op
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect, text

from evenhand.errors import EvenhandError
from evenhand.service.settings import Service, Settings
from evenhand.service.storage.database import (
    Database,
    check_revision,
    known_revisions,
    newest_revision,
    revision,
    upgrade,
)
from evenhand.service.storage.tables import Base
from tests.worlds.service import DATABASES, Cluster, small_run

pytest_plugins = ["tests.worlds.service"]

# The first release's tables, as each database wrote them down then. These files are never changed.
FIRST = Path(__file__).parent / "schemas"


@pytest.fixture(params=DATABASES)
def empty_database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """A database without any table."""
    if request.param == "sqlite":
        database = Database(f"sqlite:///{tmp_path / 'empty.db'}")
    else:
        cluster: Cluster = request.getfixturevalue("postgres")
        database = Database(cluster.new_database())
    yield database
    database.close()


def test_the_migrations_make_the_tables_that_the_program_knows(empty_database: Database) -> None:
    upgrade(empty_database)
    with empty_database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []
        found = inspect(connection)  # what happens on deletion is not compared above on every database
        for table in Base.metadata.sorted_tables:
            keys = found.get_foreign_keys(table.name)
            rules = {key["constrained_columns"][0]: key["options"].get("ondelete") for key in keys}
            assert rules == {column.name: key.ondelete for column in table.c for key in column.foreign_keys}


def test_versions_are_counted_up_one_by_one() -> None:
    assert known_revisions() == [f"{number:04d}" for number in range(1, len(known_revisions()) + 1)]
    assert known_revisions()[-1] == newest_revision()


def test_a_database_without_tables_is_not_worked_with(empty_database: Database) -> None:
    assert revision(empty_database) is None
    with pytest.raises(EvenhandError, match=r"no tables yet\. Run `evenhand storage upgrade`"):
        check_revision(empty_database)
    upgrade(empty_database)
    check_revision(empty_database)
    upgrade(empty_database)  # a second time changes nothing
    assert revision(empty_database) == newest_revision()


def test_a_newer_database_is_left_alone(empty_database: Database) -> None:
    upgrade(empty_database)
    with empty_database.begin_writing() as connection:
        connection.execute(text("update alembic_version set version_num = '9999'"))
    with pytest.raises(EvenhandError, match="made by a newer evenhand"):
        check_revision(empty_database)


def test_an_older_database_asks_for_an_upgrade(empty_database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    upgrade(empty_database)
    monkeypatch.setattr("evenhand.service.storage.database.newest_revision", lambda: "9999")
    with pytest.raises(EvenhandError, match="`evenhand storage backup`, then run `evenhand storage upgrade`"):
        check_revision(empty_database)


def test_an_upgrade_that_fails_changes_nothing(empty_database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    make = alembic.op.create_table

    def failing(name: str, *columns: Any) -> Any:
        if name == "events":  # the last one
            raise RuntimeError("on purpose")
        return make(name, *columns)

    with monkeypatch.context() as patched:
        patched.setattr(alembic.op, "create_table", failing)
        with pytest.raises(RuntimeError, match="on purpose"):
            upgrade(empty_database)
    with empty_database.engine.connect() as connection:
        assert inspect(connection).get_table_names() == []
    upgrade(empty_database)
    check_revision(empty_database)


def test_several_may_upgrade_at_once(empty_database: Database) -> None:
    failures: list[BaseException] = []

    def one() -> None:
        database = Database(empty_database.url.render_as_string(hide_password=False))
        try:
            upgrade(database)
            check_revision(database)
        except BaseException as error:
            failures.append(error)
        finally:
            database.close()

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_new_sqlite_file_gets_its_tables_by_itself(open_service: Callable[..., Service]) -> None:
    service = open_service()
    assert revision(service.database) == newest_revision()
    assert (service.home.path / "evenhand.db").is_file()


def test_postgresql_is_only_changed_when_asked(postgres: Cluster, tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, database=postgres.new_database())
    with pytest.raises(EvenhandError, match="Run `evenhand storage upgrade`"):
        settings.open()
    storage = settings.storage()
    upgrade(storage.database)
    storage.close()
    settings.open().close()


def test_the_first_releases_database_is_brought_up_to_date_with_its_content(
    empty_database: Database, tmp_path: Path
) -> None:
    statements = (FIRST / f"0001_{empty_database.engine.dialect.name}.sql").read_text().split(";\n")
    with empty_database.begin_writing() as connection:
        for statement in filter(str.strip, statements):
            connection.exec_driver_sql(statement)
    assert revision(empty_database) == "0001"
    upgrade(empty_database)
    service = Settings(home=tmp_path / "home", database=empty_database.url.render_as_string(hide_password=False)).open()
    run = service.runs.get("0" * 31 + "1")
    assert (run.title, run.state, run.result) == ("census, sex", "done", {"findings": 3})
    assert run.created.isoformat() == "2026-11-16T12:00:00.000001+00:00"
    assert [event.kind for event in service.runs.events(run.id)] == ["queued", "done"]
    assert service.assets.dataset("0" * 31 + "2").rows is None
    assert service.assets.model("0" * 31 + "3").name == "ä model"
    assert small_run(service).state == "queued"
    service.close()
