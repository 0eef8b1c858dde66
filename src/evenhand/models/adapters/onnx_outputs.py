"""Which output of an ONNX graph is the scores, and which class each of its columns is."""

from pathlib import Path
from typing import Any

from evenhand.errors import EvenhandError
from evenhand.models.adapters.onnx_operators import FLOATS

LABELS = (6, 7, 8, 9)  # int32, int64, string, bool


def without_zipmaps(model: Any) -> list[Any] | None:
    """Take out the nodes that turn scores into lists of dictionaries, which are slow; return the classes they name."""
    from onnx import TensorProto, helper

    graph, classes = model.graph, None
    for node in [node for node in graph.node if node.op_type == "ZipMap"]:
        classes = _listed(node) or classes
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
        if classes := _listed(node):
            return classes
        if node.op_type == "ArrayFeatureExtractor" and node.input[0] in constants:  # labels by their position
            return [_text(value) for value in numpy_helper.to_array(constants[node.input[0]]).flatten().tolist()]
    return None


def _listed(node: Any) -> list[Any] | None:
    for attribute in node.attribute:
        if attribute.name.startswith("classlabels_"):
            return [_text(value) for value in attribute.strings] or [int(value) for value in attribute.ints] or None
    return None


def _text(value: Any) -> Any:
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
