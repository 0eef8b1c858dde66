"""Schemas: what is accepted, how values become codes and words, and what errors say."""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.data.attribute import Attribute
from evenhand.data.dataset import builtin_names, load_dataset, load_schema, schema_path
from evenhand.data.dataset import encode as encode_table
from evenhand.data.schema import Schema, Split
from evenhand.errors import EvenhandError
from evenhand.toml_files import place_of
from tests.worlds.schemas import schema_of


def encode(attribute: Attribute, *values: object) -> list[int]:
    codes: list[int] = attribute.encode(pd.Series([str(value) for value in values])).tolist()
    return codes


def test_numbers_are_binned_by_width() -> None:
    age = Attribute(name="age", kind="number", width=10, domain=(1, 9))
    assert encode(age, 17, 20, 29.9, 90, 105) == [1, 2, 2, 9, 10]
    assert age.text(3) == "30–39"


def test_numbers_are_binned_by_edges() -> None:
    income = Attribute(name="income", kind="number", edges=[0, 1000, 2500.5])
    assert income.domain == (0, 3)
    assert encode(income, -5, 0, 999, 1000, 2500.5) == [0, 1, 1, 2, 3]
    assert income.texts() == ["below 0", "0–999", "1,000 to under 2,500.5", "2,500.5 or more"]


def test_fractional_width_does_not_lose_a_bin_to_rounding() -> None:
    share = Attribute(name="share", kind="number", width=0.1, domain=(0, 10))
    assert encode(share, *(f"0.{digit}" for digit in range(10))) == list(range(10))


def test_clipped_bins_read_as_open_ranges() -> None:
    balance = Attribute(name="balance", kind="number", width=50, clip=(-2, 3), domain=(-2, 3), unit="euros")
    assert encode(balance, -900, -75, 0, 1000) == [-2, -2, 0, 3]
    assert [balance.text(code) for code in (-2, -1, 3)] == ["below −50 euros", "−50 to −1 euros", "150 euros or more"]


def test_categories_group_and_catch_the_rest() -> None:
    sex = Attribute(name="sex", kind="category", categories=[["A92", "A95"], ["A91"]], words=["female", "male"])
    assert encode(sex, "A95", "A91", "A92") == [0, 1, 0]
    previous = Attribute(name="previous", kind="category", categories=["0", "*"])
    assert encode(previous, 0, 7, 3) == [0, 1, 1]
    assert previous.texts() == ["0", "other"]
    named = Attribute(name="previous", kind="category", categories=["0", "*"], words=["never", "*"])
    assert named.texts() == ["never", "*"]


def test_categories_and_labels_may_be_numbers_or_booleans() -> None:
    grade = Attribute.model_validate({"name": "grade", "kind": "ordered", "categories": [1, [2, True], "*"]})
    assert grade.categories == ["1", ["2", "true"], "*"]
    flag = {"name": "b", "kind": "number", "domain": [0, 1], "missing": {"value": -1, "code": 9}}
    label = {"column": "y", "values": [False, True], "favourable": True}
    schema = Schema.parse(broken(label=label, attribute=[{"name": "a", "kind": "number", "domain": [0, 3]}, flag]), "x")
    assert schema.label.values == ["false", "true"]
    assert schema.label.favourable == "true"
    assert encode(schema.attributes[1], -1, "true", "false") == [9, 1, 0]


def test_a_schema_without_a_title_has_its_name() -> None:
    assert Schema.parse(broken(), "x").title == "x"
    assert Schema.parse(broken(title=""), "x").title == "x"
    assert Schema.parse(broken(title="People"), "x").title == "People"


def test_missing_values_get_their_code() -> None:
    job = Attribute.model_validate(
        {"name": "job", "kind": "category", "categories": ["a", "b"], "missing": {"value": "?", "code": 100}}
    )
    assert encode(job, "?", "b", "") == [100, 1, 100]
    assert job.sentence(100) == "job unknown"


@pytest.mark.parametrize(
    ("attribute", "value", "message"),
    [
        ({"kind": "number", "domain": (0, 3)}, "x", "Row 2, column 'a': 'x' is not a number"),
        ({"kind": "category", "categories": ["1", "2"]}, "3", "Row 2, column 'a': '3' is not among the categories"),
        ({"kind": "number", "domain": (0, 3)}, "", "Row 2 has no value for 'a'"),
        ({"kind": "number", "domain": (0, 3)}, "inf", "is not a number"),
        ({"kind": "number", "domain": (0, 3)}, "1e30", "is too large"),
    ],
)
def test_wrong_values_are_named_with_their_row(attribute: dict[str, Any], value: str, message: str) -> None:
    with pytest.raises(EvenhandError, match=message):
        encode(Attribute.model_validate({"name": "a", **attribute}), "1", value)


