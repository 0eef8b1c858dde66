"""One column: how its raw values become codes, and how codes become words again."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Strict, model_validator

from evenhand.data.notation import PANDAS_MISSING, USUAL, Notation, is_number, multiples, number_text, numbers_in_text
from evenhand.errors import EvenhandError

if TYPE_CHECKING:
    import pandas as pd

ANY_OTHER = "*"  # among the categories of an attribute: every value that is not listed
LARGEST_CODE = 2**24  # float32, in which networks read codes, is exact up to here


def as_text(value: Any) -> Any:
    """Raw values that TOML reads as whole numbers or booleans, alone or in lists, as the text that a table has."""
    if isinstance(value, list | tuple):
        return [as_text(entry) for entry in value]
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int) else value


Text = Annotated[str, BeforeValidator(as_text)]


Whole = Annotated[int, Strict()]  # no number in quotes, which is likely a slip


Code = Annotated[Whole, Field(ge=-LARGEST_CODE, le=LARGEST_CODE)]


Finite = Annotated[float, Strict(), Field(allow_inf_nan=False)]


class Missing(BaseModel):
    """How the raw table writes a missing value, and the code that stands for it.

    Without a code it is a value of its own, the last of the domain.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    value: Annotated[str | list[str], BeforeValidator(as_text)] = ""  # one way to write it, or several
    code: Code
    own: Annotated[bool, Strict()] = False  # a code in the domain that stands for nothing else


