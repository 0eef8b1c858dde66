"""What a table's columns mean: attributes, their domains and words, which are protected, which is the label.

A schema is a TOML file, the same for the built-in data sets and for a user's own.
"""

import re
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from evenhand.data.attribute import Attribute, Text, as_text, repeated
from evenhand.data.impossible import Impossible
from evenhand.data.notation import Notation
from evenhand.data.schema_mistakes import mistake_in
from evenhand.data.split import Split
from evenhand.data.toml_files import read_toml
from evenhand.data.toml_places import Location, keys_at, place_of
from evenhand.errors import EvenhandError, unknown_name


class Label(BaseModel):
    """The column that the classifier predicts, and its classes in the order of their numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    column: str
    values: Annotated[list[str], Field(min_length=2), BeforeValidator(as_text)]
    words: list[str] = []
    favourable: Text | None = None

    @model_validator(mode="after")
    def _consistent(self) -> "Label":
        if twice := repeated(self.values):
            raise ValueError(f"label.values must be unique; found twice: {', '.join(twice)}")
        if self.words and len(self.words) != len(self.values):
            raise ValueError(
                f"label.words needs one entry for each of label.values: {len(self.values)}, not {len(self.words)}"
            )
        if self.favourable is not None and self.favourable not in self.values:
            raise ValueError(f"label.favourable is '{self.favourable}', which is not in label.values")
        return self

    @property
    def favourable_code(self) -> int:
        """The favourable class, or the last one where the schema names none."""
        return len(self.values) - 1 if self.favourable is None else self.values.index(self.favourable)

    def text(self, code: int) -> str:
        """The class in words."""
        return (self.words or self.values)[code]


class Card(BaseModel):
    """Where the data comes from and what to know before using it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str = ""
    licence: str = ""
    citation: str = ""
    population: str = ""
    notes: list[str] = []


