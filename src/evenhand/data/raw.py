"""The cells of a table as a program reads them, and codes for those that the domain has none for.

A person is a row of the table as it stands there. The domain of a schema may be coarser: it rounds numbers to steps,
puts rare categories together, knows no date. So each cell that the value of its code does not equal gets a code of its
own beyond the domain, and a model that reads raw values is given the cell itself.
"""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from evenhand.data.attribute import LARGEST_CODE, Attribute
from evenhand.data.notation import BOOLEANS, PANDAS_MISSING, USUAL, Notation, number_text, numbers_in_text
from evenhand.data.tables import is_text, text_column
from evenhand.errors import EvenhandError

NUMBERS = ("integer", "float")


@dataclass(frozen=True)
class Beyond:
    """The raw values of one attribute that its domain has no code for; the first of them has the code `first`."""

    first: int
    codes: NDArray[np.int32]  # (values,) what the schema reads them as, in or outside the domain
    cells: dict[str, pd.Series]  # (values,) by column


def cells_of(attribute: Attribute, frame: pd.DataFrame, notation: Notation, *, from_csv: bool) -> dict[str, pd.Series]:
    """The columns of an attribute as a program reads them: with types in the text of a CSV file, else as they are."""
    cells: dict[str, pd.Series] = {}
    for column in attribute.raw_columns:
        series = frame[column].reset_index(drop=True)
        if not from_csv or not is_text(series) or isinstance(series.dtype, pd.CategoricalDtype):
            cells[column] = _plain(series)
        elif column in attribute.along or attribute.kind == "pass":
            cells[column] = as_pandas_reads(series)
        else:
            cells[column] = _typed(attribute, series, notation)
    return cells


def _plain(series: pd.Series) -> pd.Series:
    """A typed column with the types of numpy, as most libraries expect them; a pandas one is left as it is."""
    if not isinstance(series.dtype, pd.ArrowDtype):
        return series
    plain: pd.Series = pa.array(series, from_pandas=True).to_pandas()
    return plain.set_axis(series.index) if isinstance(plain, pd.Series) else pd.Series(plain)


def as_pandas_reads(series: pd.Series) -> pd.Series:
    """A column of a CSV file with the type that pandas finds in it."""
    text = text_column(series)
    absent = (text.isna() | text.isin(["", *PANDAS_MISSING])).to_numpy(dtype=bool)
    present = text[~absent]
    if present.empty:
        return pd.Series(np.nan, index=text.index)  # pandas takes a column without a value for numbers
    numbers = pd.to_numeric(present, errors="coerce")
    if not numbers.isna().any():
        whole = numbers.dtype.kind in "iu" and not absent.any()
        return numbers if whole else numbers.astype(np.float64).reindex(text.index)
    if set(present.str.lower()) <= BOOLEANS:
        flags = present.str.lower() == "true"
        return flags.astype(bool) if not absent.any() else flags.astype(object).reindex(text.index)
    return _text(text, absent)


def _typed(attribute: Attribute, series: pd.Series, notation: Notation) -> pd.Series:
    """A column of text with the type that the schema gives it."""
    text = text_column(series)
    absent = _absent(attribute, text)
    if attribute.type in (None, "text", "category") and attribute.kind != "number" and not attribute.columns:
        return _text(text, absent & ~text.str.strip().isin(text_marks(attribute)).to_numpy(dtype=bool))
    one_hot = bool(attribute.columns) and attribute.type != "boolean"
    if attribute.kind == "number" or attribute.type in NUMBERS or one_hot:
        return _numbers(attribute, text, absent, notation)
    if attribute.type == "boolean":
        flags = text.str.strip().str.lower().isin(["true", "1", "yes"])
        return flags.astype(bool) if not absent.any() else flags.astype(object).mask(absent, np.nan)
    raise AssertionError(attribute.type)


def text_marks(attribute: Attribute) -> list[str]:
    """What stands for a missing value in a column of text and is no less text to a program that reads it, such as ?."""
    return [mark for mark in attribute.missing_marks if mark and mark not in PANDAS_MISSING]


def _absent(attribute: Attribute, text: pd.Series) -> NDArray[np.bool_]:
    """(n,) which cells say nothing: empty, marked so in the schema, or taken for nothing by pandas."""
    silent = text.str.strip().isin([*attribute.missing_marks, "", *PANDAS_MISSING.difference(attribute.listed)])
    return np.asarray((text.isna() | silent).to_numpy(dtype=bool, na_value=True))


def _text(text: pd.Series, absent: NDArray[np.bool_]) -> pd.Series:
    return text.astype("str").mask(absent) if absent.any() else text.astype("str")


def _numbers(attribute: Attribute, text: pd.Series, absent: NDArray[np.bool_], notation: Notation) -> pd.Series:
    plain = text.str.strip().mask(absent, "").replace({"false": "0", "true": "1", "False": "0", "True": "1"})
    numbers = numbers_in_text(plain, notation)
    wrong = np.isnan(numbers) & ~absent
    if wrong.any():
        row = int(np.argmax(wrong))
        raise EvenhandError(
            f"Row {row + 1}, column '{text.name}': '{text.iloc[row]}' is no number, but the schema gives "
            f"'{attribute.name}' the type {attribute.type or 'of a number'}. Correct the value, or say with missing = "
            "{ value = … } that it stands for a missing one."
        )
    whole = attribute.type != "float" and not absent.any() and bool((numbers == np.floor(numbers)).all())
    return pd.Series(numbers.astype(np.int64) if whole and np.abs(numbers).max(initial=0) < 2**53 else numbers)


