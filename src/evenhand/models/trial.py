"""Trying a module on real samples before it is trusted: does it read them, what does it return, is it a function?"""

import copy
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from evenhand.choices import OutputForm
from evenhand.errors import EvenhandError
from evenhand.models.adapters.base import Adapter, FrameAdapter
from evenhand.models.averaged import Averaged
from evenhand.models.classifier import Classifier, first_line

TRIAL_ROWS = 1024
SUM_ROUNDING = 1e-4  # probabilities may add up to one but for so much
ROUNDING = 1e-3  # scores of the same sample may differ by so much in another batch


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
        raw = _tried(classifier.module, sample)
    columns = 2 if raw.ndim == 1 or raw.shape[1] == 1 else raw.shape[1]
    if columns != classes:
        raise EvenhandError(f"The model returns {columns} classes, but the data has {classes}.")
    if output == "auto" and isinstance(module, Adapter):
        output = module.output
    classifier.output = _detect(raw) if output == "auto" else output
    classifier.lone = output == "auto" and classifier.output == "logits" and (raw.ndim == 1 or raw.shape[1] == 1)
    _check_function(classifier, sample.float())
    classifier.rows, classifier.seconds = 0, 0.0
    return classifier


def why_no_gradients(model: Classifier, x: Tensor) -> str:
    """Why a model gives no gradients, found out on samples (n, d); empty where it gives some."""
    asked = model.module.inner if isinstance(model.module, Averaged) else model.module
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


def _tried(module: Callable[[Tensor], Tensor], sample: Tensor) -> Tensor:
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
