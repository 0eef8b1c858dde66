"""ONNX files: scores through onnxruntime, and gradients through torch where its operators allow it.

The graph in torch stands for the file only where both give the same scores on rows of the data. It points a search
in a direction; whether a pair is found is decided by the runtime that the file was made for.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from evenhand.data.attribute import Attribute, as_list
from evenhand.data.dataset import Dataset
from evenhand.data.schema import Label, Schema
from evenhand.errors import EvenhandError
from evenhand.models.adapters.base import Adapter, class_order, in_order, named_classes, scores_of
from evenhand.models.adapters.features.entries import Inputs
from evenhand.models.adapters.features.matrix import Features
from evenhand.models.adapters.frames import FrameAdapter
from evenhand.models.adapters.onnx.files import read_onnx
from evenhand.models.adapters.onnx.graph import FLOATS, OnnxGraph, obstacles
from evenhand.models.adapters.torch.networks import NetworkAdapter, cannot_read, check_on_rows
from evenhand.models.classifier import first_line

MATRICES = {1: torch.float32, 11: torch.float64, 6: torch.int32, 7: torch.int64}  # by ONNX's numbers of types
Run = Callable[[dict[str, NDArray[Any]]], NDArray[Any]]
KINDS: dict[int, Any] = {1: np.float32, 11: np.float64, 6: np.int32, 7: np.int64, 9: np.bool_, 8: str}  # ONNX's types
Maker = Callable[[pd.DataFrame], NDArray[Any]]
LABELS = (6, 7, 8, 9)  # int32, int64, string, bool


@dataclass(frozen=True)
class _OpenFile:
    """A file that can be asked."""

    path: Path
    model: Any
    output: str  # what the graph calls its scores
    run: Run  # to the scores
    decide: Run | None  # to the labels, where the graph has them beside its scores


def open_onnx(data: Dataset, path: Path, inputs: Inputs, threads: int = 1) -> nn.Module:
    """A model that reads a matrix of features, or one input for each raw column as skl2onnx writes it."""
    model = read_onnx(path)
    classes = without_zipmaps(model)
    output, is_label = chosen_output(model, path)
    classes = None if is_label else classes or classes_of(model)  # labels say themselves which they are
    order = None if classes is None else class_order(classes, data.schema.label)
    session = _session(model, path, threads)
    labels = None if is_label else label_output(model, output)
    decide = None if labels is None else _asking(session, labels)
    file = _OpenFile(path, model, output, _asking(session, output), decide)
    sources = _sources(model.graph)
    for source in sources:
        _check_rows(source, path)
    if len(sources) == 1 and not _is_column(sources[0], data):
        on_matrix = _on_matrix(data, file, sources[0], inputs)
        on_matrix.note_inputs(inputs)
        on_matrix.may_be_logit = False
        adapter = in_order(on_matrix, order)
    elif inputs is not None:
        raise EvenhandError(f"{path} reads raw columns by their names, not a matrix. Leave inputs out.")
    else:
        adapter = _on_columns(data, file, sources, order)
    adapter.own_classes = data.schema.label.values if is_label else None
    if classes is not None:
        adapter.own_classes = named_classes(classes, data.schema.label)
    return adapter


def _sources(graph: Any) -> list[Any]:
    """What the caller must give; old files list their weights among the inputs."""
    weights = {tensor.name for tensor in graph.initializer}
    return [value for value in graph.input if value.name not in weights]


def _sides(value: Any) -> list[int | None]:
    """The shape of an input or output; None for a side that is open."""
    sides = value.type.tensor_type.shape.dim
    return [side.dim_value if side.HasField("dim_value") and side.dim_value > 0 else None for side in sides]


def _check_rows(source: Any, path: Path) -> None:
    sides = _sides(source)
    if sides and sides[0] is not None:
        raise EvenhandError(
            f"{path} was exported for exactly {sides[0]} rows at a time. Export it for any number: a first side "
            "that is dynamic (dynamic_shapes in torch.onnx.export, None in the initial types of skl2onnx)."
        )


def _is_column(source: Any, data: Dataset) -> bool:
    """Whether a single input is a raw column and not the whole matrix."""
    columns = {column for attribute in data.schema.attributes for column in attribute.raw_columns}
    return source.name in columns and len(_sides(source)) == 2 and _sides(source)[1] == 1


def _session(model: Any, path: Path, threads: int) -> Any:
    """The model at work."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # an operator that it does not know, or types that do not fit
        raise EvenhandError(f"onnxruntime cannot read {path}: {first_line(error)}.") from error


