"""What the service must refuse: hostile files, requests from other sites, other names, other projects, no room."""

import gzip
import io
import json
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
from evenhand.service.api.guard import COOKIE, host_of
from evenhand.service.settings import Service
from evenhand.service.storage.projects import ensure_project
from tests.service_world import SMALL_AUDIT, small_run

pytest_plugins = ["tests.service_world"]
API = "/api/v1"
ENDINGS = (".safetensors", ".skops", ".onnx", ".keras", ".txt", ".ubj")
ADDRESS = "http://127.0.0.1:8321"
BYTES = {"Content-Type": "application/octet-stream"}
TABLE = b"age,sex,ok\n" + b"".join(
    b"%d,%s,%s\n" % (i, b"mf"[i % 2 : i % 2 + 1], b"yn"[i % 3 == 0 :][:1]) for i in range(60)
)


@pytest.fixture
def client(sqlite_service: Service) -> Iterator[TestClient]:
    with TestClient(create_app(sqlite_service), base_url=ADDRESS) as client:
        yield client


def send(client: TestClient, kind: str, filename: str, content: bytes, **headers: str) -> Any:
    return client.post(f"{API}/{kind}", params={"filename": filename}, content=content, headers=BYTES | headers)


def error(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["what"]


def nothing_left(service: Service) -> bool:
    return not [path for kind in ("uploads", "datasets", "models") for path in (service.home.path / kind).iterdir()]


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


def test_other_requests_are_short(open_service: Callable[..., Service]) -> None:
    service = open_service(max_request=1000)
    client = TestClient(create_app(service), base_url=ADDRESS)
    long = {"kind": "audit", "request": SMALL_AUDIT, "title": "x" * 2000}
    assert error(client.post(f"{API}/runs", json=long)) == (413, "too-large")
    headers = {"Content-Type": "application/json"}
    pieces = (part for part in [b'{"kind": "', *[b"x" * 500] * 4, b'"}'])
    assert error(client.post(f"{API}/runs", content=pieces, headers=headers)) == (413, "too-large")


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


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8321", "evil.example:8321",
        "127.0.0.1@evil.example", "[::1].evil", "", "169.254.169.254", "127.0.0.1:99999999", "localhost:",
        "127.0.0.1/x",
    ],
)  # fmt: skip
def test_other_host_names_are_refused(client: TestClient, host: str) -> None:
    for path in ("/", f"{API}/runs", "/metrics", "/static/page.css"):
        answer = client.get(path, headers={"Host": host})
        assert answer.status_code == 403


def test_names_of_this_machine_are_known() -> None:
    for host in ("localhost", "localhost:8321", "127.0.0.1:1", "LOCALHOST"):
        assert host_of(host) in ("localhost", "127.0.0.1")
    assert host_of("[::1]:8321") == "::1"


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Origin": "https://127.0.0.1:8321"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_changes_from_other_sites_are_refused(
    client: TestClient, sqlite_service: Service, headers: dict[str, str]
) -> None:
    run = small_run(sqlite_service)
    assert error(client.post(f"{API}/runs/{run.id}/cancel", json={}, headers=headers)) == (403, "forbidden")
    assert error(client.delete(f"{API}/runs/{run.id}", headers=headers)) == (403, "forbidden")
    assert error(send(client, "datasets", "people.csv", TABLE, **headers)) == (403, "forbidden")
    assert client.get(f"{API}/runs/{run.id}", headers=headers).json()["state"] == "queued"


def test_changes_from_our_own_pages_are_not(client: TestClient, sqlite_service: Service) -> None:
    run = small_run(sqlite_service)
    headers = {"Origin": ADDRESS, "Sec-Fetch-Site": "same-origin"}
    assert client.post(f"{API}/runs/{run.id}/cancel", json={}, headers=headers).json()["state"] == "cancelled"


