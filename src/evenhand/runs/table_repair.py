"""Repairing a classifier of tables: findings from the training split, repaired networks, a verdict on held-out data."""

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from evenhand.choices import AUTO, Domain
from evenhand.data.dataset import Dataset
from evenhand.errors import EvenhandError
from evenhand.files import replacing
from evenhand.measures.people import rows_for_people, rows_to_check
from evenhand.measures.rates import share_of
from evenhand.measures.verdict import Judge, JudgedRepair, held_out_weights
from evenhand.methods.registry import BLACK_BOX, make_method
from evenhand.models.adapters.base import people_codes, reads_raw_values
from evenhand.models.adapters.features.entries import WAYS
from evenhand.models.averaged import AveragedModel, save_averaged
from evenhand.models.classifier import Classifier
from evenhand.models.decisions import DecidingAdapter, with_decision_of
from evenhand.models.loading import load_module
from evenhand.models.network import FeedForward, network_files, save_network
from evenhand.models.repaired import NewRows, RepairedModel, description_of, label_type
from evenhand.models.trial import why_no_gradients
from evenhand.repairs.table import DEFAULT_STRENGTH, REPAIRS, STRENGTHS, TRAINED, RepairedNetworks, Workshop
from evenhand.repairs.table_training import Material, Recipe
from evenhand.runs.findings import no_findings
from evenhand.runs.repair_examples import examples_of, group_rows
from evenhand.runs.repair_rows import OnStep, compared, search_all
from evenhand.runs.summary import Stages
from evenhand.runs.table_subject import TableSubject
from evenhand.runs.tried_model import TriedModel
from evenhand.search.recorder import Findings
from evenhand.search.search import Limits
from evenhand.search.seeds import choose_seeds
from evenhand.search.space import TableSpace
from evenhand.settings import EVERY_REPAIR, RepairSettings, repeat_command

USUAL = ["blind"]  # what is done where no way is named, to a model that can be trained again
MOST_FINDINGS = 50_000  # independent findings that are looked at again
CPU = torch.device("cpu")


def table_repair(subject: TableSubject, given: Any, stages: Stages, on_step: OnStep) -> "TableRepairWork":
    """The work of repairing a model of a table; `given` is the model as it was given."""
    tested = subject.tried.read_by(subject.asked)
    settings = subject.settings.model_copy(update={"protected": tested})
    method = _method(settings.method, subject.data, subject.tried.classifier)
    settings = settings.model_copy(update={"method": method, "by": settings.by or USUAL})
    work = TableRepairWork(settings, subject.data, given, subject.tried, stages, on_step)
    if not work.workshop.retrainable and not subject.settings.by:  # all that can be done to it
        work = replace(work, settings=settings.model_copy(update={"by": ["average"]}), unasked=True)
    work.check()
    return work


def _method(name: str, data: Dataset, model: Classifier) -> str:
    """The method that makes findings; the paper's where the model gives gradients."""
    if name != AUTO:
        return name
    return BLACK_BOX if why_no_gradients(model, torch.tensor(data.clipped[:2], dtype=torch.float32)) else "adf"


