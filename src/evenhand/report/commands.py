"""The command that repeats a run, for readers of its report or card, and whether a command can."""

import shlex
from pathlib import Path
from typing import Any

from evenhand.data.dataset import builtin_names
from evenhand.methods.names import AUTO, DEFAULT, TEXT_DEFAULT
from evenhand.models.loading import OPENERS
from evenhand.text.corpus import BUILTIN
from evenhand.text.corpus_file import SUFFIXES

FROM_PYTHON = (
    "The model or the data were passed from Python and have to be passed from Python again: the command has only their "
    "names."
)
# Options that a command line leaves out where they have these values, and those that it always has.
TABLE_DEFAULTS = {
    "method": DEFAULT, "model": None, "output": "auto", "inputs": None, "threshold": None, "iterations": 10,
    "device": "auto", "max_seconds": None, "max_findings": None, "max_rows": None, "chunk_rows": None,
}  # fmt: skip
TEXT_DEFAULTS = {
    "method": TEXT_DEFAULT, "iterations": 10, "device": "auto", "lexicon": "evenhand", "vectors": "glove", "k": 10,
    "moves": "tokens", "swap": "one", "ambiguous": "keep", "local_changes": 2, "encoder": "auto",
}  # fmt: skip
ALWAYS = ("seeds", "steps", "seed")
MEASURE_OPTIONS = (
    "model", "inputs", "output", "threshold", "network", "half_width", "confidence", "changes", "texts", "lexicon",
    "seed", "findings",
)  # fmt: skip


def audit_command(summary: dict[str, Any]) -> str:
    """The command that repeats an audit: its data, budget and seed, and whatever is not the default."""
    if "command" in summary:
        return str(summary["command"])
    config, texts = summary["config"], summary.get("domain") == "text"
    words = ["evenhand", "audit", config["dataset"], "--protected", ",".join(config["protected"])]
    for name in ALWAYS:
        words += [f"--{name}", str(config[name])]
    words += _text_options(config) if texts else _table_options(config)
    for name, value in config.get("settings", {}).items():
        words += ["--set", f"{name}={value}"]
    return shlex.join(words)


def _table_options(config: dict[str, Any]) -> list[str]:
    words = []
    for name, default in TABLE_DEFAULTS.items():
        value = config.get(name, default)
        if value not in (default, AUTO):
            words += [f"--{name.replace('_', '-')}", str(value)]
    for name, distance in config.get("within", {}).items():
        words += ["--within", f"{name}={distance:g}"]
    return words + (["--accept-poor-model"] if config.get("accept_poor_model") else [])


def _text_options(config: dict[str, Any]) -> list[str]:
    words = []
    for name, value in config.items():
        if (
            name in ("dataset", "protected", "settings", *ALWAYS)
            or value in (None, False)
            or value == TEXT_DEFAULTS.get(name)
        ):
            continue
        words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    return words


def from_python(summary: dict[str, Any]) -> str:
    """A sentence where the model or the data have a name that no command line can load; else nothing."""
    if summary.get("domain") == "text":  # a classifier of texts has a name or a file
        data = str(summary["config"]["dataset"])
        return "" if data in BUILTIN or Path(data).suffix.lower() in SUFFIXES else FROM_PYTHON
    model, data = _model(summary), summary["config"]["dataset"]
    loadable_model = model is None or ":" in model or Path(model).suffix in (".safetensors", ".json", *OPENERS)
    loadable_data = data in builtin_names() or Path(data).suffix == ".toml"
    return "" if loadable_model and loadable_data else FROM_PYTHON


def measure_command(summary: dict[str, Any]) -> str:
    """The command that measures again."""
    config = summary["config"] | {"model": _model(summary)}
    words = ["evenhand", "measure", config["dataset"], "--protected", ",".join(summary["protected"])]
    for name in MEASURE_OPTIONS:
        if config.get(name) not in (None, "auto"):
            words += [f"--{name.replace('_', '-')}", str(config[name])]
    for name, distance in config.get("within", {}).items():
        words += ["--within", f"{name}={distance:g}"]
    words += ["--accept-poor-model"] if config.get("accept_poor_model") else []
    return shlex.join(words)


def shareable(command: str) -> str:
    """A command for readers elsewhere: of files only their names, since folders of this machine say nothing to them."""
    return shlex.join(map(without_folder, shlex.split(command)))


def without_folder(word: str) -> str:
    """The name of a file that is named with all its folders; anything else as it is."""
    return Path(word).name if Path(word).is_absolute() else word


def _model(summary: dict[str, Any]) -> str | None:
    """The model as it was given; a measurement need not say it otherwise than by its name."""
    given: str | None = summary["config"].get("model")
    name = str(summary["model"]["name"])
    if given is not None or summary["kind"] != "measure" or name.startswith("built-in"):
        return given
    return name
