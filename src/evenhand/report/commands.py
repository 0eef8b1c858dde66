"""Whether the command that repeats a run can, and how it reads elsewhere."""

import shlex
from pathlib import Path
from typing import Any

from evenhand.data.dataset import builtin_names
from evenhand.models.loading import OPENERS
from evenhand.text.corpus import BUILTIN
from evenhand.text.corpus_file import SUFFIXES

FROM_PYTHON = (
    "The model or the data were passed from Python and have to be passed from Python again: the command has only their "
    "names."
)


def from_python(summary: dict[str, Any]) -> str:
    """A sentence where the model or the data have a name that no command line can load; else nothing."""
    if summary.get("domain") == "text":  # a classifier of texts has a name or a file
        data = str(summary["config"]["dataset"])
        return "" if data in BUILTIN or Path(data).suffix.lower() in SUFFIXES else FROM_PYTHON
    model, data = _model(summary), summary["config"]["dataset"]
    loadable_model = model is None or ":" in model or Path(model).suffix in (".safetensors", ".json", *OPENERS)
    loadable_data = data in builtin_names() or Path(data).suffix == ".toml"
    return "" if loadable_model and loadable_data else FROM_PYTHON


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
