"""Mistakes in schema files: said in words, with their own line, and with what was probably meant."""

import re
from pathlib import Path
from typing import Annotated

import pytest
from pydantic import BaseModel, Field, ValidationError

from evenhand.data.schema import Schema
from evenhand.errors import EvenhandError
from evenhand.mistakes import first_mistake

WRITTEN = """\
name = "people"
file = "people.csv"
separator = ","

[label]
column = "y"
values = ["bad", "good"]
words = ["declined", "approved"]
favourable = "good"

[[attribute]]
name = "age"
kind = "number"
domain = [19, 79]
protected = true

[[attribute]]
name = "income"
kind = "number"
step = 200
domain = [0, 50]
stride = 2

[[attribute]]
name = "job"
kind = "category"
categories = ["a", "b"]
words = ["artist", "baker"]
missing = { value = "", code = 2 }
"""


class Settings(BaseModel):
    """Settings of any kind."""

    name: str
    within: dict[str, float] = {}
    texts: Annotated[list[str], Field(min_length=1)] = ["a"]
    where: dict[str, str] = {}


def mistake(folder: Path, old: str, new: str) -> str:
    assert WRITTEN.count(old) == 1
    (folder / "x.toml").write_text(WRITTEN.replace(old, new))
    with pytest.raises(EvenhandError) as error:
        Schema.load(folder / "x.toml")
    return str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("protected = true", "protectd = true", r"line 15, column 1 .*key 'protectd'; did you mean 'protected'\?$"),
        ("favourable =", "favorable =", r"line 9, column 1 .*unknown key 'favorable'; did you mean 'favourable'\?$"),
        ("separator =", "seperator =", r"line 3, column 1 .*did you mean 'separator'\?$"),
        ("code = 2 }", "kode = 2 }", r"line 29, column 25 .*unknown key 'kode'; did you mean 'code'\?$"),
        ("protected = true", "xyz = 3", r"line 15, column 1 .*unknown key 'xyz'; known: name, column, .*within\.$"),
        ('missing = { value = "", code = 2 }', 'missing = ""', r'line 29, column 1 .*\{ value = "", code = … \}\.$'),
        ('missing = { value = "", code = 2 }', 'missing = "?"', r'\{ value = "\?", code = … \}\.$'),
        ("[19, 79]", "[79, 19]", r"line 14, column 1 .*domain = \[79, 19\] is reversed; write \[19, 79\]\.$"),
        ("domain = [19, 79]\n", "", r"line 11, column 1 .*a number needs a domain"),
        ("protected = true", 'protected = "yes"', r"line 15, column 1 .*must be true or false, without quotes"),
        ("[19, 79]", '["19", 79]', r"line 14, column 11 .*must be a whole number, without quotes"),
        ("step = 200", 'step = "200"', r"line 20, column 1 .*must be a number, without quotes"),
        ("stride = 2", "stride = 51", r"line 22, column 1 .*stride = 51 is more than the 51 codes"),
        ('favourable = "good"', 'favourable = "god"', r"line 9, column 1 .*favourable is 'god', which is not in"),
        ('["declined", "approved"]', '["declined"]', r"line 8, column 1 .*each of label.values: 2, not 1"),
        ('["artist", "baker"]', '["artist"]', r"line 28, column 1 .*one entry for each of categories: 2, not 1"),
        ('separator = ","', 'decimal = ";"', r"line 3, column 1 .*must be one of '\.' ',' and not ';'"),
        ('separator = ","', 'decimal = ","\nthousands = ","', r"line 4, column 1 .*the decimal sign already"),
        ("[label]", '[split]\nseed = "1"\n[label]', r"line 6, column 1 .*must be a whole number, without quotes"),
        ('kind = "category"', 'kind = "catgory"', r"line 26, .*there is no kind 'catgory'; did you mean 'category'\?$"),
        ('kind = "category"', 'kind = "x"', r"there is no kind 'x'; known: category, ordered, number, pass\.$"),
        ("[19, 79]", "[19]", r"line 14, column 1 .*domain needs two numbers: the smallest and the largest code\.$"),
        ("[19, 79]", "[19, 40, 79]", r"line 14, column 1 .*domain needs two numbers"),
        ('values = ["bad", "good"]', 'values = ["bad"]', r"line 7, column 1 .*values needs at least two labels\.$"),
        ('kind = "category"\n', "", r"line 24, column 1 \(attribute 3 \('job'\), kind\): this key is needed\.$"),
    ],
)  # fmt: skip
def test_mistakes_are_said_in_words(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert re.search(message, mistake(tmp_path, old, new))


def test_a_list_of_tables_by_another_name(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text(WRITTEN.replace("[[attribute]]", "[[attributes]]"))
    with pytest.raises(EvenhandError, match=r"line 11, column 1 .*'attributes'; did you mean 'attribute'\?"):
        Schema.load(tmp_path / "x.toml")


def test_what_is_right_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text(WRITTEN.replace("stride = 2", "stride = 50"))
    assert Schema.load(tmp_path / "x.toml").attributes[1].stride == 50


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"name": "a", "within": 10}, "write within = { age = 10 }"),
        ({"name": "a", "texts": []}, "it needs at least 1 entry, not 0"),
        ({"name": "a", "where": 3}, "it must be a table of keys and values"),
    ],
)
def test_settings_are_refused_without_the_words_of_pydantic(settings: dict[str, object], reason: str) -> None:
    with pytest.raises(ValidationError) as error:
        Settings.model_validate(settings)
    assert first_mistake(error.value, Settings)[1] == reason