@given(st.integers(-20, 20), st.integers(0, 40), st.integers(1, 30))
def test_a_number_and_its_words_agree(low: int, size: int, width: int) -> None:
    """The words of a code's bin name just the whole numbers that encode to it."""
    attribute = Attribute(name="n", kind="number", width=width, domain=(low, low + size))
    code = low + size // 2
    inside = [value for value in range((code - 1) * width, (code + 2) * width) if encode(attribute, value) == [code]]
    first, last = inside[0], inside[-1]
    expected = f"{first:,}" if width == 1 else f"{first:,}{' to ' if first < 0 else '–'}{last:,}"
    assert attribute.text(code) == expected.replace("-", "−")


@pytest.mark.parametrize("name", builtin_names())
def test_words_of_builtin_categories_lead_back_to_their_codes(name: str) -> None:
    for attribute in load_schema(name).attributes:
        if attribute.kind == "number":
            continue
        words = [attribute.text(code) for code in range(len(attribute.categories))]
        assert len(set(words)) == len(words)
        for code, group in enumerate(attribute.categories):
            raw = group if isinstance(group, str) else group[0]
            if raw != "*":
                assert encode(attribute, raw) == [code]
                assert words[code] == attribute.text(encode(attribute, raw)[0])


def broken(**changes: Any) -> dict[str, Any]:
    content: dict[str, Any] = {
        "name": "x",
        "file": "x.csv",
        "label": {"column": "y", "values": ["0", "1"]},
        "attribute": [
            {"name": "a", "kind": "number", "domain": [0, 3]},
            {"name": "b", "kind": "number", "domain": [0, 1]},
        ],
    }
    return content | changes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"label": {"column": "y", "values": ["0"]}}, "wrong at label, values"),
        ({"label": {"column": "y", "values": ["0", "1"], "favourable": "2"}}, "label.favourable is '2'"),
        ({"attribute": [{"name": "a", "kind": "number", "domain": [3, 0]}] * 2}, r"attribute 1 \('a'\)"),
        ({"attribute": [{"name": "a", "kind": "number", "domain": [0, 1]}] * 2}, "found twice: a"),
        ({"attribute": [{"name": "a", "kind": "category"}] * 2}, "needs"),
        ({"colour": "red"}, "wrong at colour"),
        ({"separator": ";;"}, "wrong at separator: it must be one ASCII character"),
        ({"separator": ""}, "one ASCII character"),
        ({"separator": "§"}, "one ASCII character"),
        ({"split": {"train_rows": 0}}, "wrong at split, train_rows"),
        ({"split": {"seed": -1}}, "wrong at split, seed"),
        ({"label": {"column": "y", "values": ["0", "1", 1]}}, "label.values must be unique; found twice: 1"),
        ({"label": {"column": "a", "values": ["0", "1"]}}, "'a' reads the label's column 'a'"),
        ({"name": 3}, "wrong at name"),
    ],
)
def test_schema_errors_say_where(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(EvenhandError, match=message):
        Schema.parse(broken(**changes), where="x.toml")


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        ({"kind": "number", "edges": [0, float("nan")]}, "edges, entry 2: it must be a finite number"),
        ({"kind": "number", "edges": [0, float("inf")]}, "edges, entry 2: it must be a finite number"),
        ({"kind": "number", "edges": [1, 0]}, "edges must rise"),
        ({"kind": "number", "edges": 3}, "edges"),
        ({"kind": "number", "edges": [1, 2], "domain": [0, 3]}, "beyond the edges, whose codes are 0 to 2"),
        ({"kind": "number", "edges": [1, 2], "domain": [-1, 2]}, "beyond the edges"),
        ({"kind": "number", "domain": [0, 1], "width": float("inf")}, "width: it must be a finite number"),
        ({"kind": "number", "domain": [0, 1], "clip": [3, 2]}, r"clip must be \[lowest code, highest code\]"),
        ({"kind": "number", "domain": [0, 1], "clip": [0, 10**30]}, "clip"),
        ({"kind": "number", "domain": [0, 1], "missing": {"code": 2**24 + 1}}, "missing, code"),
        ({"kind": "number", "domain": [0, 1], "missing": {"code": -(2**24) - 1}}, "missing, code"),
        (
            {"kind": "category", "categories": ["u", "v"], "domain": [0, 2]},
            "the categories, whose codes are 0 to 1",
        ),
        ({"kind": "category", "categories": ["u", "v"], "domain": [-1, 1]}, "beyond the categories"),
        ({"kind": "category", "categories": ["u", "v", "u"]}, "found twice: u"),
        ({"kind": "category", "categories": [["u", "v"], ["v"]]}, "found twice: v"),
        ({"kind": "category", "categories": ["u", []]}, "at least one value in each group"),
        ({"kind": "category", "categories": 3}, "categories"),
        ({"kind": "category"}, "needs categories"),
    ],
)
def test_attribute_errors_say_where(attribute: dict[str, Any], message: str) -> None:
    other = {"name": "b", "kind": "number", "domain": [0, 1]}
    with pytest.raises(EvenhandError, match=rf"attribute 1 \('a'\).*{message}"):
        Schema.parse(broken(attribute=[{"name": "a", **attribute}, other]), where="x.toml")


