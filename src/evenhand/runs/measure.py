"""Measuring a classifier of tables: rates with intervals, which way they go, and group figures beside them."""

import math
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import evenhand
from evenhand.choices import OutputForm
from evenhand.data.dataset import Dataset
from evenhand.files import result_folder, write_json
from evenhand.measures.direction import directions, label_directions
from evenhand.measures.groups import group_figures
from evenhand.measures.people import limit_words, people_rates
from evenhand.measures.populations import Neighbourhood, Population, Uniform
from evenhand.measures.sampling import MOST_SAMPLES, SampledRate, check_precision, sample_population
from evenhand.models.classifier import Classifier
from evenhand.models.devices import choose_device, one_thread
from evenhand.report.notebook import measurement_html
from evenhand.report.sentences import measurement_text
from evenhand.report.words import joined
from evenhand.runs.audit import SUMMARY, Stages, circumstances
from evenhand.runs.earlier_findings import EarlierFindings, OnProgress
from evenhand.runs.interrupt import interrupt_as_wish
from evenhand.runs.measure_tables import tables_of, title_of
from evenhand.runs.not_tested import STATUS, TESTED
from evenhand.runs.notebook_progress import shown_in_notebook, silent
from evenhand.runs.subject import Subject, as_dataset, model_name, names_of, subject_of
from evenhand.search.space import MOST_VARIANTS, TableSpace

Interrupted = Callable[[], bool]


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


def measure_table(
    data: Any = "census",
    protected: str | list[str] | None = None,
    *,
    model: Any = None,
    label: str | None = None,
    inputs: str | None = None,
    threshold: float | None = None,
    accept_poor_model: bool = False,
    half_width: float = 0.005,
    confidence: float = 0.95,
    changes: int = 2,
    within: dict[str, float] | None = None,
    findings: str | Path | None = None,
    seed: int = 0,
    device: str = "auto",
    output: OutputForm = "auto",
    chunk_rows: int | None = None,
    most_samples: int = MOST_SAMPLES,
    out: str | Path | None = None,
    on_progress: OnProgress = silent,
) -> Measurement:
    """How often a classifier of tables decides otherwise because of protected attributes, and for whom.

    Each protected attribute by itself, and all together: over the whole domain, the rows of the data, and their
    neighbourhood of `changes` changed attributes. Rates by sampling are as narrow as `half_width` asks. `findings` is
    the folder of an earlier audit: how many of its findings are findings with this model too. `within` says how far
    from their own value of a protected number people are compared: {"age": 10}. `data` and `model` are
    those of `evenhand.audit`. With `out`, the summary is written there.
    """
    check_precision(half_width, confidence)
    on_progress = shown_in_notebook(on_progress, "measuring")
    stages, started = Stages(), datetime.now(UTC)
    with stages.timed("load"):
        wanted = names_of(protected)
        dataset, name = as_dataset(data, label, wanted)
        names = wanted or dataset.schema.protected
        dataset = dataset.compared_within(within or {}, names)
        where = choose_device(device)
        dataset.schema.protected_indices(names)  # wrong names are said before the model is asked
        subject = subject_of(
            dataset, model, names, where, output=output, chunk_rows=chunk_rows, inputs=inputs, threshold=threshold,
            accept_poor_model=accept_poor_model, seed=seed,
        )  # fmt: skip
        classifier, tested = subject.classifier, subject.tested(names) or names
        spaces, notes = _spaces(dataset, tested, subject)
        earlier = None if findings is None else EarlierFindings.open(Path(findings), dataset)
    config = {
        "dataset": name, "model": model_name(model), "inputs": inputs, "output": output, "threshold": threshold,
        "accept_poor_model": accept_poor_model,
        "half_width": half_width, "confidence": confidence, "changes": changes, "seed": seed, "device": device,
        "within": within or {}, "findings": None if findings is None else str(findings),
    }  # fmt: skip
    folder_for = nullcontext() if out is None else result_folder(out)
    with folder_for as folder, interrupt_as_wish() as interrupted, one_thread(where):
        sampling = partial(
            sample_population, half_width=half_width, confidence=confidence, seed=seed, most_samples=most_samples
        )
        populations: list[list[Population]] = [
            [Uniform(space), Neighbourhood(space, dataset, changes)] for space in spaces
        ]
        measured: list[dict[str, Any]] = []
        for space, of_space in zip(spaces, populations, strict=True):
            if not interrupted():
                with stages.timed(", ".join(_protected(space))):
                    rates = _rates(classifier, space, dataset, of_space, sampling, confidence, on_progress, interrupted)
                    measured.append({"protected": _protected(space), "populations": list(rates)})
        again = None
        if earlier is not None and not interrupted():
            with stages.timed("findings"):
                again = earlier.rate(classifier, where, confidence, seed, on_progress).as_dict()
        with stages.timed("groups"):
            groups = [] if interrupted() else group_figures(classifier, dataset, names)
        if not subject.tested(names) and _found_any(measured):
            subject = subject.seen_to_read(names)
        summary = {
            **_facts(dataset, tested, subject, started),
            "status": TESTED if subject.tested(names) else STATUS,
            "warnings": subject.warnings,
            "config": config,
            "measured": measured,
            "findings": again,
            "groups": [figures.as_dict() for figures in groups],
            "notes": notes,
            "stopped": "interrupted" if interrupted() else "completed",
            **circumstances(classifier, stages),
            "seed": seed,
        }
        if folder is not None:
            write_json(folder / SUMMARY, summary)
    return Measurement(summary, folder)


