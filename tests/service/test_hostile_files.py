"""Files that the service must refuse: hostile ones, ones with evil names, too large ones, ones without room."""

import gzip
import io
import os
import pickle
import zipfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from evenhand.service.api import table_tasks
from evenhand.service.api.app import create_app
from evenhand.service.settings import Service
from tests.worlds.api import API, BYTES, error
from tests.worlds.hostile_files import ADDRESS, TABLE, nothing_left, send
from tests.worlds.service import small_run

pytest_plugins = ["tests.worlds.service", "tests.worlds.api"]
ENDINGS = (".safetensors", ".skops", ".onnx", ".keras", ".txt", ".ubj")


class Bomb:
    """Unpickled, it would leave a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.path,))


def zipped(content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data.csv", content)
    return file.getvalue()


@pytest.mark.parametrize(
    ("kind", "filename", "content"),
    [
        ("datasets", "people.xlsx", TABLE),
        ("datasets", "people.toml", b'file = "/etc/passwd"'),
        ("datasets", "people", TABLE),
        ("datasets", "people.csv", b""),
        ("datasets", "people.csv", pickle.dumps({"a": 1})),
        ("datasets", "people.csv", zipped(TABLE)),
        ("datasets", "people.csv.gz", TABLE),
        ("datasets", "people.csv.gz", gzip.compress(TABLE)[:-20]),
        ("datasets", "people.parquet", TABLE),
        ("datasets", "people.parquet", b"PAR1" + b"\0" * 100 + b"PAR1"),
        ("datasets", "people.csv", b",".join(b"c%d" % i for i in range(1_000_000)) + b"\n1\n"),
        ("datasets", "people.csv", b",".join(b"%d" % (i % 10) for i in range(6000)) + b"\n1\n"),
        ("models", "model.pkl", pickle.dumps([1])),
        ("models", "model.pt", pickle.dumps([1])),
        ("models", "model.joblib", pickle.dumps([1])),
        ("models", "model.py", b"import os"),
        ("models", "model.toml", b"url = 'http://127.0.0.1'"),
        ("models", "model.h5", b"\x89HDF\r\n\x1a\n"),
        *(("models", f"model{ending}", pickle.dumps([1])) for ending in ENDINGS),
    ],
    ids=lambda value: f"{len(value)} bytes" if isinstance(value, bytes) else None,  # archives say when they were made
)  # fmt: skip
def test_files_that_are_not_what_they_should_be(
    client: TestClient, sqlite_service: Service, kind: str, filename: str, content: bytes
) -> None:
    answer = send(client, kind, filename, content)
    assert error(answer) == (400, "invalid")
    assert str(sqlite_service.home.path) not in answer.text
    assert nothing_left(sqlite_service)


def test_a_pickle_in_a_models_clothes_is_never_loaded(client: TestClient, tmp_path: Path) -> None:
    mark = tmp_path / "unpickled"
    content = pickle.dumps(Bomb(mark))
    pickle.loads(content)
    assert mark.exists()
    mark.unlink()
    for ending in (*ENDINGS, ".pkl"):
        assert send(client, "models", f"model{ending}", content).status_code == 400
    assert not mark.exists()


def test_what_unpacks_to_far_more_is_refused(open_service: Callable[..., Service]) -> None:
    service = open_service(upload_limit=1 << 16)
    client = TestClient(create_app(service), base_url=ADDRESS)
    bomb = gzip.compress(b"age,sex\n" + b"0" * (16 << 20))
    assert len(bomb) < 1 << 16
    answer = send(client, "datasets", "people.csv.gz", bomb)
    assert error(answer) == (400, "invalid")
    assert "unpacks to more" in answer.text
    assert nothing_left(service)


def test_a_bomb_inside_parquet_is_refused(open_service: Callable[..., Service]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    service = open_service(upload_limit=1 << 17)
    file = io.BytesIO()
    strings = pa.array(["x" * 1000] * 20_000)
    pq.write_table(pa.table({"a": strings}), file, compression="zstd", use_dictionary=False)
    assert len(file.getvalue()) < 1 << 17
    answer = send(TestClient(create_app(service), base_url=ADDRESS), "datasets", "a.parquet", file.getvalue())
    assert error(answer) == (400, "invalid")
    assert nothing_left(service)


def test_a_table_that_needs_too_much_memory_ends_only_its_own_process(open_service: Callable[..., Service]) -> None:
    service = open_service(run_memory=1 << 26)
    client = TestClient(create_app(service), base_url=ADDRESS)
    rows = b"".join(b"%d,%s\n" % (i, b"x" * 20 + b"%d" % i) for i in range(400_000))
    known_as = send(client, "datasets", "people.csv", b"age,words\n" + rows).json()["id"]
    answer = client.post(f"{API}/datasets/{known_as}/schema/infer", json={"label": "age"})
    assert error(answer) == (400, "invalid")
    assert "memory" in answer.text
    assert client.get(f"{API}/datasets/{known_as}").status_code == 200


def test_errors_about_a_table_do_not_say_where_it_is(sqlite_service: Service, tmp_path: Path) -> None:
    from evenhand.errors import EvenhandError

    path = tmp_path / "table.csv"
    path.write_bytes(b"a,b\n\xff\xfe,2\n")
    with pytest.raises(EvenhandError) as raised:
        table_tasks.ask(sqlite_service.settings, "infer", path, label="a")
    assert str(tmp_path) not in str(raised.value)


@pytest.mark.parametrize(
    "name",
    [
        "../../evil.csv", "/etc/cron.d/evil.csv", "..\\..\\evil.csv", "a\0b.csv", "x" * 400 + ".csv", "<script>.csv",
        "\u202efdp.csv",
    ],
)  # fmt: skip
def test_a_file_name_never_becomes_a_path(client: TestClient, sqlite_service: Service, name: str) -> None:
    answer = client.post(f"{API}/datasets", params={"filename": name}, content=TABLE, headers=BYTES)
    assert answer.status_code == 201
    entry = answer.json()
    assert entry["file"] == "table.csv"
    assert entry["name"].isprintable()
    assert len(entry["name"]) <= 200
    files = list(sqlite_service.home.path.rglob("*.csv"))
    assert files == [sqlite_service.home.path / "datasets" / entry["id"] / "table.csv"]


@pytest.mark.parametrize(
    "name", ["..%2f..%2fevenhand.db", "%2e%2e", "..%5cevenhand.db", "attempt-1.partial", "link", ".hidden"]
)
def test_only_listed_files_are_downloaded(client: TestClient, sqlite_service: Service, name: str) -> None:
    run = small_run(sqlite_service)
    folder = sqlite_service.home.run(run.id)
    (folder / "attempt-1.partial").mkdir(parents=True)
    (folder / ".hidden").touch()
    (folder / "link").symlink_to("/etc/passwd")
    assert client.get(f"{API}/runs/{run.id}/files/{name}").status_code == 404
    assert client.get(f"{API}/runs/{run.id}/files").json()["entries"] == []


def test_uploads_end_at_the_limit_whatever_they_say_about_their_length(open_service: Callable[..., Service]) -> None:
    service = open_service(upload_limit=100_000, model_limit=50_000)
    client = TestClient(create_app(service), base_url=ADDRESS)
    large = b"a,b\n" + b"1,2\n" * 40_000
    assert error(send(client, "datasets", "people.csv", large)) == (413, "too-large")
    assert error(send(client, "models", "model.txt", b"tree" + b"\n" * 60_000)) == (413, "too-large")

    def endless() -> Iterator[bytes]:
        yield b"a,b\n"
        for _ in range(10_000):
            yield b"1,2\n" * 1000

    answer = client.post(f"{API}/datasets", params={"filename": "a.csv"}, content=endless(), headers=BYTES)
    assert error(answer) == (413, "too-large")
    assert nothing_left(service)


def test_an_upload_that_breaks_off_leaves_nothing(sqlite_service: Service) -> None:
    import anyio
    import httpx

    app = create_app(sqlite_service)

    async def breaks() -> AsyncIterator[bytes]:
        yield b"a,b\n" * 1_000_000
        raise ConnectionError("gone")

    async def upload() -> None:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url=ADDRESS) as client:
            await client.post(f"{API}/datasets", params={"filename": "a.csv"}, content=breaks(), headers=BYTES)

    with suppress(ConnectionError):
        anyio.run(upload)
    assert nothing_left(sqlite_service)


def test_a_full_disk_is_said_and_nothing_is_left(
    client: TestClient, sqlite_service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        answer = send(client, "datasets", "people.csv", TABLE)
    assert error(answer) == (507, "no-room")
    assert "No space left" in answer.text
    assert nothing_left(sqlite_service)
    assert send(client, "datasets", "people.csv", TABLE).status_code == 201
