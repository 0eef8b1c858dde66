"""Results in a real MLflow run, whose store is a folder."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import evenhand
from evenhand.errors import EvenhandError
from evenhand.runs.audit import Audit
from evenhand.runs.mlflow_log import metrics_of
from tests.worlds.repair import repaired

pytest_plugins = ["tests.worlds.warned"]
pytestmark = pytest.mark.filterwarnings("ignore")  # MLflow's own
mlflow: Any = pytest.importorskip("mlflow")


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Audit:
    return evenhand.audit("credit", ["sex", "age"], seeds=20, steps=10, out=tmp_path_factory.mktemp("audit"))


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A client of an empty store, which is a folder: the tables of a database take MLflow ten seconds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri((tmp_path / "store").as_uri())
    yield mlflow.MlflowClient()
    while mlflow.active_run() is not None:
        mlflow.end_run()
    mlflow.set_tracking_uri(before)


def artifact(run: str, name: str) -> str:
    return str(mlflow.artifacts.load_text(f"runs:/{run}/evenhand/{name}"))


def test_an_audit_is_logged_to_a_run_of_its_own(audit: Audit, store: Any) -> None:
    run = evenhand.log_mlflow(audit)
    assert mlflow.active_run() is None
    logged = store.get_run(run)
    rate = audit.summary["data_rate"]["all"]
    assert logged.info.status == "FINISHED"
    assert logged.info.run_name == "evenhand audit of credit"
    assert logged.data.metrics["data_rate.all"] == rate["rate"]
    assert [logged.data.metrics[f"data_rate.all.{end}"] for end in ("low", "high")] == rate["interval"]
    assert logged.data.metrics["findings"] == len(audit.findings)
    assert logged.data.tags["evenhand.status"] == "tested"
    assert "evenhand.warnings" not in logged.data.tags
    assert logged.data.params["evenhand.protected"] == "sex,age"
    assert logged.data.params["evenhand.seeds"] == "20"
    assert json.loads(artifact(run, "summary.json")) == audit.summary
    assert artifact(run, "report.html") == (audit.folder / "report.html").read_text()
    assert "## Individual discrimination" in artifact(run, "card.md")
    assert not any(example["description"] in artifact(run, "card.md") for example in audit.summary["examples"])


def test_what_was_not_tested_is_a_tag_and_no_rate(warned: dict[str, Any], store: Any) -> None:
    for name in ("not tested", "not measured"):
        logged = store.get_run(evenhand.log_mlflow(warned[name])).data
        assert logged.tags["evenhand.status"] == "not tested"
        assert logged.tags["evenhand.warnings"] == warned[name].summary["warnings"][0]
        assert logged.metrics["groups.sex.demographic_parity_difference"] > 0
        assert not [metric for metric in logged.metrics if "rate" in metric]


def test_an_active_run_is_used_and_stays_active(audit: Audit, store: Any) -> None:
    with mlflow.start_run() as active:
        mlflow.log_param("mine", 1)
        assert evenhand.log_mlflow(audit) == active.info.run_id
        assert mlflow.active_run() is not None
        mlflow.log_metric("later", 2.0)
    data = store.get_run(active.info.run_id).data
    assert data.params["mine"] == "1"
    assert data.metrics["later"] == 2.0
    assert data.metrics["findings"] == len(audit.findings)


def test_measurements_and_repairs_are_logged(store: Any) -> None:
    measured = evenhand.measure("credit", ["sex", "age"], half_width=0.05)
    metrics = store.get_run(evenhand.log_mlflow(measured)).data.metrics
    for one in measured.summary["measured"]:
        for rate in one["populations"]:
            assert metrics[f"rate.{'-'.join(one['protected'])}.{rate['name']}"] == rate["rate"]
    fixed = repaired("average")
    run = evenhand.log_mlflow(fixed)
    metrics, rows = store.get_run(run).data.metrics, {row["name"]: row for row in fixed.summary["rows"]}
    assert metrics["before.rate.uniform"] == fixed.summary["rows"][0]["uniform"]["rate"]
    assert metrics["after.rate.uniform"] == rows[fixed.summary["chosen"]]["uniform"]["rate"]
    assert "Repair: less dependence on" in artifact(run, "card.md")
    none = type(fixed)(fixed.folder, fixed.summary | {"chosen": None}, None)
    run = evenhand.log_mlflow(none)
    assert "after.rate.uniform" not in store.get_run(run).data.metrics
    assert [file.path for file in store.list_artifacts(run, "evenhand")] == [
        "evenhand/report.html",
        "evenhand/summary.json",
    ]


def test_names_are_such_as_mlflow_takes(audit: Audit) -> None:
    summary = json.loads(json.dumps(audit.summary))
    summary["data_rate"]["größe (m²)"] = summary["data_rate"]["all"]
    assert "data_rate.gr_e_m_" in metrics_of(summary)


def test_what_is_no_result_and_a_missing_package(audit: Audit, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EvenhandError, match="not a dict"):
        evenhand.log_mlflow({})  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(EvenhandError, match=r'pip install "evenhand\[mlflow\]"'):
        evenhand.log_mlflow(audit)