@pytest.mark.parametrize(
    "kind", ["text/plain", "text/html", "", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
)
def test_what_a_page_elsewhere_can_send_is_refused(client: TestClient, sqlite_service: Service, kind: str) -> None:
    """A form or a simple request of another site needs no permission of the browser, so its type is refused."""
    body = json.dumps({"kind": "audit", "request": SMALL_AUDIT})
    answer = client.post(f"{API}/runs", content=body, headers={"Content-Type": kind})
    assert answer.status_code in (400, 403, 415)
    assert sqlite_service.runs.newest() == []


def test_forms_need_the_token_of_their_browser(client: TestClient, sqlite_service: Service) -> None:
    files = {"file": ("people.csv", TABLE)}
    address = f"{API}/datasets"
    assert error(client.post(address, files=files, data={"csrf": ""})) == (403, "forbidden")
    assert error(client.post(address, files=files)) == (403, "forbidden")
    client.cookies.set(COOKIE, "a" * 43)
    assert error(client.post(address, files=files)) == (403, "forbidden")
    assert error(client.post(address, files=files, data={"csrf": "b" * 43})) == (403, "forbidden")
    assert error(client.post(address, files=files, data={"csrf": "ä" * 43})) == (403, "forbidden")
    assert nothing_left(sqlite_service)
    answer = client.post(address, files=files, data={"csrf": "a" * 43, "name": "From a form"})
    assert answer.status_code == 201, answer.text
    assert answer.json()["name"] == "From a form"


def test_a_model_and_its_description_come_in_one_form(client: TestClient, tmp_path: Path) -> None:
    from evenhand.models.network import FeedForward, save_network

    save_network(FeedForward([13, 4, 2]), {}, tmp_path / "net")
    client.cookies.set(COOKIE, "a" * 43)
    files = {
        "file": ("net.safetensors", (tmp_path / "net.safetensors").read_bytes()),
        "description": ("net.json", (tmp_path / "net.json").read_bytes()),
    }
    answer = client.post(f"{API}/models", files=files, data={"csrf": "a" * 43})
    assert answer.json()["is_described"]
    inner = json.loads((tmp_path / "net.json").read_text()) | {"inner": {"model": "/etc/passwd"}}
    answer = client.put(f"{API}/models/{answer.json()['id']}/description", json=inner)
    assert error(answer) == (400, "invalid")


def test_pages_give_a_cookie_that_scripts_and_other_sites_do_not_get(client: TestClient) -> None:
    answer = client.get("/")
    assert answer.headers["content-type"].startswith("text/html")
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"{COOKIE}=")
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert "set-cookie" not in client.get("/").headers
    assert "set-cookie" not in TestClient(client.app, base_url=ADDRESS).get(f"{API}/runs").headers


