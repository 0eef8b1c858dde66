"""A model whose label no protected value can change: the mean of another's scores over all protected values."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from evenhand.errors import EvenhandError
from evenhand.models.classifier import ROW_MULTIPLE, as_logits, probabilities
from evenhand.models.network import FeedForward, load_weights, network_files, save_weights

FORMAT = "evenhand averaged network 1"
FEWEST_ROWS = 256  # below it a matrix product takes another way, and a row's score would depend on its company


class AveragedModel(nn.Module):
    """Reads codes; asks another model about every combination of protected values and returns the mean as logits.

    What a row has in the protected columns is never read. Proxies in other columns are read as before.
    """

    def __init__(
        self,
        inner: nn.Module,
        columns: list[int],
        combinations: Tensor,
        weights: Tensor,
        output: Literal["logits", "probabilities"] = "logits",
    ) -> None:
        """`combinations` (k, columns) of protected values and their `weights` (k,), which add up to one."""
        super().__init__()
        self.inner, self.columns, self.output = inner, columns, output
        self.threshold: float | None = getattr(inner, "threshold", None)
        self.combinations: Tensor
        self.weights: Tensor
        self.register_buffer("combinations", combinations)
        self.register_buffer("weights", weights)

    def forward(self, x: Tensor) -> Tensor:
        """(n, d) to (n, classes): the logarithm of the mean score; rows alike but for protected values are one."""
        x, which = self._distinct_rows(x)
        mean: Tensor | float = 0.0
        for values, weight in zip(self.combinations.to(x.dtype), self.weights.to(x.dtype), strict=True):
            variant = x.clone()
            variant[:, self.columns] = values
            mean = mean + weight * probabilities(as_logits(self.inner(variant), self.output))
        assert isinstance(mean, Tensor)
        return mean.clamp_min(torch.finfo(mean.dtype).tiny).log()[which]

    def with_inner(self, inner: nn.Module) -> "AveragedModel":
        """The same average of another model, or of the same one opened for other rows."""
        other = AveragedModel(inner, self.columns, self.combinations, self.weights, self.output).eval()
        other.threshold = self.threshold
        return other

    def _distinct_rows(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The different rows of x without their protected values, filled up, and (n,) which of them is whose."""
        if torch.is_grad_enabled() and x.requires_grad:
            return x, torch.arange(len(x), device=x.device)
        rest = x.clone()
        rest[:, self.columns] = 0
        found, which = torch.unique(rest, dim=0, return_inverse=True)
        missing = max(FEWEST_ROWS - len(found), -len(found) % ROW_MULTIPLE)
        return torch.cat([found, found[:1].expand(missing, -1)]), which


def population_weights(numbers: Tensor, count: int, weights: Tensor | None = None) -> Tensor:
    """(count,) the share of people who have each combination of protected values, from their numbers (n,).

    With `weights` (n,), unless all are zero, each counts as often as its weight says.
    """
    weights = weights if weights is not None and weights.any() else None
    counts = torch.bincount(numbers, weights, minlength=count).double()
    return (counts / counts.sum()).float()


def save_averaged(model: AveragedModel, description: dict[str, Any], path: Path, inner: str | None = None) -> None:
    """Write `path`.safetensors and `path`.json.

    Our own networks are part of the files; any other model is named by `inner` (a file, an address, module:function)
    and stays where it is.
    """
    shape: dict[str, Any] = {"columns": model.columns, "combinations": len(model.weights), "output": model.output}
    if inner is None:
        assert isinstance(model.inner, FeedForward)
        shape["widths"] = list(model.inner.widths)
    kept = model if inner is None else AveragedModel(nn.Module(), model.columns, model.combinations, model.weights)
    save_weights(kept, {"format": FORMAT, **shape, "inner": inner, **description}, path)


def load_averaged(path: Path, call: Callable[[str], nn.Module]) -> tuple[AveragedModel, dict[str, Any]]:
    """Read an averaged model and its description; `call` makes a model that the files only name."""
    model, description = load_weights(path, FORMAT, _from_description)
    if isinstance(description.get("inner"), str):
        model.inner = call(description["inner"])
    return model, description


def _from_description(description: dict[str, Any], path: Path) -> AveragedModel:
    shape: list[Any] = [description.get(name) for name in ("widths", "columns", "combinations")]
    widths, columns, count = shape
    named = isinstance(description.get("inner"), str)
    right = _are_numbers(columns, 0) and type(count) is int and count > 0 and (named or _are_numbers(widths, 1))
    output = description.get("output")
    if not right or not columns or output not in ("logits", "probabilities") or not (named or len(widths) > 1):
        raise EvenhandError(
            f"{network_files(path)[1]} does not describe an averaged model: widths {json.dumps(widths)}, columns "
            f"{json.dumps(columns)}, combinations {json.dumps(count)}, output {json.dumps(output)}. "
            "Make the file again with `evenhand repair`."
        )
    inner = nn.Module() if named else FeedForward(widths)
    return AveragedModel(inner, columns, torch.zeros(count, len(columns)), torch.zeros(count), output)


def _are_numbers(values: Any, least: int) -> bool:
    return isinstance(values, list) and all(type(value) is int and value >= least for value in values)
