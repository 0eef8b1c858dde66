"""Uploaded tables and models: received whole or not at all, under our names, checked, listed, really deleted."""

import gzip
import hashlib
import io
import json
import os
import threading
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
from sqlalchemy.orm import Session

from evenhand.data.dataset import load_dataset
from evenhand.errors import EvenhandError
from evenhand.models.loading import BUILTIN
from evenhand.service.api.asking import create_run, resume_run
from evenhand.service.api.context import Context
from evenhand.service.api.errors import ApiError
from evenhand.service.requests import AuditRequest
from evenhand.service.settings import Service
from evenhand.service.storage.assets import InUseError
from evenhand.service.storage.home import Home, default_home
from evenhand.service.storage.people import NoSuchProject
from evenhand.service.storage.tables import DataFile, ModelFile
from evenhand.service.storage.uploads import CHUNK, TooLargeError
from tests.service_world import SMALL_AUDIT, small_run

pytest_plugins = ["tests.service_world"]

TABLE = b"sex,age,approved\n" + b"f,20,0\nm,30,1\n" * 20
SCHEMA = """
name = "people"
file = "table.csv"
label = { column = "approved", values = ["0", "1"] }
[[attribute]]
name = "sex"
kind = "category"
categories = ["f", "m"]
protected = true
[[attribute]]
name = "age"
kind = "number"
width = 10
domain = [2, 5]
"""
WEIGHTS = (BUILTIN / "census.safetensors").read_bytes()
DESCRIPTION = (BUILTIN / "census.json").read_bytes()
LIMIT = 10 << 20


def add_table(service: Service, content: bytes = TABLE, filename: str = "people.csv", limit: int = LIMIT) -> DataFile:
    return service.assets.add_dataset("default", "people", io.BytesIO(content), filename, limit)


def add_network(service: Service, description: bytes | None = DESCRIPTION) -> ModelFile:
    return service.assets.add_model("default", "net", io.BytesIO(WEIGHTS), "n.safetensors", LIMIT, description)


def files_in(service: Service) -> list[str]:
    """All files and folders below the service's own folders."""
    home = service.home.path
    return sorted(str(path.relative_to(home)) for path in home.glob("*/**/*"))


