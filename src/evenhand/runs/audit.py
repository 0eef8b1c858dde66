"""An audit from data and model to findings, summary and report."""

import shutil
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pandas as pd

import evenhand
from evenhand.choices import UNFINISHED
from evenhand.data.dataset import load_dataset
from evenhand.errors import EvenhandError
from evenhand.files import read_json, result_folder, write_json
from evenhand.models.devices import one_thread
from evenhand.report.notebook import audit_html
from evenhand.report.page import write_report
from evenhand.report.pairs import example_pairs
from evenhand.report.sentences import headline, introduced
from evenhand.runs.checkpoints import Checkpoints, as_checkpoints, keeper_for
from evenhand.runs.deadline import Deadline
from evenhand.runs.findings import findings_file
from evenhand.runs.interrupt import noting_interrupts
from evenhand.runs.notebook_progress import shown_in_notebook, silent
from evenhand.runs.subject import OnDownload, OnProgress, PeopleChecked, Subject, open_subject
from evenhand.runs.summary import (
    FINDINGS,
    REPORT,
    STATUS,
    SUMMARY,
    TESTED,
    Stages,
    circumstances,
    no_search,
    search_summary,
)
from evenhand.search.recorder import Findings
from evenhand.search.search import Limits, Search

SUMMARY_EXAMPLES = 5
OnPairs = Callable[[Findings, Callable[[int], dict[str, Any]]], None]  # some findings, and what says one in words


@dataclass
class Audit:
    """A finished audit: a folder with findings, summary and report."""

    folder: Path
    summary: dict[str, Any]
    data: Any = None  # of an audit of a table: the `Dataset`

    @cached_property
    def findings(self) -> pd.DataFrame:
        """The unique findings: sample and witness, labels, scores, phase and seed row of each."""
        return pd.read_parquet(self.folder / FINDINGS)

    def report(self, path: str | Path) -> Path:
        """Write the self-contained HTML report."""
        return write_report(Path(path), self.summary, self.folder / FINDINGS, self.data)

    def __repr__(self) -> str:
        return f"<evenhand audit: {introduced(self.summary, headline(self.summary))}>"

    def _repr_html_(self) -> str:
        return audit_html(self.summary)

    @classmethod
    def load(cls, folder: Path) -> "Audit":
        """Read an audit back from its folder."""
        summary = read_json(folder / SUMMARY)
        if summary.get("kind") != "audit" or not (folder / FINDINGS).is_file():
            raise EvenhandError(f"{folder} does not hold an audit: it needs {SUMMARY} and {FINDINGS} of one run.")
        if summary.get("domain") == "text":
            return cls(folder, summary)
        data = load_dataset(summary["config"]["dataset"])
        if len(data.codes) != summary["dataset"]["rows"]:
            raise EvenhandError(
                f"The data of {folder} had {summary['dataset']['rows']:,} rows, but {data.name} has "
                f"{len(data.codes):,} now. The report needs the data that was audited."
            )
        return cls(folder, summary, data)


