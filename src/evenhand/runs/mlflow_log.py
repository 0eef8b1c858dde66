"""A result in an MLflow run: figures as metrics, settings as parameters, report, summary and card as artifacts."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import evenhand
from evenhand.errors import EvenhandError
from evenhand.report.card import card_run, render_section
from evenhand.report.card_file import new_card
from evenhand.runs.audit import REPORT, SUMMARY, Audit
from evenhand.runs.measure import Measurement
from evenhand.runs.repair import Repair
from evenhand.runs.text_audit import TextAudit

FOLDER, CARD = "evenhand", "card.md"  # of the artifacts
LONGEST_PARAMETER = 500  # characters, which every version of MLflow takes
Result = Audit | TextAudit | Measurement | Repair


def log_mlflow(result: Result) -> str:
    """Log an audit, a measurement or a repair to the active MLflow run, or to a new one; the run's id.

    Needs `pip install "evenhand[mlflow]"`. Metrics: rates with the ends of their intervals, findings, accuracy.
    Parameters: the settings, under `evenhand.`. Artifacts, in the folder `evenhand`: `summary.json`, `report.html`
    where the result has one, and `card.md`. The card holds no rows of the data; summary and report have a few of them.
    """
    if not isinstance(result, Result):
        raise EvenhandError(
            f"log_mlflow takes what evenhand.audit, measure_table or repair_table gave, not a {type(result).__name__}."
        )
    mlflow, summary = _mlflow(), result.summary
    with _active(mlflow, f"evenhand {summary['kind']} of {summary['dataset']['name']}") as run_id:
        mlflow.log_metrics(metrics_of(summary))
        mlflow.log_params(parameters_of(summary))
        mlflow.log_dict(summary, f"{FOLDER}/{SUMMARY}")
        if result.folder is not None and (result.folder / REPORT).is_file():
            mlflow.log_text(Path(result.folder / REPORT).read_text(encoding="utf-8"), f"{FOLDER}/{REPORT}")
        if summary.get("chosen", "") is not None:  # a repair that chose nothing has no model to describe
            mlflow.log_text(_card(summary), f"{FOLDER}/{CARD}")
    return run_id


def _mlflow() -> Any:
    try:
        import mlflow
    except ImportError as error:
        raise EvenhandError('MLflow is not installed: pip install "evenhand[mlflow]".') from error
    return mlflow


@contextmanager
def _active(mlflow: Any, name: str) -> Iterator[str]:
    """The run that is active, which stays so; or a new one, which ends."""
    active = mlflow.active_run()
    if active is not None:
        yield active.info.run_id
        return
    with mlflow.start_run(run_name=name) as run:
        yield run.info.run_id


def _card(summary: dict[str, Any]) -> str:
    run = card_run(summary)
    return new_card(render_section([run], evenhand.__version__), [run], summary["dataset"]["name"], None)


def metrics_of(summary: dict[str, Any]) -> dict[str, float]:
    """The figures of a summary, by names that MLflow takes."""
    figures = {"audit": _audit_figures, "measure": _measure_figures, "repair": _repair_figures}[summary["kind"]]
    return {_name(name): float(value) for name, value in figures(summary).items() if value is not None}


def _audit_figures(summary: dict[str, Any]) -> dict[str, Any]:
    search = summary["search"]
    figures = {
        "findings": search["findings"]["total"],
        "generated": search["generated"]["total"],
        "success_rate": search["success_rate"],
        "seeds_with_findings": search["seeds_with_findings"],
        "agreement": summary["model"].get("agreement", {}).get("share"),
    }
    for part, rate in summary["data_rate"].items():
        figures |= _rate_figures(f"data_rate.{part}", rate)
    return figures


def _measure_figures(summary: dict[str, Any]) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for measured in summary["measured"]:
        for rate in measured["populations"]:
            figures |= _rate_figures(f"rate.{'-'.join(measured['protected'])}.{rate['name']}", rate)
    return figures


def _repair_figures(summary: dict[str, Any]) -> dict[str, Any]:
    """The model as it was, and the one that was chosen."""
    rows = {row["name"]: row for row in summary["rows"]}
    figures: dict[str, Any] = {}
    for when, row in (("before", summary["rows"][0]), ("after", rows.get(summary["chosen"]))):
        if row is not None:
            figures[f"{when}.accuracy"] = row["accuracy"]
            for which in ("people", "uniform"):
                figures |= {} if row[which] is None else _rate_figures(f"{when}.rate.{which}", row[which])
    return figures


def _rate_figures(name: str, rate: dict[str, Any]) -> dict[str, Any]:
    low, high = rate["interval"]
    return {name: rate["rate"], f"{name}.low": low, f"{name}.high": high, f"{name}.samples": rate["samples"]}


def parameters_of(summary: dict[str, Any]) -> dict[str, str]:
    """The settings of a summary; those that were left open are left out."""
    settings = {
        **summary["config"],
        "kind": summary["kind"],
        "protected": ",".join(summary["protected"]),
        "model": summary["model"]["name"],
        "version": summary["evenhand"],
    }
    if summary["kind"] == "repair":
        settings["chosen"] = summary["chosen"]
    return {
        _name(f"evenhand.{name}"): str(value)[:LONGEST_PARAMETER]
        for name, value in settings.items()
        if value is not None and value != {}
    }


def _name(text: str) -> str:
    """A name of letters, digits, dots, dashes and underscores, which is what MLflow takes everywhere."""
    return re.sub(r"[^A-Za-z0-9_.\-]+", "_", text)
