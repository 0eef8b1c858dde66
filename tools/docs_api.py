"""The reference of the Python interface, for the documentation site: every public name, from its docstring."""

import inspect
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

import evenhand
from evenhand.settings import AuditSettings, TextAuditSettings

SETTINGS: dict[type[BaseModel], str] = {AuditSettings: "audit", TextAuditSettings: "audit_text"}
PLUMBING = {"dataset", "protected"}  # named by parameters of their own


def api_reference() -> str:
    """Markdown with a directive for each public name, and tables of the settings that functions pass on."""
    names = [name for name in evenhand.__all__ if not name.startswith("__")]
    classes = [name for name in names if inspect.isclass(getattr(evenhand, name))]
    functions = [name for name in names if name not in classes]
    parts = ["## Functions\n", *(_directive("autofunction", name) for name in functions)]
    parts += ["## Classes\n", *(_directive("autoclass", name, _members(name)) for name in classes)]
    parts += ["## Settings\n", "What `audit` and `audit_text` take beside their own parameters.\n"]
    return "\n".join([*parts, *(_settings(config, name) for config, name in SETTINGS.items())])


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


def _settings(config: type[BaseModel], name: str) -> str:
    """The fields of a configuration as a table."""
    rows = [f"### Settings of `{name}`\n", "| setting | type | default |", "|---|---|---|"]
    for field, info in config.model_fields.items():
        if field not in PLUMBING:
            kind = info.annotation.__name__ if inspect.isclass(info.annotation) else str(info.annotation)
            default = "required" if info.default is PydanticUndefined else f"`{info.default!r}`"
            rows.append(f"| `{field}` | `{kind.replace('typing.', '')}` | {default} |".replace(" | None`", " or None`"))
    return "\n".join(rows) + "\n"
