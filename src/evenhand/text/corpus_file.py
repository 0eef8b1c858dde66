"""Reading a user's own texts: CSV, Parquet or JSON lines with a column of texts and a column of two labels."""

import csv
import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from evenhand.errors import EvenhandError

SUFFIXES = {".csv": ",", ".tsv": "\t", ".parquet": "", ".jsonl": "", ".ndjson": ""}  # with the usual separator


@dataclass(frozen=True)
class CorpusContent:
    """What a file holds, row by row."""

    texts: pa.Array  # (n,) large_string, without nulls
    labels: NDArray[np.int64]  # (n,) numbers of the classes
    classes: list[str]
    train: NDArray[np.bool_] | None  # (n,), None if the file does not say


def read_corpus(
    path: Path, text: str, label: str, split: str | None = None, separator: str | None = None
) -> CorpusContent:
    """The texts, labels and split of a file, checked; errors name the file, the row and the column."""
    columns = [text, label, *([split] if split else [])]
    if len(set(columns)) < len(columns):
        raise EvenhandError(f"The columns for text, label and split must differ; got {', '.join(columns)}.")
    table = _read_table(path, columns, separator)
    if table.num_rows == 0:
        raise EvenhandError(f"{path} has no rows.")
    labels, classes = _labels(path, label, table[label])
    train = _split(path, split, table[split]) if split else None
    return CorpusContent(_texts(path, text, table[text]), labels, classes, train)


def _read_table(path: Path, columns: list[str], separator: str | None) -> pa.Table:
    """The wanted columns of a file, as they stand in it (CSV: as text)."""
    if not path.is_file():
        raise EvenhandError(f"The corpus {path} does not exist or is not a file.")
    suffix = path.suffix.lower()
    try:
        if suffix == ".parquet":
            _check_columns(path, columns, pa.parquet.read_schema(path).names)
            return pa.parquet.read_table(path, columns=columns)
        if suffix in (".jsonl", ".ndjson"):
            return _read_json_lines(path, columns)
        return _read_csv(path, columns, separator or SUFFIXES[suffix])
    except (pa.ArrowException, UnicodeDecodeError, csv.Error, OSError) as error:
        if suffix != ".parquet" and (place := _first_bad_byte(path)):
            raise _not_utf8(path, place) from error
        raise EvenhandError(f"Cannot read the corpus {path}: {' '.join(str(error).split())[:300]}") from error


def _read_csv(path: Path, columns: list[str], separator: str) -> pa.Table:
    if len(separator) != 1 or not separator.isascii():
        raise EvenhandError(f"The separator must be one ASCII character such as , or ; and not '{separator}'.")
    with path.open(encoding="utf-8-sig", newline="") as stream:
        header = next(csv.reader(stream, delimiter=separator), [])
    if not header:
        raise EvenhandError(f"{path} is empty: it has no header line.")
    _check_columns(path, columns, header)
    return pa.csv.read_csv(
        path,
        # One thread, so that an error can say its row; blocks that hold the longest text.
        read_options=pa.csv.ReadOptions(use_threads=False, block_size=1 << 26),
        parse_options=pa.csv.ParseOptions(delimiter=separator, newlines_in_values=True),
        convert_options=pa.csv.ConvertOptions(
            include_columns=columns, column_types=dict.fromkeys(columns, pa.large_string())
        ),
    )


def _read_json_lines(path: Path, columns: list[str]) -> pa.Table:
    """JSON objects, one a line; blank lines are passed over. A key that a line lacks is a null."""
    values: dict[str, list[Any]] = {column: [] for column in columns}
    present: dict[str, None] = {}
    with path.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            content = _json_object(path, number, line)
            if content is not None:
                present |= dict.fromkeys(content)
                for column in columns:
                    values[column].append(content.get(column))
    if present:
        _check_columns(path, columns, list(present))
    for column, column_values in values.items():
        _check_json_values(path, column, column_values, text=column == columns[0])
    texts = [value or "" for value in values[columns[0]]]
    rows = [texts, *([_label_text(value) for value in values[column]] for column in columns[1:])]
    return pa.table({column: _string_array(row) for column, row in zip(columns, rows, strict=True)})


def _json_object(path: Path, number: int, line: bytes) -> dict[str, Any] | None:
    try:
        text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
        content = json.loads(text) if text else None
    except UnicodeDecodeError:
        raise _not_utf8(path, _first_bad_byte(path)) from None
    except ValueError as error:
        raise EvenhandError(f"{path}, line {number}: not valid JSON ({error}).") from error
    if text and not isinstance(content, dict):
        raise EvenhandError(f"{path}, line {number}: not a JSON object but {text[:60]}.")
    return content


def _check_json_values(path: Path, column: str, values: list[Any], text: bool) -> None:
    expected, types = ("text", str) if text else ("a plain value", str | int | float)
    for row, value in enumerate(values, start=1):
        if value is not None and not isinstance(value, types):
            raise EvenhandError(f"{path}, row {row}, column '{column}': expected {expected}, not {str(value)[:60]}.")


