"""A run's settings, result and events in words. The exact values are in what `--json` prints."""

import json
from collections.abc import Iterable
from itertools import groupby
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime

    from evenhand.service.storage.tables import Event

OF_TERMINAL = "terminal"  # in a configuration: where a command was started, which is shown as the run's place
SHORT = 1000.0  # from here on, four digits would not show whole numbers


def settings_words(kind: str, config: dict[str, Any]) -> str:
    """What was asked for, a line for each setting that is not the usual one."""
    from evenhand.service.requests import REQUESTS

    fields = REQUESTS[kind]["table"].model_fields if kind in REQUESTS else {}
    usual = {name: field.default for name, field in fields.items()}
    asked = {name: value for name, value in config.items() if name != OF_TERMINAL and value != usual.get(name)}
    return _lines(asked)


def result_words(result: dict[str, Any]) -> str:
    """What came out, a line for each warning, figure and rate."""
    figures = {name: value for name, value in result.items() if name not in ("headline", "rates", "files", "warnings")}
    headline = result.get("headline") or ""
    warnings = [f"Warning: {_words(text)}" for text in result.get("warnings", []) if text not in headline]
    rates = [f"{_words(rate['changed'])}, {rate['population']}: {rate['words']}" for rate in result.get("rates", [])]
    first = [_words(result["headline"])] if result.get("headline") and not rates else []
    return "\n".join([*warnings, *first, *map(_words, rates), _lines(figures)]).rstrip("\n")


def event_words(events: "Iterable[Event]") -> "list[tuple[datetime, str]]":
    """When something happened, and what; pairs that were found in a row are one line, with the time of the last."""
    lines = []
    for kind, group in groupby(events, key=lambda event: event.kind):
        same = list(group)
        if kind == "pair":
            lines.append((same[-1].at, "pair" if len(same) == 1 else f"pair ({len(same)} times)"))
        else:
            lines += [(event.at, _event(event)) for event in same]
    return lines


def _event(event: "Event") -> str:
    data = event.data
    if event.kind == "note" and "text" in data:
        return f"note: {_words(data['text'])}"
    if event.kind == "started" and "worker" in data:
        again = f", attempt {data['attempt']}" if data.get("attempt", 1) > 1 else ""
        return f"started by {_words(data['worker'])}{again}"
    if event.kind == "resumed" and "step" in data:
        return f"resumed at {data['step']} of {data.get('total')}, with {data.get('findings')} findings"
    return f"{event.kind} again" if data.get("again") else event.kind


def _lines(values: dict[str, Any]) -> str:
    """What is not empty, a line each."""
    return "\n".join(f"{name}: {_words(value)}" for name, value in values.items() if value not in (None, [], {}, ""))


def _words(value: Any) -> str:
    """A value as people write it; what could steer a terminal is written out."""
    if isinstance(value, str):
        return value if value.isprintable() else json.dumps(value, ensure_ascii=False)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < SHORT else f"{value:.1f}"
    if isinstance(value, list):
        return ", ".join(map(_words, value))
    if isinstance(value, dict):
        return ", ".join(f"{name} {_words(item)}" for name, item in value.items())
    return "none" if value is None else str(value)
