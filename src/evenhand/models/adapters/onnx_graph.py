"""The graph of an ONNX file run in torch, for its gradients: the usual operators of networks."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from evenhand.models.adapters.onnx_operators import FLOATS, OPERATORS, Call

_SCORES = {"LinearClassifier": 1}  # which of its results is computed: the scores and not the label


class OnnxGraph(nn.Module):
    """(n, k) features to what the graph calls `output`."""

    def __init__(self, model: Any, source: str, output: str) -> None:
        super().__init__()
        from onnx import numpy_helper

        self._source, self._output = source, output
        self._version = max(
            (entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=1
        )
        self._nodes = [(node, _attributes(node)) for node in needed(model.graph, output)]
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
    if node.op_type == "Cast" and _attributes(node)["to"] not in FLOATS:
        return "Cast to whole numbers"
    first_only = node.op_type in ("BatchNormalization", "Dropout", "LayerNormalization", "LinearClassifier")
    return "" if first_only or len(node.output) == 1 else f"{node.op_type} with several results"


def _attributes(node: Any) -> dict[str, Any]:
    from onnx import helper

    return {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
