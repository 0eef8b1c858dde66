"""What the HTTP interface says to somebody who calls it by hand, and that the calls of the documentation work."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from evenhand.service.settings import Service
from tests.worlds.api import API, FINDINGS, finished_run
from tests.worlds.doc_blocks import blocks_of
from tests.worlds.service import SMALL_AUDIT

pytest_plugins = ["tests.worlds.service", "tests.worlds.api"]
JSON, FORM, BYTES = "application/json", "application/x-www-form-urlencoded", "application/octet-stream"
FOR_PROGRAMS = f"Programs send {JSON} as Content-Type, or {BYTES} for files"


@pytest.mark.parametrize(
    ("content", "kind", "status", "message"),
    [
        ('{"x": 1}', JSON, 422, "'kind' is missing: the body needs this field."),
        ('{"kind": "odd"}', JSON, 422, "'kind' is wrong: it is 'odd'. Use one of 'audit', 'measure', 'repair'."),
        ("x=1", JSON, 422, "The body is not valid JSON: Expecting value (at character 1)."),
        ('{"kind": "audit", "request": {}}', JSON, 422, "'audit.request.dataset' is wrong: it is needed, but missing."),
        ('{"x": 1}', FORM, 403, f"{FOR_PROGRAMS}; this was {FORM}."),
        ('{"x": 1}', BYTES, 422, f"{FOR_PROGRAMS}; this was {BYTES}."),
        ('{"x": 1}', "text/plain", 415, f"Send {JSON}, or {BYTES} for files, as Content-Type."),
    ],
    ids=["no kind", "another kind", "no JSON", "no data", "a form", "bytes", "text"],
)
def test_mistakes_are_named(client: TestClient, content: str, kind: str, status: int, message: str) -> None:
    answer = client.post(f"{API}/runs", content=content, headers={"Content-Type": kind})
    assert answer.status_code == status
    assert message in answer.json()["error"]["message"]


def test_a_refused_form_of_a_page_says_nothing_about_programs(client: TestClient) -> None:
    answer = client.post("/new/data", content="x=1", headers={"Content-Type": FORM})
    assert "application/json" not in answer.text


def test_the_calls_of_the_documentation_work(client: TestClient, sqlite_service: Service, audited: Path) -> None:
    block, _ = [block for block in blocks_of("docs/service.md") if "curl" in block.text]
    run = finished_run(sqlite_service, audited).id
    answers = [_call(client, words, run) for words in block.commands() if words[0] == "curl"]
    asked, shown, found = answers
    assert (asked["kind"], asked["state"], asked["config"]["dataset"]) == ("audit", "queued", SMALL_AUDIT["dataset"])
    assert (shown["id"], shown["state"]) == (run, "done")
    assert (len(found["entries"]), found["total"]) == (20, FINDINGS)


def test_the_calls_about_texts_name_routes_that_are_there(client: TestClient) -> None:
    _, block = [block for block in blocks_of("docs/service.md") if "curl" in block.text]
    paths = client.get("/api/v1/openapi.json").json()["paths"]
    calls = [words for words in block.commands() if words[0] == "curl"]
    assert len(calls) == 4
    for words in calls:
        address = next(word for word in words if "http:" in word)
        path = re.sub(r"\$[A-Z]+", "[^/]+", address.partition("?")[0].removeprefix("http://127.0.0.1:8321"))
        method = words[words.index("-X") + 1].lower() if "-X" in words else "post"
        known = [own for own, methods in paths.items() if method in methods and re.fullmatch(path, own)]
        assert known, shlex.join(words)


def test_the_description_is_where_the_documentation_says(client: TestClient) -> None:
    (address,) = [text for text in _addresses() if text.endswith("openapi.json")]
    assert client.get(address).json()["openapi"].startswith("3.")


def _addresses() -> list[str]:
    page = Path(__file__).parents[2] / "docs" / "service.md"
    return re.findall(r"<(http://127\.0\.0\.1:8321[^>]*)>", page.read_text(encoding="utf-8"))


def _call(client: TestClient, words: list[str], run: str) -> dict[str, Any]:
    """What curl would be answered."""
    address = next(word for word in words if word.startswith("http")).replace("$RUN", run)
    if "-d" not in words:
        answer = client.get(address)
    else:
        name, _, value = words[words.index("-H") + 1].partition(": ")
        answer = client.post(address, content=words[words.index("-d") + 1], headers={name: value})
    assert answer.status_code in (200, 201), shlex.join(words)
    content: dict[str, Any] = answer.json()
    return content
