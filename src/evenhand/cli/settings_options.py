"""The options of a command that does a task, made from the settings of the task (`evenhand/settings.py`)."""

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer
from pydantic.fields import FieldInfo

from evenhand.choices import Domain
from evenhand.errors import EvenhandError
from evenhand.settings import (
    KINDS,
    NO_LIMIT,
    SETTINGS,
    Option,
    TaskName,
    flags_of,
    foreign_words,
    kinds_with,
    option_of,
    plain_type,
)


def takes_settings(task: TaskName) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command an option for each setting of its task, in the place of its parameter `given`.

    The command gets, as `given`, what somebody said and nothing else: defaults belong to the settings.
    """

    def wrap(command: Callable[..., None]) -> Callable[..., None]:
        options = {name: _parameter(task, name) for name in _names(task)}
        parameters: list[inspect.Parameter] = []
        for own in inspect.signature(command).parameters.values():
            parameters += options.values() if own.name == "given" else [own]
        by_name = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]

        @functools.wraps(command)
        def run(**values: Any) -> None:
            given = given_in(task, values)
            command(**{name: value for name, value in values.items() if name not in options}, given=given)

        run.__signature__ = inspect.Signature(by_name)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in by_name}
        del run.__wrapped__
        return run

    return wrap


def given_in(task: TaskName, values: dict[str, Any]) -> dict[str, Any]:
    """The settings that a command line said, from the values of its options."""
    said = {name: values[name] for name in _names(task)}
    return {name: _value(task, name, value) for name, value in said.items() if value not in (None, [], ())}


def check_kind(task: TaskName, kind: Domain, given: dict[str, Any]) -> None:
    """Refuse options that are for the other kind of data."""
    for name in given:
        if kind not in kinds_with(task, name):
            raise EvenhandError(foreign_words(name, kind, flags_of(name, option_of(_fields(task, name)[0]))[0]))


def _names(task: TaskName) -> list[str]:
    """The settings of a task that are options: those that both kinds have first."""
    fields = [settings.model_fields for settings in SETTINGS[task].values()]
    names = dict.fromkeys(name for own in fields for name in own if name != "dataset")
    shown = [name for name in names if not option_of(_fields(task, name)[0]).hidden]
    return sorted(shown, key=lambda name: len(kinds_with(task, name)) == 1)


def _fields(task: TaskName, name: str) -> list[FieldInfo]:
    return [settings.model_fields[name] for settings in SETTINGS[task].values() if name in settings.model_fields]


def _parameter(task: TaskName, name: str) -> inspect.Parameter:
    """A setting as an option; None: nobody said it."""
    info, kinds = _fields(task, name)[0], kinds_with(task, name)
    option = option_of(info)
    panel = None if len(kinds) == 2 else f"For {KINDS[kinds[0]]}"
    shown = typer.Option(
        *flags_of(name, option), help=option.help, show_default=_usual(task, name, option), rich_help_panel=panel
    )
    plain = plain_type(info.annotation)
    kind: Any = str if plain is list else list[str] if plain is dict else plain
    if _may_be_none(info):
        kind = str
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, shown]
    )


def _may_be_none(info: FieldInfo) -> bool:
    """Whether a setting that has a usual number can be none at all."""
    return (
        plain_type(info.annotation) is int
        and type(None) in getattr(info.annotation, "__args__", ())
        and info.default is not None
    )


def _usual(task: TaskName, name: str, option: Option) -> str | bool:
    """What help says of the default."""
    if option.usual is not None:
        return option.usual
    fields = _fields(task, name)
    defaults = [info.get_default() for info in fields]
    if any(info.is_required() for info in fields) or any(
        one is None or one is False or one in ({}, []) for one in defaults
    ):
        return False
    words = [",".join(default) if isinstance(default, list) else str(default) for default in defaults]
    return words[0] if len(set(words)) == 1 else f"{words[0]}; {words[1]} for texts"


def _value(task: TaskName, name: str, said: Any) -> Any:
    """What was said, as the setting has it."""
    info = _fields(task, name)[0]
    kind, flag = plain_type(info.annotation), flags_of(name, option_of(info))[0]
    if kind is list:
        return [part.strip() for part in said.split(",")]
    if kind is dict:
        return dict(_entry(flag, pair, number=name == "within") for pair in said)
    if _may_be_none(info):
        return None if said == NO_LIMIT else _number(said)
    return said


def _entry(flag: str, pair: str, number: bool) -> tuple[str, int | float | str]:
    """NAME=VALUE; a column's name may hold = itself, and so may a value that is no number."""
    name, equals, text = pair.rpartition("=") if number else pair.partition("=")
    value = _number(text)
    if not name or not equals or (number and isinstance(value, str)):
        raise EvenhandError(f"{flag} needs {'COLUMN=NUMBER' if number else 'NAME=VALUE'}; '{pair}' is not.")
    return (name if number else name.replace("-", "_")), value


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
