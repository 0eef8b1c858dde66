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
    Strict,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from evenhand.data.attribute import Attribute, Text, as_list, as_text, repeated
from evenhand.data.impossible import Impossible
from evenhand.data.notation import Notation
from evenhand.errors import EvenhandError, unknown_name
from evenhand.mistakes import ended, first_mistake, keys_at, meant, place_in_words
from evenhand.toml_files import Location, keys_in_file, place_of, read_toml

EXPECTED = {
    "missing": "this key is needed",
    "bool_type": "it must be true or false, without quotes",
    "int_type": "it must be a whole number, without quotes",
    "float_type": "it must be a number, without quotes",
    "string_type": "it must be text in quotes",
    "list_type": "it must be a list in [ ]",
    "tuple_type": "it must be a list in [ ]",
}
PAIRS = ("domain", "clip")  # lists of two codes
LENGTHS = ("missing", "too_short", "too_long")  # what is said of a list that has not as many entries as it must
FEWEST_OF = {"values": "labels", "attribute": "attributes: one to protect and one to search over"}
DEFAULT_SHARE = 0.2  # of the rows, held out


class Split(BaseModel):
    """Which rows train: those that a column names, the first `train_rows`, or a random share."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    column: Annotated[str, Strict()] | None = None
    train: Annotated[str | list[str], BeforeValidator(as_text)] = []  # one value of the column, or several
    train_rows: Annotated[int, Strict(), Field(ge=1)] | None = None
    held_out: Annotated[float, Strict(), Field(gt=0, lt=1)] = DEFAULT_SHARE
    seed: Annotated[int, Strict(), Field(ge=0)] = 0

    @model_validator(mode="after")
    def _consistent(self) -> "Split":
        if (self.column is None) != (not self.train):
            raise ValueError(
                'a split by a column needs both: column = "split" and train = "train", the value of rows that train'
            )
        if self.column is not None and (also := self.model_fields_set & {"train_rows", "held_out", "seed"}):
            raise ValueError(f"column says which rows train, so leave out {' and '.join(sorted(also))}")
        return self

    @property
    def words(self) -> str:
        """Whose split it is."""
        if self.column is not None:
            values = " or ".join(as_list(self.train))
            rows = f"rows with {self.column} = {values}"
            return f"the table's own split: {rows} are for training, the others are held out"
        if self.train_rows is not None:
            return f"the first {self.train_rows:,} rows train and the others are held out, as the schema says"
        share = "fifth" if self.held_out == DEFAULT_SHARE else f"{self.held_out:.3g} of the rows"
        return f"split made by evenhand: a random {share} held out, seed {self.seed}"

    def train_mask(self, rows: int, values: NDArray[np.object_] | None = None) -> NDArray[np.bool_]:
        """(rows,) true for the rows that train; `values` (rows,) are the texts of the split's column."""
        if self.column is not None:
            assert values is not None
            return self._named(values)
        mask = np.zeros(rows, dtype=bool)
        if self.train_rows is not None:
            mask[: self.train_rows] = True
        else:
            held_out = max(1, round(rows * self.held_out))
            mask[np.random.default_rng(self.seed).permutation(rows)[held_out:]] = True
        return mask

    def _named(self, values: NDArray[np.object_]) -> NDArray[np.bool_]:
        wanted = [value.strip() for value in as_list(self.train)]
        known = dict.fromkeys(values.tolist())
        if absent := [value for value in wanted if value not in known]:
            shown = ", ".join(f"'{value}'" for value in list(known)[:8])
            raise EvenhandError(
                f"No row's '{self.column}' is '{absent[0]}', which [split] in the schema names for rows that train. "
                f"The column has {shown}{' and others' if len(known) > 8 else ''}."
            )
        return np.isin(values.astype(str), wanted)


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


class DataCard(BaseModel):
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
    card: DataCard = DataCard()
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
            location, reason = _mistake_in(error, cls)
            place = place_in_words(content, location)
            if text is not None and (found := place_of(text, _precise(text, location, reason))):
                place = f"{found} ({place})"
            raise EvenhandError(f"The schema {where} is wrong at {place}: {ended(reason)}") from error

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
                    f"'{attribute.name}' has a single value in its domain, so changing it cannot change a decision. "
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
    keys = keys_in_file(text, location)
    words = re.findall(r"'([^']+)'" if location[0] == "impossible" else r"\w+", reason)
    named = [word for word in words if word in keys]
    return (*location, named[0]) if named else location


def _mistake_in(error: ValidationError, model: type[BaseModel]) -> tuple[Location, str]:
    """Where the first mistake is and what to do. A key that is none comes first: others often follow from it."""
    for entry in error.errors():
        if entry["type"] == "extra_forbidden":
            return entry["loc"], _unknown_key(entry["loc"], model)
    location, reason = first_mistake(error, model)
    first = error.errors()[0]
    if (pair := next((key for key in PAIRS if key in location[-2:]), None)) and first["type"] in LENGTHS:
        return location[: location.index(pair) + 1], f"{pair} needs two numbers: the smallest and the largest code"
    if first["type"] == "too_short":
        key = str(location[-1])
        return location, f"{key} needs at least two {FEWEST_OF.get(key, 'entries')}"
    if first["type"] in ("model_type", "model_attributes_type", "dict_type"):
        if location[-1:] == ("missing",):
            written = str(first["input"]) if isinstance(first["input"], str | int | float) else ""
            return location, f'a missing value also needs a code: {{ value = "{written}", code = … }}'
        return location, "it must be a table of keys and values"
    if first["type"] == "literal_error" and isinstance(first["input"], str):
        known = re.findall(r"'([^']+)'", first["ctx"]["expected"])
        return location, f"there is no {location[-1]} '{first['input']}'; {meant(first['input'], known)}"
    return location, EXPECTED.get(first["type"], reason)


def _unknown_key(location: Location, model: type[BaseModel]) -> str:
    key = str(location[-1])
    return f"unknown key '{key}'; {meant(key, keys_at(location[:-1], model))}"