def _string_array(values: list[str]) -> pa.Array:
    # JSON can spell half of a surrogate pair, which is no text; it becomes a question mark.
    whole = [value.encode("utf-8", "replace").decode("utf-8") for value in values]
    return pa.array(whole, type=pa.large_string())


def _check_columns(path: Path, wanted: list[str], present: list[str]) -> None:
    for column in wanted:
        if column not in present:
            raise EvenhandError(
                f"{path} has no column '{column}'. It has: {', '.join(present)}. "
                "Name the columns with --text and --label."
            )
        if present.count(column) > 1:
            raise EvenhandError(f"{path} has several columns called '{column}'. Rename all but one of them.")


def _first_bad_byte(path: Path) -> str:
    """Where a file stops being UTF-8, in words; nothing if it does not."""
    offset = 0
    with suppress(OSError), path.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                place = offset + error.start
                return f"line {number} holds the byte 0x{line[error.start]:02x} at offset {place} of the file"
            offset += len(line)
    return ""


def _not_utf8(path: Path, place: str) -> EvenhandError:
    return EvenhandError(f"{path} is not UTF-8: {place}. Save it as UTF-8 first.")


def _texts(path: Path, column: str, values: pa.ChunkedArray) -> pa.Array:
    """The texts as one array; a missing text is an empty one."""
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if pa.types.is_null(values.type):
        values = values.cast(pa.string())
    if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        raise EvenhandError(f"{path}, column '{column}': it holds {values.type} and not text. Name the text's column.")
    texts = pa.concat_arrays(values.cast(pa.large_string()).chunks)
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        raise EvenhandError(
            f"{path}, row {_first_not_utf8(texts)}, column '{column}': the text is not UTF-8. Save it as UTF-8 first."
        ) from None
    return pc.fill_null(texts, "")


def _first_not_utf8(texts: pa.Array) -> int:
    for row, value in enumerate(texts.cast(pa.large_binary()), start=1):
        try:
            (value.as_py() or b"").decode("utf-8")
        except UnicodeDecodeError:
            return row
    return 0


def _labels(path: Path, column: str, values: pa.ChunkedArray) -> tuple[NDArray[np.int64], list[str]]:
    """(n,) class numbers, and the two classes: numbers by size, words by alphabet."""
    codes, found = _distinct(path, column, values)
    names = sorted(
        set(found), key=lambda name: (0, number, "") if (number := _number(name)) is not None else (1, 0, name)
    )
    place = f"{path}, column '{column}'"
    numbers = [_number(name) for name in names]
    if all(number is not None and 0 <= number <= 1 for number in numbers) and any(
        number not in (0, 1) for number in numbers
    ):
        share = next(name for name in names if _number(name) not in (0, 1))
        raise EvenhandError(
            f"{place}: the label {share} is a share between 0 and 1. Round the labels to 0 and 1 first."
        )
    if len(names) == 1:
        raise EvenhandError(f"{place}: every label is '{names[0]}'. A classifier needs two classes.")
    if len(names) > 2:
        shown = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
        raise EvenhandError(f"{place}: {len(names)} different labels ({shown}). Use a column with exactly two.")
    return np.array([names.index(name) for name in found], dtype=np.int64)[codes], names


def _distinct(path: Path, column: str, values: pa.ChunkedArray) -> tuple[NDArray[np.int64], list[str]]:
    """(n,) the number of each row's value, and the values as text; a missing one is an error."""
    if pa.types.is_nested(values.type):
        raise EvenhandError(f"{path}, column '{column}': it holds {values.type} and not plain values.")
    encoded = values.combine_chunks().dictionary_encode() if not pa.types.is_dictionary(values.type) else values
    encoded = encoded.unify_dictionaries().combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
    found = [_label_text(value) for value in encoded.dictionary.to_pylist()]
    codes = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    missing = (codes < 0) | np.isin(codes, [code for code, name in enumerate(found) if not name])
    if missing.any():
        raise EvenhandError(f"{path}, row {int(np.argmax(missing)) + 1}, column '{column}': the value is missing.")
    return codes, found


def _label_text(value: Any) -> str:
    """A label as people write it: 1 for 1.0, true for True; nothing for a missing one."""
    if value is None or value != value:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value).strip()
    number = _number(text)
    return str(int(number)) if number is not None and number == int(number) else text


def _number(text: str) -> float | None:
    with suppress(ValueError):
        number = float(text)
        return number if np.isfinite(number) else None
    return None


def _split(path: Path, column: str, values: pa.ChunkedArray) -> NDArray[np.bool_]:
    """(n,) true for the rows that the file says train."""
    codes, found = _distinct(path, column, values)
    names = [name.lower() for name in found]
    if wrong := [name for name in found if name.lower() not in ("train", "test")]:
        row = int(np.argmax(codes == found.index(wrong[0]))) + 1
        raise EvenhandError(f"{path}, row {row}, column '{column}': '{wrong[0]}' is neither train nor test.")
    train = np.array([name == "train" for name in names])[codes]
    if train.all() or not train.any():
        raise EvenhandError(f"{path}, column '{column}': every row is '{found[0]}'. Both train and test are needed.")
    return np.asarray(train, dtype=bool)