def test_limits_are_still_accepted() -> None:
    binned = Attribute(name="a", kind="number", edges=[1, 2], domain=(0, 2), clip=(1, 1))
    assert encode(binned, 0, 1.5, 9) == [1, 1, 1]
    assert Attribute(name="a", kind="category", categories=["u", "v"], domain=(1, 1)).texts() == ["v"]
    content = {"name": "a", "kind": "number", "domain": [0, 1], "missing": {"code": -(2**24)}}
    assert encode(Attribute.model_validate(content), "") == [-(2**24)]


def test_a_file_that_is_not_toml(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text("name = ")
    with pytest.raises(EvenhandError, match="not valid TOML"):
        Schema.load(path)
    with pytest.raises(EvenhandError, match="Cannot read"):
        Schema.load(tmp_path / "absent.toml")


def test_protected_attributes_are_checked() -> None:
    schema = schema_of([(0, 3), (2, 2), (0, 1)])
    assert schema.protected_indices(["a2", "a0"]) == [0, 2]
    for names, message in [
        (["a1"], "'a1' has a single value"),
        (["a00"], "Did you mean 'a0'"),
        (["a0", "a0"], "named twice"),
        ([], "No protected attribute"),
    ]:
        with pytest.raises(EvenhandError, match=message):
            schema.protected_indices(names)
    with pytest.raises(EvenhandError, match="Every attribute is protected"):
        schema_of([(0, 1), (0, 1)]).protected_indices(["a0", "a1"])


def test_splits() -> None:
    assert Split(train_rows=3).train_mask(5).tolist() == [True] * 3 + [False] * 2
    mask = Split(held_out=0.2, seed=1).train_mask(50)
    assert mask.sum() == 40
    assert np.array_equal(mask, Split(held_out=0.2, seed=1).train_mask(50))


def test_a_split_leaves_rows_to_train_on() -> None:
    frame = pd.DataFrame({"a": ["0", "1", "2"], "b": ["0", "1", "1"], "y": ["0", "1", "1"]})
    everything = Schema.parse(broken(split={"train_rows": 10}), "x")
    assert encode_table(everything, frame).train.all()
    nothing = Schema.parse(broken(split={"held_out": 0.9}), "x")
    with pytest.raises(EvenhandError, match=r"leaves no row to train on: the table has 3 in all\. Lower"):
        encode_table(nothing, frame)


def test_a_users_own_table(schema_file: Path) -> None:
    data = load_dataset(str(schema_file))
    assert data.codes[:3].tolist() == [[0, 2, 1], [1, 2, 0], [0, 2, 0]]
    assert data.describe(data.codes[1]) == "sex male, age 20–29, city X"
    table = schema_file.parent / "people.csv"
    table.write_text(table.read_text().replace("approved", "accepted", 1))
    with pytest.raises(EvenhandError, match="no column 'approved'"):
        load_dataset(str(schema_file))
    table.unlink()
    with pytest.raises(EvenhandError, match=r"people\.csv does not exist"):
        load_dataset(str(schema_file))


WRITTEN = """\
name = "people"
file = "people.csv"

[label]
column = "y"
values = ["0", "1"]  # [[attribute]]

[[attribute]]
name = "a"
kind = "number"
domain = [0, 3]

[[attribute]]
name = "b"
kind = "category"
categories = [
    "u", ["v", "w"],  # a comment, with [ and "
    '''x''',
]
missing = { value = "?", code = 3 }

[[impossible]]
a = { below = 2 }
b = "u"

[[impossible]]
a = 3
b = ["v", "x"]
"""


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("domain = [0, 3]", 'domain = [0, "x"]', r"line 11, column 14 \(attribute 1 \('a'\), domain, entry 2\)"),
        (
            "domain = [0, 3]",
            "domain = [3, 0]",
            r"line 11, column 1 \(attribute 1 \('a'\)\): domain = \[3, 0\] is reversed",
        ),
        ('kind = "number"\n', "", r"line 8, column 1 \(attribute 1 \('a'\), kind\): this key is needed"),
        ('kind = "number"', '  kind = "numeric"', r"line 10, column 3 \(attribute 1 \('a'\), kind\)"),
        ("'''x'''", "'''u'''", r"line 16, column 1 \(attribute 2 \('b'\)\): categories must be unique"),
        ("code = 3 }", 'code = "c" }', r"line 20, column 26 \(attribute 2 \('b'\), missing, code\)"),
        ('values = ["0", "1"]', 'values = ["0"]', r"line 6, column 1 \(label, values\)"),
        ('name = "people"', 'name = "people"\ncolour = "red"', r"line 2, column 1 \(colour\)"),
        ('file = "people.csv"\n', "", r"wrong at file: this key is needed"),
        ('name = "b"', 'name = "a"', r"line 14, column 1 \(attribute 2 \('a'\), name\): attribute names must"),
        ('name = "b"', 'name = "b"\ncolumn = "y"', r"line 15, column 1 \(attribute 2 \('b'\), column\): the attribute"),
        ('b = ["v", "x"]', 'b = ["v", "z"]', r"line 28, column 1 \(impossible 2\): a rule in impossible names 'z'"),
        ('b = "u"', 'c = "u"', r"\(impossible 1\): a rule in impossible names 'c', which is no attribute"),
        ("a = 3\n", "", r"line 26, column 1 \(impossible 2\): a rule in impossible names at least two"),
        ('name = "b"', 'name = "b', r"not valid TOML: .*line 14, column"),
        ('b = ["v", "x"]\n', 'b = ["v",\n\n', r"not valid TOML: .*at line 28, column 10"),
        ('name = "people"', 'name = "pe\udcffple"', r"not valid TOML: line 1, column 11 is not UTF-8"),
    ],
)
def test_mistakes_in_a_file_are_found_by_line_and_column(tmp_path: Path, old: str, new: str, place: str) -> None:
    path = tmp_path / "x.toml"
    assert WRITTEN.count(old) == 1
    path.write_text(WRITTEN.replace(old, new), encoding="utf-8", errors="surrogateescape")
    with pytest.raises(EvenhandError, match=place):
        Schema.load(path)
    path.write_text(WRITTEN)
    assert Schema.load(path).names == ["a", "b"]


