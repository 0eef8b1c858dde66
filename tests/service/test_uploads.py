"""Uploaded tables and models: received whole or not at all, under our names, checked."""

import gzip
import hashlib
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from evenhand.errors import EvenhandError
from evenhand.service.settings import Service
from evenhand.service.storage.projects import NoSuchProject
from evenhand.service.storage.uploads import PIECE, TooLargeError
from tests.worlds.assets import LIMIT, TABLE, WEIGHTS, add_network, add_table, files_in

pytest_plugins = ["tests.worlds.service"]


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
            taken += PIECE
            yield b"a,b\n" * (PIECE // 4)

    with pytest.raises(TooLargeError, match="larger than 3 MiB"):
        sqlite_service.assets.add_dataset("default", "people", endless(), "x.csv", 3 << 20)
    assert taken == 4 * PIECE
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
    with pytest.raises(EvenhandError, match="unpacks to more than is accepted"):
        add_table(sqlite_service, bomb, "x.csv.gz", limit=1 << 20)
    in_two = gzip.compress(TABLE) + gzip.compress(b"a,b\n" * (4 << 20))
    with pytest.raises(EvenhandError, match="unpacks to more than is accepted"):
        add_table(sqlite_service, in_two, "x.csv.gz", limit=1 << 20)
    same = pd.DataFrame({"a": ["x" * 1000] * 20_000})
    stream = io.BytesIO()
    same.to_parquet(stream, use_dictionary=False)
    with pytest.raises(EvenhandError, match="unpacks to more than is accepted"):
        add_table(sqlite_service, stream.getvalue(), "x.parquet", limit=max(1 << 20, len(stream.getvalue())))
    assert files_in(sqlite_service) == []


def test_compressed_tables_and_parquet_are_taken(sqlite_service: Service) -> None:
    assert add_table(sqlite_service, gzip.compress(TABLE), "x.CSV.GZ").file == "table.csv.gz"
    entry = add_table(sqlite_service, parquet(rows=3), "x.parquet")
    assert (entry.file, entry.rows) == ("table.parquet", 3)


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
