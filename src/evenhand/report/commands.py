"""The command that repeats a run, for readers of its report or card, and whether a command can."""

import shlex
from pathlib import Path
from typing import Any

from evenhand.data.dataset import builtin_names
from evenhand.models.loading import OPENERS

FROM_PYTHON = (
    "The model or the data were passed from Python and have to be passed from Python again: the command has only their "
    "names."
)
MEASURE_OPTIONS = (
    "model", "inputs", "output", "threshold", "network", "half_width", "confidence", "changes", "texts", "lexicon",
    "seed", "findings",
)  # fmt: skip


def from_python(summary: dict[str, Any]) -> str:
    """A sentence where the model or the data have a name that no command line can load; else nothing."""
    if summary.get("domain") == "text":
        return ""  # corpora and classifiers of texts have names or files
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
    return shlex.join(Path(word).name if Path(word).is_absolute() else word for word in shlex.split(command))


def _model(summary: dict[str, Any]) -> str | None:
    """The model as it was given; a measurement need not say it otherwise than by its name."""
    given: str | None = summary["config"].get("model")
    name = str(summary["model"]["name"])
    if given is not None or summary["kind"] != "measure" or name.startswith("built-in"):
        return given
    return name
