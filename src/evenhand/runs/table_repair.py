"""Repairing a classifier of tables: findings from the training split, repaired networks, a verdict on held-out data."""

import shlex
import shutil
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import nn

import evenhand
from evenhand.choices import OutputForm, Vote
from evenhand.data.dataset import Dataset
from evenhand.errors import EvenhandError, unknown_name
from evenhand.files import replacing
from evenhand.measures.choice import parse_conditions
from evenhand.measures.people import rows_for_people, rows_to_check
from evenhand.measures.rates import share_of
from evenhand.measures.verdict import Judge, JudgedRepair, held_out_weights
from evenhand.methods.names import AUTO
from evenhand.methods.registry import BLACK_BOX, make_method
from evenhand.models.adapters.base import people_codes, reads_raw_values
from evenhand.models.adapters.features.entries import WAYS
from evenhand.models.averaged import AveragedModel, save_averaged
from evenhand.models.classifier import Classifier
from evenhand.models.decisions import DecidingAdapter, with_decision_of
from evenhand.models.devices import one_thread
from evenhand.models.loading import load_module
from evenhand.models.network import FeedForward, network_files, save_network
from evenhand.models.repaired import NewRows, RepairedModel, description_of, label_type
from evenhand.models.trial import why_no_gradients
from evenhand.repairs.table import DEFAULT_STRENGTH, REPAIRS, STRENGTHS, TRAINED, RepairedNetworks, Workshop
from evenhand.repairs.table_training import Material, Recipe
from evenhand.runs.audit import Stages, circumstances
from evenhand.runs.config import Checked
from evenhand.runs.findings import no_findings
from evenhand.runs.notebook_progress import shown_in_notebook, silent
from evenhand.runs.repair import OnStep, Repair, compared, finished, search_all
from evenhand.runs.repair_examples import examples_of, group_rows
from evenhand.runs.subject import Subject, as_dataset, model_name, names_of, subject_of
from evenhand.search.recorder import Findings
from evenhand.search.search import Limits
from evenhand.search.seeds import choose_seeds
from evenhand.search.space import TableSpace

USUAL = ["blind"]  # what is done where no way is named, to a model that can be trained again
MOST_FINDINGS = 50_000  # independent findings that are looked at again
CPU = torch.device("cpu")


class RepairConfig(Checked):
    """Everything that, with the data and the model, decides a repair."""

    dataset: str
    protected: list[str] = Field(min_length=1)
    model: str | None = None
    by: list[str] = Field(default=USUAL, min_length=1)
    share: float = Field(default=0.05, gt=0, le=1)  # of the findings, for augment
    vote: Vote = "models"
    repeats: int = Field(default=5, ge=1)
    strength: float | None = Field(default=None, gt=0)  # of pairing and certified
    choose: str | None = None
    method: str = AUTO  # that makes findings: ADF, or a black box where the model gives no gradients
    seeds: int = Field(default=1000, ge=1)
    steps: int = Field(default=1000, ge=0)
    epochs: int = Field(default=Recipe.epochs, ge=1)
    half_width: float = Field(default=0.001, gt=0, lt=0.5)
    confidence: float = Field(default=0.95, gt=0, lt=1)
    seed: int = Field(default=0, ge=0, le=2**62)  # others are counted on from it
    output: OutputForm = "auto"
    inputs: str | None = None
    threshold: float | None = Field(default=None, gt=0, lt=1)
    accept_poor_model: bool = False
    within: dict[str, Annotated[float, Field(gt=0)]] = Field(default={})  # as for an audit


