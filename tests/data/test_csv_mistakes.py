"""CSV files that cannot be read: the line and the remedy are said, and no values of people."""

import gzip
from pathlib import Path

import pytest

from evenhand.data.infer.schema import infer_file
from evenhand.data.tables import read_table
from evenhand.errors import EvenhandError

HEADER = "name,age,city,y"
LINES = [f"Secret{row},{20 + row},Bonn,{row % 2}" for row in range(40)]


def mistake(path: Path, lines: list[str], separator: str = ",") -> str:
    text = "\n".join([HEADER, *lines]) + "\n"
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    with pytest.raises(EvenhandError) as raised:
        read_table(path, separator)
    assert "Secret" not in str(raised.value)
    return str(raised.value).removeprefix(f"Cannot read the table {path}: ")


def with_line(number: int, line: str) -> list[str]:
    """The lines of the table with another one; the header is line 1."""
    return [line if row + 2 == number else old for row, old in enumerate(LINES)]


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_a_row_with_too_many_values(tmp_path: Path, name: str) -> None:
    assert mistake(tmp_path / name, with_line(12, "Secret, Miss,30,Bonn,1")) == (
        "line 12 has 5 values, but the first line names 4 columns. Put values that hold the separator ',' in quotes "
        '("…"), or take away what is too much.'
    )


def test_a_row_with_too_few_values(tmp_path: Path) -> None:
    wrong = with_line(30, "Secret")
    wrong[3] = ""  # an empty line is no row, but counts as a line
    assert mistake(tmp_path / "t.csv", wrong) == (
        "line 30 has 1 value, but the first line names 4 columns. "
        "Add what is missing; an empty value needs its separator too."
    )


def test_a_quote_that_is_not_closed(tmp_path: Path) -> None:
    remedy = "Close it, or take it away; a quote within a value is written twice."
    assert mistake(tmp_path / "t.csv", with_line(5, 'Secret,30,"Bonn,1')) == (
        "lines 5 to 41 are read as one row with 3 values, but the first line names 4 columns. If they are not one row, "
        f"a quote (\") that opens on line 5, in the column 'city', is not closed there. {remedy}"
    )
    closed_late = with_line(5, 'Secret,30,"Bonn,1')
    closed_late[10] = '"Secret",30,Bonn,1'
    assert "opens on line 5, in the column 'city', is not closed" in mistake(tmp_path / "t.csv", closed_late)
    long = [*with_line(5, 'Secret,30,"Bonn,1'), *LINES * 200]
    assert mistake(tmp_path / "t.csv", long) == (
        "a value in the row that starts on line 5 is longer than 131,072 characters. "
        f'Most likely a quote (") is not closed. {remedy}'
    )


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_a_quote_that_is_left_open_to_the_end_of_the_file(tmp_path: Path, name: str) -> None:
    """Arrow takes the rest of the file for one value, and says nothing."""
    assert mistake(tmp_path / name, with_line(30, 'Secret,30,Bonn,"1')) == (
        "a quote (\") in the last column, 'y', is not closed: the last 12 lines are one value. "
        "Close it, or take it away; a quote within a value is written twice."
    )


def test_a_last_value_of_several_lines_that_is_closed_is_read(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('a,b\n1,x\n2,"y\nz"\n\n')
    assert read_table(tmp_path / "t.csv")["b"].tolist() == ["x", "y\nz"]


def test_another_separator_than_was_given(tmp_path: Path) -> None:
    words = "only one column was found, 'name,age,city,y'. Is ';' the separator? ',' seems to be; give that one."
    assert mistake(tmp_path / "t.csv", LINES, ";") == words
    assert mistake(tmp_path / "t.csv", with_line(9, "Secret;x,30,Bonn,1"), ";") == words
    assert "Is the tab the separator? ',' seems" in mistake(tmp_path / "t.csv", LINES, "\t")
    for separator in (";;", "é", "\n", '"'):
        with pytest.raises(EvenhandError, match=r"separator must be one ASCII character such as , or ; and not '"):
            infer_file(tmp_path / "t.csv", "y", separator=separator)
    with pytest.raises(EvenhandError, match="only one column was found"):
        infer_file(tmp_path / "t.csv", "y", separator=";")
    assert list(read_table(tmp_path / "t.csv", ",").columns) == HEADER.split(",")


def test_a_ragged_row_that_speaks_of_utf8_is_ragged_and_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("name,enc\nJane Doe,invalid UTF8,secret\n")
    with pytest.raises(EvenhandError) as raised:
        read_table(tmp_path / "t.csv")
    assert "Jane" not in str(raised.value)
    assert "Save it as UTF-8" not in str(raised.value)


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1"])
def test_a_header_that_is_not_utf8(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "t.csv").write_bytes("größe,alter\n1,2\n".encode(encoding))
    with pytest.raises(
        EvenhandError, match=r"names of the columns, in its first line, are not written in UTF-8\. Save"
    ):
        read_table(tmp_path / "t.csv")
    with pytest.raises(EvenhandError, match="iconv -f CP1252 -t UTF-8"):
        infer_file(tmp_path / "t.csv", "alter")
