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
from evenhand.models.adapters.archives import open_archive, repacked
from evenhand.models.adapters.features.entries import Inputs
from evenhand.models.adapters.torch.networks import NetworkAdapter, behind_features
from evenhand.models.classifier import first_line

HOW_TO_SAVE = (
    "Save the network as a program: torch.jit.script(model.eval()).save('net.pt'), or torch.export.save(…, 'net.pt2'); "
    "or load it in your own code and name it as module:function."
)
# What a TorchScript program may not name: calls that write or read files or talk to others, and classes of those.
FOREIGN = re.compile(
    r"\b(save|from_file|rpc_\w+|ops[\s\\]*\.[\s\\]*(?!aten\b|prim\b|quantized\b)\w+|"
    r"classes[\s\\]*\.[\s\\]*(?!quantized\b|rnn\b)\w+)"
)
# What a program may call.
OPERATORS = re.compile(
    r"torch\.ops\.(aten|prims)\.(__(and|or|xor|lshift|rshift)__|(?!__|(from_file|save)\b)\w+)(\.(?!_)\w+)?|"
    r"torch\.ops\.higher_order\.(cond|map_impl|scan|while_loop|wrap_with_set_grad_enabled|wrap_with_autocast)|"
    r"math\.[a-z]\w*|torch\.sym_\w+|"
    r"_operator\.(add|sub|mul|floordiv|truediv|mod|neg|pos|pow|eq|ne|lt|le|gt|ge|and_|or_|getitem)",
    re.ASCII,
)
# What its shapes may be written with: sympy evaluates these texts as Python.
SHAPE_CHARACTERS = re.compile(r"(?!.*[A-Za-z_]\s*\.)(?!.*\.\s*[A-Za-z_])(?!.*__)[\w\s'(),=+\-*/<>.]*", re.ASCII)
SHAPE_NAME = re.compile(
    r"Symbol|Integer|Float|Rational|Add|Mul|Pow|Max|Min|Mod|FloorDiv|CeilDiv|CleanDiv|PythonMod|ModularIndexing|"
    r"Eq|Ne|Ge|Gt|Le|Lt|And|Or|Not|True|False|positive|integer|nonnegative|real|[suz][a-z]{0,3}\d+"
)
WEIGHTS = re.compile(r"(weight|tensor)_\d+", re.ASCII)
NAME = re.compile(r"(?!__\w*\.)\w*(\.(?!__)\w+)*", re.ASCII)  # of a parameter: layers.0.weight
WORDS = re.compile(r"[\w .,:>+\-]*", re.ASCII)  # given to an operator, as einsum's ij,kj->ik; torch quotes them
CONTAINERS = (None, "builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict")
UNUSED: dict[str, Any] = {"metadata": {}, "guards_code": []}  # where nodes come from; Python that is not run here


class ScriptAdapter(NetworkAdapter):
    """A TorchScript program. Its own optimiser is off: it would change the scores after the first calls."""

    thread_safe = False  # switching the optimiser off is not

    def forward(self, x: Tensor) -> Tensor:
        """(n, d) codes to scores."""
        features = self.features(x)
        with torch.jit.optimized_execution(False):  # type: ignore[attr-defined]
            scores: Tensor = self.network(features)
        return scores


