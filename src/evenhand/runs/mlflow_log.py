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
from evenhand.report.sentences import NOT_TESTED, is_not_tested, measured_parts
from evenhand.runs.audit import Audit
from evenhand.runs.measure import Measurement
from evenhand.runs.repair import Repair
from evenhand.runs.summary import REPORT, SUMMARY

FOLDER, CARD = "evenhand", "card.md"  # of the artifacts
LONGEST_PARAMETER, LONGEST_TAG = 500, 5000  # characters, which every version of MLflow takes
Result = Audit | Measurement | Repair


def log_mlflow(result: Result) -> str:
    """Log an audit, a measurement or a repair to the active MLflow run, or to a new one; the run's id.

    Needs `pip install "evenhand[mlflow]"`. Metrics: rates with the ends of their intervals, findings, accuracy,
    differences between groups; no rate of what was not tested. Tags: `evenhand.status`, which says whether anything
    was, and `evenhand.warnings`. Parameters: the settings, under `evenhand.`. Artifacts, in the folder `evenhand`:
    `summary.json`, `report.html` where the result has one, and `card.md`. The card holds no rows of the data; summary
    and report have a few of them.
    """
    if not isinstance(result, Result):
        raise EvenhandError(
            f"log_mlflow takes what evenhand.audit, measure or repair gave, not a {type(result).__name__}."
        )
    mlflow, summary = _mlflow(), result.summary
    with _active(mlflow, f"evenhand {summary['kind']} of {summary['dataset']['name']}") as run_id:
        mlflow.log_metrics(metrics_of(summary))
        mlflow.log_params(parameters_of(summary))
        mlflow.set_tags(tags_of(summary))
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


def tags_of(summary: dict[str, Any]) -> dict[str, str]:
    """Whether anything was tested, and what has to be known before any figure."""
    warnings = "\n".join(summary.get("warnings", []))[:LONGEST_TAG]
    status = NOT_TESTED if is_not_tested(summary) else "tested"
    return {"evenhand.status": status, **({"evenhand.warnings": warnings} if warnings else {})}


def _audit_figures(summary: dict[str, Any]) -> dict[str, Any]:
    search = summary["search"]
    if is_not_tested(summary):
        return {"agreement": summary["model"].get("agreement", {}).get("share"), **_group_figures(summary)}
    figures = {
        "findings": search["findings"]["total"],
        "generated": search["generated"]["total"],
        "success_rate": search["success_rate"],
        "seeds_with_findings": search["seeds_with_findings"],
        "agreement": summary["model"].get("agreement", {}).get("share"),
    }
    for part, rate in summary["data_rate"].items():
        figures |= _rate_figures(f"data_rate.{part}", rate)
    return figures | _group_figures(summary)


def _measure_figures(summary: dict[str, Any]) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for measured in measured_parts(summary):
        for rate in measured["populations"]:
            figures |= _rate_figures(f"rate.{'-'.join(measured['protected'])}.{rate['name']}", rate)
    return figures | _group_figures(summary)


def _group_figures(summary: dict[str, Any]) -> dict[str, Any]:
    """How groups differ: the largest difference of an attribute, and the share of each group that is favoured."""
    figures: dict[str, Any] = {}
    for of in summary.get("groups", []):
        name = f"groups.{of['attribute']}"
        for difference in ("demographic_parity_difference", "equal_opportunity_difference"):
            figures[f"{name}.{difference}"] = of.get(difference)
        for group in of["groups"]:  # an audit has intervals, a measurement has none
            share = group["selection"]["rate"] if "selection" in group else group["selection_rate"]
            figures[f"{name}.{group['value']}.selection"] = share
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
