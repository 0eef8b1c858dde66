"""How large the tensors of an ONNX graph become whose size is computed: a small file can ask for terabytes."""

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import EvenhandError

ROWS = 1024  # that a side is taken to have which the file leaves open
LARGEST_RESULT = 2**28  # elements, for so many rows
LARGEST_LIST = 1024  # elements of a list of sizes
Values = NDArray[Any]

# Operators whose result is as large as the values of inputs say: of which inputs, and how large that is, from the
# number of elements of the first one.
SIZED: dict[str, tuple[tuple[int, ...], Callable[[float, list[Values]], float]]] = {
    "ConstantOfShape": ((0,), lambda _, given: _product(given[0])),
    "Expand": ((1,), lambda first, given: first * _product(given[0])),
    "Tile": ((1,), lambda first, given: first * _product(given[0])),
    "Range": ((0, 1, 2), lambda _, given: abs(_one(given[1]) - _one(given[0])) / max(abs(_one(given[2])), 1e-9)),
    "OneHot": ((1,), lambda first, given: first * _product(given[0])),
    "Pad": ((1,), lambda first, given: first * _product(np.abs(given[0].astype(float)) + 1)),
    "Resize": ((2, 3), lambda first, given: first * _product(given[0]) + _product(given[1])),
    "Upsample": ((1,), lambda first, given: first * _product(given[0])),
    "CenterCropPad": ((1,), lambda first, given: first * _product(given[0])),
    "Loop": ((0,), lambda first, given: first * LARGEST_LIST * _product(given[0])),
}
# Made for sound and pictures, and as large as an input says.
FOREIGN = ("AffineGrid", "BlackmanWindow", "DFT", "HammingWindow", "HannWindow", "MaxUnpool", "MelWeightMatrix", "STFT")
# What computes sizes from sizes.
FOLDED = re.compile(
    "Abs|Add|And|Cast|Ceil|Concat|Constant|ConstantOfShape|Div|Equal|Expand|Floor|Gather|Greater|Identity|Less|Max|Min|"
    "Mod|Mul|Neg|Not|Or|Range|ReduceMax|ReduceMin|ReduceProd|ReduceSum|Reshape|Slice|Sqrt|Squeeze|Sub|Transpose|"
    "Unsqueeze|Where"
)


def check_sizes(onnx: Any, model: Any, path: Path) -> None:
    """Refuse a model in which the size of a tensor does not follow from constants and from the number of rows.

    What is found to be constant takes the place of its node, and shapes are inferred anew, until all sizes are told.
    """
    plain = _plain(onnx, model)
    while True:
        sizes = _Sizes(_shapes(onnx, plain), path)
        sizes.check(plain.graph)
        if sizes.untold is None:
            return
        constant = [node for node in plain.graph.node if node.output and node.output[0] in sizes.known]
        if not constant:
            raise EvenhandError(
                f"{path}: the size of '{sizes.untold.output[0]}' ({sizes.untold.op_type}) is computed in a way that "
                "cannot be told before it is run, so the file was not run. Export the model with sizes that are "
                "constants or follow from the number of rows."
            )
        for node in constant:
            value = onnx.numpy_helper.from_array(sizes.known[node.output[0]], node.output[0])
            plain.graph.initializer.append(value)
            plain.graph.node.remove(node)


def _plain(onnx: Any, model: Any) -> Any:
    """A copy for a usual number of rows, without functions and without what the file says about shapes: it may lie."""
    plain = onnx.inliner.inline_local_functions(model) if model.functions else type(model).FromString(b"")
    if not model.functions:
        plain.CopyFrom(model)
    for source in plain.graph.input:
        for side in source.type.tensor_type.shape.dim:
            side.dim_value = side.dim_value or ROWS
    for value in plain.graph.output:
        value.type.tensor_type.ClearField("shape")
    del plain.graph.value_info[:]
    return plain


