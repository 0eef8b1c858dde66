"""The built-in data: complete, and encoded as the study did."""

import io
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.data.csv_files import unique_header
from evenhand.data.dataset import Dataset, encode, load_dataset, load_schema
from evenhand.data.infer.schema import infer_file
from evenhand.data.schema import Schema
from evenhand.data.tables import read_table, saved_split, text_column
from evenhand.errors import EvenhandError, TableWarning


def out_of_domain(data: Dataset) -> dict[str, int]:
    wrong = ((data.codes < data.schema.lower) | (data.codes > data.schema.upper)).sum(axis=0)
    return {name: int(count) for name, count in zip(data.schema.names, wrong, strict=True) if count}


def test_census(census: Dataset) -> None:
    assert census.codes.shape == (32_561 + 16_281, 13)
    assert census.train.sum() == 32_561
    assert census.train[:32_561].all()
    assert census.codes[0].tolist() == [3, 5, 3, 0, 2, 8, 3, 0, 1, 2, 0, 40, 0]
    assert census.labels[0] == 0
    assert census.labels[:32_561].sum() == 7_841
    assert census.schema.protected == ["age", "race", "sex"]
    assert census.codes[:, 2].max() == 74
    assert census.codes[:, 10].max() == 43
    assert (census.codes[:, 12] == 40).sum() == 1  # Holand-Netherlands, beyond the domain as in the study
    assert set(out_of_domain(census)) == {"workclass", "fnlwgt", "occupation", "capital-loss", "native-country"}


def test_census_in_words(census: Dataset) -> None:
    assert census.describe(census.codes[0]).startswith("age 30–39, state government, ")
    assert "male" in census.describe(census.codes[0]).split(", ")


def test_bank() -> None:
    bank = load_dataset("bank")
    assert bank.codes.shape == (45_211, 16)
    assert bank.labels.sum() == 5_289
    assert out_of_domain(bank) == {}
    assert bank.schema.protected == ["age"]
    # 58, management, married, tertiary, no, 2143, yes, no, unknown, 5, may, 261, 1, -1, 0, unknown
    assert bank.codes[0].tolist() == [5, 3, 0, 3, 0, 42, 1, 0, 0, 5, 4, 26, 1, 1, 0, 0]


def test_credit() -> None:
    credit = load_dataset("credit")
    assert credit.codes.shape == (1_000, 20)
    assert credit.labels.sum() == 700
    assert out_of_domain(credit) == {}
    assert sorted(credit.schema.protected) == ["age", "sex"]
    # The first row of german.data: A11 6 A34 A43 1169 A65 A75 4 A93 A101 4 A121 67 A143 A152 2 A173 1 A192 A201 1.
    assert credit.codes[0].tolist() == [0, 6, 4, 3, 11, 4, 4, 4, 1, 0, 4, 0, 6, 2, 1, 2, 2, 1, 1, 0]


def test_clipped_rows_lie_in_the_domain(census: Dataset) -> None:
    assert (census.clipped >= census.schema.lower).all()
    assert (census.clipped <= census.schema.upper).all()
    inside = (census.codes >= census.schema.lower) & (census.codes <= census.schema.upper)
    assert np.array_equal(census.clipped[inside], census.codes[inside])


def test_unknown_data_set_names_the_nearest() -> None:
    with pytest.raises(EvenhandError, match="Did you mean 'census'"):
        load_dataset("cencus")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array([3.0, None, 0.5, float("nan"), -0.0]), ["3", None, "0.5", None, "0"]),
        (pa.array([0.1, 2.0], pa.float32()), ["0.1", "2"]),
        (pa.array([2**53 + 1, None]), [str(2**53 + 1), None]),
        (pa.array([True, None, False]), ["true", None, "false"]),
        (pa.array([Decimal("3.00"), Decimal("0.25")]), ["3", "0.25"]),
        (pa.array(["007", "x", None]), ["007", "x", None]),
        (pa.array(["u", "v", "u"]).dictionary_encode(), ["u", "v", "u"]),
        (pa.array([None, None]), [None, None]),
    ],
)
def test_columns_of_every_type_read_as_text(values: Any, expected: list[str | None]) -> None:
    column = pd.Series(values, dtype=pd.ArrowDtype(values.type))
    assert texts(column) == expected
    twice = pa.chunked_array([values, values])
    assert texts(pa.table({"a": twice}).to_pandas(types_mapper=pd.ArrowDtype)["a"]) == expected * 2


