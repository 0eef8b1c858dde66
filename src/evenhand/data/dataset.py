"""A table with its schema: raw values, codes, labels, and which rows are held out."""

from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from evenhand.data.schema import Schema
from evenhand.errors import EvenhandError, unknown_name

BUILTIN = Path(str(resources.files("evenhand.data") / "builtin"))


@dataclass(frozen=True)
class Dataset:
    """Rows about people, as a network reads them and as people read them."""

    schema: Schema
    codes: NDArray[np.int32]  # (rows, d), out-of-domain values included
    labels: NDArray[np.int64]  # (rows,)
    train: NDArray[np.bool_]  # (rows,) false for held-out rows

    @property
    def name(self) -> str:
        """The data set's short name."""
        return self.schema.name

    @cached_property
    def clipped(self) -> NDArray[np.int32]:
        """(rows, d) the codes moved into the domain, where the search lives."""
        return np.clip(self.codes, self.schema.lower, self.schema.upper).astype(np.int32)

    def describe(self, codes: NDArray[np.int32]) -> str:
        """One person in words."""
        pairs = zip(self.schema.attributes, codes, strict=True)
        return ", ".join(attribute.sentence(int(code)) for attribute, code in pairs)


def builtin_names() -> list[str]:
    """The data sets that come with the package."""
    return sorted(path.stem for path in BUILTIN.glob("*.toml"))


def schema_path(name_or_path: str) -> Path:
    """A built-in data set's schema by name, or a schema file of the user's own."""
    if name_or_path in builtin_names():
        return BUILTIN / f"{name_or_path}.toml"
    path = Path(name_or_path)
    if path.suffix == ".toml":
        return path
    raise unknown_name("data set", name_or_path, [*builtin_names(), "PATH/TO/SCHEMA.toml"])


def load_schema(name_or_path: str) -> Schema:
    """The schema of a built-in data set or of a schema file, without reading the rows."""
    return Schema.load(schema_path(name_or_path))


def load_dataset(name_or_path: str) -> Dataset:
    """A built-in data set by name, or the table that a schema file names."""
    path = schema_path(name_or_path)
    schema = Schema.load(path)
    frame = read_table(path.parent / schema.file, schema.separator)
    return encode(schema, frame)


def read_table(path: Path, separator: str = ",") -> pd.DataFrame:
    """A CSV (also .gz) or Parquet file as text columns, so that codes such as 007 survive."""
    if not path.is_file():
        raise EvenhandError(f"The table {path} does not exist. Its name stands as `file` in the schema.")
    try:
        if path.suffix == ".parquet":
            table = pa.parquet.read_table(path)
        else:
            header = pa.csv.open_csv(path, parse_options=pa.csv.ParseOptions(delimiter=separator)).schema.names
            table = pa.csv.read_csv(
                path,
                parse_options=pa.csv.ParseOptions(delimiter=separator),
                convert_options=pa.csv.ConvertOptions(column_types=dict.fromkeys(header, pa.string())),
            )
    except (pa.ArrowInvalid, OSError) as error:
        raise EvenhandError(f"Cannot read the table {path}: {error}") from error
    frame: pd.DataFrame = table.to_pandas()
    return frame


def encode(schema: Schema, frame: pd.DataFrame) -> Dataset:
    """Codes and labels of a raw table."""
    wanted = [attribute.column for attribute in schema.attributes] + [schema.label.column]
    absent = [column for column in wanted if column not in frame.columns]
    if absent:
        raise EvenhandError(
            f"The table of {schema.name} has no column {', '.join(repr(name) for name in absent)}. "
            f"It has: {', '.join(map(str, frame.columns))}."
        )
    if frame.empty:
        raise EvenhandError(f"The table of {schema.name} has no rows.")
    codes = np.stack([attribute.encode(frame[attribute.column]) for attribute in schema.attributes], axis=1)
    return Dataset(schema, codes, _labels(schema, frame), schema.split.train_mask(len(frame)))


def _labels(schema: Schema, frame: pd.DataFrame) -> NDArray[np.int64]:
    values = frame[schema.label.column].astype("string").str.strip()
    codes = values.map({value: code for code, value in enumerate(schema.label.values)})
    if codes.isna().any():
        row = int(np.argmax(codes.isna()))
        raise EvenhandError(
            f"Row {row + 1}, column '{schema.label.column}': '{values.iloc[row]}' is not a label of {schema.name}. "
            f"Known: {', '.join(schema.label.values)}."
        )
    return codes.to_numpy().astype(np.int64)
