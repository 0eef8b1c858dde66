"""The model of a run on a table, tried on the data before anything is said about it."""

import time
from dataclasses import dataclass, field, replace
from typing import Any, cast, get_args

import numpy as np
import torch
from torch import nn

from evenhand.choices import OutputForm
from evenhand.data.dataset import Dataset
from evenhand.data.raw import text_marks
from evenhand.data.tables import text_column
from evenhand.errors import EvenhandError, unknown_name
from evenhand.measures.groups import group_rates
from evenhand.models.adapters.base import BY_NAME, Adapter
from evenhand.models.classifier import Classifier
from evenhand.models.decisions import check_single_score, check_threshold, own_decision, set_threshold
from evenhand.models.devices import one_thread
from evenhand.models.evidence import agreement_of, answers_on
from evenhand.models.misread import better_scaled, better_swap, complaint
from evenhand.models.readings import ONE_COLUMN_EACH, is_our_network, settle_reading
from evenhand.models.trial import TRIAL_ROWS, classifier_for
from evenhand.models.unread import unread_attributes
from evenhand.report.groups import groups_text
from evenhand.report.words import joined
from evenhand.search.space import TableSpace

TIMED_ROWS = 256  # that a model's speed is told from


@dataclass(frozen=True)
class TriedModel:
    """A model with all that is known of it before a run: how it reads people, how good it is, what it leaves out."""

    classifier: Classifier
    name: str
    inputs: dict[str, Any]
    agreement: dict[str, Any]
    unread: dict[str, str]  # attributes that it does not read, with how that is known
    warnings: list[str]  # what every output says first
    groups: list[dict[str, Any]] = field(default_factory=list)  # differences, by protected attributes it does not read
    last_label: str = ""  # the one that a threshold is about

    def space(self, data: Dataset, protected: list[str]) -> TableSpace:
        """Where the samples of a test of these attributes live; all commands have the same."""
        return TableSpace(data.schema, protected, self.classifier.device, self.unread.keys() - set(protected))

    def tested(self, protected: list[str]) -> list[str]:
        """The protected attributes that the model reads."""
        return [name for name in protected if name not in self.unread]

    def idle(self, protected: list[str]) -> list[str]:
        """The protected attributes that it does not read."""
        return [name for name in protected if name in self.unread]

    def read_after_all(self, protected: list[str]) -> "TriedModel":
        """The same after all rows showed an effect of attributes that a part of them had not shown."""
        unread = {name: how for name, how in self.unread.items() if name not in protected}
        return replace(self, unread=unread, groups=[], warnings=self.warnings[bool(self.groups) :])

    def read_by(self, protected: list[str]) -> list[str]:
        """The protected attributes that a test can change; an error where the model reads none of them."""
        if not self.tested(protected):
            raise EvenhandError(f"{not_read(protected)} There is nothing to compare or to repair.")
        return self.tested(protected)

    def facts(self) -> dict[str, Any]:
        """For a summary's part on the model."""
        cut = self.classifier.threshold
        threshold = {} if cut is None else {"threshold": cut, "threshold_label": self.last_label}
        return {"inputs": self.inputs, "agreement": self.agreement, "unread": self.unread, **threshold}


def try_model(
    data: Dataset,
    model: Any,
    protected: list[str],
    device: torch.device,
    *,
    output: str = "auto",
    chunk_rows: int | None = None,
    inputs: str | None = None,
    threshold: float | None = None,
    accept_poor_model: bool = False,
    seed: int = 0,
    seconds: float | None = None,
) -> TriedModel:
    """The model of a run, tried on the data; every command comes through here, so that all have one verdict.

    An error says what is wrong with it: it cannot be asked, how it reads people is not known, it is no classifier, or
    it gives the labels of the data no more often than always saying the same. With a limit of `seconds` a slow model
    is tried on fewer rows.
    """
    classes = len(data.schema.label.values)
    check_threshold(threshold, classes)
    form = _output_form(output)
    sample = torch.tensor(data.clipped[:TRIAL_ROWS], dtype=torch.float32)

    def tried(module: nn.Module) -> Classifier:
        _refuse_regression(module, form)
        return classifier_for(module, sample, classes=classes, device=device, output=form, chunk_rows=chunk_rows)

    settled_model = settle_reading(data, model, inputs, tried)
    classifier = settled_model.classifier
    with one_thread(device):
        affordable = _affordable(classifier, sample, seconds)
        classifier.affordable = affordable
        check_single_score(classifier, data)
        classifier = _with_own_labels(classifier, data, protected, threshold)
        classifier.affordable = affordable
        agrees, wrong = _agreement(classifier, data, seed)
        if not wrong and not is_our_network(classifier.module):
            one_each = settled_model.reading in ONE_COLUMN_EACH
            wrong = (better_swap(classifier, data) if one_each else "") or better_scaled(classifier, data)
        unread = unread_attributes(classifier, data, protected)
        first, groups = _first_words(classifier, data, protected, [name for name in protected if name in unread])
    if wrong and not accept_poor_model:
        raise EvenhandError(
            f"{wrong} To go on all the same: --accept-poor-model (in Python accept_poor_model=True, in a gate file "
            "accept_poor_model = true)."
        )
    classifier.rows, classifier.seconds = 0, 0.0
    warnings = [*first, *([wrong] if wrong else []), *_about_marks(classifier.module, data)]
    last = data.schema.label.text(classes - 1)
    return TriedModel(classifier, settled_model.name, settled_model.as_dict(), agrees, unread, warnings, groups, last)