def texts(column: pd.Series) -> list[str | None]:
    return [None if pd.isna(value) else value for value in text_column(column)]


def test_pandas_columns_read_as_text() -> None:
    """pandas makes floats of integers and objects of booleans where a value is missing."""
    assert texts(pd.Series([3, None, 1])) == ["3", None, "1"]
    assert texts(pd.Series([True, None, False])) == ["true", None, "false"]
    assert texts(pd.Series([3, pd.NA], dtype="Int64")) == ["3", None]
    assert texts(pd.Series([1, 2, 1], dtype="category")) == ["1", "2", "1"]
    assert texts(pd.Series([1, "x", None], dtype=object)) == ["1", "x", None]
    with pytest.raises(EvenhandError, match="Column 'a' holds values of the type list"):
        texts(pd.Series([[1], [2]], name="a"))


PEOPLE = {
    "grade": pa.array([1, 2, None, 1]),
    "score": pa.array([1.0, 2.0, 2.0, None]),
    "member": pa.array([True, False, False, True]),
    "approved": pa.array([True, False, True, True]),
    "tags": pa.array([["x"], [], [], []]),  # of a type that cannot be read, but no attribute asks for it
}


def people_schema() -> dict[str, Any]:
    missing = {"code": 9}
    return {
        "name": "people",
        "file": "people.parquet",
        "label": {"column": "approved", "values": [False, True]},
        "attribute": [
            {"name": "grade", "kind": "category", "categories": [1, 2], "missing": missing},
            {"name": "score", "kind": "category", "categories": ["1", "2"], "missing": missing},
            {"name": "member", "kind": "category", "categories": [False, True]},
            {"name": "member-number", "column": "member", "kind": "number", "domain": [0, 1]},
        ],
    }


def test_a_parquet_file_keeps_the_meaning_of_its_types(tmp_path: Path) -> None:
    schema = Schema.parse(people_schema(), "the test")
    expected = [[0, 0, 1, 1], [1, 1, 0, 0], [9, 1, 0, 0], [0, 9, 1, 1]]
    indexed = pa.Table.from_pandas(pa.table(PEOPLE).to_pandas().set_index("grade"))  # grade becomes pandas' index
    for table in (pa.table(PEOPLE), indexed):
        pa.parquet.write_table(table, tmp_path / "people.parquet")
        data = encode(schema, read_table(tmp_path / "people.parquet"))
        assert data.codes.tolist() == expected
        assert data.labels.tolist() == [1, 0, 1, 1]
    frame = pa.table(PEOPLE).to_pandas().set_index(pd.Index(list("abcd")))
    assert encode(schema, frame).codes.tolist() == expected
    frame["member"] = ["true", "false", "maybe", "true"]
    with pytest.raises(EvenhandError, match="Row 3, column 'member': 'maybe' is not among the categories"):
        encode(schema, frame)


def test_a_repeated_column_of_a_csv_file_is_numbered_and_said(schema_file: Path) -> None:
    table = schema_file.parent / "people.csv"
    table.write_text("age;" + table.read_text().replace("\n", "\n77;").removesuffix("77;"))
    with pytest.warns(TableWarning, match="2 columns are called 'age'; they are read as 'age', 'age.1'"):
        frame = read_table(table, ";")
    expected = pd.read_csv(table, sep=";", dtype=str)
    assert list(frame.columns) == list(expected.columns)
    assert frame["age"].tolist() == expected["age"].tolist() == ["77"] * len(frame)
    assert frame["age.1"].tolist() == expected["age.1"].tolist()


NAMES = st.lists(st.sampled_from(["a", "a", "b", "a.1", "a.2", "a.1.1", "", "Unnamed: 1"]), min_size=2, max_size=8)