def _asking(session: Any, output: str) -> Run:
    """A function of named arrays that returns one of the outputs."""

    def run(arrays: dict[str, NDArray[Any]]) -> NDArray[Any]:
        (result,) = session.run([output], arrays)
        return np.asarray(result)

    return run


class OnnxRuntimeAdapter(Adapter):
    """A graph behind its features, computed by onnxruntime."""

    smallest_call = 0  # none of its own: that of plain modules, as its kernels change with the rows too
    thread_safe = True

    def __init__(self, features: Features, run: Run, decide: Run | None, source: Any, label: Label, about: str) -> None:
        super().__init__()
        self.features, self.about = features, about
        self._run, self._decide, self._name, self._label = run, decide, source.name, label
        self._dtype = MATRICES[source.type.tensor_type.elem_type]

    def forward(self, x: Tensor) -> Tensor:
        """(n, d) codes to scores."""
        return scores_of(self._run(self._arrays(x)), len(x), self._label).to(x.device)

    def own_labels(self, x: Tensor) -> Tensor | None:
        """(n,) what the graph itself calls the label."""
        if self._decide is None:
            return None
        try:
            return scores_of(self._decide(self._arrays(x)).ravel(), len(x), self._label).argmax(dim=1).to(x.device)
        except EvenhandError:  # whole numbers that are no labels
            return None

    def _arrays(self, x: Tensor) -> dict[str, NDArray[Any]]:
        matrix = self.features(x.detach())
        matrix = matrix if self._dtype.is_floating_point else matrix.round()
        return {self._name: matrix.to("cpu", self._dtype).numpy()}


class OnnxNetworkAdapter(NetworkAdapter):
    """The same with gradients: by the graph in torch, which also does all the work on a device that is not the CPU."""

    def __init__(self, runtime: OnnxRuntimeAdapter, graph: OnnxGraph) -> None:
        super().__init__(runtime.features, graph, runtime.about)
        self._runtime = runtime

    def forward(self, x: Tensor) -> Tensor:
        """(n, d) codes to scores."""
        if x.device.type != "cpu" or (x.requires_grad and torch.is_grad_enabled()):
            return super().forward(x)
        scores: Tensor = self._runtime(x)
        return scores

    def own_labels(self, x: Tensor) -> Tensor | None:
        """(n,) what the graph itself calls the label."""
        return self._runtime.own_labels(x)


def _on_matrix(data: Dataset, file: _OpenFile, source: Any, inputs: Inputs) -> Adapter:
    kind, about = source.type.tensor_type.elem_type, str(file.path)
    if kind not in MATRICES or len(_sides(source)) != 2:
        raise EvenhandError(
            f"{file.path} must read one matrix of numbers, or one input for each column of the table; its input "
            f"'{source.name}' is neither."
        )
    features = Features(data, inputs, torch.float64 if MATRICES[kind] == torch.float64 else torch.float32)
    wanted = _sides(source)[1]
    if wanted not in (None, features.width):
        raise cannot_read(about, features, f"its input has {wanted} columns")
    runtime = OnnxRuntimeAdapter(features, file.run, file.decide, source, data.schema.label, about)
    x, expected = check_on_rows(runtime, data)
    why_not = _why_not(file.model, file.output, MATRICES[kind])
    if not why_not:
        graph = OnnxGraph(file.model, source.name, file.output)
        why_not = _disagreement(NetworkAdapter(features, graph, about), x, expected)
        if not why_not:
            return OnnxNetworkAdapter(runtime, graph)
    runtime.no_gradients = why_not
    return runtime