def passed_codes(column: str, cells: pd.Series) -> tuple[NDArray[np.int32], Beyond]:
    """(rows,) exact codes of a column that a search never touches; its commonest value is the first beyond the domain.

    That one stands in all samples that a search makes.
    """
    numbers, _ = pd.factorize(cells.astype(object), use_na_sentinel=False)
    commonest = int(np.bincount(numbers).argmax())
    order = np.unique(np.where(numbers == commonest, -1, numbers), return_index=True)[1]  # where each is first seen
    places = np.empty(len(order), dtype=np.int32)
    places[numbers[order]] = np.arange(len(order))
    values = cells.iloc[order].reset_index(drop=True)
    return 1 + places[numbers], Beyond(1, np.zeros(len(order), dtype=np.int32), {column: values})


def beyond_domain(
    attribute: Attribute, cells: dict[str, pd.Series], grid: dict[str, Any], codes: NDArray[np.int32]
) -> tuple[NDArray[np.int32], Beyond | None]:
    """(rows,) exact codes of an attribute, and what stands behind those beyond the domain.

    `grid` has what the clipped codes (rows,) mean, by column.
    """
    low, high = attribute.domain
    other = np.zeros(len(codes), dtype=bool)
    for column, values in cells.items():
        other |= ~_equal(values, grid[column])
    exact = np.clip(codes, low, high).astype(np.int32)
    if not other.any():
        return exact, None
    rows = pd.DataFrame({column: values[other].reset_index(drop=True) for column, values in cells.items()})
    rows["schema code"] = codes[other]  # rows of one value may still be read as two codes by a schema
    numbers = rows.astype(object).groupby(list(rows.columns), sort=False, dropna=False).ngroup().to_numpy()
    first_rows = pd.Series(numbers).drop_duplicates().index
    first = max(high, int(codes.max()), 0) + 1
    if first + len(first_rows) > LARGEST_CODE:
        raise EvenhandError(
            f"'{attribute.name}' has a domain of {attribute.size:,} codes and {len(first_rows):,} more values in the "
            "table, too many to tell apart. Give it a larger step or width."
        )
    exact[other] = first + numbers
    values_of = {column: values[other].iloc[first_rows].reset_index(drop=True) for column, values in cells.items()}
    return exact, Beyond(first, codes[other][first_rows], values_of)


def _equal(cells: pd.Series, grid: Any) -> NDArray[np.bool_]:
    """(n,) whether cells are what their codes mean; both may be missing."""
    meant = pd.Series(grid)
    absent, none_meant = cells.isna().to_numpy(), meant.isna().to_numpy()
    equal = absent & none_meant
    there = ~absent & ~none_meant
    if pd.api.types.is_numeric_dtype(cells.dtype) and pd.api.types.is_numeric_dtype(meant.dtype):
        same = cells[there].to_numpy() == meant[there].to_numpy()
    else:
        same = cells[there].astype(object).to_numpy() == meant[there].astype(object).to_numpy()
    equal[there] = np.asarray(same).astype(np.bool_)
    if cells.dtype == object:  # Decimal("1.5") equals 1.5 and is not the same to a model
        equal &= ~cells.map(lambda cell: isinstance(cell, Decimal)).to_numpy(dtype=bool)
    return equal


def cell_text(attribute: Attribute, cells: dict[str, Any]) -> str:
    """A person's own value in words, from the cells of the table."""
    if attribute.columns:
        absent = [name for name in attribute.columns if pd.isna(cells[name])]
        said = [place for place, name in enumerate(attribute.columns) if name not in absent and cells[name] == 1]
        return " and ".join(map(attribute.text, said)) or ("unknown" if absent else "none")
    value = cells[attribute.column]
    if pd.isna(value):
        return "unknown"
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.number):
        return str(value).strip()
    return number_text(float(value)) + (f" {attribute.unit}" if attribute.unit else "")


def append_values(grid: Any, more: pd.Series) -> Any:
    """(domain + values,) what the codes of the domain mean, and then the values beyond it, as one array."""
    values = pd.Series(grid)
    if isinstance(values.dtype, pd.CategoricalDtype):
        new = [value for value in more.dropna().astype(object).unique() if value not in values.cat.categories]
        known = [*values.cat.categories, *new]
        return pd.Categorical([*values.astype(object), *more.astype(object)], known, ordered=values.cat.ordered)
    if values.dtype.kind in "iu" and more.dtype.kind == "f" and (more == np.floor(more)).all():
        more = more.astype(np.int64)
    if values.dtype == bool and more.dtype != bool:
        values, more = values.astype(object), more.astype(object)
    combined = pd.concat([values, more.reset_index(drop=True)], ignore_index=True)
    return combined.to_numpy() if combined.dtype.kind in "iufbO" else combined.array


def notation_for(column: pd.Series, notation: Notation) -> Notation:
    """How a column writes numbers: typed ones have no notation."""
    return notation if is_text(column) else USUAL