@dataclass(frozen=True)
class TableRepairWork:
    """The parts of one repair of a model of a table."""

    domain: ClassVar[Domain] = "table"
    settings: RepairSettings
    data: Dataset
    given: Any  # the model as it was given
    tried: TriedModel
    stages: Stages
    on_step: OnStep
    unasked: bool = False  # average was taken for the usual way, which cannot be had

    @property
    def sweep(self) -> bool:
        """Whether all ways are tried, in several strengths."""
        return EVERY_REPAIR in self.settings.by

    @property
    def ways(self) -> list[str]:
        """The ways that are tried: of all, those that can be done to the model."""
        if not self.sweep:
            return self.settings.by
        return list(REPAIRS) if self.workshop.retrainable else ["average"]

    @property
    def original(self) -> Classifier:
        """The model as it was."""
        return self.tried.classifier

    @property
    def space(self) -> TableSpace:
        """Where samples live."""
        return self.tried.space(self.data, self.settings.protected)

    @property
    def workshop(self) -> Workshop:
        """Where networks are trained again."""
        recipe = Recipe(epochs=self.settings.epochs, seed=self.settings.seed)
        module = self.original.module
        widths = module.widths if isinstance(module, FeedForward) else ()
        return Workshop(
            Material(self.data, self.space, widths, recipe), self.original, self.settings.repeats, self.on_step
        )

    def check(self) -> None:
        """Whether what is asked for can be had at all."""
        make_method(self.settings.method)
        trained = [way for way in self.ways if way in TRAINED]
        if trained and not self.workshop.retrainable:
            raise EvenhandError(
                f"{', '.join(trained)} would train the model again, but {self.settings.model} is not a network of "
                '`evenhand train`: it can be asked and not retrained. Only --by average (in Python by="average") is '
                "offered for it."
            )
        address = str(self.given).startswith(("http://", "https://")) and "?" in str(self.given)  # it may hold a key
        if "average" in self.ways and not self.workshop.retrainable and address:
            raise EvenhandError(
                f"The average of {self.tried.name} could not be written: the file would name the model, so it has to "
                "be given as a file, an address without a query or module:function."
            )

    def judged(self) -> tuple[list[JudgedRepair], list[JudgedRepair]]:
        """The repairs, and what they are compared with: the model as it was, retrained without repair, blind."""
        workshop = self.workshop
        with self.stages.timed("findings"):
            learned = self.findings(train=True) if "augment" in self.ways else no_findings(0, 0)
            if self.ways == ["augment"] and not len(learned):
                raise EvenhandError(
                    f"There is nothing to learn from: {self.settings.method} found no pair in the training rows. "
                    "Nothing is changed. Try another --method, more --seeds, or --by blind."
                )
            independent = self.findings(train=False)
        originals, repairs = [RepairedNetworks("original", [self.original.module])], []
        with self.stages.timed("training"):
            if workshop.retrainable:
                originals += [self._cut(workshop.retrained()), self._cut(workshop.blind())]
            ways = [way for way in self.ways if way != "augment" or len(learned)]  # the others need no findings
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
            return [workshop.augment(learned, self.settings.share, self.settings.vote, originals[1].networks)]
        make = workshop.pairing if way == "pairing" else workshop.certified
        given = self.settings.strength
        strengths = (given,) if given else STRENGTHS[way] if self.sweep else (DEFAULT_STRENGTH[way],)
        return [make(strength) for strength in strengths]

    def _cut(self, repaired: RepairedNetworks) -> RepairedNetworks:
        """Networks that give labels by the threshold that was stated for the model; an average has that of its own."""
        for network in repaired.networks:
            if isinstance(network, FeedForward) and self.settings.threshold is not None:
                network.threshold = self.settings.threshold  # type: ignore[assignment]
        return repaired

    def findings(self, train: bool) -> Findings:
        """What a search with the original model finds from training rows, or from held-out ones."""
        found: list[Findings] = []
        if train or not self.data.train.all():
            data = replace(self.data, train=self._fitted()) if train else self.data
            rows = choose_seeds(data, self.settings.seeds, self.settings.seed, train=train)
            self.on_step(f"findings from {'training' if train else 'held-out'} rows", 0)
            method, limits = make_method(self.settings.method), Limits(steps=self.settings.steps)
            codes = self.data.codes[rows]
            found = search_all(self.original, self.space, method, codes, rows, self.settings.seed, limits)
        return Findings.joined(found) if found else no_findings(len(self.space.sizes), len(self.space.protected))

    def _fitted(self) -> NDArray[np.bool_]:
        """(rows,) the training rows that networks are fitted on; the others are for choices alone."""
        fitted = np.zeros(len(self.data.codes), dtype=bool)
        fitted[self.workshop.material.split[0]] = True
        return fitted

    def _judge(self, workshop: Workshop, findings: NDArray[np.int32]) -> Judge:
        chosen = np.random.default_rng(self.settings.seed).permutation(len(findings))[:MOST_FINDINGS]
        return Judge(
            self.data,
            self.space,
            workshop.material.split[1],
            findings[chosen],
            self.settings.half_width,
            self.settings.confidence,
            self.settings.seed,
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

    def facts(
        self, rows: list[JudgedRepair], originals: list[JudgedRepair], chosen: JudgedRepair | None
    ) -> dict[str, Any]:
        """What the summary says beside what all repairs have."""
        after = originals[0] if chosen is None else chosen
        return {
            "dataset": {"name": self.data.name, "title": self.data.schema.title, "rows": len(self.data.codes)},
            "warnings": self.tried.warnings,
            "model": {"name": self.tried.name, "output": self.original.output, **self.tried.facts()},
            "rows": compared(rows, originals, held_out_weights(self.data)),
            "validation_rows": len(self.workshop.material.split[1]),
            "split": split_words(self.data),
            "notes": self._notes(rows),
            "headline": _headline(originals[0], chosen),
            "groups": group_rows(self.data, self.space, originals[0].kept.right, after.kept.right),
            "examples": examples_of(
                self.data, self.space, self.original, self._classifier(after.network), self._people
            ),
        }

    def _notes(self, rows: list[JudgedRepair]) -> list[str]:
        notes = []
        if self.data.weights is not None:
            by = f"Accuracy and shares of people are weighted by {self.data.schema.weight}"
            notes.append(f"{by}; training itself counts all rows alike." if self.workshop.retrainable else f"{by}.")
        if "augment" in self.ways and not any(row.by == "augment" for row in rows):
            notes.append(f"augment was left out: {self.settings.method} found no pair in the training rows.")
        if self.sweep and not self.workshop.retrainable:
            notes.append(
                f"{', '.join(TRAINED)} were left out: they train the model again, and {self.tried.name} is not a "
                "network of `evenhand train`, so it can be asked and not retrained."
            )
        if self.unasked:
            notes.append(
                f"Repaired by average: {self.tried.name} is not a network of `evenhand train`, so it can be asked "
                f"and not retrained, as {', '.join(USUAL)}, the usual way, would."
            )
        if not self._can_be_written(self.original.module) and "average" in self.ways:
            notes.append(
                f"The average asks {self.tried.name}, which was given as an object and has no name that a file could "
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
            inner, _ = load_module(rows, self.given, _way(self.tried))
            return Classifier(model.with_inner(with_decision_of(inner, model.inner)))

        return RepairedModel(
            self.data.schema, opened, NewRows(self.data.schema, model, self.data, self.tried.unread), kind
        )

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
            "made_by": repeat_command("repair", self.settings),
            "repair": summary["chosen"],
            "protected": self.settings.protected,
            "accuracy": {
                "train": self._accuracy(model, data.train),
                "held_out": None if data.train.all() else self._accuracy(model, ~data.train),
            },
            "threshold": getattr(model, "threshold", None),
            **description_of(data, self.settings.dataset),
        }
        if isinstance(model, AveragedModel):
            decided = model.inner.inner_output if isinstance(model.inner, DecidingAdapter) else None
            description |= {"inputs": _way(self.tried), "decided": decided, "unread": list(self.tried.unread)}
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


def _way(tried: TriedModel) -> str | None:
    """How the model that is averaged has to be given people, where its file does not say it."""
    return tried.inputs["reading"] if tried.inputs["reading"] in WAYS else None
