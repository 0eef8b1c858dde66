"""Reading an ONNX file before it is run: well formed, no files from elsewhere, no absurd sizes.

A small file can ask for terabytes: sizes are told from constants and from the number of rows, or the file is refused.
"""

import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import EvenhandError
from evenhand.models.classifier import first_line

HOW_TO_SAVE = "Export the model to ONNX again, with torch.onnx.export, skl2onnx or what made it."
LARGEST_FILE = 2**31 - 1  # bytes; that of the format itself
LARGEST_TENSOR = 2**28  # elements of a weight, or of what one row becomes on the way
LARGEST_SIDE = 2**24
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


def read_onnx(path: Path) -> Any:
    """The model of a file as a protobuf message, checked, with its weights. Nothing is run."""
    onnx = _onnx()
    size = path.stat().st_size
    if size > LARGEST_FILE:
        raise EvenhandError(f"{path} has {size:,} bytes; an ONNX file may have {LARGEST_FILE:,}.")
    content = path.read_bytes()
    if content[:1] == b"\x80":
        raise EvenhandError(f"{path} is a pickle and not an ONNX file, so it was not opened. {HOW_TO_SAVE}")
    try:
        model = onnx.load_model_from_string(content)
    except Exception as error:  # whatever protobuf raises
        raise EvenhandError(f"{path} is not an ONNX file: {first_line(error)}. {HOW_TO_SAVE}") from error
    if not model.graph.node or not model.opset_import:
        raise EvenhandError(f"{path} is not an ONNX file: it has no graph. {HOW_TO_SAVE}")
    _check_weights(onnx, model, path)
    _check_shapes([*model.graph.input, *model.graph.output, *model.graph.value_info], path)
    _check_well_formed(onnx, model, path)
    _check_shapes(_inferred(onnx, model), path)
    check_sizes(onnx, model, path)
    return model


def _onnx() -> Any:
    try:
        import onnx
        import onnxruntime  # noqa: F401 - both are needed
    except ImportError as error:
        raise EvenhandError('ONNX files need onnx and onnxruntime: pip install "evenhand[onnx]".') from error
    return onnx


def _tensors(graph: Any) -> Iterator[Any]:
    """All constants of a graph and of the graphs inside it."""
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    yield from _node_tensors(graph.node)


def _node_tensors(nodes: Any) -> Iterator[Any]:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            for sparse in [attribute.sparse_tensor, *attribute.sparse_tensors]:
                yield from (sparse.values, sparse.indices)
            for inner in [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]:
                yield from _tensors(inner)


def _check_weights(onnx: Any, model: Any, path: Path) -> None:
    """Sizes as declared, before a byte is allocated for them; weights in files of their own must lie beside it."""
    tensors = [*_tensors(model.graph), *(t for function in model.functions for t in _node_tensors(function.node))]
    total, outside = 0, False
    for tensor in tensors:
        total += _elements(tensor.dims, tensor.name, path)
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            outside = True
            _check_place(tensor, path)
    if total > 2 * LARGEST_TENSOR:
        raise EvenhandError(f"{path} says that it has {total:,} weights. No model for a table has, so it was not run.")
    if outside:
        try:
            onnx.load_external_data_for_model(model, str(path.parent))
        except Exception as error:
            raise EvenhandError(f"{path}: its weights cannot be read: {first_line(error)}.") from error


def _elements(sides: Any, name: str, path: Path) -> int:
    elements = 1
    for side in sides:
        elements *= side
        if not 0 <= side <= LARGEST_SIDE or elements > LARGEST_TENSOR:
            shape = " × ".join(f"{each:,}" for each in sides)
            raise EvenhandError(f"{path}: '{name}' says that it has the shape {shape}, so the file was not run.")
    return elements


def _check_place(tensor: Any, path: Path) -> None:
    """Weights outside the model's file: a plain name in its folder, and as large as they say."""
    where = {entry.key: entry.value for entry in tensor.external_data}
    location = where.get("location", "")
    pure, windows = PurePosixPath(location), PureWindowsPath(location)
    leads_out = pure.is_absolute() or windows.is_absolute() or windows.drive or ".." in (*pure.parts, *windows.parts)
    file = path.parent / location
    if not location or leads_out or not file.resolve().is_relative_to(path.parent.resolve()):
        raise EvenhandError(
            f"{path}: the weights '{tensor.name}' are in '{location}', outside the model's folder. It was not run."
        )
    if not file.is_file():
        raise EvenhandError(f"{path} needs the file {file}, which does not exist. Copy it beside the model.")
    if file.stat().st_size > LARGEST_FILE:
        raise EvenhandError(f"{path}: its weights in {file} are too large.")


def _check_shapes(values: Any, path: Path) -> None:
    for value in values:
        if value.type.HasField("tensor_type"):
            sides = [side.dim_value for side in value.type.tensor_type.shape.dim if side.HasField("dim_value")]
            _elements(sides, value.name, path)


def _check_well_formed(onnx: Any, model: Any, path: Path) -> None:
    try:
        onnx.checker.check_model(model)
    except Exception as error:
        raise EvenhandError(f"{path} is not a valid ONNX file: {first_line(error)}. {HOW_TO_SAVE}") from error


def _inferred(onnx: Any, model: Any) -> Any:
    """What the graph makes on the way, as far as its shapes can be told: a small file can ask for terabytes."""
    try:
        return onnx.shape_inference.infer_shapes(model, data_prop=True).graph.value_info
    except Exception:  # shapes that contradict each other; onnxruntime says it better
        return []


def check_sizes(onnx: Any, model: Any, path: Path) -> None:
    """Refuse a model in which the size of a tensor does not follow from constants and from the number of rows.

    What is found to be constant takes the place of its node, and shapes are inferred anew, until all sizes are told.
    """
    plain = _plain(onnx, model)
    while True:
        sizes = _Sizes(_shapes(onnx, plain), path)
        sizes.check(plain.graph)
        if sizes.unknown_size is None:
            return
        constant = [node for node in plain.graph.node if node.output and node.output[0] in sizes.known]
        if not constant:
            node = sizes.unknown_size
            raise EvenhandError(
                f"{path}: the size of '{node.output[0]}' ({node.op_type}) is computed in a way that cannot be told "
                "before it is run, so the file was not run. Export the model with sizes that are constants or follow "
                "from the number of rows."
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
        self.unknown_size: Any = None  # the first node whose size cannot be told

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
            self.unknown_size = self.unknown_size or node
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