def _found_any(measured: list[dict[str, Any]]) -> bool:
    """Whether anybody was found whose label changes."""
    return any(rate["discriminatory"] for part in measured for rate in part["populations"])


def _facts(data: Dataset, names: list[str], subject: Subject, started: datetime) -> dict[str, Any]:
    """What was measured, for the summary."""
    label = data.schema.label
    return {
        "evenhand": evenhand.__version__,
        "kind": "measure",
        "domain": "table",
        "started": started.isoformat(timespec="seconds"),
        "dataset": {"name": data.name, "title": data.schema.title, "rows": len(data.codes)},
        "protected": names,
        "favourable": label.text(label.favourable_code),
        "model": {"name": subject.name, "output": subject.classifier.output, **subject.facts()},
    }


def _spaces(data: Dataset, names: list[str], subject: Subject) -> tuple[list[TableSpace], list[str]]:
    """A space for each attribute, and one for all together unless they have too many combinations."""
    indices = data.schema.protected_indices(names)
    groups, notes = [[name] for name in names], []
    if len(names) > 1:
        combinations = math.prod(data.schema.attributes[index].size for index in indices)
        if combinations > MOST_VARIANTS:
            notes.append(f"{joined(names)} together have {combinations:,} combinations, too many to check: left out")
        else:
            groups.append(names)
    return [subject.space(data, group) for group in groups], notes


def _protected(space: TableSpace) -> list[str]:
    return [space.schema.names[index] for index in space.protected]


def _rates(
    model: Classifier,
    space: TableSpace,
    data: Dataset,
    populations: list[Population],
    sampling: Callable[..., SampledRate],
    confidence: float,
    on_progress: OnProgress,
    interrupted: Interrupted,
) -> Iterator[dict[str, Any]]:
    """The rate and the direction of each population, until interrupted."""
    what = joined(_protected(space))
    first, *rest = populations

    def sampled(population: Population) -> dict[str, Any]:
        on_done = partial(on_progress, f"{what}, {population.name}")
        found = sampling(model, space, population, interrupted=interrupted, on_done=on_done)
        rate = replace(found.rate, population=f"{found.rate.population}{limit_words(space)}")
        return _as_dict(population.name, found._replace(rate=rate), space)

    yield sampled(first)
    if interrupted():
        return
    on_done = partial(on_progress, f"{what}, rows of the data")
    people = people_rates(model, space, data, confidence=confidence, interrupted=interrupted, on_done=on_done)
    yield from (_as_dict(name, found, space) for name, found in people.items())
    for population in rest:
        if interrupted():
            return
        yield sampled(population)


def _as_dict(name: str, found: SampledRate, space: TableSpace) -> dict[str, Any]:
    note = {} if found.note is None else {"note": found.note}
    who = [direction.as_dict() for direction in directions(found.tally, space)]
    pairs = [direction.as_dict() for direction in label_directions(found.tally, space)]
    by_labels = {"label_pairs": pairs} if pairs else {}
    return {"name": name, **found.rate.as_dict(), "drawn": found.drawn, **note, "direction": who, **by_labels}
