"""Help texts whose paragraphs fill the terminal, however wide the source is."""

import inspect
from collections.abc import Callable
from typing import Any

import typer


def unwrap(app: typer.Typer) -> None:
    """Join the lines of each paragraph in the help of all commands; typer would keep the line breaks of the source."""
    if app.registered_callback is not None:
        _unwrap(app.registered_callback)
    for command in app.registered_commands:
        _unwrap(command)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            unwrap(group.typer_instance)


def _unwrap(info: Any) -> None:
    """`info`: what typer keeps of a command, or of the function before all commands."""
    function: Callable[..., Any] | None = info.callback
    if function is not None and not info.help and (text := inspect.getdoc(function)):
        info.help = joined_lines(text)


def joined_lines(text: str) -> str:
    """A text with one line for each paragraph; lines that are indented, such as examples, stay on their own."""
    lines: list[str] = []
    for line in text.splitlines():
        goes_on = bool(lines and lines[-1] and line) and not (line.startswith(" ") or lines[-1].startswith(" "))
        lines[-1:] = [f"{lines[-1]} {line}"] if goes_on else [*lines[-1:], line]
    return "\n".join(lines)
