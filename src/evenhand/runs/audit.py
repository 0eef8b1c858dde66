"""An audit from data and model to findings, summary and report."""

import platform
import shutil
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

import evenhand
from evenhand.data.dataset import Dataset, load_dataset
from evenhand.data.decoding import Decoder
from evenhand.errors import EvenhandError
from evenhand.files import read_json, result_folder, write_json
from evenhand.measures.people import PeopleFound, audit_rates, discriminatory_rows
from evenhand.measures.rates import Rate
from evenhand.methods.registry import check_needs, chosen_method, make_method
from evenhand.models.adapters.base import person_reading, reads_raw_values
from evenhand.models.classifier import Classifier, Model
from evenhand.models.devices import choose_device, one_thread
from evenhand.models.trial import why_no_gradients
from evenhand.report.notebook import audit_html
from evenhand.report.page import write_report
from evenhand.report.pairs import example_pairs
from evenhand.report.sentences import headline, introduced
from evenhand.report.statistics import people_examples
from evenhand.runs.checkpoints import Checkpoints, as_checkpoints, keeper_for
from evenhand.runs.config import AuditConfig, SearchConfig
from evenhand.runs.deadline import Deadline
from evenhand.runs.findings import FindingsWriter, findings_file
from evenhand.runs.interrupt import interrupt_as_wish
from evenhand.runs.not_tested import STATUS, TESTED, no_search
from evenhand.runs.notebook_progress import shown_in_notebook, silent
from evenhand.runs.subject import Subject, as_dataset, model_facts, model_name, names_of, subject_of
from evenhand.search.checkpoint import Keeper
from evenhand.search.method import Method
from evenhand.search.recorder import Findings
from evenhand.search.search import Progress, Search, SearchResult
from evenhand.search.seeds import choose_seeds
from evenhand.search.space import ModelT, SpaceT, TableSpace

FINDINGS, SUMMARY, REPORT = "findings.parquet", "summary.json", "report.html"
SUMMARY_EXAMPLES = 5
# Reasons to stop after which an audit can go on from a checkpoint.
UNFINISHED = ("interrupted", "budget-spent", "model-failed")


@dataclass
class Audit:
    """A finished audit: a folder with findings, summary and report."""

    folder: Path
    summary: dict[str, Any]
    data: Dataset

    @cached_property
    def findings(self) -> pd.DataFrame:
        """The unique findings: sample, witness, labels, scores, phase and seed row of each."""
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
        data = load_dataset(summary["config"]["dataset"])
        if len(data.codes) != summary["dataset"]["rows"]:
            raise EvenhandError(
                f"The data of {folder} had {summary['dataset']['rows']:,} rows, but {data.name} has "
                f"{len(data.codes):,} now. The report needs the data that was audited."
            )
        return cls(folder, summary, data)


