"""Pages for tests: somebody who reads them and sends forms, and runs that are done.   PYTEST_DONT_REWRITE

A test file that wants the fixtures says `pytest_plugins = ["tests.worlds.service", "tests.worlds.pages"]`.
"""

import re
import shutil
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from evenhand.files import read_json
from evenhand.runs.audit import audit
from evenhand.runs.measure import measure
from evenhand.runs.repair import repair
from evenhand.service.api.app import create_app
from evenhand.service.jobs import figures_of
from evenhand.service.settings import Service
from evenhand.service.storage.tables import Run
from tests.worlds.service import SMALL_AUDIT

EVIL = "<script>alert('x')</script>\"'&"
ESCAPED = "&lt;script&gt;alert("
JOBS = (EVIL.replace('"', ""), "clerk", "nurse")
TABLE = "sex,age,job,city,approved\n" + "".join(
    f"{'fm'[i % 2]},{20 + i % 40},{JOBS[i % 3]},{'XYZ'[i % 3]},{'no' if i % 4 else 'yes'}\n" for i in range(80)
)


CONFIGS: dict[str, dict[str, Any]] = {
    "audit": SMALL_AUDIT,
    "repair": SMALL_AUDIT | {"by": ["average"]},
    "measure": {
        "dataset": "census",
        "model": None,
        "protected": ["sex", "race"],
        "half_width": 0.1,
        "confidence": 0.95,
    },
}


class Markup(HTMLParser):
    """What a page must not have: script or style of its own, or anything from another host."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.wrong: list[str] = []
        self.labels: set[str] = set()
        self.ids: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        if tag == "style" or "style" in given or any(name.startswith("on") for name in given):
            self.wrong.append(f"own style or handler: {tag} {given}")
        if tag == "script" and not given.get("src", "").startswith("/static/"):
            self.wrong.append(f"own script: {given}")
        for name in ("src", "href", "action"):
            if given.get(name, "/")[:1] not in ("/", "#") or given.get(name, "").startswith("//"):
                self.wrong.append(f"another host: {tag} {given[name]}")
        if "id" in given:
            self.ids.append(given["id"])


def sound(answer: Any, status: int = 200) -> str:
    """The text of a page that is as it must be."""
    text = str(answer.text)
    assert answer.status_code == status, text
    assert answer.headers["content-type"].startswith("text/html")
    assert "unsafe-inline" not in answer.headers["content-security-policy"]
    markup = Markup(text)
    assert not markup.wrong
    assert len(set(markup.ids)) == len(markup.ids)
    assert "<script>alert" not in text
    return text


class Visitor:
    """Somebody with a browser without JavaScript."""

    def __init__(self, client: TestClient) -> None:
        self.client = client

    def see(self, path: str, status: int = 200) -> str:
        return sound(self.client.get(path), status)

    def send(self, path: str, fields: dict[str, Any] | None = None, files: Any = None) -> Any:
        """Send a form with the token that a page had."""
        token = re.findall(r'name="csrf" value="([^"]+)"', self.client.get("/new").text)[0]
        return self.client.post(path, data={"csrf": token} | (fields or {}), files=files, follow_redirects=False)

    def sent(self, path: str, fields: dict[str, Any] | None = None, files: Any = None) -> str:
        """Send a form that is taken; returns where it leads."""
        answer = self.send(path, fields, files)
        assert answer.status_code == 303, answer.text
        return str(answer.headers["location"])


@pytest.fixture
def visitor(sqlite_service: Service) -> Iterator[Visitor]:
    with TestClient(create_app(sqlite_service), base_url="http://127.0.0.1:8321") as client:
        yield Visitor(client)


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of an audit, a repair and a measurement that were really made."""
    folder = tmp_path_factory.mktemp("results")
    audit("census", ["sex"], out=folder / "audit", seeds=40, steps=30, iterations=3, seed=1)
    repair("census", ["sex"], "average", out=folder / "repair", seeds=10, steps=5, half_width=0.05, epochs=1, repeats=1)
    measure("census", ["sex", "race"], out=folder / "measure", half_width=0.1)
    return {kind: folder / kind for kind in ("audit", "repair", "measure")}


def finish(
    service: Service, folder: Path, kind: str = "audit", title: str = EVIL, parent: str | None = None, **kept: Any
) -> Run:
    """A run that is done, with its files."""
    config, place = {**CONFIGS[kind], **kept.pop("config", {})}, kept.pop("place", "worker")
    run = service.runs.create("default", kind, title, config, parent, **kept)
    claim = service.runs.claim("a worker")
    assert claim is not None
    shutil.copytree(folder, service.home.run(run.id))
    service.runs.finish(claim, "done", figures_of(kind, read_json(folder / "summary.json")))
    changed(service, run.id, place=place)  # afterwards: no worker takes a run of a terminal
    return service.runs.get(run.id)


def changed(service: Service, run_id: str, **values: Any) -> None:
    """Change what the database says about a run, as a worker or a terminal would."""
    with service.database.writing() as session:
        run = session.get(Run, run_id)
        assert run is not None
        for name, value in values.items():
            setattr(run, name, value)


@pytest.fixture
def finished(sqlite_service: Service, results: dict[str, Path]) -> Callable[..., Any]:
    """Makes runs that are done."""
    return lambda kind="audit", *given, **kept: finish(sqlite_service, results[kind], kind, *given, **kept)


def uploaded(visitor: Visitor, name: str = EVIL) -> str:
    """The id of a table that was uploaded and whose decision was chosen."""
    where = visitor.sent("/new/data", {"name": name}, {"file": ("people.csv", TABLE, "text/csv")})
    data = where.partition("data=")[2]
    assert ESCAPED in visitor.see(where)
    assert visitor.sent("/new/columns/label", {"data": data, "label": "approved"}) == where
    return data