def not_read(names: list[str]) -> str:
    """What to say of protected attributes where a model reads none of them."""
    return f"The model does not read {joined(names)}; this test cannot find anything."


def left_out(names: list[str]) -> str:
    """What to say of some of them where it reads others."""
    return f"The model does not read {joined(names)}, which this test leaves out."


def _first_words(
    model: Classifier, data: Dataset, protected: list[str], idle: list[str]
) -> tuple[list[str], list[dict[str, Any]]]:
    """What every output says first where protected attributes are idle, and the differences between their groups."""
    if not idle:
        return [], []
    part = model.part(10)
    groups = group_rates(model, data, idle, **({} if part is None else {"most_rows": part}))
    return [f"{not_read(idle) if idle == protected else left_out(idle)} {groups_text(groups)}"], groups


def _about_marks(module: nn.Module, data: Dataset) -> list[str]:
    """What to say where marks in columns of numbers reach a model as missing numbers."""
    if not isinstance(module, Adapter) or module.reading != BY_NAME or not data.from_csv or data.frame is None:
        return []
    names = [
        attribute.name
        for attribute in data.schema.attributes
        if attribute.kind == "number"
        and (module.reads is None or attribute.name in module.reads)
        and (marks := text_marks(attribute))
        and text_column(data.frame[attribute.column]).str.strip().isin(marks).any()
    ]
    if not names:
        return []
    return [
        f"In {joined(names)} the table marks missing numbers by text such as ‘?’. The model is given missing numbers "
        "there; a program that reads the file without being told so (na_values) has text in the whole column."
    ]


def _affordable(classifier: Classifier, sample: torch.Tensor, seconds: float | None) -> int | None:
    """How many rows a model may be asked about before a run: by their price, and by its speed where time is short."""
    if seconds is None:
        return classifier.affordable
    start = time.perf_counter()
    rows = len(classifier.outputs(sample[:TIMED_ROWS]).labels)
    in_time = int(seconds * rows / max(time.perf_counter() - start, 1e-9)) + 1
    return in_time if classifier.affordable is None else min(in_time, classifier.affordable)


def _output_form(output: str) -> OutputForm:
    for form in get_args(OutputForm):
        if form == output:
            return cast("OutputForm", form)
    raise unknown_name("output", output, get_args(OutputForm))


def _refuse_regression(module: nn.Module, output: OutputForm) -> None:
    if isinstance(module, Adapter) and module.regression and output == "auto" and not module.stated:
        raise EvenhandError(module.regression)


def _with_own_labels(
    classifier: Classifier, data: Dataset, protected: list[str], threshold: float | None
) -> Classifier:
    """Labels by the stated threshold, else by the model's own decision where it is not the highest score."""
    if threshold is not None:
        set_threshold(classifier, threshold)
        return classifier
    decided = own_decision(classifier, data, protected)
    if decided is None:
        return classifier
    return Classifier(decided, device=classifier.device, output="probabilities", chunk_rows=classifier.chunk_rows)


def _agreement(classifier: Classifier, data: Dataset, seed: int) -> tuple[dict[str, Any], str]:
    """How often the model gives the label that the data have, and what is wrong with that.

    All rows, but for a model whose rows have a price: then a random part of them.
    """
    module, part = classifier.module, classifier.part(10)
    rows = np.random.default_rng(seed).permutation(len(data.codes))[:part]
    given = answers_on(classifier, data, rows).labels.numpy()
    named = isinstance(module, Adapter) and module.own_classes is not None
    agrees = agreement_of(data.labels[rows], given, data.schema.label.values)
    return agrees, complaint(data, rows, given, named)


def model_facts(tried: TriedModel, why_no_gradients: str = "") -> dict[str, Any]:
    """What a summary says about a model: its name, what it offers and reads, and what asking it took."""
    classifier = tried.classifier
    facts = classifier.module.facts() if isinstance(classifier.module, Adapter) else {}
    offers = ["scores"] if why_no_gradients else ["scores", "gradients"]
    reason = {"no_gradients": why_no_gradients} if why_no_gradients else {}
    return {
        "name": tried.name,
        "output": classifier.output,
        "offers": offers,
        **reason,
        **tried.facts(),
        **({"asked": facts} if facts else {}),
    }
