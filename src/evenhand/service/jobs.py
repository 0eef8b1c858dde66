"""What a run's own process is told, and the figures of its result that lists and pages show."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.errors import EvenhandError
from evenhand.files import flush
from evenhand.service.requests import is_id, request_of
from evenhand.service.run_folder import checkpoint_of

UNSURE = 75  # the exit code of a process that was not told in time that the run is its worker's

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evenhand.service.settings import Service
    from evenhand.service.storage.runs import Claim


@dataclass(frozen=True)
class Job:
    """Everything that a run needs, so that its process never asks the database."""

    folder: str  # where the results go; it is there, and empty but for a checkpoint
    kind: str
    config: dict[str, Any]  # see `requests`
    table: str | None  # path of an uploaded table or texts; None: the data are built in
    schema: str | None  # TOML; of texts `CorpusFacts` as JSON
    model: str | None  # path of an uploaded model; None: the built-in network
    memory: int  # bytes
    seconds: float  # of the processor
    lease: float  # seconds for which the run is its worker's, unless it says more
    checkpoint: str | None = None  # path of the folder for checkpoints; it need not be there
    told: list[dict[str, Any]] = field(default_factory=list)  # example pairs that people have been shown before
    name: str | None = None  # what people call uploaded data

    def text(self) -> str:
        """As one line."""
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def of_text(cls, text: str) -> "Job":
        """From one line."""
        return cls(**json.loads(text))


def job_of(service: "Service", claim: "Claim", folder: Path) -> Job:
    """The job of a run that a worker holds. What it names must be in the run's project."""
    request = request_of(claim.kind, claim.config)
    table = schema = model = name = None
    if is_id(request.dataset):
        data = service.assets.dataset(request.dataset, claim.project)
        schema = service.runs.get(claim.run).schema_text or data.schema_text  # as it was when the run was asked for
        if schema is None:
            raise EvenhandError(f"The data '{data.name}' have no schema yet. Say first what their columns mean.")
        table, name = str(service.assets.dataset_path(data)), data.name
    if request.model is not None:
        model = str(service.assets.model_path(service.assets.model(request.model, claim.project)))
    settings = service.settings
    return Job(
        str(folder),
        claim.kind,
        request.model_dump(),
        table,
        schema,
        model,
        memory=settings.run_memory,
        seconds=settings.run_seconds,
        lease=service.runs.lease_seconds,
        checkpoint=str(checkpoint_of(folder)),
        told=list(_told(service, claim.run)),
        name=name,
    )


def _told(service: "Service", run: str) -> "Iterator[dict[str, Any]]":
    """The example pairs that earlier attempts have told."""
    last = 0
    while events := service.runs.events(run, after=last):
        last = events[-1].id
        yield from (event.data for event in events if event.kind == "pair")


def result_of(kind: str, summary: dict[str, Any], folder: Path) -> dict[str, Any]:
    """What a run keeps of its summary and files, which are safe even if the machine stops now."""
    from evenhand.service.findings_index import write_index

    if (folder / "findings.parquet").is_file():
        write_index(folder / "findings.parquet")
    for path in (*folder.iterdir(), folder):
        flush(path)
    files = {path.name: path.stat().st_size for path in sorted(folder.iterdir()) if path.is_file()}
    failed = summary.get("search", {}).get("error")
    texts = {"texts": True} if summary.get("domain") == "text" else {}
    return figures_of(kind, summary) | {"files": files} | texts | ({"error": failed} if failed else {})


def figures_of(kind: str, summary: dict[str, Any]) -> dict[str, Any]:
    """What lists and pages show of a summary. It is small: everything else is read from the files."""
    from evenhand.report.sentences import NOT_TESTED, is_not_tested

    shared = {"protected": summary["protected"], "model": summary["model"]["name"], "data": summary["dataset"]}
    shared["status"] = NOT_TESTED if is_not_tested(summary) else "tested"
    seconds = round(sum(summary["seconds"].values()), 3)
    warnings = {"warnings": summary["warnings"]} if summary.get("warnings") else {}
    return shared | warnings | {"seconds": seconds} | FIGURES[kind](summary)


def _audit_figures(summary: dict[str, Any]) -> dict[str, Any]:
    from evenhand.report.sentences import headline, is_not_tested

    search = summary["search"]
    if is_not_tested(summary):  # no figure: a rate of 0 would read as one that was measured
        return {"headline": headline(summary), "stopped": search["stopped"]}
    copied = ("success_rate", "seeds", "seeds_with_findings", "stopped", "findings_per_second", "model_rows")
    return {
        "headline": headline(summary),
        "method": summary["config"]["method"],
        "findings": search["findings"]["total"],
        "generated": search["generated"]["total"],
        "data_rate": summary["data_rate"].get("all"),
        **{name: search[name] for name in copied},
    }


def _measure_figures(summary: dict[str, Any]) -> dict[str, Any]:
    from evenhand.report.sentences import is_not_tested, measured_parts
    from evenhand.report.words import joined, rate_text
    from evenhand.runs.measure_tables import short_names

    rates = [
        {"changed": measured["protected"], "population": rate["name"], "words": rate_text(rate)}
        | {name: rate[name] for name in ("rate", "interval", "samples", "discriminatory")}
        for measured in measured_parts(summary)
        for rate in measured["populations"]
    ]
    if is_not_tested(summary):
        words = f"{summary['dataset']['name']}, not tested: {summary['warnings'][0]}"
        return {"headline": words, "rates": [], "stopped": summary["stopped"]}
    short = short_names(summary)
    first = (
        f"{joined(rates[0]['changed'])}, {short[rates[0]['population']]}: {rates[0]['words']}"
        if rates
        else "nothing yet"
    )
    return {"headline": f"{summary['dataset']['name']}: {first}", "rates": rates, "stopped": summary["stopped"]}


def _repair_figures(summary: dict[str, Any]) -> dict[str, Any]:
    rows = {row["name"]: row for row in summary["rows"]}
    chosen = summary["chosen"]
    before, after = rows["original"], rows.get(chosen)
    kept = ("name", "accuracy", "validation_accuracy", "uniform", "people")
    words = "no repair meets the conditions" if after is None else f"repaired by {chosen}"
    return {
        "headline": f"{summary['dataset']['name']}, {', '.join(summary['protected'])}: {words}",
        "chosen": chosen,
        "before": {name: before[name] for name in kept},
        "after": None if after is None else {name: after[name] for name in kept},
        "stopped": "completed",
    }


FIGURES = {"audit": _audit_figures, "measure": _measure_figures, "repair": _repair_figures}