def zipped(**files: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return stream.getvalue()


def parquet(columns: int = 2, rows: int = 3) -> bytes:
    stream = io.BytesIO()
    pd.DataFrame({f"c{number}": range(rows) for number in range(columns)}).to_parquet(stream)
    return stream.getvalue()


def test_a_table_is_kept_as_it_came(service: Service) -> None:
    entry = add_table(service)
    path = service.assets.dataset_path(entry)
    assert path.read_bytes() == TABLE
    assert (entry.file, entry.size, entry.sha256) == ("table.csv", len(TABLE), hashlib.sha256(TABLE).hexdigest())
    assert service.assets.dataset(entry.id).sha256 == entry.sha256
    assert files_in(service) == [f"datasets/{entry.id}", f"datasets/{entry.id}/table.csv"]


def test_a_stream_of_chunks_is_as_good_as_a_file(sqlite_service: Service) -> None:
    pieces = [TABLE[start : start + 7] for start in range(0, len(TABLE), 7)]
    entry = sqlite_service.assets.add_dataset("default", "people", iter(pieces), "x.csv", LIMIT)
    upload = sqlite_service.assets.receive(LIMIT)
    for piece in pieces:
        upload.write(piece)
    other = sqlite_service.assets.add_dataset("default", "people", upload, "x.csv", LIMIT)
    assert entry.sha256 == other.sha256 == hashlib.sha256(TABLE).hexdigest()


def test_the_limit_holds_while_the_file_comes(sqlite_service: Service) -> None:
    taken = 0

    def endless() -> Iterator[bytes]:
        nonlocal taken
        while True:
            taken += CHUNK
            yield b"a,b\n" * (CHUNK // 4)

    with pytest.raises(TooLargeError, match="larger than 3 MiB"):
        sqlite_service.assets.add_dataset("default", "people", endless(), "x.csv", 3 << 20)
    assert taken == 4 * CHUNK
    assert files_in(sqlite_service) == []


def test_a_file_of_exactly_the_limit_is_taken(sqlite_service: Service) -> None:
    assert add_table(sqlite_service, limit=len(TABLE)).size == len(TABLE)


def test_an_upload_that_breaks_off_leaves_nothing(sqlite_service: Service) -> None:
    def broken() -> Iterator[bytes]:
        yield TABLE
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        sqlite_service.assets.add_dataset("default", "people", broken(), "x.csv", LIMIT)
    assert files_in(sqlite_service) == []
    assert sqlite_service.assets.datasets() == []


def test_a_full_disk_is_said_and_leaves_nothing(sqlite_service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("evenhand.service.storage.uploads.os.fsync", full)
    with pytest.raises(EvenhandError, match="No space left on device"):
        add_table(sqlite_service)
    assert files_in(sqlite_service) == []
    assert sqlite_service.assets.datasets() == []


def test_an_entry_that_cannot_be_made_takes_its_folder_away(service: Service) -> None:
    with pytest.raises(NoSuchProject, match="The project 'nobody' is not there any more"):
        service.assets.add_dataset("nobody", "people", io.BytesIO(TABLE), "x.csv", LIMIT)
    assert files_in(service) == []


@pytest.mark.parametrize("what", ["dataset", "model"])
def test_a_project_that_is_deleted_while_a_file_comes_leaves_nothing(service: Service, what: str) -> None:
    loans = service.projects.add("loans")

    def coming() -> Iterator[bytes]:
        yield TABLE if what == "dataset" else b"tree\nversion=v4\n"
        service.projects.delete(loans.id)

    add = service.assets.add_dataset if what == "dataset" else service.assets.add_model
    with pytest.raises(NoSuchProject):
        add(loans.id, "people", coming(), "x.csv" if what == "dataset" else "x.txt", LIMIT)
    assert files_in(service) == []
    assert service.home.orphans(service.database, grace=0) == []


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


@pytest.mark.parametrize(
    "filename", ["../../etc/passwd.csv", "/etc/cron.d/x.csv", "..\\..\\x.csv", "a\0b.csv", "ä\n.CSV", ".csv"]
)
def test_names_from_outside_never_become_paths(sqlite_service: Service, filename: str) -> None:
    entry = add_table(sqlite_service, filename=filename)
    assert files_in(sqlite_service) == [f"datasets/{entry.id}", f"datasets/{entry.id}/table.csv"]


@pytest.mark.parametrize(
    "filename", ["x.pkl", "x.csv.pkl", "x.xlsx", "x.zip", "x", "", "x.toml", "x.csv/..", "x.parquet.exe"]
)
def test_other_kinds_of_tables_are_refused(sqlite_service: Service, filename: str) -> None:
    with pytest.raises(EvenhandError, match=r"Allowed are: .csv, .csv.gz, .parquet"):
        add_table(sqlite_service, filename=filename)
    assert files_in(sqlite_service) == []


@pytest.mark.parametrize(
    ("content", "filename", "words"),
    [
        (b"", "x.csv", "empty"),
        (b"a,b\n\0\0", "x.csv", "not text"),
        (b"\x80\x04\x95pickle", "x.csv", "not text"),
        (zipped(a=b"1"), "x.csv", "not text"),
        (b"," * 1_000_000 + b"\n", "x.csv", "1,000,001 columns"),
        (b"a" * (2 << 20), "x.csv", "first line"),
        (TABLE, "x.parquet", "not Parquet"),
        (b"PAR1" + b"x" * 100, "x.parquet", "cannot be read"),
        (parquet(columns=5001, rows=1), "x.parquet", "5,001 columns"),
        (TABLE, "x.csv.gz", "not a sound .gz"),
        (gzip.compress(TABLE, mtime=0)[:-9], "x.csv.gz", "cut off"),
        (gzip.compress(b"\0" * 100, mtime=0), "x.csv.gz", "not text"),
    ],
    ids=lambda value: f"{len(value)} bytes" if isinstance(value, bytes) else None,
)
def test_content_that_is_no_table_is_refused(
    sqlite_service: Service, content: bytes, filename: str, words: str
) -> None:
    with pytest.raises(EvenhandError, match=words):
        add_table(sqlite_service, content, filename)
    assert files_in(sqlite_service) == []


def test_a_small_file_that_unpacks_to_a_huge_one_is_refused(sqlite_service: Service) -> None:
    bomb = gzip.compress(b"a,b\n" * (4 << 20))  # 16 MiB
    with pytest.raises(EvenhandError, match="unpacks to more than is taken"):
        add_table(sqlite_service, bomb, "x.csv.gz", limit=1 << 20)
    in_two = gzip.compress(TABLE) + gzip.compress(b"a,b\n" * (4 << 20))
    with pytest.raises(EvenhandError, match="unpacks to more than is taken"):
        add_table(sqlite_service, in_two, "x.csv.gz", limit=1 << 20)
    same = pd.DataFrame({"a": ["x" * 1000] * 20_000})
    stream = io.BytesIO()
    same.to_parquet(stream, use_dictionary=False)
    with pytest.raises(EvenhandError, match="unpacks to more than is taken"):
        add_table(sqlite_service, stream.getvalue(), "x.parquet", limit=max(1 << 20, len(stream.getvalue())))
    assert files_in(sqlite_service) == []


def test_compressed_tables_and_parquet_are_taken(sqlite_service: Service) -> None:
    assert add_table(sqlite_service, gzip.compress(TABLE), "x.CSV.GZ").file == "table.csv.gz"
    entry = add_table(sqlite_service, parquet(rows=3), "x.parquet")
    assert (entry.file, entry.rows) == ("table.parquet", 3)


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


@pytest.mark.parametrize(
    ("description", "words"),
    [
        (b"{", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "not made by evenhand"),
        (b'{"format": "other"}', "not made by evenhand"),
        (b" " * (2 << 20), "bytes"),
        (json.dumps({"format": "evenhand averaged network 1", "inner": "os:system"}).encode(), "names another model"),
        (json.dumps({"format": "evenhand averaged network 1", "inner": "/etc/x.onnx"}).encode(), "names another model"),
    ],
)
def test_a_description_that_is_none_of_ours_is_refused(sqlite_service: Service, description: bytes, words: str) -> None:
    with pytest.raises(EvenhandError, match=words):
        add_network(sqlite_service, description)
    assert files_in(sqlite_service) == []


@pytest.mark.parametrize(
    ("content", "filename"),
    [
        (zipped(schema=b"{}"), "x.skops"),
        (zipped(config=b"{}"), "x.keras"),
        (b"tree\nversion=v4\n", "x.txt"),
        (b"{L\x00\x00", "x.ubj"),
        (b"\x08\x0a\x12\x04test", "x.onnx"),
        (WEIGHTS, "x.safetensors"),
    ],
)
def test_models_are_kept_by_their_format(sqlite_service: Service, content: bytes, filename: str) -> None:
    entry = sqlite_service.assets.add_model("default", "m", io.BytesIO(content), filename, LIMIT)
    assert entry.file == f"model{Path(filename).suffix}"
    with pytest.raises(EvenhandError, match="not that of"):
        sqlite_service.assets.add_model("default", "m", io.BytesIO(b"\x80\x04\x95pickle"), filename, LIMIT)
    with pytest.raises(EvenhandError, match="empty"):
        sqlite_service.assets.add_model("default", "m", io.BytesIO(), filename, LIMIT)


@pytest.mark.parametrize("filename", ["x.pt", "x.pt2", "x.toml", "x.json", "x.pkl", "x.h5", "os:system", "http://x"])
def test_models_that_could_run_code_are_refused(sqlite_service: Service, filename: str) -> None:
    with pytest.raises(EvenhandError, match="is not a model that is safe to open"):
        sqlite_service.assets.add_model("default", "m", io.BytesIO(WEIGHTS), filename, LIMIT)


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


def outcome_of(action: Callable[[], object], at: threading.Barrier, outcomes: list[str]) -> threading.Thread:
    """A thread that does something when all are ready, and says whether it was done or refused."""

    def attempt() -> None:
        at.wait()
        try:
            action()
            outcomes.append("done")
        except EvenhandError as error:
            outcomes.append(str(error))

    thread = threading.Thread(target=attempt)
    thread.start()
    return thread


@pytest.mark.parametrize("what", ["dataset", "model"])
def test_a_run_and_the_deletion_of_what_it_needs_cannot_both_happen(service: Service, what: str) -> None:
    """Asked for at the same moment, one of the two is refused: no run waits for what is gone."""
    for _ in range(8):
        table, network = add_table(service), add_network(service)
        service.assets.set_schema(table.id, SCHEMA)
        request = AuditRequest(dataset=table.id, model=network.id, protected=["sex"])
        together, outcomes = threading.Barrier(2), list[str]()
        asking = outcome_of(partial(create_run, Context(service, "default"), "audit", request), together, outcomes)
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
        resume_run(Context(service, "default"), run.id)
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