@pytest.mark.parametrize("name", builtin_names())
def test_every_key_of_a_file_is_found_where_it_stands(name: str) -> None:
    text = schema_path(name).read_text(encoding="utf-8")
    lines = text.splitlines()
    for location, key in all_keys(tomllib.loads(text)):
        place = place_of(text, location)
        assert place is not None
        assert lines[place.line - 1][place.column - 1 :].startswith(key), location


def all_keys(content: Any, place: tuple[int | str, ...] = ()) -> Iterator[tuple[tuple[int | str, ...], str]]:
    """The location of each key and of each table in a list, and how the line begins there."""
    entries = content.items() if isinstance(content, dict) else enumerate(content)
    for key, value in entries:
        if isinstance(value, dict) and isinstance(key, int):
            yield (*place, key), "[["
        elif isinstance(key, str) and not isinstance(value, dict):
            is_list_of_tables = isinstance(value, list) and bool(value) and isinstance(value[0], dict)
            yield (*place, key), "[[" if is_list_of_tables else key
        if isinstance(value, dict | list):
            yield from all_keys(value, (*place, key))


@pytest.mark.parametrize("name", ["", "../../etc", "a/b", ".hidden", "two\nlines"])
def test_a_name_that_could_leave_the_folder_of_results_is_refused(name: str) -> None:
    content = schema_of([(0, 1), (0, 1)]).model_dump(by_alias=True) | {"name": name}
    with pytest.raises(EvenhandError, match="it names folders of results"):
        Schema.parse(content, where="the test")
