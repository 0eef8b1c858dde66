"""Hugging Face sequence classifiers from a folder.

Nothing is looked up on a hub, no code that comes with a model is run, and no weights are unpickled.
"""

import importlib
import json
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from evenhand.errors import EvenhandError
from evenhand.models.classifier import first_line


def load_transformer(folder: str | Path) -> tuple[Any, Any]:
    """The sequence classifier in a folder, in float32, and its tokenizer."""
    path = Path(folder)
    _check_folder(path)
    transformers = _import_transformers()
    with _quiet(transformers):
        try:
            model, report = transformers.AutoModelForSequenceClassification.from_pretrained(
                str(path.resolve()),
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
                dtype=torch.float32,
                attn_implementation="eager",  # the same sums on every device; others may be fetched from a hub
                output_loading_info=True,
            )
        except Exception as error:  # whatever is wrong with the files
            raise EvenhandError(f"{path} cannot be read as a sequence classifier: {first_line(error)}.") from error
        if report["missing_keys"]:
            missing = ", ".join(sorted(report["missing_keys"])[:3])
            raise EvenhandError(
                f"{path} is no trained sequence classifier: its weights lack {missing}. "
                "Train it as AutoModelForSequenceClassification first."
            )
        return model.eval().requires_grad_(False), _load_tokenizer(transformers, path)


def _import_transformers() -> Any:
    """The package, on first use: it takes a second, and is not needed for anything else."""
    try:
        return importlib.import_module("transformers")
    except ImportError as error:
        raise EvenhandError(
            'Models from Hugging Face need the package transformers. Install it: pip install "evenhand[text]"'
        ) from error


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """No progress bars and no warnings on the user's terminal; what matters is checked and raised."""
    logging = transformers.utils.logging
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def _check_folder(path: Path) -> None:
    """Refuse, before anything is loaded, what is no complete model or would need code or files from elsewhere."""
    if not path.is_dir():
        raise EvenhandError(f"There is no folder {path}. Name one that holds a model: config.json and *.safetensors.")
    if (path / "adapter_config.json").is_file():
        raise EvenhandError(f"{path} holds an adapter. Merge it into its model and save that with save_pretrained.")
    if not (path / "config.json").is_file():
        raise EvenhandError(f"There is no config.json in {path}. Save the model there with save_pretrained.")
    for name in ("config.json", "tokenizer_config.json"):
        if _read_json(path / name).get("auto_map"):
            raise EvenhandError(
                f"{path / name} names code of its own (auto_map), which is not run. "
                "Only models that transformers itself knows can be used."
            )
    if not any((path / name).is_file() for name in ("model.safetensors", "model.safetensors.index.json")):
        others = ", ".join(sorted(file.name for file in path.glob("*.bin")))
        found = f" but {others}, which could run code when read" if others else ""
        raise EvenhandError(
            f"There is no model.safetensors in {path}{found}. "
            "Save the model with save_pretrained(folder, safe_serialization=True)."
        )
    if not (path / "tokenizer.json").is_file():
        raise EvenhandError(
            f"There is no tokenizer.json in {path}, the file of a fast tokenizer. "
            "Save one there: AutoTokenizer.from_pretrained(...).save_pretrained(folder)."
        )


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # no JSON, or no UTF-8
        raise EvenhandError(f"{path} is not valid JSON: {error}. Save the model again.") from error
    if not isinstance(content, dict):
        raise EvenhandError(f"{path} must hold a JSON object. Save the model again.")
    return content


def _load_tokenizer(transformers: Any, path: Path) -> Any:
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            str(path.resolve()), local_files_only=True, trust_remote_code=False, use_fast=True
        )
    except Exception as error:
        raise EvenhandError(f"The tokenizer in {path} cannot be read: {first_line(error)}.") from error
    if not tokenizer.is_fast:
        raise EvenhandError(
            f"{type(tokenizer).__name__} in {path} is not a fast tokenizer, so it cannot say which piece belongs to "
            "which word. Save the model with a fast one."
        )
    if tokenizer.pad_token_id is None:
        raise EvenhandError(
            f"The tokenizer in {path} has no padding token. Set tokenizer.pad_token and the model's "
            "config.pad_token_id, and save both again."
        )
    return tokenizer


def match_labels(config: Any, classes: Sequence[str]) -> tuple[list[str], list[int]]:
    """The model's name and the number of its logit for each class: by name where one fits, the others in order.

    A model with a single logit is taken to speak of the second class, or of the one that bears its label's name.
    """
    labels = [str(config.id2label[number]) for number in range(config.num_labels)]
    kind = getattr(config, "problem_type", None)
    if kind == "regression" or (kind == "multi_label_classification" and len(labels) > 1):
        raise EvenhandError(f"The model is for {kind.replace('_', '-')}; one that chooses one of its labels is needed.")
    if len(labels) == 1 and len(classes) == 2:
        labels = [f"not {labels[0]}", labels[0]]
    if len(labels) != len(classes):
        raise EvenhandError(
            f"The model has {len(labels)} labels ({', '.join(labels[:6])}), but the texts have {len(classes)} classes: "
            f"{', '.join(classes)}. Choose another model, or a label column with the model's labels."
        )
    number = {_plain(label): place for place, label in enumerate(labels)}
    found = [number.get(_plain(name)) for name in classes]
    rest = iter([place for place in range(len(labels)) if place not in found])
    order = [next(rest, place) if of_name is None else of_name for place, of_name in enumerate(found)]
    order = order if len(set(order)) == len(order) else list(range(len(order)))  # names that say nothing
    return [labels[place] for place in order], order


def _plain(label: str) -> str:
    """A label's name without what people write one way or the other."""
    return "".join(filter(str.isalnum, label.casefold()))
