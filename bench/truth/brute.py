"""Who is treated differently, counted with pandas and the bare model: nothing here is computed by evenhand.

A person (a row of the file, every cell as pandas reads it) is discriminatory if some other value of the protected
attributes' domains, put into the protected columns only, changes the label that the model's own `predict` gives.
"""

import itertools
import tomllib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Predict = Callable[[pd.DataFrame], Any]
ANY_OTHER = "*"


class Value(NamedTuple):
    """One value of a protected attribute: what is put into its columns, and the raw texts that it stands for."""

    cells: dict[str, Any]
    texts: frozenset[str] = frozenset()


def label_texts(labels: Any) -> NDArray[Any]:
    """Labels as a schema writes them: 1 also for 1.0, true and false."""
    values, places = np.unique(np.asarray(labels).ravel().astype(object), return_inverse=True)
    return np.array([text_of(value) for value in values], dtype=object)[places]


def text_of(value: Any) -> str:
    """A raw value as a schema writes it; nothing for a missing one."""
    if pd.isna(value):
        return ""
    if isinstance(value, bool | np.bool_):
        return str(bool(value)).lower()
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value).strip()


def discriminatory(predict: Predict, frame: pd.DataFrame, domains: Sequence[Sequence[Value]]) -> NDArray[np.bool_]:
    """(rows,) whether a person's label changes with the protected values; all combinations of the domains are tried."""
    own = label_texts(predict(frame))
    hit = np.zeros(len(frame), dtype=bool)
    for combination in itertools.product(*domains):
        hit |= label_texts(predict(with_values(frame, combination))) != own
    return hit


def with_values(frame: pd.DataFrame, values: Iterable[Value]) -> pd.DataFrame:
    """Everybody with these protected values; who has such a value already, in another spelling, keeps it."""
    changed = frame.copy()
    for value in values:
        for column, cell in value.cells.items():
            changed[column] = filled(cell, frame[column])
            if len(value.texts) > 1:
                keeps = frame[column].map(text_of).isin(value.texts)
                changed[column] = changed[column].mask(keeps, frame[column])
    return changed


def filled(cell: Any, like: pd.Series) -> pd.Series:
    """A column that holds one value, of the type that it has in the table wherever the type can hold it."""
    dtype = like.dtype
    if pd.isna(cell):
        dtype = np.dtype("float64") if dtype.kind in "iu" else dtype
    elif dtype.kind in "iu" and float(cell) != int(cell):
        dtype = np.dtype("float64")
    return pd.Series([cell] * len(like), index=like.index, dtype=dtype)


def domains_of(schema: Path, protected: Sequence[str], frame: pd.DataFrame) -> list[list[Value]]:
    """The values of the protected attributes, read from the schema file."""
    content = tomllib.loads(schema.read_text(encoding="utf-8"))
    by_name = {entry["name"]: entry for entry in content["attribute"]}
    return [_values(by_name[name], frame) for name in protected]


def one_hot(columns: Sequence[str], *, none_of_them: bool = False) -> list[Value]:
    """The values of an attribute that has a column for each: exactly one of them is 1, or none is."""
    chosen = [*columns, ""] if none_of_them else columns
    return [Value({column: int(column == one) for column in columns}) for one in chosen]


def _values(entry: dict[str, Any], frame: pd.DataFrame) -> list[Value]:
    """The values of one attribute of a schema file, in the order of their codes."""
    if columns := entry.get("columns"):
        values = one_hot(columns, none_of_them=len(entry.get("categories", columns)) > len(columns))
    else:
        raw = frame[entry.get("column", entry["name"])]
        values = _categories(entry, raw) if entry.get("categories") else _numbers(entry, raw)
    for column, along in entry.get("along", {}).items():
        values = [Value(v.cells | {column: cell}, v.texts) for v, cell in zip(values, along, strict=True)]
    return values


def _categories(entry: dict[str, Any], raw: pd.Series) -> list[Value]:
    spelled = {text_of(value): value for value in raw.value_counts(ascending=True).index}
    values = []
    for group in entry["categories"]:
        texts = [text_of(text) for text in (group if isinstance(group, list) else [group])]
        if ANY_OTHER in texts:
            raise ValueError(f"'{entry['name']}' has a value that stands for others; the case says its domain itself")
        values.append(Value({str(raw.name): spelled.get(texts[0], _typed(texts[0], raw))}, frozenset(texts)))
    missing = entry.get("missing")
    if missing is not None and missing.get("code", len(values)) == len(values):
        values.append(Value({str(raw.name): np.nan}))
    low, high = entry.get("domain", (0, len(values) - 1))
    return values[low : max(high + 1, len(values) if missing is not None and "code" not in missing else 0)]


def _typed(text: str, raw: pd.Series) -> Any:
    if raw.dtype.kind == "b":
        return text == "true"
    return float(text) if raw.dtype.kind in "iuf" else text


def _numbers(entry: dict[str, Any], raw: pd.Series) -> list[Value]:
    if "step" not in entry:
        raise ValueError(f"'{entry['name']}' is in bins; the case says its domain itself")
    low, high = entry["domain"]
    values = [Value({str(raw.name): round(code * entry["step"], 9)}) for code in range(low, high + 1)]
    as_its_own = "missing" in entry and "code" not in entry["missing"]
    return [*values, Value({str(raw.name): np.nan})] if as_its_own else values
