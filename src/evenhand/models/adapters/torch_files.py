"""TorchScript files and exported programs from the user's own disk.

Both are programs. What can be told without running them is checked first, and nothing is ever unpickled freely; but a
TorchScript file or an exported program from a stranger is still a stranger's program, and ONNX is the better format.
"""

import io
import json
import re
import warnings
import zipfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from evenhand.data.dataset import Dataset
from evenhand.errors import EvenhandError
from evenhand.models.adapters.archives import open_archive
from evenhand.models.adapters.features import Inputs, NetworkAdapter, read_through
from evenhand.models.classifier import first_line

HOW_TO_SAVE = (
    "Save the network as a program: torch.jit.script(model.eval()).save('net.pt'), or torch.export.save(…, 'net.pt2'); "
    "or load it in your own code and name it as module:function."
)
# What an exported program may call, and what its shapes may be written with: sympy evaluates these texts as Python.
OPERATORS = re.compile(
    r"torch\.ops\.(aten|prims|higher_order)\.(?!from_file)\w+(\.\w+)?|math\.\w+|torch\.sym_\w+|"
    r"_operator\.(add|sub|mul|floordiv|truediv|mod|neg|pos|pow|eq|ne|lt|le|gt|ge|and_|or_|getitem)"
)
SHAPE_CHARACTERS = re.compile(r"(?!.*[A-Za-z_]\s*\.)(?!.*\.\s*[A-Za-z_])(?!.*__)[\w\s'(),=+\-*/<>.]*")
SHAPE_NAME = re.compile(
    r"Symbol|Integer|Float|Rational|Add|Mul|Pow|Max|Min|Mod|FloorDiv|CeilDiv|CleanDiv|PythonMod|ModularIndexing|"
    r"Eq|Ne|Ge|Gt|Le|Lt|And|Or|Not|True|False|positive|integer|nonnegative|real|[suz][a-z]{0,3}\d+"
)


class ScriptAdapter(NetworkAdapter):
    """A TorchScript program. Its own optimiser is off: it would change the scores after the first calls."""

    def forward(self, x: Tensor) -> Tensor:
        """(n, d) codes to scores."""
        features = self.features(x)
        with torch.jit.optimized_execution(False):  # type: ignore[attr-defined]
            scores: Tensor = self.network(features)
        return scores


def open_torchscript(data: Dataset, path: Path, inputs: Inputs) -> nn.Module:
    """A program that torch.jit saved. A pickle of the same name is told apart by its contents and never loaded."""
    with open_archive(path, "a TorchScript file") as archive:
        names = {name.partition("/")[2] for name in archive.namelist()}
    if "archive_format" in names:
        raise EvenhandError(f"{path} is an exported program. Rename it to {path.with_suffix('.pt2').name}.")
    if "constants.pkl" not in names or not any(name.startswith("code/") for name in names):
        what = "a pickle that torch.save made" if "data.pkl" in names else "no TorchScript file"
        raise EvenhandError(f"{path} is {what}, so it was not opened. {HOW_TO_SAVE}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            network = torch.jit.load(path, map_location="cpu")  # type: ignore[no-untyped-call]
    except Exception as error:  # a damaged file
        raise EvenhandError(f"Cannot read the TorchScript file {path}: {first_line(error)}.") from error
    adapter = read_through(data, network.eval(), inputs, str(path))
    return ScriptAdapter(adapter.features, adapter.network, adapter.about)


def open_exported(data: Dataset, path: Path, inputs: Inputs) -> nn.Module:
    """A program that torch.export saved, for any number of rows."""
    with open_archive(path, "an exported program (.pt2)") as archive:
        _check_exported(archive, path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.export.load(path)
            network = program.module(check_guards=False)  # guards are Python source: never run those of a file
    except Exception as error:  # a damaged file, or one of another version of torch
        raise EvenhandError(f"Cannot read the exported program {path}: {first_line(error)}.") from error
    _check_batch(program, path)
    return read_through(data, network, inputs, str(path))


def _check_exported(archive: zipfile.ZipFile, path: Path) -> None:
    """Refuse what torch.export.load would unpickle or evaluate."""
    names = {name.partition("/")[2]: name for name in archive.namelist()}
    if len({name.partition("/")[0] for name in archive.namelist()}) != 1 or "models/model.json" not in names:
        raise EvenhandError(f"{path} is no exported program of this version of torch. {HOW_TO_SAVE}")
    for inside, name in names.items():
        if inside.startswith("data/aotinductor/") or inside.endswith((".so", ".cpp")):
            raise EvenhandError(f"{path} holds compiled machine code ({inside}), so it was not opened. {HOW_TO_SAVE}")
        if inside.endswith(".json"):
            _check_json(_parsed(archive.read(name), path), path)
        elif inside.endswith(".pt"):
            _check_pickle(archive.read(name), inside, path)


def _parsed(content: bytes, path: Path) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise EvenhandError(f"{path} is no exported program: {error}.") from error


def _check_pickle(content: bytes, name: str, path: Path) -> None:
    """Only tensors and plain values: torch.export.load would otherwise fall back to reading it freely."""
    try:
        torch.load(io.BytesIO(content), weights_only=True)
    except Exception as error:
        raise EvenhandError(f"{path}: '{name}' is a pickle of more than tensors, so it was not opened.") from error


def _check_json(content: Any, path: Path) -> None:
    """Walk the description of a program: operators of torch alone, shapes without code, no pickled weights."""
    waiting = [content]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            for key, entry in value.items():
                if not _allowed(key, entry):
                    raise EvenhandError(
                        f"{path} has {key} = {str(entry)[:80]!r}, which no network needs, so it was not opened."
                    )
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)


def _allowed(key: str, entry: Any) -> bool:
    if key == "use_pickle":
        return entry is False
    if key == "path_name":
        return isinstance(entry, str) and re.fullmatch(r"(weight|tensor)_\d+", entry) is not None
    if key == "target" and isinstance(entry, str):
        return OPERATORS.fullmatch(entry) is not None
    if key == "name" and isinstance(entry, str):
        return entry == "" or entry.isidentifier()
    if key == "expr_str":
        return isinstance(entry, str) and _is_shape(entry)
    return True


def _is_shape(text: str) -> bool:
    names = re.findall(r"[A-Za-z_]\w*", text)
    return all(SHAPE_NAME.fullmatch(name) for name in names) and SHAPE_CHARACTERS.fullmatch(text) is not None


def _check_batch(program: torch.export.ExportedProgram, path: Path) -> None:
    """It must read one matrix of any number of rows."""
    names = program.graph_signature.user_inputs
    shapes = [node.meta["val"].shape for node in program.graph.nodes if node.op == "placeholder" and node.name in names]
    if len(shapes) != 1 or len(shapes[0]) != 2:
        raise EvenhandError(f"{path} must read one matrix of people, but it reads {len(names)} inputs.")
    if isinstance(shapes[0][0], int):
        raise EvenhandError(
            f"{path} was exported for exactly {shapes[0][0]} rows at a time. Export it for any number: "
            "torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))."
        )
