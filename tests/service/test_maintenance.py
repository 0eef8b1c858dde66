"""Copies bring back everything, on whichever database; the check finds what is wrong and nothing else."""

import io
import json
import os
import sqlite3
import tarfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from evenhand.errors import EvenhandError
from evenhand.service.settings import Service, Settings
from evenhand.service.storage.accounts import Accounts
from evenhand.service.storage.backup import backup, restore
from evenhand.service.storage.log import Log
from evenhand.service.storage.maintenance import check, counts
from evenhand.service.storage.projects import Projects
from evenhand.service.storage.tables import Token, User
from evenhand.service.storage.uploads import Upload
from tests.worlds.accounts import GOOD
from tests.worlds.service import DATABASES, Cluster, small_run

pytest_plugins = ["tests.worlds.service", "tests.worlds.accounts"]

TABLE = b"sex,age,approved\nf,20,0\n"
MODEL = b"tree\nversion=v4\n"


def filled(service: Service) -> dict[str, str]:
    """A service with one of each, in several states; returns their ids."""
    table = service.assets.add_dataset("default", "peöple", io.BytesIO(TABLE), "x.csv", 1000)
    model = service.assets.add_model("default", "model", io.BytesIO(MODEL), "x.txt", 1000)
    done = small_run(service, dataset=table.id)
    claim = service.runs.claim("w")
    assert claim is not None
    service.runs.finish(claim, "done", result={"findings": 3, "words": "ß"})
    service.home.run(done.id).mkdir()
    (service.home.run(done.id) / "report.html").write_text("the report")
    repair = service.runs.create("default", "repair", "repair", {}, parent=done.id)
    running = service.runs.claim("w")
    assert running is not None
    service.runs.beat(running, {"done": 1})
    (service.home.run(repair.id) / "attempt-1.partial").mkdir(parents=True)
    (service.home.run(repair.id) / "attempt-1.partial" / "half").write_text("half")
    return {"table": table.id, "model": model.id, "done": done.id, "running": repair.id}


@pytest.fixture(params=DATABASES)
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Service]:
    """The storage of a service that is to be restored: empty, without tables."""
    url = None
    if request.param == "postgresql":
        cluster: Cluster = request.getfixturevalue("postgres")
        url = cluster.new_database()
    storage = Settings(home=tmp_path / "target", database=url).storage()
    yield storage
    storage.close()


def test_a_copy_brings_everything_back_on_any_database(service: Service, target: Service, tmp_path: Path) -> None:
    ids = filled(service)
    summary = backup(service.database, service.home, tmp_path / "copy.tar")
    kept = {table: count for table, count in summary["rows"].items() if count}
    assert kept == {"projects": 1, "datasets": 1, "models": 1, "runs": 2, "events": 5}
    assert summary["left_out"] == []
    restore(target.database, target.home, tmp_path / "copy.tar")
    assert target.assets.dataset_path(target.assets.dataset(ids["table"])).read_bytes() == TABLE
    assert target.assets.model_path(target.assets.model(ids["model"])).read_bytes() == MODEL
    before, after = service.runs.get(ids["done"]), target.runs.get(ids["done"])
    for name in ("title", "config", "state", "result", "created", "started", "finished", "progress", "lease"):
        assert getattr(after, name) == getattr(before, name), name
    assert (target.home.run(ids["done"]) / "report.html").read_text() == "the report"
    said = [(event.id, event.at, event.kind, event.data) for event in service.runs.events(ids["done"])]
    assert [(event.id, event.at, event.kind, event.data) for event in target.runs.events(ids["done"])] == said
    assert check(target.database, target.home, grace=0) == []


def test_a_restored_service_goes_on(service: Service, target: Service, tmp_path: Path) -> None:
    ids = filled(service)
    backup(service.database, service.home, tmp_path / "copy.tar")
    restore(target.database, target.home, tmp_path / "copy.tar")
    run = target.runs.get(ids["running"])
    assert (run.state, run.worker, run.lease_until, run.parent) == ("interrupted", None, None, ids["done"])
    assert not target.home.run(run.id).exists()  # half a result is none
    claim = target.runs.claim("new")
    assert claim is not None
    assert claim.run == run.id
    assert claim.lease > service.runs.get(run.id).lease  # the old worker's number does not count any more
    target.runs.finish(claim, "done")
    assert small_run(target).state == "queued"  # the counter of events goes on too
    opened = target.settings.open()
    assert counts(opened.database) == {"runs": 3, "data sets": 1, "models": 1}
    opened.close()


