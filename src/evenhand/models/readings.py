"""How a model reads people: said by its file or by the user, or settled by the labels of the data. Never guessed."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from evenhand.data.dataset import Dataset
from evenhand.errors import EvenhandError, UnfitMatrixError
from evenhand.models.adapters.base import BY_NAME, DESCRIBED, Adapter
from evenhand.models.adapters.features.entries import WAYS, Inputs
from evenhand.models.adapters.frames import is_numeric
from evenhand.models.averaged import AveragedModel
from evenhand.models.classifier import Classifier, ModelGone, Outputs
from evenhand.models.evidence import answers_on, clearly_better, commonest, domain_samples, evidence_rows
from evenhand.models.loading import load_module, loader_of
from evenhand.models.network import FeedForward

ONE_COLUMN_EACH = ("codes", "values", "raw")  # readings with a column for each attribute
ROUNDING = 1e-6  # scores that differ by less are the same
MEANT = {
    "codes": "the schema's codes",
    "values": "numbers as values, categories as codes",
    "raw": "the table's own numbers, text as codes",
    "onehot": "numbers as values, a column for each category",
    "standard": "standardised numbers, a column for each category",
}


@dataclass(frozen=True)
class ModelReading:
    """A model that is tried, with how it reads people and how that is known."""

    classifier: Classifier
    name: str
    reading: str
    settled_by: str  # file, user, evidence, same
    agreement: dict[str, float] = field(default_factory=dict)  # of each reading that fits, where several were tried

    def as_dict(self) -> dict[str, Any]:
        """For a summary file."""
        agreement = {"agreement": self.agreement} if self.agreement else {}
        return {"reading": self.reading, "settled_by": self.settled_by, **agreement}


TryModule = Callable[[nn.Module], Classifier]


def settle_reading(data: Dataset, model: Any, inputs: Inputs, try_module: TryModule) -> ModelReading:
    """The model with its people in the right form; an error where nothing says which form that is.

    `try_module` makes a classifier of a module, or says why it cannot.
    """
    if inputs is not None:
        module, name = load_module(data, model, inputs)
        return ModelReading(try_module(module), name, inputs if isinstance(inputs, str) else DESCRIBED, "user")
    load = loader_of(data, model)
    first: EvenhandError | None = None
    try:
        module, name = load(None)
        if not _is_open(module):
            asked = module.inner if isinstance(module, AveragedModel) else module
            reading = asked.reading if isinstance(asked, Adapter) else "codes"
            described = isinstance(module, Adapter) and reading != BY_NAME
            return ModelReading(try_module(module), name, reading, "user" if described else "file")
        ways = module.ways if isinstance(module, Adapter) else WAYS
    except UnfitMatrixError as error:  # any other is said: a model that names its columns has one reading
        ways, first = WAYS, error
    readings = _fitting_readings(load, ways, try_module)
    if not readings:
        if first is not None:
            raise first
        try_module(module)  # says what is wrong
        raise EvenhandError(f"{name} reads the rows of {data.name} in none of the usual ways: {', '.join(ways)}.")
    name = next(iter(readings.values()))[1]
    return _by_evidence(data, {way: each for way, (each, _) in readings.items()}, name)


def _is_open(module: nn.Module) -> bool:
    """Whether nothing says what the columns are that a module reads."""
    if isinstance(module, Adapter):
        return module.unnamed
    return not is_our_network(module)


def is_our_network(module: nn.Module) -> bool:
    """Whether a module is one of evenhand's networks, which read codes in the order of the schema."""
    return isinstance(module, FeedForward | AveragedModel)


def _fitting_readings(
    load: Callable[[Inputs], tuple[nn.Module, str]], ways: tuple[str, ...], try_module: TryModule
) -> dict[str, tuple[Classifier, str]]:
    """The readings in which a model can be asked at all."""
    found: dict[str, tuple[Classifier, str]] = {}
    for way in ways:
        try:
            module, name = load(way)
            found[way] = try_module(module), name
        except EvenhandError:
            continue
    return found


