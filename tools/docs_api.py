"""The reference of the Python interface, for the documentation site: every public name, from its docstring."""

import inspect
import re
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

import evenhand
from evenhand.settings import KINDS, SETTINGS, option_of

PLUMBING = {"dataset", "protected", "model"}  # named by parameters of their own
FUNCTIONS = {"audit": "audit", "measure": "measure", "repair": "repair", "compare": "compare", "check": "assert_fair"}


def api_reference() -> str:
    """Markdown with a directive for each public name, and tables of the settings that functions pass on."""
    names = [name for name in evenhand.__all__ if not name.startswith("__")]
    classes = [name for name in names if inspect.isclass(getattr(evenhand, name))]
    functions = [name for name in names if name not in classes]
    parts = ["## Functions\n", *(_directive("autofunction", name) for name in functions)]
    parts += ["## Classes\n", *(_directive("autoclass", name, _members(name)) for name in classes)]
    parts += ["## Settings\n", "What these functions take beside their own parameters, for tables and for texts.\n"]
    tables = [
        _settings(settings, f"`{FUNCTIONS[task]}`, for {KINDS[kind]}")
        for task, kinds in SETTINGS.items()
        if task in FUNCTIONS
        for kind, settings in kinds.items()
    ]
    return "\n".join([*parts, *tables])


def _directive(kind: str, name: str, options: str = "") -> str:
    return f"```{{eval-rst}}\n.. {kind}:: evenhand.{name}\n{options}```\n"


def _members(name: str) -> str:
    """The public methods and properties that a class of ours documents; fields are in its docstring."""
    own = vars(getattr(evenhand, name))
    shown = [key for key, value in own.items() if not key.startswith(("_", "model_")) and _documented(value)]
    return f"   :members: {', '.join(shown)}\n" if shown else ""


def _documented(value: Any) -> bool:
    function = getattr(value, "__func__", None) or getattr(value, "func", None) or getattr(value, "fget", None) or value
    return inspect.isfunction(function) and bool(function.__doc__)


def _settings(settings: type[BaseModel], title: str) -> str:
    """The fields of a task's settings as a table."""
    rows = [f"### {title}\n", "| setting | type | default | what it is |", "|---|---|---|---|"]
    for field, info in settings.model_fields.items():
        if field not in PLUMBING:
            kind = info.annotation.__name__ if inspect.isclass(info.annotation) else str(info.annotation)
            default = "required" if info.default is PydanticUndefined else f"`{info.default!r}`"
            cells = [f"`{field}`", f"`{_plain(kind)}`", default, option_of(info).help.replace("|", "or")]
            rows.append(f"| {' | '.join(cells)} |".replace(" | None`", " or None`"))
    return "\n".join(rows) + "\n"


def _plain(kind: str) -> str:
    """A type without what only a checker reads."""
    return re.sub(r"Annotated\[(\w+), [^\]]*\]", r"\1", kind.replace("typing.", ""))