@pytest.mark.usefixtures("cheap_hashes")
def test_a_copy_keeps_accounts_but_nobody_stays_signed_in(service: Service, target: Service, tmp_path: Path) -> None:
    before, after = Accounts(service.database), Accounts(target.database)
    anna = before.add_user("anna", GOOD, admin=True)
    before.add_user("ben", GOOD)
    before.set_role("ben", "default", "viewer")
    cookie = before.sign_in("anna", GOOD, "::1")
    _, secret = before.add_token(anna, "default", "auditor", "ci", 9)
    before.by_token(secret)
    summary = backup(service.database, service.home, tmp_path / "copy.tar")
    kept = {table: count for table, count in summary["rows"].items() if count}
    assert kept == {"projects": 1, "users": 2, "members": 1, "tokens": 1, "log": 1}
    restore(target.database, target.home, tmp_path / "copy.tar")
    assert before.signed_in(cookie) is not None
    assert after.signed_in(cookie) is None
    assert everything(target, Token) == everything(service, Token)
    assert everything(target, User) == everything(service, User)
    found = after.by_token(secret)
    assert found is not None
    assert (found[0], found[2]) == (anna, "auditor")
    assert [(user.name, role) for user, role in after.members("default")] == [("ben", "viewer")]
    after.sign_in("ben", GOOD, "::1")  # the log's counter goes on too
    assert [entry.user for entry in Log(target.database).entries()] == ["ben", "anna"]
    assert check(target.database, target.home, grace=0) == []


def everything(service: Service, table: type[Token] | type[User]) -> list[tuple[Any, ...]]:
    with service.database.reading() as session:
        rows = session.scalars(select(table).order_by(table.id))
        return [tuple(getattr(row, column.key) for column in table.__table__.columns) for row in rows]


def _with_user(service: Service) -> None:
    Accounts(service.database).add_user("anna", GOOD)


def _with_project(service: Service) -> None:
    Projects(service.database, service.home).add("loans")


def _with_log(service: Service) -> None:
    Log(service.database).note("deleted a run")


@pytest.mark.parametrize(
    ("fill", "table"),
    [(_with_user, "users"), (_with_project, "projects"), (_with_log, "log")],
    ids=["user", "project", "log"],
)
@pytest.mark.usefixtures("cheap_hashes")
def test_neither_people_nor_projects_nor_the_log_are_overwritten(
    open_service: Callable[..., Service], tmp_path: Path, fill: Callable[[Service], None], table: str
) -> None:
    first, second = open_service(), open_service(home=tmp_path / "second")
    backup(first.database, first.home, tmp_path / "copy.tar")
    fill(second)
    with pytest.raises(EvenhandError, match=f"'{table}' has entries, which a copy must not overwrite"):
        restore(second.database, second.home, tmp_path / "copy.tar")


def test_nothing_is_ever_overwritten(sqlite_service: Service, tmp_path: Path) -> None:
    ids = filled(sqlite_service)
    backup(sqlite_service.database, sqlite_service.home, tmp_path / "copy.tar")
    with pytest.raises(EvenhandError, match="must not overwrite"):
        restore(sqlite_service.database, sqlite_service.home, tmp_path / "copy.tar")
    assert sqlite_service.runs.get(ids["running"]).state == "running"


def test_an_opened_but_empty_service_can_be_restored(open_service: Callable[..., Service], tmp_path: Path) -> None:
    first = open_service()
    filled(first)
    backup(first.database, first.home, tmp_path / "copy.tar")
    second = open_service(home=tmp_path / "second")
    restore(second.database, second.home, tmp_path / "copy.tar")
    assert counts(second.database) == counts(first.database)


def test_a_copy_is_for_its_owner_alone_and_whole_or_not_at_all(
    sqlite_service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(sqlite_service)
    backup(sqlite_service.database, sqlite_service.home, tmp_path / "copy.tar")
    assert (tmp_path / "copy.tar").stat().st_mode & 0o077 == 0

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tarfile.TarFile, "addfile", full)
    with pytest.raises(EvenhandError, match="No space left on device"):
        backup(sqlite_service.database, sqlite_service.home, tmp_path / "other.tar")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy.tar", "home"]


def test_a_copy_sees_one_moment(service: Service, target: Service, tmp_path: Path) -> None:
    """While it is made, others delete what it has seen and add what it has not."""
    ids = filled(service)
    original = tarfile.TarFile.addfile

    def disturbed(self: tarfile.TarFile, *arguments: Any, **options: Any) -> None:
        if not disturbances:
            disturbances.append(1)
            thread = threading.Thread(target=disturb)
            thread.start()
            thread.join()
        original(self, *arguments, **options)

    def disturb() -> None:
        service.assets.delete_dataset(ids["table"])
        service.delete_run(ids["done"])
        small_run(service)

    disturbances: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tarfile.TarFile, "addfile", disturbed)
        summary = backup(service.database, service.home, tmp_path / "copy.tar")
    assert disturbances
    restore(target.database, target.home, tmp_path / "copy.tar")
    assert check(target.database, target.home, grace=0) == []
    assert [run.id for run in target.runs.newest()] == [ids["running"]]
    assert target.runs.get(ids["running"]).parent is None
    assert summary["left_out"] == sorted([f"datasets/{ids['table']}", f"runs/{ids['done']}"])


def damaged(
    path: Path, out: Path, change: Callable[[tarfile.TarInfo, bytes], tuple[tarfile.TarInfo, bytes] | None]
) -> None:
    with tarfile.open(path) as source, tarfile.open(out, "w") as target:
        for entry in source.getmembers():
            stream = source.extractfile(entry)
            assert stream is not None
            changed = change(entry, stream.read())
            if changed is not None:
                changed[0].size = len(changed[1])
                target.addfile(changed[0], io.BytesIO(changed[1]))