def repair_table(
    data: Any = "census",
    protected: str | list[str] | None = None,
    by: str | list[str] | None = None,
    *,
    model: Any = None,
    label: str | None = None,
    out: str | Path | None = None,
    on_step: OnStep = silent,
    **settings: Any,
) -> Repair:
    """Make a model whose labels depend less, or not at all, on protected attributes, and say what that costs.

    `by` is one or several of augment, certified, pairing, average and blind, or "all", which tries what can be done to
    the model, in several strengths; by default blind, or average for a model that cannot be trained again. Learns from
    training rows only; judged on held-out rows. `data` and `model` are those of `evenhand.audit`; other settings: see
    `RepairConfig`.
    """
    stages = Stages()
    with stages.timed("load"):
        names = names_of(protected)
        dataset, name = as_dataset(data, label, names)
        ways = [way.strip() for way in by.split(",")] if isinstance(by, str) else USUAL if by is None else by
        config = RepairConfig.checked(
            dataset=name,
            protected=names or dataset.schema.protected,
            model=model_name(model),
            by=list(REPAIRS) if "all" in ways else ways,
            **settings,
        )
        for way in config.by:
            if way not in REPAIRS:
                raise unknown_name("repair called", way, [*REPAIRS, "all"])
        if config.choose is not None:
            parse_conditions(config.choose)  # a mistake is said before the work
        dataset = dataset.compared_within(config.within, config.protected)
        subject = subject_of(
            dataset, model, config.protected, CPU, output=config.output, inputs=config.inputs,
            threshold=config.threshold, accept_poor_model=config.accept_poor_model, seed=config.seed,
        )  # fmt: skip
        classifier, config = (
            subject.classifier,
            config.model_copy(update={"protected": subject.read_by(config.protected)}),
        )
        config = config.model_copy(update={"method": _method(config.method, dataset, classifier)})
        on_step = shown_in_notebook(on_step, f"repair of {dataset.name}")
        work = _Work(config, dataset, model, subject, "all" in ways, stages, on_step)
        if (work.sweep or by is None) and not work.workshop.retrainable:  # all that can be done to it
            work = replace(work, config=config.model_copy(update={"by": ["average"]}), unasked=by is None)
        work.check()
    with one_thread(CPU):
        result = finished(out, config.choose, work)
    result.predictor = None if result.model is None else work.predictor(result.model)
    return result


def _method(name: str, data: Dataset, model: Classifier) -> str:
    """The method that makes findings; the paper's where the model gives gradients."""
    if name != AUTO:
        return name
    return BLACK_BOX if why_no_gradients(model, torch.tensor(data.clipped[:2], dtype=torch.float32)) else "adf"


