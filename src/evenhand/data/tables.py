"""Reading tables: CSV, Parquet and Hugging Face folders on disk; pandas, polars, Arrow and Hugging Face in memory."""

import codecs
import csv
import gzip
import io
import re
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from evenhand.data.column_names import check_unique, numbered, numbering_note
from evenhand.data.csv_mistakes import SEPARATORS, left_open, mistake_in_csv, wrong_separator
from evenhand.errors import EvenhandError, TableWarning, unknown_name
from evenhand.files import read_json

LARGEST_WHOLE = 2.0**53  # float64 holds every whole number up to here
NO_TABLES = (".xlsx", ".xls", ".ods", ".json", ".jsonl", ".feather", ".arrow", ".orc", ".zip", ".pkl", ".toml", ".db")
READABLE = "a CSV file (also .csv.gz), a .parquet file, or a folder that a Hugging Face dataset was saved to"

AS_UTF8 = "Save it as UTF-8 (in a spreadsheet: 'CSV UTF-8')."
FROM_WINDOWS = f"{AS_UTF8[:-2]}; a file from Windows: `iconv -f CP1252 -t UTF-8 OLD.csv > NEW.csv`)."


def read_table(path: Path, separator: str = ",") -> pd.DataFrame:
    """A CSV file (also .gz) as text, so that codes such as 007 survive; Parquet and Hugging Face with their types."""
    if path.is_dir():
        return _with_arrow_types(_read_saved_dataset(path))
    if not path.is_file():
        raise EvenhandError(f"The table {path} does not exist. Its name stands as `file` in the schema.")
    if path.suffix.lower() in NO_TABLES:
        raise EvenhandError(f"{path} is no table that can be read: it must be {READABLE}.")
    if is_csv(path):
        return _with_arrow_types(_read_csv(path, separator))
    try:
        check_unique(pa.parquet.read_schema(path).names)  # which Arrow says in words for programmers
        table = pa.parquet.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise EvenhandError(f"Cannot read the table {path}: {str(error).rstrip('.')}.") from error
    return _with_arrow_types(table)


def is_csv(path: Path) -> bool:
    """Whether a table that is there is text, which has neither types nor missing values of its own."""
    return not path.is_dir() and path.suffix != ".parquet"


def _read_csv(path: Path, separator: str) -> pa.Table:
    """A CSV file whose rows all have as many values as there are columns, of which there are several."""
    if len(separator) != 1 or not separator.isascii() or separator in '\r\n"':
        raise EvenhandError(f"The separator must be one ASCII character such as , or ; and not {separator!r}.")
    _start(path)
    try:
        table = _parse_csv(path, separator)
        wrong = wrong_separator(table.column_names, separator) or left_open(table, path)
    except (pa.ArrowInvalid, OSError, UnicodeDecodeError) as error:
        raise EvenhandError(f"Cannot read the table {path}: {_reason(error, path, separator)}") from error
    if wrong is not None:
        raise EvenhandError(f"Cannot read the table {path}: {wrong}")
    if note := numbering_note(table.column_names):
        warnings.warn(f"In the table {path}, {note}.", TableWarning, stacklevel=2)
    return table.rename_columns(numbered(table.column_names))


def header_note(path: Path, separator: str) -> str | None:
    """What to say of columns that share a name in a CSV file that can be read; None where none do."""
    return numbering_note(_header(path, _parsing(separator)))


def _reason(error: Exception, path: Path, separator: str) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"the names of the columns, in its first line, are not written in UTF-8. {FROM_WINDOWS}"
    said = str(error).rstrip(".")
    if "invalid UTF8" in said and "Expected" not in said:  # with that word it quotes a row, which may say anything
        column = re.search(r"CSV column #(\d+)", said)
        where = f"values of column {int(column[1]) + 1}" if column else "values"
        return f"{where} are not written in UTF-8. {FROM_WINDOWS}"
    return f"{said}." if isinstance(error, OSError) else mistake_in_csv(path, separator, said)


def _parse_csv(path: Path, separator: str) -> pa.Table:
    parsing = _parsing(separator)
    as_text = dict.fromkeys(_header(path, parsing), pa.string())
    return pa.csv.read_csv(path, parse_options=parsing, convert_options=pa.csv.ConvertOptions(column_types=as_text))


def _parsing(separator: str) -> pa.csv.ParseOptions:
    return pa.csv.ParseOptions(delimiter=separator, newlines_in_values=True)


def _header(path: Path, parsing: pa.csv.ParseOptions) -> list[str]:
    with pa.csv.open_csv(path, parse_options=parsing) as reader:
        names: list[str] = reader.schema.names
    return names


def _with_arrow_types(table: pa.Table) -> pd.DataFrame:
    frame: pd.DataFrame = table.to_pandas(types_mapper=pd.ArrowDtype, ignore_metadata=True)
    return frame


def find_separator(path: Path) -> str:
    """The separator under which the first lines of a CSV file have the same number of fields, and the most of them."""
    start = _start(path).decode("utf-8-sig", errors="replace")
    return max(SEPARATORS, key=lambda separator: _agreement(start, separator))


def _start(path: Path) -> bytes:
    """The first bytes of a CSV file, if they can be text."""
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rb") as stream:
            start: bytes = stream.read(1 << 16)
    except (OSError, EOFError) as error:
        raise EvenhandError(f"Cannot read the table {path}: {error}.") from error
    if not start.strip():
        raise EvenhandError(f"The table {path} is empty. Its first line must name the columns; export it once more.")
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise EvenhandError(f"Cannot read the table {path}: it is written in UTF-16. {AS_UTF8}")
    if b"\0" in start:
        raise EvenhandError(f"{path} is no table that can be read: it must be {READABLE}.")
    return start


def _agreement(text: str, separator: str) -> tuple[int, int]:
    """How many of the first rows have as many fields as the header, and how many that are."""
    try:
        rows = [row for row, _ in zip(csv.reader(io.StringIO(text), delimiter=separator), range(21), strict=False)]
    except csv.Error:
        return 0, 0
    fields = len(rows[0]) if rows else 0
    return (sum(len(row) == fields for row in rows), fields) if fields > 1 else (0, fields)


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
