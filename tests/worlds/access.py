"""Everybody who asks, and what they ask about, for tests of who may do what.

A test file that wants the fixtures imports `callers`, `things` and `world`, and names them in its `__all__`.
"""

import shutil
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from evenhand.files import read_json
from evenhand.runs.audit import audit
from evenhand.service.api import table_tasks
from evenhand.service.jobs import figures_of
from evenhand.service.pages import data, new_data
from evenhand.service.requests import CorpusFacts
from evenhand.service.storage.projects import Person, person_of
from tests.worlds.access_table import BYTES, TEXTS, Row
from tests.worlds.api import TABLE
from tests.worlds.people import World, peopled
from tests.worlds.service import SMALL_AUDIT


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with pytest.MonkeyPatch.context() as patch, peopled(tmp_path_factory.mktemp("access") / "home") as world:

        def ask(_: Any, task: str, path: Path, **options: Any) -> Any:
            return table_tasks.TASKS[task](path, **options)  # in this process: there are hundreds of requests

        for place in (table_tasks, new_data, data):
            patch.setattr(place, "ask", ask)
        yield world


def same(client: TestClient) -> TestClient:
    return client


@pytest.fixture(scope="module")
def callers(world: World) -> dict[str, Callable[[], TestClient]]:
    """How each of them comes; a browser signs in anew each time, since a request may end its sign-in."""
    dora = world.browser("dora"), world.program("dora", "auditor")
    world.service.accounts.set_disabled("dora", True)
    programs = {
        "token of a viewer": world.program("vera", "viewer"),
        "token of an auditor": world.program("olga", "auditor"),
        "viewer's token of an auditor": world.program("olga", "viewer"),
        "token of an admin": world.program("ada", "admin"),
        "token of another project": world.program("otto", "auditor", world.other),
        "admin's token of another project": world.program("ada", "admin", world.other),
        "expired token": world.dead_token("olga", "expires"),
        "revoked token": world.dead_token("olga", "revoked"),
        "disabled user": dora[0],
        "token of a disabled user": dora[1],
        "made-up token": world.with_token("evh_" + "x" * 43),
    }
    people = {
        "viewer": "vera", "auditor": "olga", "admin": "ada", "auditor of another project": "otto",
        "member of no project": "nina",
    }  # fmt: skip
    made: dict[str, Callable[[], TestClient]] = {name: partial(same, client) for name, client in programs.items()}
    made |= {caller: partial(world.browser, name) for caller, name in people.items()}
    return made | {"nobody": world.client}


class Things:
    """What requests are about, by the name that addresses have for it."""

    def __init__(self, world: World, folder: Path) -> None:
        self.service, self.folder = world.service, folder
        self.schema = ""
        self.kept = {name: make() for name, make in self.makers().items()}

    def makers(self) -> dict[str, Callable[[], str]]:
        assets = self.service.assets
        return {
            "run_id": self.run,
            "second_run": self.run,
            "dataset_id": self.dataset,
            "text_id": self.texts,
            "schema": lambda: self.schema,
            "model_id": lambda: assets.add_model("default", "trees", [BYTES], "a.txt", 1 << 20).id,
            "name": lambda: self.person().name,
            "project_id": lambda: self.service.projects.add(f"Project {uuid.uuid4().hex[1:]}").id,
        }

    def run(self) -> str:
        """An audit that is done."""
        made = self.service.runs.create("default", "audit", "census, sex", SMALL_AUDIT)
        while (claim := self.service.runs.claim("a test")) is not None and claim.run != made.id:
            self.service.runs.finish(claim, "cancelled")  # asked for by an earlier request
        assert claim is not None
        shutil.copytree(self.folder, self.service.home.run(made.id))
        figures = figures_of("audit", read_json(self.folder / "summary.json"))
        self.service.runs.finish(claim, "done", figures)
        return made.id

    def dataset(self) -> str:
        """A table with a schema."""
        made = self.service.assets.add_dataset("default", "people", [TABLE], "people.csv", 1 << 20).id
        if not self.schema:
            path = self.service.home.dataset(made) / "table.csv"
            self.schema = table_tasks.infer(path, label="ok", favourable="y")["text"]
        self.service.assets.set_schema(made, self.schema)
        return made

    def texts(self) -> str:
        """Texts whose columns are known."""
        made = self.service.assets.add_dataset("default", "texts", [TEXTS], "texts.csv", 1 << 20, "text").id
        facts = CorpusFacts(rows=2, held_out=1, empty=0, classes=["n", "y"], mentions={"gender": 2})
        self.service.assets.set_columns(made, facts.model_dump_json(), facts.rows)
        return made

    def person(self) -> Person:
        """A user whom nothing depends on."""
        return self.service.accounts.add_user(f"u{uuid.uuid4().hex}", "a long password", admin=True)

    def named(self, row: Row, *, anew: bool) -> dict[str, str]:
        """What a request names; anew where it will be changed."""
        words = f"{row.route} {row.address} {row.send}"
        names = dict(self.kept)
        if anew:
            names |= {name: make() for name, make in self.makers().items() if f"{{{name}}}" in words}
        if "{token_id}" in words:
            person = person_of(self.service.accounts.user(names["name"]))
            names["token_id"] = self.service.accounts.add_token(person, "default", "viewer", "theirs", 1)[0].id
        return names


@pytest.fixture(scope="module")
def things(world: World, tmp_path_factory: pytest.TempPathFactory) -> Things:
    folder = tmp_path_factory.mktemp("audited") / "audit"
    audit("census", ["sex"], out=folder, seeds=10, steps=5, iterations=2, seed=1)
    return Things(world, folder)


def filled(content: Any, names: dict[str, str]) -> Any:
    """A text, or JSON with texts in it, with names in braces replaced."""
    if isinstance(content, dict):
        return {key: filled(value, names) for key, value in content.items()}
    if not isinstance(content, str):
        return content
    for name, value in names.items():
        content = content.replace(f"{{{name}}}", value)
    return content
