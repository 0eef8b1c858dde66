"""Reading tables: CSV, Parquet and Hugging Face folders on disk; pandas, polars, Arrow and Hugging Face in memory."""

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from evenhand.data.attribute import repeated
from evenhand.data.csv_files import READABLE, is_csv, read_csv
from evenhand.errors import EvenhandError, unknown_name
from evenhand.files import read_json

LARGEST_WHOLE = 2.0**53  # float64 holds every whole number up to here
NO_TABLES = (".xlsx", ".xls", ".ods", ".json", ".jsonl", ".feather", ".arrow", ".orc", ".zip", ".pkl", ".toml", ".db")


def read_table(path: Path, separator: str = ",") -> pd.DataFrame:
    """A CSV file (also .gz) as text, so that codes such as 007 survive; Parquet and Hugging Face with their types."""
    if path.is_dir():
        return _with_arrow_types(_read_saved_dataset(path))
    if not path.is_file():
        raise EvenhandError(f"The table {path} does not exist. Its name stands as `file` in the schema.")
    if path.suffix.lower() in NO_TABLES:
        raise EvenhandError(f"{path} is no table that can be read: it must be {READABLE}.")
    if is_csv(path):
        return _with_arrow_types(read_csv(path, separator))
    try:
        check_unique(pa.parquet.read_schema(path).names)  # which Arrow says in words for programmers
        table = pa.parquet.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise EvenhandError(f"Cannot read the table {path}: {str(error).rstrip('.')}.") from error
    return _with_arrow_types(table)


def _with_arrow_types(table: pa.Table) -> pd.DataFrame:
    frame: pd.DataFrame = table.to_pandas(types_mapper=pd.ArrowDtype, ignore_metadata=True)
    return frame


def saved_split(folder: Path, split: str | None) -> Path:
    """The folder of one split where a DatasetDict was saved: the one called `train` unless another is named."""
    if not (folder / "dataset_dict.json").is_file():
        if split is not None:
            raise EvenhandError(f"{folder} has no splits, so --split {split} does not apply to it.")
        return folder
    splits = [str(name) for name in read_json(folder / "dataset_dict.json").get("splits", [])]
    if split is None and "train" not in splits:
        raise EvenhandError(f"{folder} has no split 'train'. Name one with --split: {', '.join(splits)}.")
    if (split or "train") not in splits:
        raise unknown_name(f"split of {folder} called", split or "train", splits)
    return folder / (split or "train")


def _read_saved_dataset(folder: Path) -> pa.Table:
    """The Arrow files of a folder that `datasets.Dataset.save_to_disk` made."""
    if (folder / "dataset_dict.json").is_file():
        folder = saved_split(folder, None)
    if not (folder / "state.json").is_file():
        raise EvenhandError(f"The folder {folder} holds no saved Hugging Face dataset. A table must be {READABLE}.")
    state = read_json(folder / "state.json")
    try:
        names = [Path(entry["filename"]).name for entry in state["_data_files"]]
        return pa.concat_tables(pa.ipc.open_stream(pa.memory_map(str(folder / name))).read_all() for name in names)
    except (pa.ArrowInvalid, OSError, KeyError, TypeError) as error:
        raise EvenhandError(f"Cannot read the Hugging Face dataset in {folder}: {error}.") from error


def as_frame(table: Any) -> pd.DataFrame:
    """A table in memory as a pandas frame: of pandas, polars or Arrow, or a Hugging Face Dataset.

    The other libraries are known by what they offer and never imported.
    """
    if isinstance(table, pd.DataFrame):
        return table.set_axis([str(name) for name in table.columns], axis=1).reset_index(drop=True)
    if isinstance(table, dict):
        kind = "a DatasetDict; choose one of its splits" if hasattr(table, "with_format") else "a dict"
        raise EvenhandError(f"The data are {kind}, not a table.")
    if hasattr(table, "collect") and not hasattr(table, "to_arrow"):
        table = table.collect()  # polars, not computed yet
    if hasattr(table, "with_format"):
        table = table.with_format("arrow")[:]  # Hugging Face: only so are chosen and shuffled rows respected
    elif hasattr(table, "to_arrow"):
        table = table.to_arrow()
    if not isinstance(table, pa.Table):
        raise EvenhandError(
            f"The data are a {type(table).__name__}. Give a pandas, polars or Arrow table or a Hugging Face Dataset."
        )
    return _with_arrow_types(table)


def is_text(column: pd.Series) -> bool:
    """Whether a column holds text, as all those of a CSV file do."""
    return bool(pd.api.types.is_string_dtype(column) or isinstance(column.dtype, pd.CategoricalDtype))


def text_column(column: pd.Series) -> pd.Series:
    """Values as a schema writes them: 3 also for 3.0, true and false, and nothing for what is missing."""
    try:
        values = pa.array(column, from_pandas=True)
    except (pa.ArrowException, OverflowError):  # values of several types
        values = pa.array(column.astype("string"), from_pandas=True)
    try:
        text: pd.Series = _as_text(values).to_pandas()
    except pa.ArrowException as error:
        raise EvenhandError(
            f"Column '{column.name}' holds values of the type {values.type}, which cannot be read as text. "
            "Use text, numbers or booleans."
        ) from error
    text.name = column.name
    return text


def _as_text(values: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if pa.types.is_decimal(values.type):
        values = values.cast(pa.float64())
    if not pa.types.is_floating(values.type):
        return values.cast(pa.string())
    values = pc.if_else(pc.is_nan(values), None, values)
    whole = pc.and_(pc.equal(pc.floor(values), values), pc.less_equal(pc.abs(values), LARGEST_WHOLE))
    integers = pc.if_else(whole, values, 0).cast(pa.int64())
    return pc.if_else(whole, integers.cast(pa.string()), values.cast(pa.string()))


def check_unique(columns: list[str]) -> None:
    """Columns that share a name cannot be told apart."""
    twice = repeated(columns)
    if named := [name for name in twice if name.strip()]:
        raise EvenhandError(f"The table has several columns called {', '.join(map(repr, named))}. Rename all but one.")
    if twice:
        raise EvenhandError(
            "The table has several columns without a name. Name them in its first line, or remove all but one."
        )
