"""Two runs side by side: the settings in which they differ, and the figures that both or one of them has."""

from collections.abc import Iterator
from typing import Any

from evenhand.service.api.answers import Comparison, Figure, Setting, run_answer
from evenhand.service.storage.tables import Run

NO_FIGURES = ("files", "data")  # of a result


def compared(a: Run, b: Run, *, whole: bool) -> Comparison:
    """The comparison of two runs; `whole` as in `run_answer`."""
    one, other = run_answer(a, whole=whole), run_answer(b, whole=whole)
    settings = [
        Setting(name=name, a=one.config.get(name), b=other.config.get(name))
        for name in dict.fromkeys([*one.config, *other.config])
        if one.config.get(name) != other.config.get(name)
    ]
    return Comparison(a=one, b=other, settings=settings, figures=list(_figures(a, b)))


def _figures(a: Run, b: Run) -> Iterator[Figure]:
    first, second = dict(_numbers(a.result or {})), dict(_numbers(b.result or {}))
    for name in dict.fromkeys([*first, *second]):
        one, other = first.get(name), second.get(name)
        yield Figure(name=name, a=one, b=other, change=None if one is None or other is None else other - one)


def _numbers(content: dict[str, Any], above: str = "") -> Iterator[tuple[str, float]]:
    """All numbers of a result with the way to them: data_rate.rate; those of lists by what the entries are about."""
    for name, value in content.items():
        if name in NO_FIGURES:
            continue
        if isinstance(value, dict):
            yield from _numbers(value, f"{above}{name}.")
        elif name == "rates" and isinstance(value, list):
            for rate in value:
                yield f"{above}rate.{'+'.join(rate['changed'])}.{rate['population']}", float(rate["rate"])
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield f"{above}{name}", float(value)
