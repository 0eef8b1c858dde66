"""Trying a module on real samples before it is trusted: does it read them, what does it return, is it a function?

`conformance` is the whole suite of requirements that every model must meet, whichever framework it is of:
`evenhand model` runs it on a user's model, the tests run it on every adapter.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn

from evenhand.choices import OutputForm
from evenhand.data.dataset import Dataset
from evenhand.errors import EvenhandError
from evenhand.models.adapters.base import Adapter
from evenhand.models.adapters.frames import FrameAdapter
from evenhand.models.averaged import AveragedModel
from evenhand.models.classifier import Classifier, first_line

TRIAL_ROWS = 1024
SUM_ROUNDING = 1e-4  # probabilities may add up to one but for so much
ROUNDING = 1e-3  # scores of the same sample may differ by so much in another batch
ROWS = 512
SCORE_ROUNDING = 1e-5  # of scores of one sample in another company
PROBE = 1 / 256  # of a code: how far finite differences go; adapters have kinks at whole codes
SLOPE_ROUNDING = 0.03  # of the largest slope of a row
SMALLEST_SLOPE = 2e-3  # slopes below it are lost in the rounding of float32 scores
SLOPES_RIGHT = 0.9  # share of slopes that must agree: a kink within the probe is no mistake


def classifier_for(
    module: nn.Module,
    x: Tensor,
    *,
    classes: int,
    device: torch.device | str = "cpu",
    output: OutputForm = "auto",
    chunk_rows: int | None = None,
) -> Classifier:
    """Wrap a copy of a module after trying it on samples (n, d) of the domain. The caller's own is left as it is."""
    classifier = Classifier(_own_copy(module), device=device, chunk_rows=chunk_rows)
    sample = x[:TRIAL_ROWS].to(classifier.device, classifier.dtype)
    with torch.no_grad():
        raw = _try_module(classifier.module, sample)
    columns = 2 if raw.ndim == 1 or raw.shape[1] == 1 else raw.shape[1]
    if columns != classes:
        raise EvenhandError(f"The model returns {columns} classes, but the data has {classes}.")
    if output == "auto" and isinstance(module, Adapter):
        output = module.output
    classifier.output = _detect(raw) if output == "auto" else output
    classifier.single_score = (
        output == "auto" and classifier.output == "logits" and (raw.ndim == 1 or raw.shape[1] == 1)
    )
    _check_function(classifier, sample.float())
    classifier.rows, classifier.seconds = 0, 0.0
    return classifier


def why_no_gradients(model: Classifier, x: Tensor) -> str:
    """Why a model gives no gradients, found out on samples (n, d); empty where it gives some."""
    asked = model.module.inner if isinstance(model.module, AveragedModel) else model.module
    if isinstance(asked, Adapter) and asked.no_gradients is not None:
        return asked.no_gradients
    try:
        model.gradients(x, model.outputs(x).labels)
    except EvenhandError as error:
        return str(error)
    return ""


def _own_copy(module: nn.Module) -> nn.Module:
    try:
        return copy.deepcopy(module)
    except Exception as error:
        raise EvenhandError(f"The model cannot be copied, so it would be changed: {first_line(error)}.") from error


def _try_module(module: Callable[[Tensor], Tensor], sample: Tensor) -> Tensor:
    try:
        raw = module(sample)
    except EvenhandError:
        raise
    except (Exception, SystemExit) as error:  # it is the user's code: whatever it raises is theirs to mend
        given = (
            "a data frame with the columns of the table"
            if isinstance(module, FrameAdapter)
            else f"a matrix with {sample.shape[1]} columns, one per attribute"
        )
        raise EvenhandError(f"The model cannot read the data: {given}. It said: {first_line(error)}.") from error
    right = isinstance(raw, Tensor) and raw.is_floating_point() and raw.ndim in (1, 2) and len(raw) == len(sample)
    if not right:
        got = f"{raw.dtype} of shape {tuple(raw.shape)}" if isinstance(raw, Tensor) else type(raw).__name__
        raise EvenhandError(
            f"The model returned {got} for {len(sample)} samples. "
            "It must return (n, classes) logits or probabilities, or one score per sample, as floating-point numbers."
        )
    return raw


def _detect(raw: Tensor) -> Literal["logits", "probabilities"]:
    """Scores that all lie in [0, 1], and add up to one where there are several, are probabilities."""
    bounded = bool(((raw >= -SUM_ROUNDING) & (raw <= 1 + SUM_ROUNDING)).all())  # votes of trees may add up to 1.0000001
    if raw.ndim == 2 and raw.shape[1] > 1:
        total = raw.sum(dim=1)
        bounded = bounded and bool(torch.allclose(total, torch.ones_like(total), atol=SUM_ROUNDING))
    return "probabilities" if bounded else "logits"


