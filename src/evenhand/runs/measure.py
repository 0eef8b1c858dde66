"""A measurement: rates with intervals, which way they go, and group figures beside them."""

from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import evenhand
from evenhand.files import result_folder, write_json
from evenhand.models.devices import one_thread
from evenhand.report.notebook import measurement_html
from evenhand.report.sentences import measurement_text
from evenhand.runs.interrupt import noting_interrupts
from evenhand.runs.measure_tables import tables_of, title_of
from evenhand.runs.notebook_progress import shown_in_notebook, silent
from evenhand.runs.subject import OnCount, OnDownload, open_subject
from evenhand.runs.summary import STATUS, SUMMARY, TESTED, Stages, circumstances
from evenhand.runs.table_rates import TableRates, earlier_summary
from evenhand.runs.table_subject import TableSubject
from evenhand.runs.tasks import domain_of
from evenhand.runs.text_rates import TextRates
from evenhand.runs.text_subject import TextSubject


@dataclass
class Measurement:
    """What was measured: `summary` is what `summary.json` holds."""

    summary: dict[str, Any]
    folder: Path | None = None

    @property
    def interrupted(self) -> bool:
        """Whether it was ended before all was measured."""
        return bool(self.summary["stopped"] == "interrupted")

    def __repr__(self) -> str:
        return f"<evenhand measurement: {measurement_text(self.summary)}>"

    def _repr_html_(self) -> str:
        return measurement_html(title_of(self.summary), self.summary, tables_of(self.summary))


def measure(
    data: Any = "census",
    protected: str | list[str] | None = None,
    *,
    model: Any = None,
    label: str | None = None,
    findings: str | Path | None = None,
    out: str | Path | None = None,
    on_progress: OnCount = silent,
    on_download: OnDownload = lambda what, done, total: None,
    **settings: Any,
) -> Measurement:
    """How often a classifier decides otherwise because of protected attributes or words, and for whom.

    Of a table each protected attribute by itself, and all together: over the whole domain, the rows of the data, and
    their neighbourhood; rates by sampling are as narrow as `half_width` asks. Of texts each attribute by itself, over
    up to `texts` texts of each split. `findings` is the folder of an earlier audit: how many of its findings are
    findings with this model too. `data` and `model` are those of `evenhand.audit`; other settings: see
    `MeasureSettings` and `TextMeasureSettings`. With `out`, the summary is written there.
    """
    stages, started = Stages(), datetime.now(UTC)
    if findings is not None:
        earlier_summary(Path(findings), domain_of(data, settings.get("text")))  # a mistake is said before the work
    subject = open_subject(
        "measure", data, protected, model=model, label=label, on_download=on_download, stages=stages,
        findings=None if findings is None else str(findings), **settings,
    )  # fmt: skip
    on_progress = shown_in_notebook(on_progress, subject.data.name)
    folder_for = nullcontext() if out is None else result_folder(out)
    with folder_for as folder, noting_interrupts() as interrupted, one_thread(subject.device):
        with stages.timed("load"):
            rates: TableRates | TextRates
            if isinstance(subject, TableSubject):
                rates = TableRates(subject, on_progress, interrupted)
            else:
                assert isinstance(subject, TextSubject)
                rates = TextRates(subject, on_progress, interrupted)
        measured: list[dict[str, Any]] = []
        for names in rates.parts:
            if not interrupted():
                with stages.timed(", ".join(names)):
                    measured.append({"protected": names, "populations": list(rates.of_data(names))})
        again = None
        if findings is not None and not interrupted():
            with stages.timed("findings"):
                again = rates.of_findings(Path(findings)).as_dict()
        with stages.timed("groups"):
            groups = [] if interrupted() else rates.groups()
        subject = rates.settled(any(rate["discriminatory"] for part in measured for rate in part["populations"]))
        summary = {
            "evenhand": evenhand.__version__,
            "kind": "measure",
            "domain": subject.domain,
            "started": started.isoformat(timespec="seconds"),
            **subject.facts(),
            "favourable": rates.favourable,
            "favourable_named": rates.favourable_named,
            "status": TESTED if subject.is_tested else STATUS,
            "warnings": subject.warnings,
            "config": subject.settings.model_dump(),
            "measured": measured,
            "findings": again,
            "groups": groups,
            "notes": rates.notes,
            "stopped": "interrupted" if interrupted() else "completed",
            **circumstances(subject.device, stages),
            "seed": subject.settings.seed,
        }
        if folder is not None:
            write_json(folder / SUMMARY, summary)
    return Measurement(summary, folder)