class Attribute(BaseModel):
    """A column with its domain of integer codes.

    `category` and `ordered` list raw values; a code is a position in that list. `number` counts in steps of `step`
    (code = the nearest multiple), or bins values: by a `width` (code = value // width) or by `edges` (code = how many
    edges are at or below the value). `type` is what a program reads in the column, `typical` the value that stands for
    each bin between edges, `moves` and `stride` say how a search may change the attribute. `pass` is a column that the
    model may read and a search never touches: a date, a text, an identifier.

    An attribute may stand in several columns, which then change together: `columns` has one column of 0 and 1 for each
    category (a category beyond them has 0 in all), and `along` other columns that say the same in other words, with
    their value for each code of the domain.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    column: str = ""
    title: str = ""
    phrase: str = ""
    columns: list[str] = []
    along: dict[str, list[bool | int | float | str]] = {}  # nan: nothing in the table
    kind: Literal["category", "ordered", "number", "pass"]
    protected: Annotated[bool, Strict()] = False
    domain: tuple[Whole, Whole] = (0, -1)
    categories: Annotated[list[str | list[str]], BeforeValidator(as_text)] = []
    words: list[str] = []
    width: Annotated[Finite, Field(gt=0)] = 1
    step: Annotated[Finite, Field(gt=0)] | None = None
    edges: list[Finite] = []
    typical: list[Finite] = []
    clip: tuple[Code, Code] | None = None
    unit: str = ""
    missing: Missing | None = None
    type: Literal["text", "category", "integer", "float", "boolean"] | None = None
    moves: Literal["any", "up", "down", "none"] = "any"
    stride: Annotated[Whole, Field(ge=1, le=LARGEST_CODE)] = 1
    within: Annotated[Finite, Field(gt=0)] | None = None  # protected: compare with values up to so far from one's own

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, values: Any) -> Any:
        """Fill in what follows from the rest: the column, the title, the domain."""
        if not isinstance(values, dict) or not isinstance(values.get("name"), str):
            return values
        filled = {"column": values["name"], "title": values["name"].replace("-", " ")} | values
        if filled.get("kind") == "pass":
            filled = {"categories": ["any"], "moves": "none"} | filled
        if filled.get("columns") and "categories" not in filled:
            filled["categories"] = filled["columns"]
        categories, edges = filled.get("categories"), filled.get("edges")
        if "domain" not in filled and isinstance(categories, list) and filled.get("kind") != "number":
            filled["domain"] = (0, len(categories) - 1)
        if "domain" not in filled and isinstance(edges, list) and edges:
            filled["domain"] = (0, len(edges))
        return _with_own_missing(filled)

    @model_validator(mode="after")
    def _consistent(self) -> "Attribute":
        if self.kind == "number":
            self._check_bins()
        else:
            self._check_categories()
        self._check_domain()
        self._check_columns()
        if self.kind == "pass" and self.protected:
            raise ValueError("kind = 'pass' is for columns that are never changed, so it cannot be protected")
        if self.within is not None and self.kind != "number":
            raise ValueError("within is a distance between numbers; only kind = 'number' has it")
        if self.stride > 1 and self.stride >= self.size:
            raise ValueError(f"stride = {self.stride} is more than the {self.size} codes of the domain have room for")
        if self.moves == "none" and self.stride > 1:
            raise ValueError("stride says how far a search may move, but moves = 'none' lets it not move at all")
        if self.phrase and "{}" not in self.phrase:
            raise ValueError("phrase needs {} where the value stands")
        return self

    def _check_bins(self) -> None:
        if self.categories:
            raise ValueError("a number has no categories; use step, width or edges, or another kind")
        if self.type in ("text", "category"):
            raise ValueError(f"a number cannot have the type {self.type}; use integer, float or boolean")
        if (self.step is not None) + bool(self.edges) + ("width" in self.model_fields_set) > 1:
            raise ValueError("a number has one of step, width and edges")
        if self.edges != sorted(set(self.edges)):
            raise ValueError("edges must rise strictly")
        if self.typical and len(self.typical) != len(self.edges) + 1:
            raise ValueError("typical needs one value for each bin: one more than there are edges")
        if self.typical and np.searchsorted(self.edges, self.typical, side="right").tolist() != [
            *range(len(self.typical))
        ]:
            raise ValueError("typical must give, in rising order, a value within each bin between the edges")
        self._check_type()
        if self.clip is not None and self.clip[0] > self.clip[1]:
            raise ValueError("clip must be [lowest code, highest code]")

    def _check_type(self) -> None:
        """A value that stands for a code must not become another code when it is rounded to the type."""
        for field in ("step", "width"):
            size = getattr(self, field)
            if self.type == "integer" and size is not None and not float(size).is_integer():
                raise ValueError(f"{field} = {size:g} does not go with type = 'integer'; use a whole {field} or float")
        if self.type == "integer" and any(not float(value).is_integer() for value in self.typical):
            raise ValueError("typical must be whole numbers where type = 'integer'")
        whole = np.ceil(self.edges[:-1]) < self.edges[1:] if len(self.edges) > 1 else np.ones(0, dtype=bool)
        if self.type == "integer" and not whole.all():
            raise ValueError("edges leave a bin without a whole number, but type = 'integer'")
        if self.type == "boolean" and (self.edges or self.domain[0] < 0 or self.domain[1] > 1):
            raise ValueError("domain must lie within [0, 1] where type = 'boolean'")

    def _check_categories(self) -> None:
        if not self.categories or [] in self.categories:
            raise ValueError(f"kind = '{self.kind}' needs categories, and at least one value in each group of them")
        if self.words and len(self.words) != len(self.categories):
            raise ValueError(
                f"words needs one entry for each of categories: {len(self.categories)}, not {len(self.words)}"
            )
        if twice := repeated(self.listed):
            raise ValueError(f"categories must be unique, across groups too; found twice: {', '.join(twice)}")

    def _check_columns(self) -> None:
        if self.columns and self.kind not in ("category", "ordered"):
            raise ValueError("columns of 0 and 1 are for a category")
        if self.columns and (self.missing is not None or not 0 <= len(self.categories) - len(self.columns) <= 1):
            raise ValueError(
                f"columns needs one category for each of its {len(self.columns)} columns, and may have one more for "
                f"people with 0 in all of them; there are {len(self.categories)}, and no missing value"
            )
        if twice := repeated(self.raw_columns):
            raise ValueError(f"a column is named twice: {', '.join(twice)}")
        for column, values in self.along.items():
            if any(isinstance(value, float) and np.isinf(value) for value in values):
                raise ValueError(f"along.{column} has an infinite number")
            if len(values) != self.size:
                raise ValueError(
                    f"along.{column} needs a value for each of the {self.size:,} codes of the domain, not {len(values)}"
                )

    def _check_domain(self) -> None:
        low, high = self.domain
        if high < low and "domain" in self.model_fields_set:
            raise ValueError(f"domain = [{low}, {high}] is reversed; write [{high}, {low}]")
        if high < low:
            raise ValueError("a number needs a domain = [lowest code, highest code], or edges")
        if max(abs(low), abs(high)) > LARGEST_CODE:
            raise ValueError(f"codes beyond {LARGEST_CODE:,} cannot be told apart; use wider bins")
        if not (self.categories or self.edges):
            return
        highest = len(self.categories) - 1 if self.categories else len(self.edges)
        if self.missing is not None and self.missing.code == highest + 1:
            highest += 1  # a missing value may be a category of its own
        if low < 0 or high > highest:
            of = "categories" if self.categories else "edges"
            raise ValueError(f"the domain [{low}, {high}] goes beyond the {of}, whose codes are 0 to {highest}")

    @property
    def size(self) -> int:
        """How many codes the domain has."""
        return self.domain[1] - self.domain[0] + 1

    @property
    def span(self) -> tuple[int, int]:
        """The smallest and the largest code that stands for a value, not for a missing one."""
        low, high = self.domain
        return low, high - (high > low and self.is_missing(high))

    @property
    def raw_columns(self) -> list[str]:
        """The columns of the table in which the attribute stands."""
        return [*(self.columns or [self.column]), *self.along]

    def encode(self, raw: "pd.Series", notation: Notation = USUAL) -> NDArray[np.int32]:
        """Raw values to codes, out-of-domain ones included: what a network is trained on."""
        values = raw.astype("string").str.strip()
        absent = values.isna() | values.isin({"", *self.missing_marks} - set(self.listed))
        codes = np.empty(len(values), dtype=np.int32)
        if absent.any():
            if self.missing is None:
                raise EvenhandError(
                    f"Row {int(np.argmax(absent)) + 1} has no value for '{self.name}'. "
                    "Give the attribute missing = { value = ..., code = ... } in the schema, or fill the value."
                )
            codes[absent.to_numpy()] = self.missing.code
        present = ~absent.to_numpy(dtype=bool)
        if self.kind == "number":
            codes[present] = self._encode_numbers(values[present], notation)
        else:
            codes[present] = self._encode_categories(values[present])
        return codes

    @property
    def listed(self) -> list[str]:
        """The raw values that categories list; empty text may be one, in a table that tells it from a missing value."""
        return [value.strip() for group in self.categories for value in as_list(group)]

    @property
    def missing_marks(self) -> list[str]:
        """How the table writes a missing value, other than by nothing."""
        return [] if self.missing is None else [value.strip() for value in as_list(self.missing.value)]

    @property
    def looks_typed(self) -> bool:
        """Whether a program that reads the categories in a CSV file may find numbers or booleans in them."""
        texts = [text.lower() for text in self.listed if text != ANY_OTHER]
        return all(text in ("true", "false") for text in texts) or all(map(is_number, texts))

    def encode_columns(self, columns: "Sequence[pd.Series]") -> NDArray[np.int32]:
        """Columns of 0 and 1 to codes; people with several 1s, or with none where no category is for that, to one more.

        So are people with a missing cell. That code lies outside the domain: no sample is made with it.
        """
        numbers = np.stack([_flags(column, self) for column in columns], axis=1)  # nan: missing
        ones, gaps = numbers == 1, np.isnan(numbers).any(axis=1)
        codes = np.where((ones.sum(axis=1) == 1) & ~gaps, ones.argmax(axis=1), len(self.categories))
        if len(self.categories) > len(self.columns):
            codes[~ones.any(axis=1) & ~gaps] = len(self.columns)
        return codes.astype(np.int32)

    def _encode_numbers(self, values: "pd.Series", notation: Notation) -> NDArray[np.int32]:
        numbers = numbers_in_text(values.replace({"false": "0", "true": "1"}), notation)
        self._reject(values, ~np.isfinite(numbers), "is not a number")
        if self.edges:
            codes = np.searchsorted(self.edges, numbers, side="right")
        elif self.step is not None:
            codes = np.floor(numbers / self.step + 0.5)
        else:
            codes = np.floor(numbers / self.width + 1e-9)  # 0.3 / 0.1 is a hair below 3
        if self.clip is not None:
            codes = np.clip(codes, *self.clip)
        if self.missing is not None and self.missing.own:
            codes = np.minimum(codes, self.missing.code - 1)  # a number above all others is not a missing one
        self._reject(values, np.abs(codes) > LARGEST_CODE, "is too large for this width")
        return codes.astype(np.int32)

    def _encode_categories(self, values: "pd.Series") -> NDArray[np.int32]:
        code_of = {value.strip(): code for code, group in enumerate(self.categories) for value in as_list(group)}
        other = code_of.pop(ANY_OTHER, -1)
        codes = values.map(code_of).fillna(other).to_numpy().astype(np.int32)
        self._reject(values, codes == -1, "is not among the categories")
        return codes

    def _reject(self, values: "pd.Series", wrong: NDArray[np.bool_], reason: str) -> None:
        if wrong.any():
            first = int(np.argmax(wrong))
            raise EvenhandError(
                f"Row {int(values.index[first]) + 1}, column '{self.column}': '{values.iloc[first]}' {reason} "
                f"of '{self.name}'. Correct the value or the schema ({such_values(int(wrong.sum()))})."
            )

    def text(self, code: int) -> str:
        """A code in words: a category's name, a bin's range, or `unknown` for a missing value."""
        if self.is_missing(code):
            return "unknown"
        if self.kind != "number":
            return self._category_text(code) if 0 <= code < len(self.categories) else f"code {code}"
        if self.step is not None:
            return number_text(float(multiples(code, self.step))) + (f" {self.unit}" if self.unit else "")
        return _range_text(*self.bin(code), self.unit)

    def is_missing(self, code: int) -> bool:
        """Whether a code stands for a missing value and for nothing else."""
        if self.missing is None or code != self.missing.code:
            return False
        beyond_bins = bool(self.edges) and code > len(self.edges)
        if self.missing.own:
            return True
        return self.kind != "number" or beyond_bins or not self.domain[0] <= code <= self.domain[1]

    def _category_text(self, code: int) -> str:
        if self.words:
            return self.words[code]
        group = as_list(self.categories[code])
        return "other" if ANY_OTHER in group else group[0].strip() or "(empty)"

    def sentence(self, code: int) -> str:
        """The value as part of a sentence about a person: `age 30–39`."""
        return self.phrased(self.text(code))

    def phrased(self, text: str) -> str:
        """A value in words as part of a sentence about a person."""
        if text == "unknown":
            return f"{self.title} unknown"
        return (self.phrase or f"{self.title} {{}}").replace("{}", text)

    def texts(self) -> list[str]:
        """The words for every code of the domain, in order."""
        return [self.text(code) for code in range(self.domain[0], self.domain[1] + 1)]

    def bin(self, code: int) -> tuple[float | None, float | None]:
        """The smallest value of a bin and the smallest one above it; None where the bin is open."""
        if self.edges:
            return (self.edges[code - 1] if code else None, self.edges[code] if code < len(self.edges) else None)
        lowest = self.clip is not None and code == self.clip[0]
        highest = self.clip is not None and code == self.clip[1]
        return (None if lowest else code * self.width, None if highest else (code + 1) * self.width)


def _flags(column: "pd.Series", attribute: Attribute) -> NDArray[np.float64]:
    """(n,) what a column of 0 and 1 says; not a number where it says nothing, also in words that pandas reads so."""
    texts = column.astype("string").str.strip().fillna("")
    gaps = texts.isin(["", *PANDAS_MISSING]).to_numpy(dtype=bool)
    numbers = numbers_in_text(texts.str.lower().replace({"true": "1", "false": "0"}), USUAL)
    attribute._reject(texts, ~np.isin(numbers, (0, 1)) & ~gaps, "is neither 0 nor 1, as all columns must be")
    return np.where(gaps, np.nan, numbers)


def _with_own_missing(values: dict[str, Any]) -> dict[str, Any]:
    """A missing value without a code gets one at the end of the domain."""
    missing, domain = values.get("missing"), values.get("domain")
    if not isinstance(missing, dict) or "code" in missing or not isinstance(domain, list | tuple) or len(domain) != 2:
        return values
    low, high = domain
    if not isinstance(high, int):
        return values
    return values | {"missing": missing | {"code": high + 1, "own": True}, "domain": (low, high + 1)}


def such_values(count: int) -> str:
    """How many values have the same mistake."""
    return "1 such value" if count == 1 else f"{count:,} such values"


def repeated(values: list[str]) -> list[str]:
    """The values that occur more than once."""
    return sorted({value for value in values if values.count(value) > 1})


def as_list(group: str | list[str]) -> list[str]:
    """The raw values of a category."""
    return [group] if isinstance(group, str) else group


def _range_text(low: float | None, high: float | None, unit: str) -> str:
    """A half-open range in words; whole numbers read as 30–39, a bin of one whole number as 30."""
    suffix = f" {unit}" if unit else ""
    if low is None:
        return "any" if high is None else f"below {number_text(high)}{suffix}"
    if high is None:
        return f"{number_text(low)}{suffix} or more"
    if not (float(low).is_integer() and float(high).is_integer()):
        return f"{number_text(low)} to under {number_text(high)}{suffix}"
    if high - low == 1:
        return f"{number_text(low)}{suffix}"
    joint = " to " if low < 0 else "–"
    return f"{number_text(low)}{joint}{number_text(high - 1)}{suffix}"