def _renamed(entry: tarfile.TarInfo, content: bytes) -> tuple[tarfile.TarInfo, bytes]:
    entry.name = entry.name.replace("files/datasets", "files/../../datasets")
    return entry, content


def _linked(entry: tarfile.TarInfo, content: bytes) -> tuple[tarfile.TarInfo, bytes]:
    if entry.name.startswith("files/"):
        entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/passwd"
        return entry, b""
    return entry, content


def _newer(entry: tarfile.TarInfo, content: bytes) -> tuple[tarfile.TarInfo, bytes]:
    if entry.name == "backup.json":
        content = json.dumps(json.loads(content) | {"revision": "9999"}).encode()
    return entry, content


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda entry, content: (entry, content.replace(b"20", b"99")), "is damaged"),
        (lambda entry, content: None if entry.name.startswith("files/") else (entry, content), "is damaged"),
        (lambda entry, content: None if entry.name == "backup.json" else (entry, content), "no backup.json"),
        (_renamed, "no copy that evenhand made"),
        (_linked, "no copy that evenhand made"),
        (_newer, "newer evenhand"),
    ],
)
def test_a_copy_that_was_changed_is_refused_and_leaves_nothing(
    open_service: Callable[..., Service], tmp_path: Path, change: Any, words: str
) -> None:
    service = open_service()
    filled(service)
    backup(service.database, service.home, tmp_path / "copy.tar")
    damaged(tmp_path / "copy.tar", tmp_path / "bad.tar", change)
    other = open_service(home=tmp_path / "other")
    with pytest.raises(EvenhandError, match=words):
        restore(other.database, other.home, tmp_path / "bad.tar")
    assert list(other.home.path.glob("*/**/*")) == []
    assert counts(other.database) == {"runs": 0, "data sets": 0, "models": 0}


def test_what_is_no_archive_is_said(sqlite_service: Service, tmp_path: Path) -> None:
    (tmp_path / "x.tar").write_text("words")
    with pytest.raises(EvenhandError, match=r"no \.tar file"):
        restore(sqlite_service.database, sqlite_service.home, tmp_path / "x.tar")
    with pytest.raises(EvenhandError, match="Cannot read"):
        restore(sqlite_service.database, sqlite_service.home, tmp_path / "none.tar")


def test_a_sound_service_has_no_problems(service: Service) -> None:
    filled(service)
    assert check(service.database, service.home, grace=0) == []


def test_the_check_finds_what_is_missing_changed_or_left_over(service: Service) -> None:
    ids = filled(service)
    report = service.home.run(ids["done"])
    service.home.remove(report)
    table = service.assets.dataset_path(service.assets.dataset(ids["table"]))
    table.write_bytes(TABLE + b"m,30,1\n")
    service.assets.model_path(service.assets.model(ids["model"])).unlink()
    stray = service.home.run("f" * 32)
    stray.mkdir()
    rest = Upload(service.home, 100)
    rest.write(b"half")
    found = {problem.where: problem.what for problem in check(service.database, service.home, grace=0)}
    assert found == {
        str(report): "the folder is missing",
        str(table): "is not the file that was uploaded",
        str(service.home.model(ids["model"]) / "model.txt"): "is not the file that was uploaded",
        str(stray): "belongs to nothing",
        str(rest.folder): "belongs to nothing",
    }
    rest.abandon()


def test_a_sweep_takes_old_rests_only(sqlite_service: Service) -> None:
    ids = filled(sqlite_service)
    home = sqlite_service.home
    old, young, doomed = home.run("e" * 32), home.run("f" * 32), home.trash / "x"
    for folder in (old, young, doomed):
        folder.mkdir()
        (folder / "file").write_text("x")
    receiving = Upload(home, 100)  # for an hour already, but something has just come
    receiving.write(b"x")
    for folder in (old, old / "file", doomed, doomed / "file", home.run(ids["done"]), receiving.folder):
        os.utime(folder, (0, 0))
    assert home.sweep(sqlite_service.database) == [old, doomed]
    receiving.abandon()
    assert not old.exists()
    assert not doomed.exists()
    assert young.is_dir()
    assert home.run(ids["done"]).is_dir()


def test_a_damaged_sqlite_file_is_found(sqlite_service: Service) -> None:
    filled(sqlite_service)
    sqlite_service.close()
    with sqlite3.connect(sqlite_service.home.path / "evenhand.db", isolation_level=None) as connection:
        connection.execute("delete from projects")  # without foreign keys, which are not on by default
    connection.close()
    what = [problem.what for problem in check(sqlite_service.database, sqlite_service.home)]
    assert what
    assert all("names a row of projects that is not there" in words for words in what)


def test_no_name_in_a_copy_leads_out_of_its_folder() -> None:
    from evenhand.service.storage.backup import _is_ours

    folder = f"files/runs/{'a' * 32}"
    assert _is_ours(f"{folder}/report.html")
    assert not _is_ours(f"{folder}/../../../../etc/passwd")
    assert not _is_ours("/etc/passwd")
