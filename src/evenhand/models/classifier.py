"""The one place that calls a model: in chunks, counted, without gradients unless they are asked for."""

import math
import time
from abc import ABC, abstractmethod
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from evenhand.errors import EvenhandError

GradientOf = Literal["loss", "score", "odds"]

# A row's result must not depend on its company, down to the last bit. A matrix product takes another kernel when the
# call has only a few rows, and functions such as exp treat the last elements of a tensor apart when they do not fill a
# vector register. So calls are filled up, with copies of a row, to at least SMALLEST_CALL rows and to a multiple of
# ROW_MULTIPLE.
# The sizes for CUDA were tried on an H200, where other kernels come in below 8,192 rows and again at 262,144.
SMALLEST_CALL = {"cpu": 256, "cuda": 8_192}
ROW_MULTIPLE = 64
CHUNK_ROWS = {"cpu": 16_384, "cuda": 131_072}
LARGEST_ODDS = 16.0  # log-odds beyond which a float32 score is 0 or 1


class OutOfRows(Exception):  # noqa: N818 - not an error but the end of a budget
    """The model may not be asked about so many more samples."""


class ModelGone(EvenhandError):  # noqa: N818 - it may be the end of a budget
    """A model that answered before does not any more. What was found until then is kept."""


class BudgetSpent(ModelGone):
    """A model may not be asked any more, since the budget that its owner set is spent."""


class Outputs(NamedTuple):
    """What a model says about samples."""

    labels: Tensor  # (n,) the class with the highest score, or by the threshold where there is one
    scores: Tensor  # (n, classes) probabilities


class Model(ABC):
    """What every model offers a search. It counts what it is asked, and refuses what goes beyond a budget."""

    device: torch.device
    chunk_rows: int  # samples that are evaluated together, with their variants
    output: Literal["logits", "probabilities"] = "logits"
    most_rows: int | None = None  # a call that would go beyond is refused
    threshold: float | None = None  # the score from which on the second of two classes is the label; None: the highest
    rows: int = 0  # samples evaluated so far, each gradient counted as one more
    seconds: float = 0.0  # spent in the forward pass to the probabilities and in the backward pass from the loss

    def count(self, rows: int) -> None:
        """Note samples that are about to be evaluated."""
        if self.most_rows is not None and self.rows + rows > self.most_rows:
            raise OutOfRows
        self.rows += rows

    def margin(self, score: Tensor, label: Tensor) -> Tensor:
        """Log-odds of scores of labels, above zero just where that label is given, with two classes."""
        odds = log_odds(score)
        if self.threshold is None:
            return odds
        start = math.log(self.threshold) - math.log1p(-self.threshold)
        return torch.where(label == 1, odds - start, odds + start).clamp(-LARGEST_ODDS, LARGEST_ODDS)

    @abstractmethod
    def outputs(self, x: Tensor) -> Outputs:
        """Labels and scores of samples."""

    @abstractmethod
    def gradients(self, x: Tensor, y: Tensor, of: GradientOf = "loss") -> Tensor:
        """The gradient by each sample of the loss at label y, of the score O_y, or of the log-odds of y."""


