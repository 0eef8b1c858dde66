"""The description of the HTTP interface is sound, complete, and kept to: no request that it allows fails inside."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from evenhand.service.api import table_tasks
from evenhand.service.api.app import ROUTERS, create_app
from evenhand.service.settings import Settings
from tests.worlds.access_table import TEXTS
from tests.worlds.api import TABLE, finished_run
from tests.worlds.service import DATABASES, Cluster

pytest_plugins = ["tests.worlds.service", "tests.worlds.api"]

EXAMPLES = {"sqlite": 10, "postgresql": 2}  # a difference between the two shows early or not at all
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
HEADERS = {"Host": "127.0.0.1:8321"}


@pytest.fixture(scope="module", params=DATABASES)
def app(request: pytest.FixtureRequest) -> Iterator[Any]:
    url = None
    if request.param == "postgresql":
        cluster: Cluster = request.getfixturevalue("postgres")
        url = cluster.new_database(cluster.template)
    with tempfile.TemporaryDirectory() as home:
        service = Settings(home=Path(home), database=url, upload_limit=1 << 20, model_limit=1 << 20).open()
        yield create_app(service)
        service.close()


@pytest.fixture
def known(app: Any, audited: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Things that are there to be asked about: made-up ids would only ever be refused."""
    monkeypatch.setattr(table_tasks, "ask", lambda _, task, path, **options: table_tasks.TASKS[task](path, **options))
    service = app.state.service
    data = service.assets.add_dataset("default", "people", [TABLE], "people.csv", 1 << 20).id
    service.assets.set_schema(data, table_tasks.infer(service.home.dataset(data) / "table.csv", label="ok")["text"])
    model = service.assets.add_model("default", "trees", [b"tree\n"], "model.txt", 1 << 20).id
    for waiting in service.runs.newest(state="queued"):
        service.runs.cancel(waiting.id)
    run = finished_run(service, audited).id
    texts = service.assets.add_dataset("default", "texts", [TEXTS], "texts.csv", 1 << 20, "text").id
    names = {"run_id": run, "dataset_id": data, "model_id": model, "name": "summary.json", "a": run, "b": run}
    return names | {"text_id": texts}


@pytest.fixture(scope="module")
def described(app: Any) -> Any:
    return schemathesis.openapi.from_asgi("/api/v1/openapi.json", app, headers=HEADERS)


def operations() -> list[tuple[str, str]]:
    """All methods and addresses."""
    app = FastAPI()
    for router in ROUTERS:
        app.include_router(router)
    return [(method.upper(), path) for path, methods in app.openapi()["paths"].items() for method in methods]


@pytest.mark.parametrize(("method", "path"), operations(), ids=lambda part: part.strip("/").replace("/", "."))
def test_no_request_fails_inside(app: Any, described: Any, known: dict[str, str], method: str, path: str) -> None:
    """And each answer is one that the description names."""
    examples = EXAMPLES["sqlite" if app.state.service.database.is_sqlite else "postgresql"]

    @settings(
        max_examples=examples, deadline=None, derandomize=True, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=described[path][method].as_strategy(), real=st.integers(0, 3))
    def asked(case: Any, real: int) -> None:
        if real:
            for parameters in (case.path_parameters, case.query):
                parameters.update({name: known[name] for name in known.keys() & parameters.keys()})
            if path.endswith("/columns") and real > 1:
                case.path_parameters["dataset_id"] = known["text_id"]
        case.call_and_validate(headers=HEADERS, checks=CHECKS)

    asked()


def test_every_route_is_described_in_words(app: Any) -> None:
    described = app.openapi()
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            assert operation.get("summary"), (method, path)
            assert operation.get("description"), (method, path)
            assert operation.get("tags"), (method, path)
            good = [code for code in operation["responses"] if code.startswith("2")]
            assert good, (method, path)
            errors = operation["responses"]["404"]["content"]["application/json"]["schema"]
            assert errors == {"$ref": "#/components/schemas/ErrorAnswer"}
    assert not [
        path for path in described["paths"] if not path.startswith(("/api/v1/", "/healthz", "/readyz", "/metrics"))
    ]
