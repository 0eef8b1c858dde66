"""One set of settings for each task: options, requests, defaults and the command that repeats a run come from it."""

import inspect
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from pydantic.fields import FieldInfo

import evenhand
from evenhand.choices import REPAIRS, Domain
from evenhand.cli.main import app
from evenhand.cli.settings_options import given_in
from evenhand.errors import EvenhandError
from evenhand.gate.config import GateFile
from evenhand.service.requests import REQUESTS
from evenhand.settings import (
    EVERY_REPAIR,
    SETTINGS,
    AuditSettings,
    CheckedSettings,
    TaskName,
    TextAuditSettings,
    flags_of,
    option_of,
    plain_type,
    repeat_command,
    repeat_of,
)

RUNS: list[tuple[TaskName, Domain]] = [
    (task, kind) for task in ("audit", "compare", "measure", "repair") for kind in ("table", "text")
]
EVERY: list[tuple[TaskName, Domain]] = [  # that have a command; a check is described in a gate file
    (task, kind) for task, kinds in SETTINGS.items() if task != "check" for kind in kinds
]
WORDS = st.text("abcxyzABC019-_ .:/='\"%é", min_size=1, max_size=12).filter(lambda text: text.strip(" ,") == text)
NAMES = st.text("abcxyz_", min_size=1, max_size=8)


def values(name: str, info: FieldInfo) -> st.SearchStrategy[Any]:
    """Values that a field may have, other than its default; all kinds of text where anything goes."""
    if name == "by":
        return st.lists(st.sampled_from([*REPAIRS, EVERY_REPAIR]), min_size=1, max_size=3)
    if name in ("protected", "methods"):
        return st.lists(NAMES, min_size=1, max_size=1 if name == "protected" else 3)
    if name == "within":
        return st.dictionaries(NAMES, st.floats(0.001, 1e6), max_size=2)
    if name == "settings":
        plain = st.integers(-9, 10**6) | st.floats(-1e6, 1e6) | NAMES.filter(lambda text: text not in ("nan", "inf"))
        return st.dictionaries(NAMES, plain, max_size=2)
    numbers = {"confidence": (0.01, 0.99), "half_width": (0.001, 0.49), "threshold": (0.01, 0.99), "share": (0.01, 1.0)}
    kind = plain_type(info.annotation)
    if kind is bool:
        return st.booleans()
    if kind is int:
        return st.integers(1, 40)
    if kind is float:
        return st.floats(*numbers.get(name, (0.01, 1.0)))
    choices = [
        value for part in (info.annotation, *getattr(info.annotation, "__args__", ())) for value in _literals(part)
    ]
    return st.sampled_from(choices) if choices else WORDS


def _literals(annotation: Any) -> list[str]:
    found = getattr(annotation, "__args__", ())
    return [value for value in found if isinstance(value, str)]


@st.composite
def some_settings(draw: st.DrawFn, task: TaskName, kind: Domain) -> Any:
    """A task's settings, some of them at their defaults."""
    settings, chosen = SETTINGS[task][kind], {}
    for name, info in settings.model_fields.items():
        if name == "dataset":
            chosen[name] = "my data.toml"
        elif not option_of(info).hidden and (info.is_required() or draw(st.booleans())):
            chosen[name] = draw(values(name, info))
    return settings.checked(**chosen)


def parsed(words: list[str]) -> tuple[str, dict[str, Any]]:
    """What a command line says, without running the command: its data and the settings that were given."""
    group: Any = typer.main.get_command(app)
    command = group.commands[words[0]]
    context = command.make_context(words[0], list(words[1:]))
    task: Any = words[0]
    return context.params["data"], given_in(task, context.params)


@pytest.mark.parametrize(("task", "kind"), RUNS, ids=lambda value: str(value))
@given(data=st.data())
def test_the_command_that_repeats_a_run_says_all_its_settings(
    task: TaskName, kind: Domain, data: st.DataObject
) -> None:
    settings = data.draw(some_settings(task, kind))
    words = shlex.split(repeat_command(task, settings))
    assert words[:2] == ["evenhand", task]
    dataset, said = parsed(words[1:])
    assert type(settings).checked(dataset=dataset, **said) == settings


def test_what_release_0_1_left_out_of_its_commands_is_said() -> None:
    """`--min-similarity 0`, settings of a repair of texts, and no limit where the usual is a number."""
    audit = TextAuditSettings.checked(
        dataset="/data/my.csv", protected=["race"], min_similarity=0.0, local_changes=None, same_part_of_speech=True
    )
    command = repeat_command("audit", audit)
    assert command == (
        "evenhand audit /data/my.csv --protected race --same-part-of-speech --local-changes none --min-similarity 0"
    )
    repair = SETTINGS["repair"]["text"].checked(dataset="wiki", protected=["race"], training_steps=7, mentioning=9)
    assert repeat_command("repair", repair) == (
        "evenhand repair wiki --protected race --training-steps 7 --mentioning 9"
    )