def _why_not(model: Any, output: str, dtype: torch.dtype) -> str:
    """What stands in the way of gradients; empty where nothing does."""
    if not dtype.is_floating_point:
        return "it reads whole numbers"
    names = obstacles(model.graph, output)
    if not names:
        return ""
    listed = " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
    return (
        f"its operators {listed} have no gradient here" if names[1:] else f"its operator {listed} has no gradient here"
    )


def _disagreement(network: Adapter, x: Tensor, expected: Tensor) -> str:
    """Why the graph in torch cannot stand for the file; empty where both give the same scores."""
    try:
        with torch.no_grad():
            scores = network(x)
    except Exception as error:
        return f"its graph cannot be run in torch ({first_line(error)})"
    scores = scores[:, 0] if expected.ndim == 1 and scores.ndim == 2 else scores
    if scores.shape != expected.shape or not torch.allclose(scores.float(), expected, rtol=1e-3, atol=1e-4):
        return "its graph gives other scores in torch than in onnxruntime"
    return ""


class _ColumnsAdapter(FrameAdapter):
    smallest_call = 0  # as above
    thread_safe = True


def _on_columns(data: Dataset, file: _OpenFile, sources: list[Any], order: list[int] | None) -> Adapter:
    arrays = column_inputs(data.schema, sources, file.path)

    def asking(run: Run) -> Callable[[pd.DataFrame], NDArray[Any]]:
        return lambda frame: run({name: make(frame) for name, make in arrays.items()})

    def scores(frame: pd.DataFrame) -> NDArray[Any]:
        answer = asking(file.run)(frame)
        return answer if order is None or answer.ndim == 1 else answer[:, order]

    names = obstacles(file.model.graph, file.output)
    why_not = f"it reads raw columns, and its operators are {', '.join(names)}" if names else "it reads raw columns"
    decide = None if file.decide is None else asking(file.decide)
    adapter = _ColumnsAdapter(data, scores, about=str(file.path), no_gradients=why_not, decide=decide)
    adapter.reads = columns_read(data.schema, sources)
    return adapter


def column_inputs(schema: Schema, sources: list[Any], path: Path) -> dict[str, Maker]:
    """For each input of a graph, how to make it from a data frame of raw values."""
    attributes = {column: attribute for attribute in schema.attributes for column in attribute.raw_columns}
    plain = {_plain_name(column): column for column in attributes}
    makers: dict[str, Maker] = {}
    for source in sources:
        column = source.name if source.name in attributes else plain.get(_plain_name(source.name))
        if column is None:
            raise EvenhandError(
                f"{path} reads an input '{source.name}', but the table has no such column. It has: "
                f"{', '.join(attributes)}. Export the model with one input for each column, or with one matrix."
            )
        kind = source.type.tensor_type.elem_type
        if kind not in KINDS:
            raise EvenhandError(f"{path}: its input '{source.name}' is neither text nor numbers nor yes and no.")
        flat = len(source.type.tensor_type.shape.dim) == 1
        makers[source.name] = partial(_column_array, attributes[column], column, KINDS[kind], flat)
    return makers


def columns_read(schema: Schema, sources: list[Any]) -> list[str]:
    """The attributes that the inputs of a graph are."""
    named = {_plain_name(source.name) for source in sources}
    return [attribute.name for attribute in schema.attributes if named & set(map(_plain_name, attribute.raw_columns))]


def _plain_name(name: str) -> str:
    """Exporters write marital-status as marital_status."""
    return re.sub(r"\W", "_", name).lower()


def _column_array(attribute: Attribute, column: str, kind: Any, flat: bool, frame: pd.DataFrame) -> NDArray[Any]:
    values = frame[column]
    if kind is str:
        absent = "" if attribute.missing is None else as_list(attribute.missing.value)[0]
        array: NDArray[Any] = values.astype("str").fillna(absent).to_numpy(dtype=object)
    else:
        array = _numbers(column, values, kind)
    return array if flat else array[:, None]


