"""Failing pairs, kept so that the next run looks at them first: one JSON file for each check."""

import hashlib
import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import evenhand
from evenhand.errors import EvenhandError
from evenhand.files import read_json, writable_folder, write_json
from evenhand.gate.subject import CheckSubject, Pair
from evenhand.runs.subject import model_name

CURRENT_TEST = "PYTEST_CURRENT_TEST"  # pytest says here which test runs
FOLDER = ".evenhand"
KIND = "failing pairs"
MOST_STORED = 10
LONGEST_NAME = 100

_in_tests: Counter[str] = Counter()  # checks so far, by the names that they would have


@dataclass(frozen=True)
class Stored:
    """The samples of earlier failures, and why there are none where some were stored."""

    samples: Sequence[Any]
    note: str | None = None


@dataclass(frozen=True)
class Failures:
    """Where one check keeps its failing pairs."""

    path: Path
    check: str
    subject: CheckSubject

    @classmethod
    def of(cls, folder: str | Path, check: str, subject: CheckSubject) -> "Failures":
        """The file of a check in a folder."""
        return cls(Path(folder) / f"{file_name(check)}.json", check, subject)

    def read(self) -> Stored:
        """The stored samples; none with a note where they mean something else or cannot be read."""
        nothing = self.subject.read_stored([])
        if not self.path.is_file():
            return Stored(nothing)
        what, meaning = self.subject.meaning
        try:
            content = read_json(self.path)
            if content.get("kind") != KIND:
                raise EvenhandError(f"{self.path} does not hold {KIND}.")
            if content[what]["fingerprint"] != meaning["fingerprint"]:
                return Stored(nothing, f"The pairs in {self.path} belong to another {what}: they were not looked at.")
            if content["protected"] != self.subject.tested:
                return Stored(nothing, f"The pairs in {self.path} change other attributes: they were not looked at.")
            return Stored(self.subject.read_stored(content["pairs"]))
        except (EvenhandError, KeyError, TypeError, ValueError, OverflowError) as error:
            return Stored(
                nothing, f"The pairs in {self.path} cannot be read ({type(error).__name__}): delete the file."
            )

    def write(self, pairs: list[Pair]) -> None:
        """Keep these pairs and no others; without any the file goes away."""
        if not pairs:
            self.path.unlink(missing_ok=True)
            return
        writable_folder(self.path.parent)
        what, meaning = self.subject.meaning
        content = {
            "evenhand": evenhand.__version__,
            "kind": KIND,
            "check": self.check,
            what: meaning,
            "protected": self.subject.tested,
            "pairs": [self.subject.stored(pair) for pair in pairs[:MOST_STORED]],
        }
        write_json(self.path, content)


def file_name(check: str) -> str:
    """A check's name, or a test's id, as a file's: readable, and not the same for two checks."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", check).strip("-.")[:LONGEST_NAME]
    if plain == check:
        return plain
    return f"{plain or 'check'}-{hashlib.sha256(check.encode()).hexdigest()[:8]}"


def default_name(data: Any, protected: list[str], model: Any) -> str:
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