def open_torchscript(data: Dataset, path: Path, inputs: Inputs) -> nn.Module:
    """A program that torch.jit saved. A pickle of the same name is told apart by its contents and never loaded."""
    with open_archive(path, "a TorchScript file", HOW_TO_SAVE) as archive:
        content = _checked_script(archive, path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            network = torch.jit.load(content, map_location="cpu")  # type: ignore[no-untyped-call]
    except Exception as error:  # a damaged file
        raise EvenhandError(f"Cannot read the TorchScript file {path}: {first_line(error)}. {HOW_TO_SAVE}") from error
    adapter = behind_features(data, network.eval(), inputs, str(path))
    script = ScriptAdapter(adapter.features, adapter.network, adapter.about)
    script.note_inputs(inputs)
    return script


def _checked_script(archive: zipfile.ZipFile, path: Path) -> io.BytesIO:
    names = {name.partition("/")[2]: name for name in archive.namelist()}
    if "archive_format" in names:
        raise EvenhandError(f"{path} is an exported program. Rename it to {path.with_suffix('.pt2').name}.")
    if "constants.pkl" not in names or not any(name.startswith("code/") for name in names):
        what = "a pickle that torch.save made" if "data.pkl" in names else "no TorchScript file"
        raise EvenhandError(f"{path} is {what}, so it was not opened. {HOW_TO_SAVE}")
    for name in archive.namelist():
        if name.endswith(".py") and (found := FOREIGN.search(archive.read(name).decode("utf-8", "replace"))):
            raise EvenhandError(
                f"{path} names '{found[0]}', which may reach other files or machines and which no network needs, so it "
                "was not opened."
            )
    return repacked(archive, {})


def open_exported(data: Dataset, path: Path, inputs: Inputs) -> nn.Module:
    """A program that torch.export saved, for any number of rows."""
    with open_archive(path, "an exported program (.pt2)", HOW_TO_SAVE) as archive:
        content = checked_program(archive, path, HOW_TO_SAVE)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.export.load(content)
            network = program.module(check_guards=False)  # guards are Python source: never run those of a file
    except Exception as error:  # a damaged file, or one of another version of torch
        raise EvenhandError(f"Cannot read the exported program {path}: {first_line(error)}. {HOW_TO_SAVE}") from error
    _check_batch(program, path)
    return behind_features(data, network, inputs, str(path))


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


def checked_program(archive: zipfile.ZipFile, path: Path, how_to_save: str) -> io.BytesIO:
    """The program of an archive for torch.export.load; refused where that would unpickle or evaluate more than names.

    What is handed over is written anew from what was checked.
    """
    names = {name.partition("/")[2]: name for name in archive.namelist()}
    if len({name.partition("/")[0] for name in archive.namelist()}) != 1 or "models/model.json" not in names:
        raise EvenhandError(f"{path} is no exported program of this version of torch. {how_to_save}")
    instead: dict[str, bytes] = {}
    for inside, name in names.items():
        if inside.startswith("data/aotinductor/") or inside.endswith((".so", ".cpp")):
            raise EvenhandError(f"{path} holds compiled machine code ({inside}), so it was not opened. {how_to_save}")
        if inside.endswith(".json"):
            content = _without_unused(_parsed(archive.read(name), path))
            _check_description(content, path)
            instead[name] = json.dumps(content).encode()
        elif inside.endswith(".pt"):
            _check_pickle(archive.read(name), inside, path)
    return repacked(archive, instead)


def _parsed(content: bytes, path: Path) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise EvenhandError(f"{path} is no exported program: {error}.") from error


def _without_unused(content: Any) -> Any:
    waiting = [content]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            value.update({key: empty for key, empty in UNUSED.items() if key in value})
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
    return content


def _check_pickle(content: bytes, name: str, path: Path) -> None:
    """Only tensors and plain values: torch.export.load would otherwise fall back to reading it freely."""
    try:
        torch.load(io.BytesIO(content), weights_only=True)
    except Exception as error:
        raise EvenhandError(f"{path}: '{name}' is a pickle of more than tensors, so it was not opened.") from error


def _check_description(content: Any, path: Path) -> None:
    """Walk the description of a program. Each text in it is one of a kind that is known to be harmless."""
    waiting = [("", content)]
    while waiting:
        key, value = waiting.pop()
        if isinstance(value, dict):
            waiting.extend(value.items())
            wrong = next((each for each in value if not NAME.fullmatch(each)), None)
            if wrong is not None:
                raise _unneeded(path, key, wrong)
        elif isinstance(value, list):
            waiting.extend((key, entry) for entry in value)
        elif not _allowed(key, value):
            raise _unneeded(path, key, value)


def _unneeded(path: Path, key: str, value: Any) -> EvenhandError:
    return EvenhandError(f"{path} has {key} = {str(value)[:80]!r}, which no network needs, so it was not opened.")


def _allowed(key: str, value: Any) -> bool:
    if key == "use_pickle":
        return value is False
    if not isinstance(value, str):
        return True
    if key in ("in_spec", "out_spec"):
        return _is_spec(value)
    if key == "expr_str":
        return _is_shape(value)
    if key in ("name", "forward_arg_names"):
        return value == "" or (value.isascii() and value.isidentifier())
    kinds = {"path_name": WEIGHTS, "target": OPERATORS, "as_operator": OPERATORS}
    kinds |= dict.fromkeys(("as_string", "as_strings", "torch_version"), WORDS)
    return kinds.get(key, NAME).fullmatch(value) is not None


def _is_shape(text: str) -> bool:
    names = re.findall(r"[A-Za-z_]\w*", text)
    return all(SHAPE_NAME.fullmatch(name) for name in names) and SHAPE_CHARACTERS.fullmatch(text) is not None


def _is_spec(text: str) -> bool:
    """How arguments are packed: tuples, lists, and dictionaries whose keys are names. Empty where torch has none."""
    try:
        waiting = [json.loads(text)[1]] if text else []
        while waiting:
            part = waiting.pop()
            keys = json.loads(part["context"] or "null") or []
            plain = isinstance(keys, list) and all(isinstance(each, str) and each.isidentifier() for each in keys)
            if part["type"] not in CONTAINERS or not plain:
                return False
            waiting.extend(part["children_spec"])
    except (ValueError, TypeError, KeyError, IndexError, RecursionError):
        return False
    return True
