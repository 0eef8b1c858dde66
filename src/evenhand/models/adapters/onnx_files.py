"""Reading an ONNX file before it is run: no files from elsewhere, no absurd sizes, well formed."""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from evenhand.errors import EvenhandError
from evenhand.models.adapters.onnx_sizes import check_sizes
from evenhand.models.classifier import first_line

HOW_TO_SAVE = "Export the model to ONNX again, with torch.onnx.export, skl2onnx or what made it."
LARGEST_FILE = 2**31 - 1  # bytes; that of the format itself
LARGEST_TENSOR = 2**28  # elements of a weight, or of what one row becomes on the way
LARGEST_SIDE = 2**24


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