@given(NAMES)
def test_headers_are_numbered_as_pandas_does(header: list[str]) -> None:
    row = ",".join("x" * len(header))
    expected = pd.read_csv(io.StringIO(f"{','.join(header)}\n{row}\n"), index_col=False)
    assert unique_header(header) == list(expected.columns)
    assert len(set(unique_header(header))) == len(header)


def test_a_repeated_column_in_memory_is_refused() -> None:
    schema = load_schema("census")
    frame = pd.DataFrame([[0] * 3], columns=["age", "age", "x"])
    with pytest.raises(EvenhandError, match="has no column"):
        encode(schema, frame)
    columns = [attribute.column for attribute in schema.attributes] + [schema.label.column]
    twice = pd.DataFrame([[0] * (len(columns) + 1)], columns=[*columns, columns[0]])
    with pytest.raises(EvenhandError, match=rf"several columns called '{columns[0]}'\. Rename"):
        encode(schema, twice)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("agee;", r"has no column 'age'\. Did you mean 'agee' for 'age'\? It has: "),
        ("xyz;", r"has no column 'age'\. It has: "),
    ],
)
def test_an_absent_column_is_told_the_nearest_one(schema_file: Path, names: str, message: str) -> None:
    table = schema_file.parent / "people.csv"
    table.write_text(table.read_text().replace("age;", names, 1))
    with pytest.raises(EvenhandError, match=message):
        load_dataset(str(schema_file))


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A Hugging Face dataset and a dictionary of two, saved to disk."""
    import datasets

    datasets.disable_progress_bars()
    table = datasets.Dataset.from_dict({name: values.to_pylist() for name, values in PEOPLE.items()})
    table.save_to_disk(tmp_path / "one", num_shards=2)
    datasets.DatasetDict({"train": table, "test": table.select([2, 0, 1])}).save_to_disk(tmp_path / "many")
    return tmp_path


def test_a_saved_hugging_face_dataset_is_read(saved: Path) -> None:
    schema = Schema.parse(people_schema(), "the test")
    expected = [[0, 0, 1, 1], [1, 1, 0, 0], [9, 1, 0, 0], [0, 9, 1, 1]]
    for folder in ("one", "many", "many/train"):
        assert encode(schema, read_table(saved / folder)).codes.tolist() == expected
    assert encode(schema, read_table(saved / "many" / "test")).codes.tolist() == [expected[2], expected[0], expected[1]]
    assert saved_split(saved / "many", "test") == saved / "many" / "test"
    found = infer_file(saved / "many", "member", split="test", beside=saved)
    assert found.schema.file == "many/test"


def test_folders_that_cannot_be_read(saved: Path) -> None:
    with pytest.raises(EvenhandError, match=r"called 'tset'.* Did you mean 'test'"):
        saved_split(saved / "many", "tset")
    with pytest.raises(EvenhandError, match="has no splits"):
        saved_split(saved / "one", "test")
    with pytest.raises(EvenhandError, match="holds no saved Hugging Face dataset"):
        read_table(saved)
    for file in (saved / "one").glob("*.arrow"):
        file.write_bytes(b"nonsense")
    with pytest.raises(EvenhandError, match="Cannot read the Hugging Face dataset"):
        read_table(saved / "one")
    (saved / "x.json").write_text("{}")
    with pytest.raises(EvenhandError, match=r"x\.json is no table that can be read: it must be a CSV file"):
        read_table(saved / "x.json")


def test_a_csv_file_may_hold_line_breaks_and_must_be_utf8(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('a,b\n"x\ny",1\n')
    assert read_table(tmp_path / "a.csv")["a"].tolist() == ["x\ny"]
    (tmp_path / "a.csv").write_bytes("a,b\nü,1\n".encode("latin-1"))
    with pytest.raises(EvenhandError, match=r"values of column 1 are not written in UTF-8\. Save it as UTF-8"):
        read_table(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text("a,b\nü,1\n", encoding="utf-16")
    with pytest.raises(EvenhandError, match=r"it is written in UTF-16\. Save it as UTF-8"):
        read_table(tmp_path / "a.csv")