@pytest.mark.parametrize("path", ["/", f"{API}/runs", f"{API}/nothing", "/nothing", "/healthz", f"{API}/openapi.json"])
def test_every_answer_has_the_headers(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert "access-control-allow-origin" not in headers


def test_refusals_have_the_headers_too(client: TestClient) -> None:
    answer = client.get("/", headers={"Host": "evil.example"})
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["x-request-id"]


def test_a_report_has_no_rights(client: TestClient, sqlite_service: Service) -> None:
    run = small_run(sqlite_service)
    folder = sqlite_service.home.run(run.id)
    folder.mkdir()
    (folder / "report.html").write_text("<script>alert(1)</script>")
    policy = client.get(f"{API}/runs/{run.id}/files/report.html").headers["content-security-policy"]
    assert policy.startswith("sandbox; default-src 'none'")
    assert "script" not in policy


def test_nothing_of_another_project_is_seen_or_touched(service: Service) -> None:
    client = TestClient(create_app(service), base_url=ADDRESS)
    ensure_project(service.database, "other")
    run = small_run(service, project="other").id
    data = service.assets.add_dataset("other", "theirs", [TABLE], "a.csv", 10**6).id
    model = service.assets.add_model("other", "theirs", [b"tree\n"], "a.txt", 10**6).id
    mine = small_run(service).id
    folder = service.home.run(run)
    folder.mkdir()
    (folder / "summary.json").write_text("{}")
    text = {"text": "x"}
    for method, path, body in [
        ("GET", f"runs/{run}", None),
        ("DELETE", f"runs/{run}", None),
        ("POST", f"runs/{run}/cancel", {}),
        ("POST", f"runs/{run}/resume", {}),
        ("POST", f"runs/{run}/repair", {}),
        ("POST", f"runs/{run}/measure", {}),
        ("GET", f"runs/{run}/events", None),
        ("GET", f"runs/{run}/events/stream", None),
        ("GET", f"runs/{run}/files", None),
        ("GET", f"runs/{run}/files/summary.json", None),
        ("GET", f"runs/{run}/findings", None),
        ("GET", f"runs/{run}/findings/values", None),
        ("GET", f"compare?a={mine}&b={run}", None),
        ("GET", f"compare?a={run}&b={mine}", None),
        ("GET", f"datasets/{data}", None),
        ("DELETE", f"datasets/{data}", None),
        ("GET", f"datasets/{data}/preview", None),
        ("GET", f"datasets/{data}/schema", None),
        ("PUT", f"datasets/{data}/schema", text),
        ("POST", f"datasets/{data}/schema/infer", {"label": "ok"}),
        ("GET", f"models/{model}", None),
        ("DELETE", f"models/{model}", None),
        ("PUT", f"models/{model}/description", {}),
        ("POST", "runs", {"kind": "audit", "request": SMALL_AUDIT | {"dataset": data}}),
        ("POST", "runs", {"kind": "audit", "request": SMALL_AUDIT | {"model": model}}),
    ]:
        answer = (
            client.request(method, f"{API}/{path}", json=body)
            if body is not None
            else client.request(method, f"{API}/{path}")
        )
        assert error(answer) == (404, "not-found"), path
    for kind in ("datasets", "models"):
        assert client.get(f"{API}/{kind}").json()["entries"] == []
    assert [entry["id"] for entry in client.get(f"{API}/runs").json()["entries"]] == [mine]
    assert service.runs.get(run).state == "queued"


def test_every_route_that_names_something_is_in_the_table_above() -> None:
    """A route that is added later must be tried with an id of another project too."""
    source = Path(__file__).read_text().partition("def test_nothing_of_another_project")[2]
    described = create_description()
    # Users, projects and tokens belong to no project: tests/test_service_access.py tries those.
    kinds = tuple(f"{API}/{kind}/" for kind in ("runs", "datasets", "models"))
    named = [path for path in described["paths"] if "{" in path and path.startswith(kinds)]
    assert named
    for path in named:
        start, _, rest = path.removeprefix(f"{API}/").partition("/{")
        kind = {"runs": "{run}", "datasets": "{data}", "models": "{model}"}[start]
        end = rest.partition("}")[2].replace("{name}", "summary.json")
        assert f'"{start}/{kind}{end}"' in source, path
        for method in described["paths"][path]:
            assert f'("{method.upper()}", f"{start}/{kind}{end}"' in source, (method, path)


def create_description() -> dict[str, Any]:
    from fastapi import FastAPI

    from evenhand.service.api.app import ROUTERS

    app = FastAPI()
    for router in ROUTERS:
        app.include_router(router)
    return app.openapi()


@pytest.mark.parametrize("known_as", ["0" * 31, "0" * 33, "Z" * 32, "..", "%00" * 32, "0" * 31 + "%0a"])
def test_ids_are_ids(client: TestClient, known_as: str) -> None:
    for kind in ("runs", "datasets", "models"):
        assert client.get(f"{API}/{kind}/{known_as}").status_code in (200, 404, 422)
        assert client.delete(f"{API}/{kind}/{known_as}").status_code in (404, 405, 422)


@pytest.mark.parametrize("odd", ["a\0b", "\ud800", "a\u2028b", "\U0001f9d1" * 60, "{{7*7}}", "%s%n"])
def test_odd_characters_are_refused_or_kept_but_break_nothing(service: Service, odd: str) -> None:
    client = TestClient(create_app(service), base_url=ADDRESS)
    headers = {"Content-Type": "application/json"}
    wishes: list[dict[str, Any]] = [
        {"kind": "audit", "title": odd, "request": SMALL_AUDIT},
        {"kind": odd, "request": SMALL_AUDIT},
        {"kind": "audit", "request": SMALL_AUDIT | {"protected": [odd]}},
        {"kind": "audit", "request": SMALL_AUDIT | {odd: odd}},
        {"kind": "repair", "request": {"dataset": "census", "choose": odd}},
    ]
    for wish in wishes:
        answer = client.post(f"{API}/runs", content=json.dumps(wish), headers=headers)
        assert answer.status_code in (201, 400, 422), answer.text
        assert answer.json()
    assert all(run["title"].isprintable() for run in client.get(f"{API}/runs").json()["entries"])
    if "\ud800" not in odd:
        for path in ("runs", "datasets", "models"):
            assert client.get(f"{API}/{path}", params={"after": odd, "state": odd}).status_code in (400, 422)
