"""The reference of the command line, for the documentation site: every command as it describes itself."""

import re
from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from evenhand.cli.main import app

MARKUP = re.compile(r"\[/?(?:bold|italic|dim)\]")
EXAMPLES = re.compile(r"^Examples?:[ \t]*(.*)\Z", re.MULTILINE | re.DOTALL)
SPECIAL = re.compile(r"([\\*_\[\]<>|#])")
REMARK = re.compile(r"^(\S.*?) {2,}(\S.*)$")
CODE = re.compile(r"(`[^`]*`)")


def command_reference() -> str:
    """Markdown with a section for each command: help, usage, arguments, options, examples."""
    return "\n".join(_section(words, command) for words, command in commands())


def commands() -> Iterator[tuple[str, Any]]:
    """All commands of the application that do something, with their full names."""
    yield from _below("evenhand", get_command(app))


def _below(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "commands"):
        yield name, command
    for child, inner in getattr(command, "commands", {}).items():
        yield from _below(f"{name} {child}", inner)


def _section(name: str, command: Any) -> str:
    text = MARKUP.sub("", command.help or "")
    examples = EXAMPLES.search(text)
    lines = [
        f"## {name}\n",
        _prose(text[: examples.start()] if examples else text),
        f"```text\n{_usage(name, command)}\n```\n",
    ]
    for panel, parameters in _panels(command).items():
        lines += [f"**{panel}**\n" if panel else "", "| | meaning | default |", "|---|---|---|"]
        lines += [f"| {_name(one)} | {_prose(one.help or '').strip()} | {_default(one)} |" for one in parameters]
        lines.append("")
    if examples:
        lines += ["```bash", *_examples(examples[1]), "```\n"]
    return "\n".join(lines)


def _examples(text: str) -> list[str]:
    """The example lines of a help text; what follows a command after two spaces is a comment."""
    lines = [line.strip() for line in text.splitlines()]
    return [REMARK.sub(r"\1  # \2", line) for line in lines if line]


def _usage(name: str, command: Any) -> str:
    arguments = [_argument(one) for one in command.params if one.param_type_name == "argument"]
    return " ".join([name, "[OPTIONS]", *arguments])


def _argument(parameter: Any) -> str:
    name = parameter.metavar or parameter.name.upper()
    return (name if parameter.required else f"[{name}]") + ("…" if parameter.nargs == -1 else "")


def _panels(command: Any) -> dict[str, list[Any]]:
    """Parameters by the panel that the help shows them in; arguments first, hidden ones and --help left out."""
    found: dict[str, list[Any]] = {}
    for one in sorted(command.params, key=lambda one: one.param_type_name != "argument"):
        if not getattr(one, "hidden", False) and one.name != "help":
            found.setdefault(getattr(one, "rich_help_panel", None) or "", []).append(one)
    return found


def _name(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{parameter.metavar or parameter.name.upper()}`"
    names = sorted([*parameter.opts, *parameter.secondary_opts], key=len, reverse=True)
    return ", ".join(f"`{name}`" for name in names)


def _default(parameter: Any) -> str:
    """The default as the help says it; nothing for flags and for options that are simply absent."""
    said = parameter.show_default
    if parameter.required:
        return "required"
    if isinstance(said, str):
        return _prose(said).strip()
    value = parameter.default() if callable(parameter.default) else parameter.default
    absent = said is False or value is None or value is False or value == []
    return "" if absent else f"`{value}`"


def _prose(text: str) -> str:
    """Help text as Markdown: code between backticks as it is, all else escaped."""
    parts = CODE.split(text)
    return "".join(part if part.startswith("`") else SPECIAL.sub(r"\\\1", part) for part in parts)