@dataclass(frozen=True)
class _Work:
    """The parts of one repair."""

    config: RepairConfig
    data: Dataset
    given: Any  # the model as it was given
    subject: Subject
    sweep: bool
    stages: Stages
    on_step: OnStep
    unasked: bool = False  # average was taken for the usual way, which cannot be had

    @property
    def original(self) -> Classifier:
        return self.subject.classifier

    @property
    def space(self) -> TableSpace:
        return self.subject.space(self.data, self.config.protected)

    @property
    def workshop(self) -> Workshop:
        recipe = Recipe(epochs=self.config.epochs, seed=self.config.seed)
        module = self.original.module
        widths = module.widths if isinstance(module, FeedForward) else ()
        return Workshop(
            Material(self.data, self.space, widths, recipe), self.original, self.config.repeats, self.on_step
        )

    def check(self) -> None:
        """Whether what is asked for can be had at all."""
        make_method(self.config.method)
        trained = [way for way in self.config.by if way in TRAINED]
        if trained and not self.workshop.retrainable:
            raise EvenhandError(
                f"{', '.join(trained)} would train the model again, but {self.config.model} is not a network of "
                '`evenhand train`: it can be asked and not retrained. Only --by average (in Python by="average") is '
                "offered for it."
            )
        address = str(self.given).startswith(("http://", "https://")) and "?" in str(self.given)  # it may hold a key
        if "average" in self.config.by and not self.workshop.retrainable and address:
            raise EvenhandError(
                f"The average of {self.subject.name} could not be written: the file would name the model, so it has to "
                "be given as a file, an address without a query or module:function."
            )

    def judged(self) -> tuple[list[JudgedRepair], list[JudgedRepair]]:
        """The repairs, and what they are compared with: the model as it was, retrained without repair, blind."""
        workshop = self.workshop
        with self.stages.timed("findings"):
            learned = self.findings(train=True) if "augment" in self.config.by else no_findings(0, 0)
            if self.config.by == ["augment"] and not len(learned):
                raise EvenhandError(
                    f"There is nothing to learn from: {self.config.method} found no pair in the training rows. Nothing "
                    "is changed. Try another --method, more --seeds, or --by blind."
                )
            independent = self.findings(train=False)
        originals, repairs = [RepairedNetworks("original", [self.original.module])], []
        with self.stages.timed("training"):
            if workshop.retrainable:
                originals += [self._cut(workshop.retrained()), self._cut(workshop.blind())]
            ways = [way for way in self.config.by if way != "augment" or len(learned)]  # the others need no findings
            for way in ways:
                repairs += [self._cut(repaired) for repaired in self._made(way, workshop, originals, learned)]
        with self.stages.timed("measuring"):
            judge = self._judge(workshop, independent.sample)
            rows = [self._judged(judge, repaired) for repaired in (*originals, *repairs)]
        return rows[len(originals) :], rows[: len(originals)]

    def _made(
        self, way: str, workshop: Workshop, originals: list[RepairedNetworks], learned: Findings
    ) -> list[RepairedNetworks]:
        if way == "average":
            return [workshop.average()]
        if way == "blind":
            return [originals[2]]
        if way == "augment":
            return [workshop.augment(learned, self.config.share, self.config.vote, originals[1].networks)]
        make = workshop.pairing if way == "pairing" else workshop.certified
        given = self.config.strength
        strengths = (given,) if given else STRENGTHS[way] if self.sweep else (DEFAULT_STRENGTH[way],)
        return [make(strength) for strength in strengths]

    def _cut(self, repaired: RepairedNetworks) -> RepairedNetworks:
        """Networks that give labels by the threshold that was stated for the model; an average has that of its own."""
        for network in repaired.networks:
            if isinstance(network, FeedForward) and self.config.threshold is not None:
                network.threshold = self.config.threshold  # type: ignore[assignment]
        return repaired

    def findings(self, train: bool) -> Findings:
        """What a search with the original model finds from training rows, or from held-out ones."""
        found: list[Findings] = []
        if train or not self.data.train.all():
            data = replace(self.data, train=self._fitted()) if train else self.data
            rows = choose_seeds(data, self.config.seeds, self.config.seed, train=train)
            self.on_step(f"findings from {'training' if train else 'held-out'} rows", 0)
            method, limits = make_method(self.config.method), Limits(steps=self.config.steps)
            codes = self.data.codes[rows]
            found = search_all(self.original, self.space, method, codes, rows, self.config.seed, limits)
        return joined_findings(found, self.space)

    def _fitted(self) -> NDArray[np.bool_]:
        """(rows,) the training rows that networks are fitted on; the others are for choices alone."""
        fitted = np.zeros(len(self.data.codes), dtype=bool)
        fitted[self.workshop.material.split[0]] = True
        return fitted

    def _judge(self, workshop: Workshop, findings: NDArray[np.int32]) -> Judge:
        chosen = np.random.default_rng(self.config.seed).permutation(len(findings))[:MOST_FINDINGS]
        return Judge(
            self.data,
            self.space,
            workshop.material.split[1],
            findings[chosen],
            self.config.half_width,
            self.config.confidence,
            self.config.seed,
            rows_for_people(self.original),
        )

    def _judged(self, judge: Judge, repaired: RepairedNetworks) -> JudgedRepair:
        verdicts = []
        for number, network in enumerate(repaired.networks):
            self.on_step(f"measuring {repaired.name}", number / len(repaired.networks))
            verdicts.append(judge.verdict(self._classifier(network)))
        return JudgedRepair(repaired.name, repaired.by, repaired.settings, repaired.used, verdicts, repaired.networks)

    @property
    def _people(self) -> NDArray[np.int64]:
        """Rows of held-out people who are looked at, or of training people where none are held out."""
        rows = rows_to_check(self.space, self.data, 0, rows_for_people(self.original))
        return rows if self.data.train[rows].all() else rows[~self.data.train[rows]]

    def _classifier(self, network: nn.Module) -> Classifier:
        """What labels people: the model as it was, or a repaired one, whose scores are logits."""
        return self.original if network is self.original.module else Classifier(network)

    def summary(
        self, rows: list[JudgedRepair], originals: list[JudgedRepair], chosen: JudgedRepair | None
    ) -> dict[str, Any]:
        """What `summary.json` holds."""
        after = originals[0] if chosen is None else chosen
        return {
            "evenhand": evenhand.__version__,
            "kind": "repair",
            "domain": "table",
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            "dataset": {"name": self.data.name, "title": self.data.schema.title, "rows": len(self.data.codes)},
            "protected": self.config.protected,
            "warnings": self.subject.warnings,
            "model": {"name": self.subject.name, "output": self.original.output, **self.subject.facts()},
            "config": self.config.model_dump(),
            "command": self.command(),
            "rows": compared(rows, originals, held_out_weights(self.data)),
            "validation_rows": len(self.workshop.material.split[1]),
            "split": split_words(self.data),
            "notes": self._notes(rows),
            "chosen": None if chosen is None else chosen.name,
            "headline": _headline(originals[0], chosen),
            "groups": group_rows(self.data, self.space, originals[0].kept.right, after.kept.right),
            "examples": examples_of(
                self.data, self.space, self.original, self._classifier(after.network), self._people
            ),
            **circumstances(self.original, self.stages),
            "seed": self.config.seed,
        }

    def _notes(self, rows: list[JudgedRepair]) -> list[str]:
        notes = []
        if self.data.weights is not None:
            by = f"Accuracy and shares of people are weighted by {self.data.schema.weight}"
            notes.append(f"{by}; training itself counts all rows alike." if self.workshop.retrainable else f"{by}.")
        if "augment" in self.config.by and not any(row.by == "augment" for row in rows):
            notes.append(f"augment was left out: {self.config.method} found no pair in the training rows.")
        if self.sweep and not self.workshop.retrainable:
            notes.append(
                f"{', '.join(TRAINED)} were left out: they train the model again, and {self.subject.name} is not a "
                "network of `evenhand train`, so it can be asked and not retrained."
            )
        if self.unasked:
            notes.append(
                f"Repaired by average: {self.subject.name} is not a network of `evenhand train`, so it can be asked "
                f"and not retrained, as {', '.join(USUAL)}, the usual way, would."
            )
        if not self._can_be_written(self.original.module) and "average" in self.config.by:
            notes.append(
                f"The average asks {self.subject.name}, which was given as an object and has no name that a file could "
                "hold: no model file is written. It predicts as long as the program runs."
            )
        return notes

    def _can_be_written(self, inner: nn.Module) -> bool:
        """Whether a file can hold or name a model: a network of ours, or one that was given by name."""
        return isinstance(inner, FeedForward) or isinstance(self.given, str | Path)

    def predictor(self, model: nn.Module) -> RepairedModel:
        """The repaired model for data frames."""
        kind = label_type(self.data)
        if not isinstance(model, AveragedModel) or not reads_raw_values(model.inner):
            asked = self._classifier(model)
            return RepairedModel(self.data.schema, lambda rows: asked, NewRows(self.data.schema, model), kind)

        def opened(rows: Dataset) -> Classifier:
            """The model again, for a table with other rows in it."""
            inner, _ = load_module(rows, self.given, _way(self.subject))
            return Classifier(model.with_inner(with_decision_of(inner, model.inner)))

        return RepairedModel(
            self.data.schema, opened, NewRows(self.data.schema, model, self.data, self.subject.unread), kind
        )

    def command(self) -> str:
        """The command that does the same again."""
        config, given = self.config, RepairConfig.model_fields
        words = ["evenhand", "repair", config.dataset, "--protected", ",".join(config.protected)]
        words += ["--by", "all" if self.sweep else ",".join(config.by)]
        for name in ("model", "inputs", "share", "vote", "repeats", "strength", "choose", "method", "seeds", "steps",
                     "epochs", "half_width", "confidence", "seed", "output", "threshold"):  # fmt: skip
            value = getattr(config, name)
            if value != given[name].default:
                words += [f"--{name.replace('_', '-')}", str(value)]
        words += [f"--within={name}={distance:g}" for name, distance in config.within.items()]
        words += ["--accept-poor-model"] if config.accept_poor_model else []
        return shlex.join(words)

    def save(self, model: nn.Module, summary: dict[str, Any], path: Path) -> None:
        """The repaired model as an ordinary file for `--model`; none where no file could hold or name it."""
        data = self.data
        if isinstance(model, AveragedModel) and not self._can_be_written(model.inner):
            for file in network_files(path):
                file.unlink(missing_ok=True)
            return
        description: dict[str, Any] = {
            "dataset": data.name,
            "attributes": data.schema.names,
            "classes": data.schema.label.values,
            "made_by": self.command(),
            "repair": summary["chosen"],
            "protected": self.config.protected,
            "accuracy": {
                "train": self._accuracy(model, data.train),
                "held_out": None if data.train.all() else self._accuracy(model, ~data.train),
            },
            "threshold": getattr(model, "threshold", None),
            **description_of(data, self.config.dataset),
        }
        if isinstance(model, AveragedModel):
            decided = model.inner.inner_output if isinstance(model.inner, DecidingAdapter) else None
            description |= {"inputs": _way(self.subject), "decided": decided, "unread": list(self.subject.unread)}
            inner = None if isinstance(model.inner, FeedForward) else self._kept_beside(path)
            save_averaged(model, description, path, inner)
        else:
            assert isinstance(model, FeedForward)
            save_network(model, description, path)

    def _accuracy(self, model: nn.Module, which: NDArray[np.bool_]) -> float | None:
        x = torch.tensor(people_codes(self.data, model)[which], dtype=torch.float32)
        right = self._classifier(model).outputs(x).labels.numpy() == self.data.labels[which]
        share = share_of(right, None if self.data.weights is None else self.data.weights[which])
        return None if share is None else round(share, 4)

    def _kept_beside(self, path: Path) -> str:
        """How an averaged model names the one that it asks: a copy beside it, or code, an address, a description."""
        given = Path(str(self.given))
        if not given.is_file() or given.suffix == ".toml":
            return str(self.given)
        copy = path.with_name(f"{path.name}.inner{given.suffix}")
        with replacing(copy) as temporary:
            shutil.copyfile(given, temporary)
        return copy.name