class Stages:
    """Seconds per stage of the work."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Time a block of work."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - start


def audit(
    data: Any = "census",
    protected: str | list[str] | None = None,
    *,
    model: Any = None,
    label: str | None = None,
    out: str | Path | None = None,
    on_progress: Callable[[Progress], None] = silent,
    on_findings: Callable[[Findings], None] = lambda findings: None,
    on_reading: Callable[[list[str], list[str]], None] = silent,
    checkpoints: str | Path | Checkpoints | None = None,
    started: float | None = None,
    **settings: Any,
) -> Audit:
    """Search a classifier for discriminatory pairs.

    `data` is a built-in data set's name, the path of a schema file, a `Dataset`, or a data frame whose column `label`
    the model predicts; `protected` the attributes to change, together; `model` a model of any framework, a function of
    a data frame, `module:function`, a file or an address (default: the built-in network). The method follows from what
    the model offers. `on_findings` sees findings on their way to the file; `on_reading` is told before the first which
    protected attributes are changed, and what the model does not read. An audit that was killed or stopped goes on
    from the last of its `checkpoints` (a folder) when it is asked for again, and ends as if nothing had happened.
    Without `out` the files live as long as the result. `max_seconds` count from here, or from `started` on the clock of
    `time.perf_counter`. Other settings: see `AuditConfig`.
    """
    started = time.perf_counter() if started is None else started
    stages = Stages()
    with stages.timed("load"):
        names = names_of(protected)
        dataset, name = as_dataset(data, label, names)
        config = AuditConfig.checked(
            dataset=name, protected=names or dataset.schema.protected, model=model_name(model), **settings
        )
        dataset = dataset.compared_within(config.within, config.protected)
        device = choose_device(config.device)
        space = TableSpace(dataset.schema, config.protected, device)  # wrong names are said before the model is asked
    deadline = Deadline(config.max_seconds, started)
    with stages.timed("model"):
        subject = subject_of(
            dataset, model, config.protected, device, output=config.output, chunk_rows=config.chunk_rows,
            inputs=config.inputs, threshold=config.threshold, accept_poor_model=config.accept_poor_model,
            seed=config.seed, seconds=deadline.for_model(),
        )  # fmt: skip
        config, method, why_not = _with_method(config, dataset, subject.classifier)
    with result_folder(out) as folder, interrupt_as_wish() as interrupted:
        watch = Watch(
            shown_in_notebook(on_progress, f"{dataset.name}/{'+'.join(config.protected)}"),
            on_findings,
            interrupted,
            as_checkpoints(checkpoints),
            deadline,
        )
        nothing = _nothing_to_find(config, dataset, space, subject, stages, watch)
        if nothing is None:
            if not subject.tested(config.protected):
                subject = subject.seen_to_read(config.protected)
            config = config.model_copy(update={"protected": subject.tested(config.protected)})
            space = subject.space(dataset, config.protected)
            on_reading(config.protected, list(subject.unread))
            summary = _run(config, dataset, space, subject.classifier, method, folder, stages, watch)
        else:
            summary = _not_tested(config, dataset, space, subject, nothing, folder, stages)
        summary |= watch.deadline.facts(summary["data_rate"])
        summary["model"] = model_facts(subject, why_not)
        summary["warnings"] = subject.warnings
        if subject.groups:
            summary["groups"] = subject.groups
        summary["examples"] = example_pairs(summary, folder / FINDINGS, SUMMARY_EXAMPLES, dataset)
        write_json(folder / SUMMARY, summary)
        write_report(folder / REPORT, summary, folder / FINDINGS, dataset)
        if watch.checkpoints is not None and summary["search"]["stopped"] not in UNFINISHED:
            watch.checkpoints.completed()
    result = Audit(folder, read_json(folder / SUMMARY), dataset)
    if out is None:
        weakref.finalize(result, shutil.rmtree, folder, ignore_errors=True)
    return result


@dataclass(frozen=True)
class Watch:
    """Who is told how an audit goes, and who may end it."""

    on_progress: Callable[[Progress], None]
    on_findings: Callable[[Findings], None]
    interrupted: Callable[[], bool]
    checkpoints: Checkpoints | None
    deadline: Deadline


def _with_method(config: AuditConfig, data: Dataset, model: Classifier) -> tuple[AuditConfig, Method, str]:
    """The configuration with a method that the model can serve, and why it gives no gradients if it gives none."""
    x = torch.tensor(data.clipped[:2], dtype=torch.float32, device=model.device)
    why_not = why_no_gradients(model, x)
    config = config.model_copy(update={"method": chosen_method(config.method, why_not)})
    method = make_method(config.method, config.settings)
    check_needs([config.method], model, x)
    return config, method, why_not


def _run(
    config: AuditConfig,
    data: Dataset,
    space: TableSpace,
    model: Classifier,
    method: Method,
    folder: Path,
    stages: Stages,
    watch: Watch,
) -> dict[str, Any]:
    """The measurements and the search, with findings going to the folder."""
    started = datetime.now(UTC)
    with stages.timed("seeds"):
        rows = choose_seeds(data, config.seeds, config.seed)
    with one_thread(model.device):
        began = time.perf_counter()
        with stages.timed("data rate"):
            interrupted = watch.deadline.for_people(watch.interrupted)
            found = _check_people(model, space, data, config.seed, watch.on_progress, interrupted)
            rates = audit_rates(space, data, found)
        people_seconds = time.perf_counter() - began
        rows = rows[: watch.deadline.seeds(len(rows), len(found.rows), space.variant_count, people_seconds)]
        with (
            stages.timed("search"),
            findings_file(
                folder / FINDINGS, partial(FindingsWriter, space=space, decoder=_decoder(data, model))
            ) as writer,
        ):

            def sink(findings: Findings) -> None:
                writer.write(findings)
                watch.on_findings(findings)

            keeper = keeper_for(watch.checkpoints, method, config, data, rows, model, space.unread)
            search = search_of(
                watch.deadline.for_search(config),
                model, space, method, sink, watch.on_progress, watch.interrupted, keeper, writer.write,
            )  # fmt: skip
            result = search.run(data.codes[rows], rows)
            remove_earlier(folder)
        stages.seconds["search"] += result.seconds_before
    people = people_examples(found, space, person_reading(model.module))
    facts = {"people": [asdict(example) for example in people]}
    return _summary(config, data, model, rates, search_summary(result, model, stages), stages, started) | facts


def _nothing_to_find(
    config: AuditConfig, data: Dataset, space: TableSpace, subject: Subject, stages: Stages, watch: "Watch"
) -> dict[str, Rate] | None:
    """The rates in the data, all zero, where the model reads none of the protected attributes; None where it does.

    That changing them has no effect was seen in a part of the rows: all of them are looked at before it is believed.
    """
    if subject.tested(config.protected):
        return None
    with one_thread(subject.classifier.device), stages.timed("data rate"):
        interrupted = watch.deadline.for_people(watch.interrupted)
        found = _check_people(subject.classifier, space, data, config.seed, watch.on_progress, interrupted)
    return None if found.hit.any() else audit_rates(space, data, found)


def _not_tested(
    config: AuditConfig,
    data: Dataset,
    space: TableSpace,
    subject: Subject,
    rates: dict[str, Rate],
    folder: Path,
    stages: Stages,
) -> dict[str, Any]:
    """The summary of an audit whose protected attributes the model does not read, and a file without findings."""
    started, model = datetime.now(UTC), subject.classifier
    with findings_file(folder / FINDINGS, partial(FindingsWriter, space=space)):
        remove_earlier(folder)
    return _summary(config, data, model, rates, no_search(), stages, started) | {"status": STATUS, "people": []}


def _decoder(data: Dataset, model: Classifier) -> Decoder:
    """What says which raw values a sample has; a network of codes never needs those beyond the domain."""
    return data.decoder if reads_raw_values(model.module) else Decoder(data.schema)


def search_of(
    config: SearchConfig,
    model: ModelT,
    space: SpaceT,
    method: Method[SpaceT, ModelT],
    sink: Callable[[Findings], None],
    on_progress: Callable[[Progress], None],
    interrupted: Callable[[], bool],
    keeper: Keeper | None = None,
    replay: Callable[[Findings], None] | None = None,
) -> Search[SpaceT, ModelT]:
    """The search that an audit asks for."""
    return Search(
        model,
        space,
        method,
        seed=config.seed,
        limits=config.limits,
        sink=sink,
        on_progress=on_progress,
        interrupted=interrupted,
        keeper=keeper,
        replay=replay,
    )


def remove_earlier(folder: Path) -> None:
    """An earlier audit's summary and report would not belong to the findings that come now."""
    for earlier in (SUMMARY, REPORT):
        (folder / earlier).unlink(missing_ok=True)


