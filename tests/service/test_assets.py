"""Kept tables and models: described, listed, there as long as a run needs them, really deleted, the owner's alone."""

import io
import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy.orm import Session

from evenhand.data.dataset import load_dataset
from evenhand.errors import EvenhandError
from evenhand.service.api.caller import Caller
from evenhand.service.api.errors import ApiError
from evenhand.service.api.runs import create_run, requeue_run
from evenhand.service.requests import AuditRequest
from evenhand.service.settings import Service
from evenhand.service.storage.assets import InUseError
from evenhand.service.storage.home import Home, default_home
from evenhand.service.storage.projects import NoSuchProject
from tests.worlds.assets import DESCRIPTION, LIMIT, SCHEMA, TABLE, add_network, add_table, files_in, outcome_of
from tests.worlds.service import SMALL_AUDIT, small_run

pytest_plugins = ["tests.worlds.service"]


def test_a_project_is_not_deleted_while_a_run_is_made_in_it(service: Service) -> None:
    """Both hold what they need in the same order, so that neither waits for the other for ever."""
    loans, together = service.projects.add("loans"), threading.Barrier(2)
    table = service.assets.add_dataset(loans.id, "people", io.BytesIO(TABLE), "x.csv", LIMIT)
    outcomes: list[str] = []
    config = SMALL_AUDIT | {"dataset": table.id}

    def hold(session: Session) -> None:
        together.wait()  # now the other one may try
        service.assets.hold(session, loans.id, config)

    deleting = outcome_of(lambda: service.projects.delete(loans.id), together, outcomes)
    service.runs.create(loans.id, "audit", "people", config, check=hold)
    deleting.join()
    assert outcomes == ["done"]  # after the run was made, and with it
    assert service.runs.newest() == []
    with pytest.raises(NoSuchProject):
        service.runs.create(loans.id, "audit", "people", config)
    with pytest.raises(NoSuchProject):
        service.runs.begin(loans.id, "audit", "people", config, "w")


def test_a_schema_is_checked_before_it_is_kept(service: Service) -> None:
    entry = add_table(service)
    assert entry.schema_text is None
    service.assets.set_schema(entry.id, SCHEMA, "default")
    assert service.assets.dataset(entry.id).schema_text == SCHEMA
    for text, words in (
        ("name = ", "not valid TOML"),
        (SCHEMA.replace("table.csv", "/etc/passwd"), 'Write file = "table.csv"'),
        (SCHEMA.replace('kind = "number"', 'kind = "odd"'), "is wrong at"),
        ("a=" + "[" * 100_000, "not valid TOML"),
        (SCHEMA + "#" * (4 << 20), "characters"),
    ):
        with pytest.raises(EvenhandError, match=words):
            service.assets.set_schema(entry.id, text)
    assert service.assets.dataset(entry.id).schema_text == SCHEMA


def test_a_network_needs_its_description(service: Service) -> None:
    entry = add_network(service, None)
    assert not service.assets.is_described(entry)
    service.assets.describe_model(entry.id, DESCRIPTION, "default")
    assert service.assets.is_described(entry)
    from evenhand.models.loading import load_module

    load_module(load_dataset("census"), service.assets.model_path(entry))


def test_names_are_made_printable_and_must_be_there(sqlite_service: Service) -> None:
    assets = sqlite_service.assets
    entry = assets.add_dataset("default", "  My\n\x1b[31m \u202etable " + "x" * 300, io.BytesIO(TABLE), "x.csv", LIMIT)
    assert entry.name.startswith("My [31m table xxx")
    assert len(entry.name) == 200
    with pytest.raises(EvenhandError, match="A name is missing"):
        assets.add_dataset("default", " \n", io.BytesIO(TABLE), "x.csv", LIMIT)


def test_lists_come_in_pages_and_by_project(service: Service) -> None:
    made = [add_table(service).id for _ in range(5)]
    first = service.assets.datasets("default", limit=2)
    rest = service.assets.datasets("default", after=(first[-1].created, first[-1].id))
    assert [entry.id for entry in first + rest] == made[::-1]
    assert service.assets.datasets("another") == []
    assert service.assets.models() == []
    with pytest.raises(EvenhandError, match="There is no data set"):
        service.assets.dataset(made[0], "another")
    with pytest.raises(EvenhandError, match="There is no model"):
        service.assets.model(made[0])


def test_what_is_deleted_is_really_gone(service: Service) -> None:
    table, network = add_table(service), add_network(service)
    with pytest.raises(EvenhandError, match="There is no data set"):
        service.assets.delete_dataset(table.id, "another")
    service.assets.delete_dataset(table.id, "default")
    service.assets.delete_model(network.id, "default")
    assert files_in(service) == []
    assert service.assets.datasets() == []
    assert service.assets.models() == []


