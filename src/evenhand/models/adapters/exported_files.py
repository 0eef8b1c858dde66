"""Reading the description of an exported program before torch does: torch makes Python source of what stands in it."""

import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import torch

from evenhand.errors import EvenhandError
from evenhand.models.adapters.archives import repacked

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
            _check(content, path)
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


def _check(content: Any, path: Path) -> None:
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
