"""What a model of the bench is made from, and what comes of it: the bare model, and what evenhand is given."""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bench.truth.brute import ANY_OTHER, Predict, text_of


@dataclass(frozen=True)
class World:
    """A table as pandas reads it, and the schema that evenhand reads."""

    frame: pd.DataFrame
    label: str
    reads: list[str]  # the columns that a model is fitted on
    schema: Path
    folder: Path

    @property
    def x(self) -> pd.DataFrame:
        """What a model is fitted on."""
        return self.frame[self.reads]

    @property
    def y(self) -> NDArray[Any]:
        """(rows,) the labels, with their own type."""
        return np.asarray(self.frame[self.label].tolist())

    @cached_property
    def numbers(self) -> list[str]:
        """The columns that hold numbers or booleans."""
        return [name for name in self.reads if self.frame[name].dtype.kind in "iufb"]

    @cached_property
    def texts(self) -> list[str]:
        """The columns that hold text."""
        return [name for name in self.reads if name not in self.numbers]

    @cached_property
    def content(self) -> dict[str, Any]:
        """The schema file."""
        return tomllib.loads(self.schema.read_text(encoding="utf-8"))

    @cached_property
    def classes(self) -> list[str]:
        """The labels in the schema's order."""
        return [text_of(value) for value in self.content["label"]["values"]]

    @cached_property
    def class_codes(self) -> NDArray[np.int64]:
        """(rows,) the labels, counted in the schema's order."""
        return np.array([self.classes.index(text_of(value)) for value in self.y])

    def labels(self, codes: Any) -> NDArray[Any]:
        """(n,) the labels that these numbers count."""
        return np.take(np.array(self.classes), np.asarray(codes).astype(int))

    def matrix(self, frame: pd.DataFrame, way: str) -> NDArray[np.float32]:
        """A column for each attribute of the schema: codes, values, or one column for each category (onehot)."""
        entries = [entry for entry in self.content["attribute"] if entry["kind"] != "pass"]
        columns = [_columns(entry, frame[entry.get("column", entry["name"])], way) for entry in entries]
        return np.column_stack(columns).astype(np.float32)


@dataclass(frozen=True)
class Subject:
    """A model, bare and as evenhand is given it."""

    predict: Predict
    given: Any
    settings: dict[str, Any] = field(default_factory=dict)
    close: Callable[[], None] = lambda: None


def _columns(entry: dict[str, Any], raw: pd.Series, way: str) -> NDArray[np.float64]:
    if not entry.get("categories"):
        numbers = raw.to_numpy(dtype=np.float64)
        return np.floor(numbers / entry["step"] + 0.5) if way == "codes" else numbers
    codes = _category_codes(entry, raw)
    if way != "onehot":
        return codes.astype(np.float64)
    return np.asarray(np.eye(len(entry["categories"]) + ("missing" in entry))[codes])


def _category_codes(entry: dict[str, Any], raw: pd.Series) -> NDArray[np.int64]:
    code_of = {
        text_of(text): code
        for code, group in enumerate(entry["categories"])
        for text in (group if isinstance(group, list) else [group])
    }
    if "missing" in entry:
        code_of[""] = entry["missing"].get("code", len(entry["categories"]))
    other = code_of.get(ANY_OTHER)
    return np.array([code_of[text] if other is None else code_of.get(text, other) for text in raw.map(text_of)])