def audit(
    data: Any = "census",
    protected: str | list[str] | None = None,
    *,
    model: Any = None,
    label: str | None = None,
    out: str | Path | None = None,
    on_progress: OnProgress = silent,
    on_findings: Callable[[Findings], None] = lambda findings: None,
    on_pairs: OnPairs = lambda findings, words: None,
    on_download: OnDownload = lambda what, done, total: None,
    checkpoints: str | Path | Checkpoints | None = None,
    started: float | None = None,
    **settings: Any,
) -> Audit:
    """Search a classifier of a table or of texts for discriminatory pairs.

    `data` is a built-in name, the path of a schema file, a `Dataset`, or a data frame whose column `label` the model
    predicts; of texts a built-in corpus (wiki, jigsaw), a file (CSV, Parquet, JSON lines) with its columns `text` and
    `label`, or a `Corpus`. `protected` are the attributes to change, together; of texts one attribute of the lexicon.
    `model` is a model of any framework, a function of a data frame, `module:function`, a file or an address (default:
    the built-in network); of texts a file of `evenhand train` or a Hugging Face directory. The method follows from what
    the model offers. `on_findings` sees findings on their way to the file; `on_pairs` too, with a function that says
    one of them in words. An audit that was killed or stopped goes on from the last of its `checkpoints` (a folder) when
    it is asked for again, and ends as if nothing had happened. Without `out` the files live as long as the result.
    `max_seconds` count from here, or from `started` on the clock of `time.perf_counter`. Other settings: see
    `AuditSettings` and `TextAuditSettings`.
    """
    deadline_for = partial(Deadline, started=time.perf_counter() if started is None else started)
    stages = Stages()
    subject = open_subject(
        "audit", data, protected, model=model, label=label, deadline=deadline_for, on_download=on_download,
        stages=stages, **settings,
    )  # fmt: skip
    deadline = deadline_for(subject.settings.max_seconds)
    with result_folder(out) as folder, noting_interrupts() as interrupted, one_thread(subject.device):
        title = f"{subject.data.name}/{'+'.join(subject.settings.protected)}"

        def seen(findings: Findings, words: Callable[[int], dict[str, Any]]) -> None:
            on_findings(findings)
            on_pairs(findings, words)

        watch = Watch(shown_in_notebook(on_progress, title), seen, interrupted, as_checkpoints(checkpoints), deadline)
        started_at = datetime.now(UTC)
        with stages.timed("data rate"):
            people = subject.check_people(watch.on_progress, deadline.for_people(interrupted))
        subject = subject.settled_by(people)
        if subject.is_tested:
            searched = _searched(subject, people, folder, stages, watch)
        else:
            searched = _not_tested(subject, folder)
        summary = {
            "evenhand": evenhand.__version__,
            "kind": "audit",
            "domain": subject.domain,
            "status": TESTED if subject.is_tested else STATUS,
            "started": started_at.isoformat(timespec="seconds"),
            **subject.facts(),
            "config": subject.settings.model_dump(),
            "data_rate": {name: rate.as_dict() for name, rate in people.rates.items()},
            **people.facts,
            **searched,
            **circumstances(subject.device, stages),
            "seed": subject.settings.seed,
        }
        summary |= deadline.facts(summary["data_rate"])
        table = subject.data if subject.domain == "table" else None
        summary["examples"] = example_pairs(summary, folder / FINDINGS, SUMMARY_EXAMPLES, table)
        write_json(folder / SUMMARY, summary)
        write_report(folder / REPORT, summary, folder / FINDINGS, table)
        if watch.checkpoints is not None and summary["search"]["stopped"] not in UNFINISHED:
            watch.checkpoints.completed()
    result = Audit(folder, read_json(folder / SUMMARY), table)
    if out is None:
        weakref.finalize(result, shutil.rmtree, folder, ignore_errors=True)
    return result


@dataclass(frozen=True)
class Watch:
    """Who is told how an audit goes, and who may end it."""

    on_progress: OnProgress
    on_pairs: OnPairs
    interrupted: Callable[[], bool]
    checkpoints: Checkpoints | None
    deadline: Deadline


def _searched(subject: Subject, people: PeopleChecked, folder: Path, stages: Stages, watch: Watch) -> dict[str, Any]:
    """The search, with findings going to the folder; what the summary says of it."""
    settings = subject.settings
    method = subject.method(settings.method, settings.settings)
    with stages.timed("seeds"):
        world = subject.world(settings.seeds, settings.seed)
        seeds = watch.deadline.seeds(len(world.rows), people.checked, people.variants, people.seconds)
    with findings_file(folder / FINDINGS, partial(subject.writer, world=world)) as writer:

        def sink(findings: Findings) -> None:
            writer.write(findings)
            watch.on_pairs(findings, lambda row: subject.pair_card(world, findings, row))

        with stages.timed("search"):
            keeper = keeper_for(
                watch.checkpoints, method, settings, world.model.device, partial(subject.fingerprint, world)
            )
            search = Search(
                world.model,
                world.space,
                method,
                seed=settings.seed,
                limits=watch.deadline.for_search(limits_of(settings)),
                sink=sink,
                on_progress=watch.on_progress,
                interrupted=watch.interrupted,
                keeper=keeper,
                replay=writer.write,
            )
            result = search.run(world.samples[:seeds], world.rows[:seeds])
        with stages.timed("validity" if subject.domain == "text" else "search"):
            figures = writer.finish()
        _remove_earlier(folder)
    stages.seconds["search"] += result.seconds_before
    counted = search_summary(result, world.model, stages)
    ruled_out = figures.pop("ruled_out", counted["ruled_out"])
    return {"search": counted | {"ruled_out": ruled_out}, **figures}


def limits_of(settings: Any) -> Limits:
    """What a search may do."""
    return Limits(settings.iterations, settings.steps, settings.max_seconds, settings.max_findings, settings.max_rows)


def _not_tested(subject: Subject, folder: Path) -> dict[str, Any]:
    """What the summary says where the model does not read what is protected, and a file without findings."""
    with findings_file(folder / FINDINGS, partial(subject.writer, world=None)):
        _remove_earlier(folder)
    return {"search": no_search(), "people": []}


def _remove_earlier(folder: Path) -> None:
    """An earlier audit's summary and report would not belong to the findings that come now."""
    for earlier in (SUMMARY, REPORT):
        (folder / earlier).unlink(missing_ok=True)