def _check_function(classifier: Classifier, sample: Tensor) -> None:
    """The same samples in another company must get the same scores, or no finding could be trusted."""
    half = max(1, len(sample) // 2)
    first = classifier.outputs(sample).scores[:half]
    if isinstance(classifier.module, Adapter):
        classifier.module.forget()
    again = classifier.outputs(sample[:half].flip(0)).scores.flip(0)
    if not torch.allclose(first, again, atol=ROUNDING):
        raise EvenhandError(
            "The model gives other scores to the same samples in another batch. Is something random left on, such as "
            "dropout called in forward, or does it use the batch's own statistics? It must be a function of a row."
        )


@dataclass(frozen=True)
class Conformance:
    """What a model offers, and the requirements that it met."""

    classifier: Classifier
    gradients: bool
    why_not: str  # why there are no gradients
    met: list[str] = field(default_factory=list)


def conformance(module: nn.Module, data: Dataset, rows: int = ROWS, output: OutputForm = "auto") -> Conformance:
    """Try a module that reads codes on rows of the data; an error says which requirement it fails, and how."""
    x = _people(data, rows)
    classes = len(data.schema.label.values)
    met = [f"reads rows of {data.name} and returns scores of {classes} classes"]
    model = classifier_for(module, x.clone(), classes=classes, output=output)
    requirements: list[tuple[str, Callable[[Classifier, Tensor], None]]] = [
        ("rows that it is given are left as they are", _untouched),
        ("scores are probabilities", _probabilities),
        ("the same rows get the same scores again", _repeatable),
        ("a row's scores do not depend on its company", _alone),
    ]
    for words, requirement in requirements:
        requirement(model, x)
        met.append(words)
    why_not = _why_no_gradients(model, x)
    if not why_not:
        _slopes(model, x)
        met.append("gradients agree with finite differences of the scores")
    return Conformance(model, not why_not, why_not, met)


def _people(data: Dataset, rows: int) -> Tensor:
    """Some rows of the data and the corners of its domain."""
    ends = torch.tensor([data.schema.lower.tolist(), data.schema.upper.tolist()], dtype=torch.float32)
    return torch.cat([torch.tensor(data.clipped[:rows], dtype=torch.float32), ends])


def _probabilities(model: Classifier, x: Tensor) -> None:
    scores = model.outputs(x).scores
    if bool(((scores < 0) | (scores > 1)).any()) or not torch.allclose(
        scores.sum(dim=1), torch.ones(len(x)), atol=1e-4
    ):
        raise EvenhandError("The model's scores are not probabilities: they must lie in 0 to 1 and add up to 1.")


def _repeatable(model: Classifier, x: Tensor) -> None:
    first = model.outputs(x)
    _forget(model)
    again = model.outputs(x)
    if not torch.equal(first.labels, again.labels) or not torch.equal(first.scores, again.scores):
        raise EvenhandError(
            "The model gives other scores when it is asked about the same rows again. Turn off what is random in it."
        )


def _alone(model: Classifier, x: Tensor) -> None:
    together = model.outputs(x).scores
    for places in (torch.arange(len(x)).flip(0), torch.arange(1), torch.arange(len(x) // 3, len(x))):
        _forget(model)
        scores = model.outputs(x[places]).scores
        if not torch.allclose(scores, together[places], atol=SCORE_ROUNDING):
            off = float((scores - together[places]).abs().max())
            raise EvenhandError(
                f"The model gives other scores to the same rows in another batch (they differ by up to {off:.2g}). "
                "It must be a function of a row alone."
            )


def _forget(model: Classifier) -> None:
    """Let the model be asked, and not what an adapter remembers."""
    if isinstance(model.module, Adapter):
        model.module.forget()


def _untouched(model: Classifier, x: Tensor) -> None:
    before = x.clone()
    with torch.no_grad():
        model.module(x)
    if not torch.equal(before, x):
        raise EvenhandError("The model changes the rows that it is given. Let it work on a copy.")


def _why_no_gradients(model: Classifier, x: Tensor) -> str:
    """Empty where there are gradients; a model that promises them must give them."""
    promised = isinstance(model.module, Adapter) and model.module.no_gradients is None
    said = (model.module.no_gradients or "") if isinstance(model.module, Adapter) else ""
    try:
        slopes = model.gradients(x[:2], model.outputs(x[:2]).labels)
    except EvenhandError as error:
        if promised:
            raise EvenhandError(f"The model's adapter promises gradients, but: {error}") from error
        return said or str(error)
    if said:
        raise EvenhandError(f"The model's adapter says that it has no gradients ({said}), but it gives some.")
    if slopes.shape != x[:2].shape:
        raise EvenhandError(f"The model's gradients have the shape {tuple(slopes.shape)}, not {tuple(x[:2].shape)}.")
    return ""


def _slopes(model: Classifier, x: Tensor) -> None:
    """The gradient of the score of a row's own label against central differences, inside the domain.

    A plain network reads any number; an adapter reads codes between whole ones as the mean of their neighbours.
    """
    low, high = x.min(dim=0).values, x.max(dim=0).values
    x = x[((x > low) & (x < high)).float().mean(dim=1).argsort(descending=True)][:64]
    labels = model.outputs(x).labels
    slopes = model.gradients(x, labels, of="score")
    measured = torch.stack([_difference(model, x, labels, column) for column in range(x.shape[1])], dim=1)
    inside = (x > low) & (x < high)  # at an end of the domain there is one side only
    scale = measured.abs().amax(dim=1, keepdim=True).clamp_min(SMALLEST_SLOPE)
    right = ((slopes - measured).abs() <= SLOPE_ROUNDING * scale)[inside]
    if len(right) and float(right.float().mean()) < SLOPES_RIGHT:
        raise EvenhandError(
            f"The model's gradients are not those of its scores: {float(right.float().mean()):.0%} of {len(right):,} "
            "slopes agree with finite differences. Is a part of it detached, or rounded on the way?"
        )


def _difference(model: Classifier, x: Tensor, labels: Tensor, column: int) -> Tensor:
    """(n,) the central difference of the score by one attribute."""
    probe = torch.zeros(x.shape[1])
    probe[column] = PROBE
    above, below = (model.outputs(x + way * probe).scores.gather(1, labels[:, None])[:, 0] for way in (1, -1))
    return (above - below) / (2 * PROBE)
