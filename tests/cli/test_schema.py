"""`evenhand schema`: from a table to a schema file that can be corrected, checked and used."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

from evenhand.cli.main import main
from evenhand.data.dataset import load_dataset
from evenhand.data.decoding import Decoder
from evenhand.data.schema import Schema

ROWS = 120


class Done(NamedTuple):
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


Command = Callable[..., Done]


@pytest.fixture
def evenhand(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command line in this process: starting one takes seconds, and these tests need no model."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")

    def run(*arguments: str, cwd: Path | None = None) -> Done:
        monkeypatch.setattr("sys.argv", ["evenhand", *arguments])
        if cwd is not None:
            monkeypatch.chdir(cwd)
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return Done(int(ended.value.code or 0), captured.out, captured.err)

    return run


@pytest.fixture
def table(tmp_path: Path) -> Path:
    draws = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "id": np.arange(ROWS),
            "gender": draws.choice(["f", "m"], ROWS),
            "age": draws.integers(18, 70, ROWS),
            "income": draws.integers(900, 9_000, ROWS),
            "job": draws.choice(["a", "b", ""], ROWS),
            "approved": draws.choice(["no", "yes"], ROWS),
        }
    )
    frame.to_csv(tmp_path / "people.csv", index=False)
    return tmp_path / "people.csv"


def test_infer_then_check(evenhand: Command, table: Path) -> None:
    folder = table.parent
    done = evenhand("schema", "infer", "people.csv", "--label", "approved", "-p", "gender", "-o", "p.toml", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "gender (protected)" in done.stdout
    assert "- id: it is an identifier" in done.stdout
    data = load_dataset(str(folder / "p.toml"))
    assert data.schema.protected == ["gender"]
    assert data.codes.shape == (ROWS, 5)
    checked = evenhand("schema", "check", "p.toml", cwd=folder)
    assert checked.returncode == 0, checked.stderr
    assert "p.toml is valid and fits its table" in checked.stdout


def test_infer_as_json_elsewhere_and_with_wishes(evenhand: Command, table: Path, tmp_path: Path) -> None:
    out = tmp_path / "schemas" / "people.toml"
    out.parent.mkdir()
    wishes = ["--step", "income=100", "--width", "age=5", "--favourable", "no", "--json"]
    done = evenhand("schema", "infer", str(table), "--label", "approved", "--out", str(out), *wishes)
    content = json.loads(done.stdout)
    assert content["label"]["favourable"] == "no"
    assert content["protected_guessed"]
    assert content["protected"] == ["gender", "age"]
    assert (list(content["passed"]), content["set_aside"]) == (["id"], {})
    schema = load_dataset(str(out)).schema
    assert schema.file == "../people.csv"
    assert schema.attributes[schema.index("income")].step == 100
    assert schema.attributes[schema.index("age")].width == 5
    binned = evenhand(
        "schema", "infer", str(table), "--label", "approved", "-o", str(out), "--bins", "quantile:4", "--force", "-q"
    )
    assert (binned.returncode, binned.stdout) == (0, "")
    assert [len(attribute.edges) for attribute in load_dataset(str(out)).schema.attributes] == [0, 0, 3, 3, 0]


def test_an_existing_file_is_kept(evenhand: Command, table: Path) -> None:
    schema = table.with_suffix(".toml")
    schema.write_text("mine")
    done = evenhand("schema", "infer", str(table), "--label", "approved")
    assert done.returncode == 2
    assert "exists already" in done.stderr
    assert schema.read_text() == "mine"
    assert evenhand("schema", "infer", str(table), "--label", "approved", "--force").returncode == 0
    assert schema.read_text().startswith("# Inferred by")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--label", "aproved"], "Did you mean 'approved'"),
        (["--label", "approved", "-p", "gendr"], "Did you mean 'gender'"),
        (["--label", "approved", "--step", "income"], "--step needs COLUMN=NUMBER"),
        (["--label", "approved", "--width", "age=wide"], "--width needs COLUMN=NUMBER"),
        (["--label", "approved", "--bins", "10"], "quantile:N"),
        (["--label", "approved", "--split", "test"], "--split is for a folder"),
        (["--label", "approved", "-o", "people.json"], "ends in .toml"),
        (["--label", "approved", "-o", "nowhere/people.toml"], "no folder nowhere"),
    ],
)
def test_mistakes_end_with_2_and_leave_nothing(
    evenhand: Command, table: Path, arguments: list[str], message: str
) -> None:
    done = evenhand("schema", "infer", "people.csv", *arguments, cwd=table.parent)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())
    assert [path.name for path in table.parent.iterdir()] == ["people.csv"]


@pytest.mark.filterwarnings("default::evenhand.errors.TableWarning")
def test_columns_that_share_a_name_are_numbered_and_said_once(evenhand: Command, tmp_path: Path) -> None:
    rows = "".join(f"{row},{20 + row % 9},{'fm'[row % 2]},x,{row % 5},{'ab'[row % 3 == 0]}\n" for row in range(60))
    (tmp_path / "twice.csv").write_text(f",age,sex,,age,y\n{rows}")
    done = evenhand("schema", "infer", "twice.csv", "--label", "y", "-p", "sex", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr == (
        "note: In the table twice.csv, 2 columns are called 'age'; they are read as 'age', 'age.1', in their order.\n"
    )
    assert "- Unnamed: 0: it has no name in the table" in done.stdout
    assert Schema.load(tmp_path / "twice.toml").names == ["age", "sex", "age.1"]
    assert "# In the table, 2 columns are called 'age'; they are read as" in (tmp_path / "twice.toml").read_text()
    data = load_dataset(str(tmp_path / "twice.toml"))
    expected = pd.read_csv(tmp_path / "twice.csv")[["age", "age.1"]]
    assert Decoder(data.schema).frame(data.codes)[["age", "age.1"]].to_numpy().tolist() == expected.to_numpy().tolist()


def test_tables_that_cannot_be_read(evenhand: Command, tmp_path: Path) -> None:
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "wide.csv").write_text("a,y\n1,2\n", encoding="utf-16")
    (tmp_path / "binary.csv").write_bytes(b"\0\1\2")
    (tmp_path / "sheet.xlsx").write_bytes(b"PK")
    for name, message in [
        ("absent.csv", "There is no table"),
        ("empty.csv", "empty.csv is empty. Its first line must name the columns"),
        ("wide.csv", "written in UTF-16. Save it as UTF-8"),
        ("binary.csv", "no table that can be read"),
        ("sheet.xlsx", "no table that can be read: it must be a CSV file"),
        (".", "holds no saved Hugging Face dataset"),
    ]:
        done = evenhand("schema", "infer", name, "--label", "y", "-o", "x.toml", cwd=tmp_path)
        assert done.returncode == 2
        assert message in " ".join(done.stderr.split())


def test_check_counts_what_does_not_fit(evenhand: Command, schema_file: Path) -> None:
    text = schema_file.read_text().replace('["X", "Y"]', '["X", "Y", "Z"]')
    rule = '\n[[impossible]]\nsex = "f"\nage = { at_least = 50 }\n'
    schema_file.write_text(text.replace("domain = [2, 5]", "domain = [3, 5]") + rule)
    done = evenhand("schema", "check", str(schema_file), "--json")
    content = json.loads(done.stdout)
    assert content["rows"] == 40
    assert content["outside"] == {"age": 10}
    assert content["rules"] == {"sex female with age 50–59": 5}
    assert content["never"] == {"city": ["Z"]}
    said = evenhand("schema", "check", str(schema_file))
    shown = " ".join(said.stdout.split())
    assert said.returncode == 0
    assert "is valid, but 10 of 40 rows lie outside the domain of an attribute (age 10)." in shown
    assert "fits its table" not in shown
    assert "10 rows (age 10)" in shown
    assert "sex female with age 50–59: 5 rows" in shown
    assert "never: city Z" in shown


def test_codes_without_words_are_pointed_out(evenhand: Command, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("sex,zip,age,y\n" + "0,101,30,1\n1,102,40,0\n" * 20)
    infer = ("schema", "infer", "t.csv", "--label", "y", "-o", "t.toml", "-q", "--force")
    assert evenhand(*infer, cwd=tmp_path).returncode == 0
    checked = evenhand("schema", "check", "t.toml", "--json", cwd=tmp_path)
    assert json.loads(checked.stdout)["without_words"] == ["sex", "y"]
    shown = " ".join(evenhand("schema", "check", "t.toml").stdout.split())
    assert "without words sex, y: reports will say bare codes" in shown
    (tmp_path / "t.toml").write_text((tmp_path / "t.toml").read_text().replace('# words = ["…"', 'words = ["…"'))
    assert json.loads(evenhand("schema", "check", "t.toml", "--json").stdout)["without_words"] == []


def test_infer_says_how_it_read_numbers_and_names(evenhand: Command, tmp_path: Path) -> None:
    rows = "".join(f"{'ab'[row % 2]};{row * 100},25;{'ja' if row % 3 else 'nein'}\n" for row in range(40))
    (tmp_path / "t.csv").write_text('"race, ethnicity";pay;y\n' + rows)
    infer = ("schema", "infer", "t.csv", "--label", "y", "-o", "t.toml", "-p")
    wrong = evenhand(*infer, "race, ethnicity", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "write 'race ethnicity' for the column 'race, ethnicity'" in " ".join(wrong.stderr.split())
    shown = " ".join(evenhand(*infer, "race ethnicity").stdout.split())
    assert "Numbers are read with the decimal sign ',': please check." in shown
    assert "since they separate names" in shown
    assert evenhand("schema", "check", "t.toml").returncode == 0


def test_check_says_the_line_and_column(evenhand: Command, schema_file: Path) -> None:
    schema_file.write_text(schema_file.read_text().replace("domain = [2, 5]", "domain = [5, 2]"))
    done = evenhand("schema", "check", str(schema_file))
    assert done.returncode == 2
    assert "wrong at line 18, column 9 (attribute 2 ('age'))" in done.stderr


def test_columns_and_drop_choose_what_a_schema_is_about(evenhand: Command, table: Path) -> None:
    words = ["schema", "infer", "people.csv", "--label", "approved", "-p", "gender", "--force"]
    assert evenhand(*words, "--columns", "gender, age", cwd=table.parent).returncode == 0
    assert Schema.load(table.parent / "people.toml").names == ["gender", "age"]
    assert evenhand(*words, "--drop", "age,id", cwd=table.parent).returncode == 0
    assert Schema.load(table.parent / "people.toml").names == ["gender", "income", "job"]
    assert evenhand("schema", "check", "people.toml", cwd=table.parent).returncode == 0


@pytest.mark.parametrize(("where", "name"), [(".", "inner"), ("..", "outer"), ("deep/..", "inner")])
def test_the_folder_that_one_is_in_can_be_the_table(evenhand: Command, tmp_path: Path, where: str, name: str) -> None:
    folder = tmp_path / "outer" / "inner"
    (folder / "deep").mkdir(parents=True)
    done = evenhand("schema", "infer", where, "--label", "ok", cwd=folder)
    assert done.returncode == 2
    assert f"{name} holds no saved Hugging Face dataset" in done.stderr


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("x", "Row 1, column 'w': 'x' is no weight"),
        ("-1", "Row 1, column 'w': '-1' is no weight"),
        ("", "Row 1, column 'w': '' is no weight"),
        ("0", "All weights of people (column 'w') are 0"),
    ],
)
def test_weights_that_are_none_are_refused(evenhand: Command, table: Path, weights: str, message: str) -> None:
    frame = pd.read_csv(table, dtype=str)
    frame.assign(w=weights).to_csv(table, index=False)
    done = evenhand("schema", "infer", str(table), "--label", "approved", "--weight", "w")
    assert (done.returncode, message in done.stderr) == (2, True)
    assert not table.with_suffix(".toml").exists()


def test_columns_that_say_nothing_share_a_line(evenhand: Command, table: Path) -> None:
    frame = pd.read_csv(table, dtype=str)
    frame.assign(**{f"same_{number}": "0" for number in range(30)}).to_csv(table, index=False)
    done = evenhand("schema", "infer", str(table), "--label", "approved")
    assert "- 30 columns have the same value in every row: same_0, same_1," in done.stdout
    assert "same_29" not in done.stdout
    assert "same_29" in table.with_suffix(".toml").read_text()


def test_remarks_are_printed(evenhand: Command, table: Path) -> None:
    frame = pd.read_csv(table)
    frame.assign(born=2000 - frame["age"]).to_csv(table, index=False)
    done = evenhand("schema", "infer", str(table), "--label", "approved")
    assert "'born' follows from 'age'" in done.stdout
    again = evenhand("schema", "infer", str(table), "--label", "approved", "--force", "--json")
    assert "'born' follows from 'age'" in json.loads(again.stdout)["remarks"][0]


def test_examples_in_the_help_can_be_copied(evenhand: Command) -> None:
    shown = evenhand("schema", "infer", "--help").stdout.splitlines()
    examples = [place for place, line in enumerate(shown) if line.strip().startswith("evenhand schema infer ")]
    assert len(examples) == 3
    assert all(not shown[place + 1].strip() for place in examples)


@pytest.mark.parametrize(("columns", "said"), [("age", "only one column (age)"), ("approved", "no column to search")])
def test_too_few_columns_are_said_with_the_options(evenhand: Command, table: Path, columns: str, said: str) -> None:
    done = evenhand("schema", "infer", str(table), "--label", "approved", "--columns", columns)
    assert said in done.stderr
    assert done.stderr.strip().endswith("No other column is left: check --columns and --drop.")


def test_a_note_about_a_table_is_said_once(evenhand: Command, table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often a command reads the table, and whatever becomes of Python's own record of what was said."""
    table.write_text(table.read_text().replace("id,", "age,", 1))
    monkeypatch.setattr("evenhand.data.dataset.load_dataset", lambda name: load_dataset(name) and load_dataset(name))
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        for command in (("infer", str(table), "--label", "approved"), ("check", str(table.with_suffix(".toml")))):
            assert evenhand("schema", *command).stderr.count("note: In the table") == 1
