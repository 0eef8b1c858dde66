"""Failing pairs, kept so that the next run looks at them first: one JSON file for each check."""

import hashlib
import os
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import evenhand
from evenhand.data.dataset import Dataset
from evenhand.data.schema import Schema
from evenhand.errors import EvenhandError
from evenhand.files import read_json, writable_folder, write_json
from evenhand.report.statistics import Example
from evenhand.runs.subject import model_name

CURRENT_TEST = "PYTEST_CURRENT_TEST"  # pytest says here which test runs
FOLDER = ".evenhand"
KIND = "failing pairs"
MOST_STORED = 10
LONGEST_NAME = 100
MEANING = ("name", "kind", "domain", "categories", "width", "step", "edges", "typical", "clip", "missing")

_in_tests: Counter[str] = Counter()  # checks so far, by the names that they would have


@dataclass(frozen=True)
class Stored:
    """The pairs of earlier failures: (n, d) samples, and why there are none where some were stored."""

    codes: NDArray[np.int32]
    note: str | None = None


@dataclass(frozen=True)
class Failures:
    """Where one check keeps its failing pairs."""

    path: Path
    check: str
    schema: Schema
    protected: list[str]

    @classmethod
    def of(cls, folder: str | Path, check: str, schema: Schema, protected: list[str]) -> "Failures":
        """The file of a check in a folder."""
        return cls(Path(folder) / f"{file_name(check)}.json", check, schema, protected)

    def read(self) -> Stored:
        """The stored samples; none with a note where they belong to another schema or cannot be read."""
        nothing = np.zeros((0, len(self.schema.names)), dtype=np.int32)
        if not self.path.is_file():
            return Stored(nothing)
        try:
            content = read_json(self.path)
            if content.get("kind") != KIND:
                raise EvenhandError(f"{self.path} does not hold {KIND}.")
            if content["schema"]["fingerprint"] != fingerprint(self.schema):
                return Stored(nothing, f"The pairs in {self.path} belong to another schema: they were not looked at.")
            if content["protected"] != self.protected:
                return Stored(nothing, f"The pairs in {self.path} change other attributes: they were not looked at.")
            samples = [[pair["sample"][name]["code"] for name in self.schema.names] for pair in content["pairs"]]
            codes = np.array(samples, dtype=np.int32).reshape(len(samples), len(self.schema.names))
        except (EvenhandError, KeyError, TypeError, ValueError, OverflowError) as error:
            return Stored(
                nothing, f"The pairs in {self.path} cannot be read ({type(error).__name__}): delete the file."
            )
        return Stored(codes)

    def write(self, pairs: list[Example]) -> None:
        """Keep these pairs and no others; without any the file goes away."""
        if not pairs:
            self.path.unlink(missing_ok=True)
            return
        writable_folder(self.path.parent)
        content = {
            "evenhand": evenhand.__version__,
            "kind": KIND,
            "check": self.check,
            "schema": {"name": self.schema.name, "fingerprint": fingerprint(self.schema)},
            "protected": self.protected,
            "pairs": [self._as_dict(pair) for pair in pairs[:MOST_STORED]],
        }
        write_json(self.path, content)

    def _as_dict(self, pair: Example) -> dict[str, Any]:
        label = self.schema.label
        return {
            "row": pair.seed_row + 1 if pair.seed_row >= 0 else None,
            "sample": self._values(pair.sample),
            "witness": {name: value for name, value in self._values(pair.witness).items() if name in self.protected},
            "label": label.values[pair.label],
            "witness_label": label.values[pair.witness_label],
        }

    def _values(self, codes: tuple[int, ...]) -> dict[str, dict[str, Any]]:
        attributes = zip(self.schema.attributes, codes, strict=True)
        return {attribute.name: {"code": code, "words": attribute.text(code)} for attribute, code in attributes}


def fingerprint(schema: Schema) -> str:
    """Names what codes mean: equal for schemas whose attributes have the same codes, whatever words they have."""
    meanings = [attribute.model_dump_json(include=set(MEANING)) for attribute in schema.attributes]
    return hashlib.sha256("\n".join([*meanings, *schema.label.values]).encode()).hexdigest()[:16]


def file_name(check: str) -> str:
    """A check's name, or a test's id, as a file's: readable, and not the same for two checks."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", check).strip("-.")[:LONGEST_NAME]
    if plain == check:
        return plain
    return f"{plain or 'check'}-{hashlib.sha256(check.encode()).hexdigest()[:8]}"


def default_name(data: Dataset, protected: list[str], model: Any) -> str:
    """The data, what is changed and the model; within pytest the test that runs, and which such check of it this is.

    Checks of one name share their stored pairs, and one that holds lets go those of the other.
    """
    test = os.environ.get(CURRENT_TEST, "").rpartition(" ")[0]
    name = " ".join(filter(None, [test, "-".join([data.name, *protected, *_name_of(model, counted=bool(test))])]))
    if not test:
        return name
    _in_tests.update([name])
    return name if _in_tests[name] == 1 else f"{name} {_in_tests[name]}"


def _name_of(model: Any, *, counted: bool) -> list[str]:
    """A model's name, the same on another machine: a path from here; a lambda, which has none, by its line."""
    name = model_name(model)
    if name is None:
        return []
    if isinstance(model, str | Path):
        here = Path.cwd()
        return [Path(name).relative_to(here).as_posix() if Path(name).is_relative_to(here) else name]
    line = getattr(getattr(model, "__code__", None), "co_firstlineno", None)
    return [f"{name}-{line}" if line and name.endswith("<lambda>") and not counted else name]
