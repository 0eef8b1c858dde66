"""What a run on a table is about: the data in whatever form they come, and the model, tried and named."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from evenhand.data.dataset import Dataset, load_dataset
from evenhand.errors import EvenhandError
from evenhand.models.adapters.base import Adapter
from evenhand.models.classifier import Classifier, OutputForm
from evenhand.models.loading import load_module
from evenhand.models.trial import TRIAL_ROWS, classifier_for


def names_of(protected: str | list[str] | None) -> list[str]:
    """Attributes' names, given as a list or separated by commas."""
    names = protected.split(",") if isinstance(protected, str) else protected or []
    return [name.strip() for name in names]


def as_dataset(data: Any, label: str | None, protected: list[str]) -> tuple[Dataset, str]:
    """The data of a run and how a summary names them: a built-in name, a schema file, a `Dataset`, or a data frame.

    A schema for a data frame is inferred, and `label` says which column the model predicts.
    """
    if isinstance(data, Dataset):
        return data, data.name
    if isinstance(data, str | Path):
        name = str(data)
        return load_dataset(name), str(Path(name).resolve()) if name.endswith(".toml") else name
    if label is None:
        raise EvenhandError(
            f"The data are a {type(data).__name__}: say which column the model predicts (label=…), or write a schema "
            "with `evenhand schema infer` and name that."
        )
    from evenhand.data.infer import dataset_from

    dataset = dataset_from(data, label=label, protected=protected or None)
    return dataset, dataset.name


def model_name(model: Any) -> str | None:
    """How a configuration names a model: its text, or the class of an object, which no command line can load."""
    if model is None:
        return None
    if isinstance(model, str | Path):
        return without_secrets(str(model))
    kind = model if callable(model) and hasattr(model, "__qualname__") else type(model)
    return f"{kind.__module__}.{kind.__qualname__}"


def without_secrets(model: str) -> str:
    """An address without its query, which may hold a key that no file should keep."""
    return model.partition("?")[0] if model.startswith(("http://", "https://")) else model


def classifier_of(
    data: Dataset,
    model: Any,
    device: torch.device,
    output: OutputForm = "auto",
    chunk_rows: int | None = None,
    inputs: str | None = None,
) -> tuple[Classifier, str]:
    """The model to ask, tried on rows of the data, and its name."""
    module, name = load_module(data, model, inputs)
    sample = torch.tensor(data.clipped[:TRIAL_ROWS], dtype=torch.float32)
    classes = len(data.schema.label.values)
    return classifier_for(module, sample, classes=classes, device=device, output=output, chunk_rows=chunk_rows), name


def agreement(classifier: Classifier, data: Dataset, seed: int) -> dict[str, Any]:
    """How often the model gives the label that the data have: a hint whether classes and inputs are in the right order.

    All rows, but for a model whose rows have a price: then a random part of them.
    """
    priced = classifier.module.people_rows if isinstance(classifier.module, Adapter) else None
    rows = np.random.default_rng(seed).permutation(len(data.codes))[: None if priced is None else max(1, priced // 10)]
    labels = classifier.outputs(torch.tensor(data.codes[rows], dtype=torch.float32)).labels.cpu().numpy()
    counts = np.bincount(data.labels[rows], minlength=len(data.schema.label.values))
    return {
        "rows": len(rows),
        "share": float((labels == data.labels[rows]).mean()),
        "commonest_label": data.schema.label.values[int(counts.argmax())],
        "commonest_share": float(counts.max() / len(rows)),
    }


def model_facts(classifier: Classifier, name: str, why_no_gradients: str = "") -> dict[str, Any]:
    """What a summary says about a model: its name, what it offers, and what asking it took."""
    facts = classifier.module.facts() if isinstance(classifier.module, Adapter) else {}
    offers = ["scores"] if why_no_gradients else ["scores", "gradients"]
    reason = {"no_gradients": why_no_gradients} if why_no_gradients else {}
    return {
        "name": name,
        "output": classifier.output,
        "offers": offers,
        **reason,
        **({"asked": facts} if facts else {}),
    }