def _shapes(onnx: Any, model: Any) -> dict[str, list[int]]:
    """The shapes that can be told."""
    try:
        graph = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    except Exception:  # shapes that contradict each other; onnxruntime says it better
        graph = model.graph
    shapes = {tensor.name: list(tensor.dims) for tensor in graph.initializer}
    for value in [*graph.input, *graph.value_info]:
        shape = value.type.tensor_type.shape
        if value.type.tensor_type.HasField("shape") and all(side.HasField("dim_value") for side in shape.dim):
            shapes[value.name] = [side.dim_value for side in shape.dim]
    return shapes


class _Sizes:
    """Goes through a graph and keeps what follows from constants: short lists, and how large results may be."""

    def __init__(self, shapes: dict[str, list[int]], path: Path) -> None:
        self._shapes, self._path = shapes, path
        self._largest = {name: _product(sides) for name, sides in shapes.items()}
        self.known: dict[str, Values] = {}
        self.untold: Any = None  # the first node whose size cannot be told

    def check(self, graph: Any) -> None:
        from onnx import numpy_helper

        for tensor in graph.initializer:
            if math.prod(tensor.dims) <= LARGEST_LIST:
                self.known[tensor.name] = numpy_helper.to_array(tensor)
        for node in graph.node:
            if node.op_type in FOREIGN:
                raise EvenhandError(f"{self._path} has the operator {node.op_type}, which no model for a table needs.")
            largest = max((self._largest.get(name, 1.0) for name in node.input), default=1.0)
            if node.op_type in SIZED:
                largest = self._size(node)
            for attribute in node.attribute:
                for inner in [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]:
                    self.check(inner)
            for name in node.output:
                self._largest.setdefault(name, largest)
            if (value := self._value(node)) is not None:
                self.known[node.output[0]] = value

    def _size(self, node: Any) -> float:
        """How many elements the result of a node has."""
        places, amount = SIZED[node.op_type]
        first = self._largest.get(node.input[0], 1.0) if node.input else 1.0
        names = [node.input[place] if place < len(node.input) else "" for place in places]
        endless = node.op_type == "Loop" and not names[0]
        if endless or any(name and name not in self.known for name in names):
            self.untold = self.untold or node
            return first
        if not names[0] and len(names) == 1:
            return first  # a setting in old versions, which the inference of shapes reads
        own = self._shapes.get(node.output[0])
        given = [self.known[name] if name else np.zeros(0) for name in names]
        elements = amount(first, given) if own is None else _product(own)
        if not elements <= LARGEST_RESULT:
            raise EvenhandError(
                f"{self._path}: '{node.output[0]}' ({node.op_type}) would have {elements:,.0f} elements for {ROWS:,} "
                "rows, so the file was not run."
            )
        return elements

    def _value(self, node: Any) -> Values | None:
        """What a node computes, where that is a short list that follows from what is known."""
        from onnx.reference import ReferenceEvaluator

        if node.op_type in ("Shape", "Size"):
            return self._sides(node)
        inputs = {name: self.known[name] for name in node.input if name in self.known}
        usual = node.domain in ("", "ai.onnx") and FOLDED.fullmatch(node.op_type)
        if not usual or set(node.input) - {""} - set(inputs) or self._largest[node.output[0]] > LARGEST_LIST:
            return None
        try:
            with np.errstate(all="ignore"):
                value = np.asarray(ReferenceEvaluator(node).run(None, inputs)[0])
        except Exception:  # a node that is wrong by itself; onnxruntime says it better
            return None
        return value if value.size <= LARGEST_LIST else None

    def _sides(self, node: Any) -> Values | None:
        sides = self._shapes.get(node.input[0])
        if sides is None:
            return None
        cut = {attribute.name: attribute.i for attribute in node.attribute}
        sides = sides[cut.get("start", 0) : cut.get("end", len(sides))]
        return np.array(sides if node.op_type == "Shape" else math.prod(sides), dtype=np.int64)


def _product(values: Any) -> float:
    return float(np.prod(np.maximum(np.abs(np.asarray(values, dtype=float)), 1)))


def _one(value: Values) -> float:
    return float(np.ravel(value)[0])