def test_two_may_delete_at_the_same_moment(service: Service) -> None:
    for _ in range(5):
        table = add_table(service)
        together = threading.Barrier(2)
        outcomes: list[str] = []

        def delete(known_as: str = table.id, at: threading.Barrier = together, seen: list[str] = outcomes) -> None:
            at.wait()
            try:
                service.assets.delete_dataset(known_as)
                seen.append("deleted")
            except EvenhandError:
                seen.append("not there")

        threads = [threading.Thread(target=delete) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(outcomes) == ["deleted", "not there"]
    assert files_in(service) == []


def test_what_a_run_needs_is_kept_until_the_run_is_over(service: Service) -> None:
    table, network = add_table(service), add_network(service)
    run = small_run(service, dataset=table.id, model=network.id)
    with pytest.raises(InUseError, match=run.id):
        service.assets.delete_dataset(table.id)
    with pytest.raises(InUseError, match=run.id):
        service.assets.delete_model(network.id)
    assert service.assets.dataset_path(table).is_file()
    service.runs.cancel(run.id)
    service.assets.delete_dataset(table.id)
    service.assets.delete_model(network.id)
    assert files_in(service) == []


@pytest.mark.parametrize("what", ["dataset", "model"])
def test_a_run_and_the_deletion_of_what_it_needs_cannot_both_happen(service: Service, what: str) -> None:
    """Asked for at the same moment, one of the two is refused: no run waits for what is gone."""
    for _ in range(8):
        table, network = add_table(service), add_network(service)
        service.assets.set_schema(table.id, SCHEMA)
        request = AuditRequest(dataset=table.id, model=network.id, protected=["sex"])
        together, outcomes = threading.Barrier(2), list[str]()
        asking = outcome_of(partial(create_run, Caller(service, "default"), "audit", request), together, outcomes)
        delete = service.assets.delete_dataset if what == "dataset" else service.assets.delete_model
        deleting = outcome_of(partial(delete, table.id if what == "dataset" else network.id), together, outcomes)
        asking.join()
        deleting.join()
        (refused,) = [words for words in outcomes if words != "done"]
        waiting = service.runs.newest(state="queued")
        left = service.assets.datasets() if what == "dataset" else service.assets.models()
        assert (len(waiting), len(left)) in ((1, 1), (0, 0)), refused
        assert ("needs it" in refused) == bool(waiting)
        for run in waiting:
            service.runs.cancel(run.id)
        for one in service.assets.datasets():
            service.assets.delete_dataset(one.id)
        for other in service.assets.models():
            service.assets.delete_model(other.id)


def test_a_deletion_waits_for_a_run_that_is_being_asked_for(service: Service) -> None:
    """Once a run has hold of its table, a deletion comes too late, however long the run takes to be made."""
    table, together, outcomes = add_table(service), threading.Barrier(2), list[str]()
    config = SMALL_AUDIT | {"dataset": table.id}

    def hold(session: Session) -> None:
        service.assets.hold(session, "default", config)
        together.wait()  # now the other one may try

    deleting = outcome_of(lambda: service.assets.delete_dataset(table.id), together, outcomes)
    run = service.runs.create("default", "audit", "people", config, check=hold)
    deleting.join()
    assert outcomes == [f"The run {run.id} needs it. Cancel that run first, or wait until it is over."]
    assert service.assets.dataset_path(table).is_file()


def test_a_run_is_not_taken_up_again_without_its_table(service: Service) -> None:
    table = add_table(service)
    run = small_run(service, dataset=table.id)
    service.runs.cancel(run.id)
    service.assets.delete_dataset(table.id)
    with pytest.raises(ApiError, match="There is no data set") as refused:
        requeue_run(Caller(service, "default"), run.id)
    assert refused.value.what == "conflict"
    assert service.runs.get(run.id).state == "cancelled"


@pytest.mark.parametrize("known_as", ["", "..", "../x", "a" * 31, "A" * 32, "a" * 33, "a" * 32 + "\n", "a/" + "b" * 30])
def test_what_is_no_id_is_no_folder(tmp_path: Path, known_as: str) -> None:
    with pytest.raises(EvenhandError, match="is not an id"):
        Home(tmp_path).run(known_as)


def test_the_folder_is_the_owners_alone(sqlite_service: Service) -> None:
    assert sqlite_service.home.path.stat().st_mode & 0o077 == 0


def modes(home: Path) -> dict[str, str]:
    return {path.name: f"{path.stat().st_mode & 0o777:o}" for path in home.iterdir()}


@pytest.mark.parametrize("left_open", [False, True], ids=["new", "from before"])
def test_what_is_in_the_folder_is_the_owners_alone_also_where_the_folder_is_not(
    tmp_path: Path, open_service: Callable[..., Service], left_open: bool
) -> None:
    home, before = tmp_path / "home", os.umask(0o022)
    try:
        home.mkdir(mode=0o755)
        first = open_service()
        if left_open:
            for path in home.iterdir():
                path.chmod(0o755 if path.is_dir() else 0o644)
            first = open_service()
        small_run(first)
        folders = dict.fromkeys(("uploads", "trash", "runs", "datasets", "models"), "700")
        files = dict.fromkeys(("evenhand.db", "evenhand.db-wal", "evenhand.db-shm"), "600")
        assert modes(home) == folders | files
        assert home.stat().st_mode & 0o777 == 0o755  # whoever made it chose that
    finally:
        os.umask(before)


def test_a_database_elsewhere_is_the_owners_alone(tmp_path: Path, open_service: Callable[..., Service]) -> None:
    elsewhere, before = tmp_path / "elsewhere", os.umask(0o022)
    try:
        elsewhere.mkdir(mode=0o755)
        open_service(database=f"sqlite:///{elsewhere}/own.db")
    finally:
        os.umask(before)
    assert set(modes(elsewhere).values()) == {"600"}


def test_the_folder_is_where_the_user_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("EVENHAND_HOME", str(tmp_path / "a"))
    assert default_home() == tmp_path / "a"
    monkeypatch.delenv("EVENHAND_HOME")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "b"))
    assert default_home() == tmp_path / "b" / "evenhand"
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    assert default_home() == Path.home() / ".local" / "share" / "evenhand"