def test_the_command_of_a_summary_of_release_0_1() -> None:
    summary = {
        "kind": "measure",
        "protected": ["sex"],
        "model": {"name": "net.onnx"},
        "config": {"dataset": "people.toml", "half_width": 0.01, "seed": 0, "threshold": None, "unheard_of": 3},
    }
    assert repeat_of(summary) == "evenhand measure people.toml --protected sex --model net.onnx --half-width 0.01"


@pytest.mark.parametrize(("task", "kind"), EVERY, ids=lambda value: str(value))
def test_a_command_line_that_says_nothing_asks_for_the_defaults(task: TaskName, kind: Domain) -> None:
    """No option has a default of its own: what nobody said is not passed on."""
    dataset, said = parsed([task, "somewhere.toml"])
    assert said == {}
    named = {"protected": ["a"]} if "protected" in SETTINGS[task][kind].model_fields else {}
    assert SETTINGS[task][kind].checked(dataset=dataset, **named).model_dump(exclude={"dataset", "protected"}) == {
        name: info.get_default()
        for name, info in SETTINGS[task][kind].model_fields.items()
        if name not in ("dataset", "protected")
    }


@pytest.mark.parametrize(("task", "kind"), EVERY, ids=lambda value: str(value))
def test_help_says_every_setting_and_its_default(task: TaskName, kind: Domain) -> None:
    group: Any = typer.main.get_command(app)
    options = {name: option for option in group.commands[task].params for name in option.opts}
    for name, info in SETTINGS[task][kind].model_fields.items():
        option = option_of(info)
        if name == "dataset" or option.hidden:
            continue
        shown: Any = options[flags_of(name, option)[0]]
        assert shown.help == option_of(_first(task, name)).help
        default = info.get_default()
        if option_of(_first(task, name)).usual is None and isinstance(default, int | float) and default is not False:
            assert str(default) in str(shown.show_default)


def _first(task: TaskName, name: str) -> FieldInfo:
    return next(own.model_fields[name] for own in SETTINGS[task].values() if name in own.model_fields)


@pytest.mark.parametrize(("task", "kind"), [(task, kind) for task in REQUESTS for kind in ("table", "text")])
def test_a_request_has_the_same_settings_defaults_and_limits(task: TaskName, kind: Domain) -> None:
    request: type[BaseModel] = REQUESTS[task][kind]
    settings: type[CheckedSettings] = SETTINGS[task][kind]
    over_http = {name for name, info in settings.model_fields.items() if not option_of(info).local}
    assert set(request.model_fields) == over_http | {"dataset", "model", "protected", "domain"}
    for name in over_http - {"dataset", "model", "protected"}:
        assert request.model_fields[name].get_default() == settings.model_fields[name].get_default()
        assert request.model_fields[name].description == option_of(settings.model_fields[name]).help
    with pytest.raises(ValueError, match="Extra inputs"):
        request.model_validate({"dataset": "census", "device": "cuda"})


@pytest.mark.parametrize(
    ("function", "task"),
    [
        (evenhand.audit, "audit"),
        (evenhand.compare, "compare"),
        (evenhand.measure, "measure"),
        (evenhand.repair, "repair"),
        (evenhand.assert_fair, "check"),
    ],
)
def test_python_has_no_default_of_its_own(function: Any, task: TaskName) -> None:
    """A setting of a task is either a parameter without a value of its own, or goes through **settings."""
    for name, parameter in inspect.signature(function).parameters.items():
        if name != "settings" and any(name in own.model_fields for own in SETTINGS[task].values()):
            assert parameter.default in (None, inspect.Parameter.empty)


@pytest.mark.parametrize("kind", ["table", "text"])
def test_a_gate_file_that_says_nothing_asks_for_the_defaults(kind: Domain, tmp_path: Path) -> None:
    data = {"table": "census", "text": "wiki"}[kind]
    (tmp_path / "gate.toml").write_text(f'[[check]]\nname = "it"\ndata = "{data}"\nprotected = ["race"]\n')
    (entry,) = GateFile.load(tmp_path / "gate.toml").checks
    assert entry.settings == SETTINGS["check"][kind].checked(dataset=data, protected=["race"])
    assert entry.said == {"protected": ["race"]}


def test_settings_for_the_other_kind_are_said_to_be_so() -> None:
    with pytest.raises(EvenhandError, match="The setting 'k' is for texts, and this is a table"):
        AuditSettings.checked(dataset="census", protected=["sex"], k=3)
    with pytest.raises(EvenhandError, match="The setting 'within' is for tables, and these are texts"):
        TextAuditSettings.checked(dataset="wiki", protected=["race"], within={"age": 3})
    with pytest.raises(EvenhandError, match="no setting called 'seedz'; did you mean 'seed"):
        AuditSettings.checked(dataset="census", protected=["sex"], seedz=3)