class Schema(BaseModel):
    """The columns of a table, in the order in which a model reads them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    title: str = ""
    file: str
    separator: str = ","
    decimal: str = "."  # of the numbers in a CSV file
    thousands: str = ""
    weight: str | None = None  # a column of sampling weights: how many people a row stands for
    label: Label
    split: Split = Split()
    card: Card = Card()
    attributes: Annotated[list[Attribute], Field(min_length=2, alias="attribute")]
    impossible: list[dict[str, Any]] = []  # values that cannot go together, by attribute; see `rules`
    accuracy_in_paper: float | None = None

    @model_validator(mode="before")
    @classmethod
    def _default_title(cls, values: Any) -> Any:
        if isinstance(values, dict) and "name" in values and not values.get("title"):
            return values | {"title": values["name"]}
        return values

    @field_validator("name")
    @classmethod
    def _usable_name(cls, name: str) -> str:
        if not name.strip() or name.startswith(".") or any(sign in name for sign in "/\\\0\n"):
            raise ValueError(f"it names folders of results, so it must be a plain word and not '{name}'")
        return name

    @field_validator("separator")
    @classmethod
    def _one_character(cls, separator: str) -> str:
        if len(separator) != 1 or not separator.isascii():
            raise ValueError(f"it must be one ASCII character such as , or ; and not '{separator}'")
        return separator

    @field_validator("decimal", "thousands")
    @classmethod
    def _sign(cls, sign: str, info: ValidationInfo) -> str:
        known = (".", ",") if info.field_name == "decimal" else ("", ",", ".", "'", " ", "_")
        if sign not in known:
            raise ValueError(f"it must be one of {' '.join(repr(one) for one in known)} and not '{sign}'")
        return sign

    @model_validator(mode="after")
    def _consistent(self) -> "Schema":
        if self.decimal == self.thousands:
            raise MisplacedError(("thousands",), f"thousands is '{self.thousands}', which is the decimal sign already")
        if twice := repeated(self.names):
            second = max(index for index, name in enumerate(self.names) if name == twice[0])
            raise MisplacedError(
                ("attribute", second, "name"), f"attribute names must be unique; found twice: {', '.join(twice)}"
            )
        for index, attribute in enumerate(self.attributes):
            self._check_reading(index, attribute)
        for index, rule in enumerate(self.impossible):
            try:
                Impossible.of(rule, self.attributes)
            except ValueError as error:
                raise MisplacedError(("impossible", index), str(error)) from error
        return self

    def _check_reading(self, index: int, attribute: Attribute) -> None:
        """No attribute reads the answer, or how many people a row stands for."""
        if self.label.column in attribute.raw_columns:
            raise MisplacedError(
                ("attribute", index, "column"),
                f"the attribute '{attribute.name}' reads the label's column '{self.label.column}', "
                "so a model would be given the answer; use another column or leave the attribute out",
            )
        if self.weight in attribute.raw_columns:
            raise MisplacedError(
                ("attribute", index, "column"),
                f"the attribute '{attribute.name}' reads the column of weights '{self.weight}'; "
                "leave the attribute out, or the weights",
            )

    @property
    def notation(self) -> Notation:
        """How a CSV file writes numbers."""
        return Notation(self.decimal, self.thousands)

    @property
    def rules(self) -> list[Impossible]:
        """The combinations of values that no person has."""
        return [Impossible.of(rule, self.attributes) for rule in self.impossible]

    @classmethod
    def load(cls, path: Path) -> "Schema":
        """Read and validate a schema file."""
        content, text = read_toml(path, "schema")
        return cls.parse(content, where=str(path), text=text)

    @classmethod
    def parse(cls, content: dict[str, Any], where: str, text: str | None = None) -> "Schema":
        """Validate the content of a schema file; `where` names it in errors, `text` lets them say line and column."""
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            location, reason = mistake_in(error, cls)
            place = _place(content, location)
            if text is not None and (found := place_of(text, _precise(text, location, reason))):
                place = f"{found} ({place})"
            stop = "" if reason.endswith("?") else "."
            raise EvenhandError(f"The schema {where} is wrong at {place}: {reason}{stop}") from error

    @property
    def names(self) -> list[str]:
        """The attributes' names, in the order in which a model reads them."""
        return [attribute.name for attribute in self.attributes]

    @property
    def protected(self) -> list[str]:
        """The attributes that the schema marks as protected."""
        return [attribute.name for attribute in self.attributes if attribute.protected]

    @property
    def lower(self) -> NDArray[np.int64]:
        """(d,) the smallest code of each attribute's domain."""
        return np.array([attribute.domain[0] for attribute in self.attributes], dtype=np.int64)

    @property
    def upper(self) -> NDArray[np.int64]:
        """(d,) the largest code of each attribute's domain."""
        return np.array([attribute.domain[1] for attribute in self.attributes], dtype=np.int64)

    def index(self, name: str) -> int:
        """The position of an attribute; an unknown name is an error that says the nearest one."""
        if name not in self.names:
            for attribute in self.attributes:
                if name in attribute.raw_columns:
                    raise EvenhandError(
                        f"The column '{name}' is part of the attribute '{attribute.name}' of {self.name}. Name that."
                    )
            raise unknown_name(f"attribute of {self.name} called", name, self.names)
        return self.names.index(name)

    def compared_within(self, distances: dict[str, float], protected: list[str]) -> "Schema":
        """The schema with `within` for these protected numbers; an error where one is no such attribute."""
        attributes = list(self.attributes)
        for name, distance in distances.items():
            attribute = attributes[self.index(name)]
            if name not in protected or attribute.kind != "number" or not 0 < distance < float("inf"):
                raise EvenhandError(
                    f"within is {distance:g} for '{name}': it needs a protected attribute that is a number, and a "
                    f"distance above 0. Protected: {', '.join(protected)}."
                )
            attributes[self.index(name)] = attribute.model_copy(update={"within": float(distance)})
        return self.model_copy(update={"attributes": attributes})

    def protected_indices(self, names: list[str]) -> list[int]:
        """Positions of the attributes to protect, checked: known, not repeated, more than one value each."""
        if not names:
            raise EvenhandError(
                f"No protected attribute was named. Choose from {', '.join(self.protected) or ', '.join(self.names)}."
            )
        indices = [self.index(name) for name in names]
        if len(set(indices)) < len(indices):
            raise EvenhandError(f"A protected attribute is named twice: {', '.join(names)}.")
        for index in indices:
            attribute = self.attributes[index]
            if attribute.size < 2:
                raise EvenhandError(
                    f"'{attribute.name}' has a single value in its domain, so changing it cannot change a label. "
                    "Protect another attribute, or widen its domain in the schema."
                )
        if len(indices) == len(self.attributes):
            raise EvenhandError("Every attribute is protected, so there is none left to search over.")
        return sorted(indices)


class MisplacedError(ValueError):
    """A mistake that shows when several parts of a schema are seen together, with the place to mend."""

    def __init__(self, location: Location, reason: str) -> None:
        super().__init__(reason)
        self.location = location


def _precise(text: str, location: Location, reason: str) -> Location:
    """The field of a table that a mistake is about, where the reason names it; that of a rule stands in quotes."""
    if location != ("label",) and len(location) != 2:
        return location
    keys = keys_at(text, location)
    words = re.findall(r"'([^']+)'" if location[0] == "impossible" else r"\w+", reason)
    named = [word for word in words if word in keys]
    return (*location, named[0]) if named else location


def _place(content: dict[str, Any], location: tuple[int | str, ...]) -> str:
    """A location in a schema in words: attribute 3 ('age'), domain."""
    parts: list[str] = []
    for position, part in enumerate(location):
        if isinstance(part, int) and position and location[position - 1] == "attribute":
            entry = content["attribute"][part]
            name = entry.get("name") if isinstance(entry, dict) else None
            parts[-1] = f"attribute {part + 1}" + (f" ('{name}')" if name else "")
        else:
            parts.append(str(part))
    return ", ".join(parts) or "the top level"