def _check_people(
    model: Classifier,
    space: TableSpace,
    data: Dataset,
    seed: int,
    on_progress: Callable[[Progress], None],
    interrupted: Callable[[], bool],
) -> PeopleFound:
    start = time.perf_counter()

    def on_done(done: int, total: int) -> None:
        seconds = time.perf_counter() - start
        on_progress(Progress("data", total, done, total, 0, seconds, seconds / done * (total - done)))

    return discriminatory_rows(model, space, data, seed=seed, interrupted=interrupted, on_done=on_done)


def _summary(
    config: AuditConfig,
    data: Dataset,
    model: Classifier,
    rates: dict[str, Rate],
    search: dict[str, Any],
    stages: Stages,
    started: datetime,
) -> dict[str, Any]:
    return {
        "evenhand": evenhand.__version__,
        "kind": "audit",
        "status": TESTED,
        "started": started.isoformat(timespec="seconds"),
        "dataset": {"name": data.name, "title": data.schema.title, "rows": len(data.codes)},
        "protected": config.protected,
        "model": {},
        "config": config.model_dump(),
        "data_rate": {name: rate.as_dict() for name, rate in rates.items()},
        "search": search,
        **circumstances(model, stages),
        "seed": config.seed,
    }


def search_summary(result: SearchResult, model: Model, stages: Stages) -> dict[str, Any]:
    """What a search did and found, in numbers."""
    counts = result.counts
    return {
        "stopped": result.stopped,
        **({} if result.error is None else {"error": result.error}),
        **({"taken_up": result.taken_up} if result.taken_up else {}),
        "seeds": result.seeds,
        "seeds_with_findings": result.seeds_with_findings,
        "tried": counts.tried,
        "generated": counts.generated | {"total": counts.all_generated},
        "findings": counts.findings | {"total": counts.all_findings},
        "ruled_out": counts.ruled_out,
        "notes": result.notes,
        "success_rate": counts.success_rate,
        "model_rows": model.rows,
        # On CUDA the clock sees only how long it takes to hand over the work.
        "model_share_of_time": round(model.seconds / stages.seconds["search"], 4)
        if model.device.type == "cpu"
        else None,
        "findings_per_second": round(counts.all_findings / stages.seconds["search"], 1),
        "seconds": {phase: round(seconds, 3) for phase, seconds in result.seconds.items()},
        "growth": [list(point) for point in counts.growth],
    }


def circumstances(model: Model, stages: Stages) -> dict[str, Any]:
    """How long the stages took, and with which versions."""
    return {
        "seconds": {stage: round(seconds, 3) for stage, seconds in stages.seconds.items()},
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
            "device": torch.cuda.get_device_name() if model.device.type == "cuda" else "cpu",
        },
    }
