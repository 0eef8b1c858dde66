"""The graph of an ONNX file run in torch, for its gradients: what each of the usual operators of networks does.

Where an operator changed over the versions, all of them are read.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

FLOATS = {1: torch.float32, 10: torch.float16, 11: torch.float64, 16: torch.bfloat16}  # by ONNX's numbers of types
_SCORES = {"LinearClassifier": 1}  # which of its results is computed: the scores and not the label


@dataclass(frozen=True)
class Call:
    """One node: its inputs (None for one that is left out), its settings, the version of the operators."""

    inputs: list[Tensor | None]
    settings: dict[str, Any]
    version: int
    device: torch.device

    def __getitem__(self, position: int) -> Tensor:
        value = self.inputs[position]
        if value is None:
            raise ValueError(f"input {position} is left out")
        return value

    def optional(self, position: int) -> Tensor | None:
        """An input that may be left out."""
        return self.inputs[position] if position < len(self.inputs) else None

    def numbers(self, position: int, name: str) -> list[int] | None:
        """Whole numbers that are an input in new versions and a setting in old ones; None where they are left out."""
        value = self.optional(position)
        if value is not None:
            return [int(number) for number in value.flatten().tolist()]
        given = self.settings.get(name)
        return None if given is None else [int(number) for number in given]

    def number(self, name: str, default: float) -> float:
        """A setting."""
        return float(self.settings.get(name, default))


def _gemm(call: Call) -> Tensor:
    a = call[0].T if call.settings.get("transA") else call[0]
    b = call[1].T if call.settings.get("transB") else call[1]
    product = call.number("alpha", 1) * (a @ b)
    bias = call.optional(2)
    return product if bias is None else product + call.number("beta", 1) * bias


def _over_axis(function: Callable[..., Tensor]) -> Callable[[Call], Tensor]:
    """Softmax and its logarithm: along one axis, before version 13 along all from one on."""

    def run(call: Call) -> Tensor:
        x = call[0]
        axis = int(call.settings.get("axis", -1 if call.version >= 13 else 1))
        if call.version >= 13 or axis in (-1, x.ndim - 1):
            return function(x, dim=axis)
        return function(x.flatten(axis), dim=-1).reshape(x.shape)

    return run


def _clip(call: Call) -> Tensor:
    low, high = call.optional(1), call.optional(2)
    if low is None and "min" in call.settings:
        low = torch.tensor(call.settings["min"], dtype=call[0].dtype, device=call.device)
    if high is None and "max" in call.settings:
        high = torch.tensor(call.settings["max"], dtype=call[0].dtype, device=call.device)
    return call[0] if low is None and high is None else call[0].clamp(low, high)


def _gelu(call: Call) -> Tensor:
    return functional.gelu(call[0], approximate=call.settings.get("approximate", b"none").decode())


def _reduce(function: Callable[..., Tensor]) -> Callable[[Call], Tensor]:
    def run(call: Call) -> Tensor:
        axes = call.numbers(1, "axes")
        if not axes and call.settings.get("noop_with_empty_axes"):
            return call[0]
        return function(call[0], dim=axes or list(range(call[0].ndim)), keepdim=bool(call.settings.get("keepdims", 1)))

    return run


def _reshape(call: Call) -> Tensor:
    shape = call.numbers(1, "shape") or []
    if not call.settings.get("allowzero"):
        shape = [call[0].shape[i] if side == 0 else side for i, side in enumerate(shape)]
    return call[0].reshape(shape)


def _flatten(call: Call) -> Tensor:
    axis = int(call.settings.get("axis", 1)) % (call[0].ndim + 1)
    return call[0].reshape(math.prod(call[0].shape[:axis]), -1)


def _squeeze(call: Call) -> Tensor:
    axes = call.numbers(1, "axes")
    return call[0].squeeze() if axes is None else call[0].squeeze(axes)


def _unsqueeze(call: Call) -> Tensor:
    axes, x = call.numbers(1, "axes") or [], call[0]
    for axis in sorted(axis % (x.ndim + len(axes)) for axis in axes):
        x = x.unsqueeze(axis)
    return x


def _slice(call: Call) -> Tensor:
    x, starts, ends = call[0], call.numbers(1, "starts") or [], call.numbers(2, "ends") or []
    axes = call.numbers(3, "axes") or list(range(len(starts)))
    steps = call.numbers(4, "steps") or [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        places = range(x.shape[axis])[start:end:step]
        x = x.index_select(axis, torch.tensor(list(places), dtype=torch.long, device=call.device))
    return x


def _gather(call: Call) -> Tensor:
    axis, indices = int(call.settings.get("axis", 0)) % call[0].ndim, call[1].long()
    taken = call[0].index_select(axis, (indices % call[0].shape[axis]).flatten())
    return taken.reshape(*call[0].shape[:axis], *indices.shape, *call[0].shape[axis + 1 :])


def _constant(call: Call) -> Tensor:
    from onnx import numpy_helper

    ((name, value),) = call.settings.items()
    array = numpy_helper.to_array(value) if name == "value" else np.array(value)
    if name.startswith("value_float"):
        array = array.astype(np.float32)
    return torch.from_numpy(np.array(array)).to(call.device)


def _batch_norm(call: Call) -> Tensor:
    mean, variance = call[3], call[4]
    return functional.batch_norm(call[0], mean, variance, call[1], call[2], False, 0.0, call.number("epsilon", 1e-5))


def _layer_norm(call: Call) -> Tensor:
    shape = list(call[0].shape[int(call.settings.get("axis", -1)) :])
    return functional.layer_norm(call[0], shape, call[1], call.optional(2), call.number("epsilon", 1e-5))


def _scaler(call: Call) -> Tensor:
    offset, scale = (_floats(call, name) for name in ("offset", "scale"))
    return (call[0] - offset) * scale


def _normalizer(call: Call) -> Tensor:
    order = {b"MAX": torch.inf, b"L1": 1, b"L2": 2}[call.settings.get("norm", b"MAX")]
    return functional.normalize(call[0], p=order, dim=-1)


def _linear_classifier(call: Call) -> Tensor:
    intercepts = _floats(call, "intercepts")
    scores = call[0].float() @ _floats(call, "coefficients").reshape(len(intercepts), -1).T + intercepts
    after = call.settings.get("post_transform", b"NONE")
    if after not in (b"NONE", b"LOGISTIC", b"SOFTMAX"):
        raise ValueError(f"post_transform {after!r}")
    return scores.sigmoid() if after == b"LOGISTIC" else scores.softmax(dim=1) if after == b"SOFTMAX" else scores


def _floats(call: Call, name: str) -> Tensor:
    return torch.tensor(call.settings[name], dtype=torch.float32, device=call.device)


def _elu(call: Call) -> Tensor:
    return functional.elu(call[0], call.number("alpha", 1))


def _selu(call: Call) -> Tensor:
    alpha, gamma = call.number("alpha", 1.67326319217681884765625), call.number("gamma", 1.05070102214813232421875)
    return gamma * functional.elu(call[0], alpha)


def _hard_sigmoid(call: Call) -> Tensor:
    return (call.number("alpha", 0.2) * call[0] + call.number("beta", 0.5)).clamp(0, 1)


def _together(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Call], Tensor]:
    """An operator of any number of inputs, from one of two."""

    def run(call: Call) -> Tensor:
        result = call[0]
        for position in range(1, len(call.inputs)):
            result = function(result, call[position])
        return result

    return run


def _mean(call: Call) -> Tensor:
    return OPERATORS["Sum"](call) / len(call.inputs)


OPERATORS: dict[str, Callable[[Call], Tensor]] = {
    "Abs": lambda c: c[0].abs(),
    "Add": lambda c: c[0] + c[1],
    "And": lambda c: c[0] & c[1],
    "BatchNormalization": _batch_norm,
    "Cast": lambda c: c[0].to(FLOATS[c.settings["to"]]),
    "Celu": lambda c: functional.celu(c[0], c.number("alpha", 1)),
    "Clip": _clip,
    "Concat": lambda c: torch.cat([c[i] for i in range(len(c.inputs))], dim=int(c.settings["axis"])),
    "Constant": _constant,
    "Cos": lambda c: c[0].cos(),
    "Div": lambda c: c[0] / c[1] if c[0].is_floating_point() else torch.div(c[0], c[1], rounding_mode="trunc"),
    "Dropout": lambda c: c[0],
    "Elu": _elu,
    "Equal": lambda c: c[0] == c[1],
    "Erf": lambda c: c[0].erf(),
    "Exp": lambda c: c[0].exp(),
    "Expand": lambda c: c[0] + torch.zeros(c.numbers(1, "shape") or [], dtype=c[0].dtype, device=c.device),
    "Flatten": _flatten,
    "Gather": _gather,
    "Gelu": _gelu,
    "Gemm": _gemm,
    "Greater": lambda c: c[0] > c[1],
    "GreaterOrEqual": lambda c: c[0] >= c[1],
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": lambda c: functional.hardswish(c[0]),
    "Identity": lambda c: c[0],
    "LayerNormalization": _layer_norm,
    "LeakyRelu": lambda c: functional.leaky_relu(c[0], c.number("alpha", 0.01)),
    "Less": lambda c: c[0] < c[1],
    "LessOrEqual": lambda c: c[0] <= c[1],
    "LinearClassifier": _linear_classifier,
    "Log": lambda c: c[0].log(),
    "LogSoftmax": _over_axis(torch.log_softmax),
    "MatMul": lambda c: c[0] @ c[1],
    "Max": _together(torch.maximum),
    "Mean": _mean,
    "Min": _together(torch.minimum),
    "Mish": lambda c: functional.mish(c[0]),
    "Mul": lambda c: c[0] * c[1],
    "Neg": lambda c: -c[0],
    "Normalizer": _normalizer,
    "Not": lambda c: ~c[0],
    "Or": lambda c: c[0] | c[1],
    "PRelu": lambda c: torch.where(c[0] < 0, c[0] * c[1], c[0]),
    "Pow": lambda c: c[0] ** c[1],
    "Reciprocal": lambda c: c[0].reciprocal(),
    "ReduceMax": _reduce(torch.amax),
    "ReduceMean": _reduce(torch.mean),
    "ReduceMin": _reduce(torch.amin),
    "ReduceSum": _reduce(torch.sum),
    "Relu": lambda c: c[0].relu(),
    "Reshape": _reshape,
    "Scaler": _scaler,
    "Selu": _selu,
    "Shape": lambda c: torch.tensor(c[0].shape, device=c.device),
    "Sigmoid": lambda c: c[0].sigmoid(),
    "Sin": lambda c: c[0].sin(),
    "Slice": _slice,
    "Softmax": _over_axis(torch.softmax),
    "Softplus": lambda c: functional.softplus(c[0]),
    "Softsign": lambda c: functional.softsign(c[0]),
    "Sqrt": lambda c: c[0].sqrt(),
    "Squeeze": _squeeze,
    "Sub": lambda c: c[0] - c[1],
    "Sum": _together(torch.add),
    "Swish": lambda c: c[0] * (c.number("alpha", 1) * c[0]).sigmoid(),
    "Tanh": lambda c: c[0].tanh(),
    "Transpose": lambda c: c[0].permute(c.settings.get("perm", list(range(c[0].ndim))[::-1])),
    "Unsqueeze": _unsqueeze,
    "Where": lambda c: torch.where(c[0].bool(), c[1], c[2]),
}


class OnnxGraph(nn.Module):
    """(n, k) features to what the graph calls `output`."""

    def __init__(self, model: Any, source: str, output: str) -> None:
        super().__init__()
        from onnx import numpy_helper

        self._source, self._output = source, output
        self._version = max(
            (entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=1
        )
        self._nodes = [(node, _settings(node)) for node in needed(model.graph, output)]
        used = {name for node, _ in self._nodes for name in node.input}
        self._constants: dict[str, str] = {}
        for number, tensor in enumerate(model.graph.initializer):
            if tensor.name in used:
                self._constants[tensor.name] = f"constant_{number}"
                self.register_buffer(f"constant_{number}", torch.from_numpy(np.array(numpy_helper.to_array(tensor))))

    def forward(self, features: Tensor) -> Tensor:
        """One node after the other; the file has them in order."""
        values: dict[str, Tensor] = {name: getattr(self, buffer) for name, buffer in self._constants.items()}
        values[self._source] = features
        for node, attributes in self._nodes:
            inputs = [values[name] if name else None for name in node.input]
            call = Call(inputs, attributes, self._version, features.device)
            values[node.output[_SCORES.get(node.op_type, 0)]] = OPERATORS[node.op_type](call)
        return values[self._output]


def needed(graph: Any, output: str) -> list[Any]:
    """The nodes that an output depends on, in order."""
    wanted, kept = {output}, []
    for node in reversed(graph.node):
        if wanted & set(node.output):
            wanted |= set(node.input)
            kept.append(node)
    return kept[::-1]


def obstacles(graph: Any, output: str) -> list[str]:
    """The operators on the way to an output that torch is not taught here, by name."""
    return sorted({name for node in needed(graph, output) if (name := _obstacle(node))})


def _obstacle(node: Any) -> str:
    if node.op_type not in OPERATORS or node.domain not in ("", "ai.onnx", "ai.onnx.ml"):
        return str(node.op_type)
    if node.op_type == "Cast" and _settings(node)["to"] not in FLOATS:
        return "Cast to whole numbers"
    first_only = node.op_type in ("BatchNormalization", "Dropout", "LayerNormalization", "LinearClassifier")
    return "" if first_only or len(node.output) == 1 else f"{node.op_type} with several results"


def _settings(node: Any) -> dict[str, Any]:
    from onnx import helper

    return {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