def split_words(data: Dataset) -> str | None:
    """Whose split a repair is judged on; None where no rows are held out."""
    if data.train.all():
        return None
    split = data.schema.split
    if split.column is None and not np.array_equal(data.train, split.train_mask(len(data.train))):
        return "the split that the data set came with"
    return split.words


def _headline(before: JudgedRepair, chosen: JudgedRepair | None) -> dict[str, Any] | None:
    """The figures that come first: held-out people affected before and after, and accuracy beside them."""
    if chosen is None:
        return None
    figures: dict[str, Any] = {}
    for when, row in (("before", before.kept), ("after", chosen.kept)):
        figures[f"people_{when}"] = None if row.people is None else row.people.share
        figures[f"accuracy_{when}"] = row.validation_accuracy if row.accuracy is None else row.accuracy
        figures[f"domain_{when}"] = row.uniform.share
    return figures | {"accuracy_lost": figures["accuracy_before"] - figures["accuracy_after"]}


def _way(subject: Subject) -> str | None:
    """How the model that is averaged has to be given people, where its file does not say it."""
    return subject.inputs["reading"] if subject.inputs["reading"] in WAYS else None


def joined_findings(parts: list[Findings], space: TableSpace) -> Findings:
    """Several batches of findings as one."""
    if not parts:
        return no_findings(len(space.sizes), len(space.protected))
    names = Findings.__dataclass_fields__
    return Findings(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})