def _by_evidence(data: Dataset, readings: dict[str, Classifier], name: str) -> ModelReading:
    """The reading that agrees clearly better with the labels than all others, unless they are all the same."""
    rows = evidence_rows(data)
    said = _answers(data, readings, rows)
    groups = _groups_of_answers(said)
    labels = data.labels[rows]
    right = {way: said[way][0].labels.numpy() == labels for way in groups}
    shares = {way: float(right[group].mean()) for group, ways in groups.items() for way in ways}
    best = max(groups, key=lambda way: shares[way])
    always = np.asarray(labels == commonest(labels))
    others = [always, *(each for way, each in right.items() if way != best)]
    if len(groups) > 1 and not all(clearly_better(right[best], other) for other in others):
        raise _undecided(name, groups, shares, float(always.mean()), len(rows))
    if texts := numbered_texts(data):
        raise _unordered(name, best, texts)
    if len(groups) == 1:
        return ModelReading(readings[best], name, best, "same", shares if len(shares) > 1 else {})
    return ModelReading(readings[best], name, best, "evidence", shares)


def numbered_texts(data: Dataset) -> list[str]:
    """Attributes of text, which a matrix can only have as numbers or columns in an order that nothing says.

    Labels say too little about that order: a rate does not depend on it, but the pairs that are found do.
    """
    return [
        attribute.name
        for attribute in data.schema.attributes
        if attribute.kind not in ("number", "pass") and not is_numeric(attribute) and attribute.size > 1
    ]


def _unordered(name: str, way: str, texts: list[str]) -> EvenhandError:
    shown = ", ".join(texts[:4]) + (" …" if len(texts) > 4 else "")
    return EvenhandError(
        f"{name} reads a matrix without column names, in which text ({shown}) stands as numbers or as columns, and in "
        f"which order is not said. If it is the order of categories in the schema: --inputs {way} (in "
        f"Python inputs={way!r}); else correct that order in the schema, or list its columns in a description (.toml)."
    )


def _answers_in(classifier: Classifier, data: Dataset, rows: Any) -> tuple[Outputs, Tensor]:
    """What a model says of rows, and the scores of samples of the whole domain."""
    x = domain_samples(data).to(classifier.device)
    return answers_on(classifier, data, rows), classifier.outputs(x).scores.cpu()


def _answers(data: Dataset, readings: dict[str, Classifier], rows: Any) -> dict[str, tuple[Outputs, Tensor]]:
    """What the model says in each reading in which it can be asked about all of the domain; an error where in none."""
    said, gone = {}, []
    for way, classifier in readings.items():
        try:
            said[way] = _answers_in(classifier, data, rows)
        except ModelGone as error:  # an embedding has no row for such a number
            gone.append(error)
    if not said:
        raise gone[0]
    return said


def _groups_of_answers(said: dict[str, tuple[Outputs, Tensor]]) -> dict[str, list[str]]:
    """Readings in groups that give the same labels and scores, each under its first."""
    groups: dict[str, list[str]] = {}
    for way, (answers, scores) in said.items():
        for first, ways in groups.items():
            other, other_scores = said[first]
            pairs = ((answers.scores, other.scores), (scores, other_scores))
            if torch.equal(answers.labels, other.labels) and all(
                torch.allclose(one, two, rtol=0, atol=ROUNDING) for one, two in pairs
            ):
                ways.append(way)
                break
        else:
            groups[way] = [way]
    return groups


def _undecided(
    name: str, groups: dict[str, list[str]], shares: dict[str, float], always: float, rows: int
) -> EvenhandError:
    readings = "; ".join(f"{' or '.join(ways)} ({MEANT[ways[0]]}): {shares[ways[0]]:.1%}" for ways in groups.values())
    best = max(shares, key=lambda way: shares[way])
    return EvenhandError(
        f"{name} reads a matrix without column names, and what its columns are is not said. Its accuracy on {rows:,} "
        f"rows, read as {readings}; always saying the commonest decision: {always:.1%}. None is clearly better than "
        f"the others. Say how it reads people: --inputs with one of {', '.join(shares)} (in Python "
        f"inputs={best!r}), or list its columns in a description (.toml). If it reads none of these, for example "
        "columns in another order or scaled otherwise, use the description."
    )