class Classifier(Model):
    """A `torch.nn.Module` seen as what a search needs: labels, scores, gradients.

    The module reads a float32 matrix of codes and returns (n, classes) logits or probabilities, or a single score
    for the second of two classes: (n,) or (n, 1), a logit or a probability. A module with a `threshold` gives the
    second of two classes where its score is at least that.
    """

    single_score: bool = False  # one for each row, outside 0 to 1, taken for a logit as nothing says otherwise

    def __init__(
        self,
        module: nn.Module,
        *,
        device: torch.device | str = "cpu",
        output: Literal["logits", "probabilities"] = "logits",
        chunk_rows: int | None = None,
        smallest_call: int | None = None,
    ) -> None:
        self.device = torch.device(device)
        self.module = module.to(self.device).eval().requires_grad_(False)
        self.dtype = next((p.dtype for p in module.parameters() if p.is_floating_point()), torch.float32)
        self.output = output
        self.threshold = getattr(module, "threshold", None)
        # Rows that it may be asked about before a run, where each has a price or time is short; None: all it takes.
        self.affordable: int | None = getattr(module, "people_rows", None)
        own_chunk: int | None = getattr(module, "chunk_rows", None)  # an adapter may know better
        own_smallest: int | None = getattr(module, "smallest_call", None)
        self.chunk_rows = chunk_rows or own_chunk or CHUNK_ROWS.get(self.device.type, CHUNK_ROWS["cpu"])
        self.smallest_call = smallest_call or own_smallest or SMALLEST_CALL.get(self.device.type, SMALLEST_CALL["cpu"])

    def part(self, share: int) -> int | None:
        """One part in so many of the rows that may be asked about before a run; None where all may."""
        return None if self.affordable is None else max(1, self.affordable // share)

    def outputs(self, x: Tensor) -> Outputs:
        """Labels and scores of (n, d) samples."""
        if len(x) <= self.chunk_rows:
            return self._outputs(x)
        parts = [self._outputs(part) for part in torch.split(x, self.chunk_rows)]
        return Outputs(*(torch.cat(column) for column in zip(*parts, strict=True)))

    def gradients(self, x: Tensor, y: Tensor, of: GradientOf = "loss") -> Tensor:
        """(n, d) gradient by x of the loss at label y, of the score O_y, or of the log-odds of y."""
        if len(x) <= self.chunk_rows:
            return self._gradients(x, y, of)
        parts = zip(torch.split(x, self.chunk_rows), torch.split(y, self.chunk_rows), strict=True)
        return torch.cat([self._gradients(part, labels, of) for part, labels in parts])

    @torch.no_grad()
    def _outputs(self, x: Tensor) -> Outputs:
        inputs = self._filled(x)
        start = time.perf_counter()
        raw = self._raw(inputs)
        logits = as_logits(raw, self.output)
        scores = probabilities(logits)[: x.shape[0]]
        self.seconds += time.perf_counter() - start
        if math.isnan(scores.sum().item()):
            raise _not_a_number(x[torch.isnan(scores).any(dim=1)][0])
        if self.threshold is None:
            return Outputs(logits[: x.shape[0]].argmax(dim=1), scores)
        return cut_at(self.threshold, raw[: x.shape[0]] if self.output == "probabilities" else scores, scores)

    def _gradients(self, x: Tensor, y: Tensor, of: GradientOf) -> Tensor:
        inputs = self._filled(x).detach().to(self.dtype).requires_grad_(True)
        labels = functional.pad(y, (0, inputs.shape[0] - x.shape[0]))
        start = time.perf_counter()
        with torch.enable_grad():
            logits = as_logits(self._raw(inputs), self.output)
        try:
            (gradient,) = torch.autograd.grad(logits, inputs, loss_slope(logits.detach(), labels, of))
        except RuntimeError as error:
            raise EvenhandError(
                f"The model gives no gradient of its scores: {error} Use a method that needs none, such as maft."
            ) from error
        self.seconds += time.perf_counter() - start
        return gradient[: x.shape[0]].float().nan_to_num_(nan=0.0)

    def _raw(self, inputs: Tensor) -> Tensor:
        """What the module says; whatever it raises is its author's to mend."""
        try:
            raw = self.module(inputs.to(self.dtype))
        except ModelGone:
            raise
        except EvenhandError as error:
            raise ModelGone(str(error)) from error
        except (Exception, SystemExit) as error:  # the user's code may be a script that ends itself
            remedy = " Use a smaller --chunk-rows." if "memory" in str(error).lower() else ""
            raise ModelGone(f"The model failed on {len(inputs):,} rows: {first_line(error)}.{remedy}") from error
        scores: Tensor = raw.float()
        return scores

    def _filled(self, x: Tensor) -> Tensor:
        """The samples on the device, filled up with copies of the first one; only samples are counted."""
        n = x.shape[0]
        self.count(n)
        x = x.to(self.device, torch.float32)
        missing = max(self.smallest_call - n, -n % min(ROW_MULTIPLE, self.smallest_call))
        return torch.cat([x, x[:1].expand(missing, -1)]) if missing else x


def cut_at(threshold: float, said: Tensor, scores: Tensor) -> Outputs:
    """Labels by a threshold on what the model said of the second class, and scores on the same side of it.

    Scores have gone through logarithms, so that one at the threshold may have come to lie on its other side.
    """
    at = torch.tensor(threshold, dtype=scores.dtype, device=scores.device)
    below = torch.nextafter(at, torch.zeros_like(at))
    second = said if said.ndim == 1 else said[:, -1]
    labels = (second >= at).long()
    upper = torch.where(labels == 1, scores[:, 1].clamp_min(at), scores[:, 1].clamp_max(below))
    return Outputs(labels, torch.stack([torch.where(upper == scores[:, 1], scores[:, 0], 1 - upper), upper], dim=1))


def first_line(error: BaseException) -> str:
    """An error in one line, with its kind."""
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}".rstrip(".: ")


def _not_a_number(sample: Tensor) -> ModelGone:
    values = ", ".join(f"{value:g}" for value in sample.tolist())
    return ModelGone(
        f"The model's score is not a number (NaN) for the sample [{values}]. "
        "Check its weights, and that it scales its inputs without dividing by zero."
    )


def log_odds(score: Tensor) -> Tensor:
    """Scores as log-odds, bounded where float32 has no more to say."""
    return torch.logit(score).clamp(-LARGEST_ODDS, LARGEST_ODDS)


def loss_slope(logits: Tensor, labels: Tensor, of: GradientOf) -> Tensor:
    """(n, classes) derivative by the logits of the cross-entropy at `labels`: softmax minus one-hot.

    The label's own entry is written as minus the sum of the others, since 1 - softmax is rounded to zero where the
    model is very sure, and the signs of the gradient would be lost. That of the score O_y is -O_y times as much, that
    of the log-odds of the label against all others is one-hot minus the softmax of the others.
    """
    label = labels[:, None]
    scores = probabilities(logits)
    slope = scores.scatter(1, label, 0)
    slope.scatter_(1, label, -slope.sum(dim=1, keepdim=True))
    if of == "loss":
        return slope
    if of == "score":
        return slope * -scores.gather(1, label)
    others = logits.scatter(1, label, -torch.inf).softmax(dim=1)
    return -others.scatter_(1, label, -1)


def probabilities(logits: Tensor) -> Tensor:
    """(n, classes) softmax; for two classes by the logistic function, which torch computes several times faster."""
    if logits.shape[1] == 2:
        return torch.sigmoid(logits - logits.flip(1))
    return functional.softmax(logits, dim=1)


def as_logits(raw: Tensor, output: str) -> Tensor:
    """(n, classes) logits from what a module returned."""
    if raw.ndim == 1:
        raw = raw[:, None]
    if output == "probabilities":
        tiny = torch.finfo(raw.dtype).tiny
        if raw.shape[1] == 1:
            raw = torch.cat([1 - raw, raw], dim=1)
        return raw.clamp_min(tiny).log()
    return functional.pad(raw, (1, 0)) if raw.shape[1] == 1 else raw