def _numbers(column: str, values: pd.Series, kind: Any) -> NDArray[Any]:
    try:
        numbers = pd.to_numeric(values).to_numpy()
        if np.issubdtype(kind, np.floating):
            return numbers.astype(kind)
        if numbers.dtype.kind == "f" and np.isnan(numbers).any():
            raise EvenhandError(
                f"The model reads '{column}' as whole numbers, which cannot say that a value is missing. "
                "Export it with numbers or text for this column, or leave the missing value out of the domain."
            )
        return numbers.astype(kind)
    except (ValueError, TypeError) as error:
        raise EvenhandError(
            f"The model reads '{column}' as a number, but it holds '{values.iloc[0]}'. Give the attribute "
            "its type in the schema."
        ) from error


def without_zipmaps(model: Any) -> list[Any] | None:
    """Take out the nodes that turn scores into lists of dictionaries, which are slow; return the classes they name."""
    from onnx import TensorProto, helper

    graph, classes = model.graph, None
    for node in [node for node in graph.node if node.op_type == "ZipMap"]:
        classes = _listed_classes(node) or classes
        for place, value in enumerate(graph.output):
            if value.name == node.output[0]:
                graph.output[place].CopyFrom(helper.make_tensor_value_info(node.input[0], TensorProto.FLOAT, None))
        graph.node.remove(node)
    return classes


def classes_of(model: Any) -> list[Any] | None:
    """The classes in the order of the scores, where the graph names them; None where it does not."""
    from onnx import numpy_helper

    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in reversed(model.graph.node):
        if classes := _listed_classes(node):
            return classes
        if node.op_type == "ArrayFeatureExtractor" and node.input[0] in constants:  # labels by their position
            return [_decoded(value) for value in numpy_helper.to_array(constants[node.input[0]]).flatten().tolist()]
    return None


def _listed_classes(node: Any) -> list[Any] | None:
    for attribute in node.attribute:
        if attribute.name.startswith("classlabels_"):
            return [_decoded(value) for value in attribute.strings] or [int(value) for value in attribute.ints] or None
    return None


def _decoded(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def label_output(model: Any, scores: str) -> str | None:
    """The output with the model's own labels, beside its scores, where it has one for each row."""
    for value in model.graph.output:
        kind = value.type.tensor_type
        if value.name != scores and value.type.HasField("tensor_type") and kind.elem_type in LABELS:
            sides = list(kind.shape.dim)
            if len(sides) <= 1 or (len(sides) == 2 and sides[1].dim_value == 1):
                return str(value.name)
    return None


def _is_single(value: Any) -> bool:
    """Whether an output has one number for each row."""
    sides = list(value.type.tensor_type.shape.dim)
    return len(sides) == 1 or (len(sides) == 2 and sides[1].dim_value == 1)


def chosen_output(model: Any, path: Path) -> tuple[str, bool]:
    """The probabilities where a name says so, else the first output of numbers, else the labels.

    The second result says whether it is the labels.
    """
    outputs = [value for value in model.graph.output if value.type.HasField("tensor_type")]
    scores = [value.name for value in outputs if value.type.tensor_type.elem_type in FLOATS]
    if len(single := [value.name for value in outputs if value.name in scores and _is_single(value)]) > 1:
        raise EvenhandError(
            f"{path} returns a score in each of several outputs ({', '.join(single[:4])}), one for each class. Export "
            "it so that all scores stand in one output: with skl2onnx options={id(model): {'zipmap': False}}."
        )
    named = [name for name in scores if "prob" in name.lower()]
    labels = [value.name for value in outputs if value.type.tensor_type.elem_type in LABELS]
    for names in (named, scores, labels):
        if names:
            return str(names[0]), names is labels
    raise EvenhandError(f"{path} returns neither scores nor labels.")
