"""Codes back to raw values: types, the value that stands for a code, and that it leads back to the code."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.data.attribute import Attribute
from evenhand.data.dataset import Dataset, builtin_names, load_schema
from evenhand.data.decoding import Decoder, numbers_of
from evenhand.data.schema import Schema
from evenhand.errors import EvenhandError
from tests.worlds.inferred_tables import check_round_trip


def schema_with(**attribute: Any) -> Schema:
    other = {"name": "b", "kind": "number", "domain": [0, 1]}
    content = {"name": "x", "file": "x.csv", "label": {"column": "y", "values": ["0", "1"]}}
    return Schema.parse(content | {"attribute": [{"name": "a", **attribute}, other]}, "the test")


def decoded(**attribute: Any) -> pd.Series:
    """The raw values of all codes of an attribute."""
    schema = schema_with(**attribute)
    low, high = schema.attributes[0].domain
    codes = np.array([[code, 0] for code in range(low, high + 1)], dtype=np.int32)
    return Decoder(schema).frame(codes)["a"]


@pytest.mark.parametrize("name", builtin_names())
def test_codes_of_builtin_data_lead_back_to_themselves(name: str) -> None:
    check_round_trip(load_schema(name))


sizes = st.one_of(st.integers(1, 1000), st.floats(1e-3, 1e3), st.sampled_from([0.1, 0.05, 0.3, 0.7, 1 / 3, 2.5, 1e-7]))
rising = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=8, unique=True).map(sorted)


@given(sizes, st.sampled_from(["step", "width"]), st.integers(-1000, 1000), st.integers(0, 300))
def test_steps_and_widths_lead_back(size: float, field: str, low: int, codes: int) -> None:
    check_round_trip(schema_with(kind="number", domain=[low, low + codes], **{field: size}))


@given(rising)
def test_edges_lead_back(edges: list[float]) -> None:
    check_round_trip(schema_with(kind="number", edges=edges))


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=8, unique=True).map(sorted))
def test_edges_of_whole_numbers_lead_back(edges: list[int]) -> None:
    schema = schema_with(kind="number", edges=edges, type="integer")
    assert decoded(kind="number", edges=edges, type="integer").dtype == np.int64
    check_round_trip(schema)


texts = st.text("abc *01", min_size=1, max_size=4).filter(lambda text: text.strip() != "")


@given(st.lists(texts, min_size=1, max_size=6, unique_by=str.strip), st.booleans(), st.sampled_from(["text", None]))
def test_categories_lead_back(categories: list[str], missing: bool, kind: str | None) -> None:
    extra: dict[str, Any] = {"type": kind} if kind else {}
    if missing:
        extra |= {"missing": {"code": len(categories)}, "domain": [0, len(categories)]}
    check_round_trip(schema_with(kind="category", categories=categories, **extra))


def test_numbers_are_written_as_in_a_table() -> None:
    assert decoded(kind="number", step=0.1, domain=[0, 7]).tolist() == [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]
    assert decoded(kind="number", step=0.05, domain=[27, 29]).tolist() == [1.35, 1.4, 1.45]
    assert decoded(kind="number", width=0.1, domain=[3, 4]).tolist() == [0.35, 0.45]
    tiny = decoded(kind="number", step=1e-15, domain=[3, 4])
    assert tiny.tolist() == [3e-15, 4e-15]


@pytest.mark.parametrize(
    ("attribute", "values", "dtype"),
    [
        ({"kind": "number", "step": 1, "domain": [3, 4]}, [3, 4], "int64"),
        ({"kind": "number", "step": 1, "domain": [3, 4], "type": "float"}, [3.0, 4.0], "float64"),
        ({"kind": "number", "width": 10, "domain": [3, 4]}, [34, 44], "int64"),
        ({"kind": "number", "domain": [0, 1], "type": "boolean"}, [False, True], "bool"),
        ({"kind": "number", "edges": [0, 10], "typical": [-3, 4, 12]}, [-3, 4, 12], "int64"),
        ({"kind": "number", "edges": [-1.5, 2]}, [np.nextafter(-1.5, -2), 0.25, 2], "float64"),
        ({"kind": "category", "categories": ["u", ["v", "w"]]}, ["u", "v"], "str"),
        ({"kind": "category", "categories": [7, 12], "type": "integer"}, [7, 12], "int64"),
        ({"kind": "category", "categories": [2**60 + 1, 2], "type": "integer"}, [2**60 + 1, 2], "int64"),
        ({"kind": "category", "categories": [7, "0.5"], "type": "float"}, [7.0, 0.5], "float64"),
        ({"kind": "category", "categories": ["False", "True"], "type": "boolean"}, [False, True], "bool"),
        ({"kind": "category", "categories": ["other", "*"]}, ["other", "other 2"], "str"),
        ({"kind": "category", "categories": ["a", ["z", "*"]]}, ["a", "z"], "str"),
    ],
)
def test_values_and_types(attribute: dict[str, Any], values: list[Any], dtype: str) -> None:
    column = decoded(**attribute)
    assert column.tolist() == values
    assert str(column.dtype) == dtype


@pytest.mark.parametrize("kind", ["text", "category", "integer", "float", "boolean"])
def test_a_missing_category_is_missing_for_a_model(kind: str) -> None:
    column = decoded(kind="category", categories=["0", "1"], type=kind, missing={"code": 2}, domain=[0, 2])
    assert column.isna().tolist() == [False, False, True]


def test_a_missing_value_above_all_bins_is_missing_for_a_model() -> None:
    attribute = {"kind": "number", "edges": [5], "missing": {"code": 2}, "domain": [0, 2]}
    assert decoded(**attribute).isna().tolist() == [False, False, True]
    assert Attribute.model_validate({"name": "a", **attribute}).texts() == ["below 5", "5 or more", "unknown"]


def test_codes_outside_the_domain_are_moved_into_it(census: Dataset) -> None:
    frame = Decoder(census.schema).frame(census.codes[:2_000])
    assert frame.equals(Decoder(census.schema).frame(census.clipped[:2_000]))
    assert list(frame.columns) == [attribute.column for attribute in census.schema.attributes]


def test_large_domains_are_decoded_without_a_table() -> None:
    schema = schema_with(kind="number", step=2, domain=[0, 2_000_000])
    codes = np.array([[5, 0], [1_999_999, 1]], dtype=np.int32)
    assert Decoder(schema).frame(codes)["a"].tolist() == [10, 3_999_998]
    assert numbers_of(schema.attributes[0], np.array([3])).tolist() == [6]


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        ({"categories": ["x", "y"], "type": "integer"}, "type integer, but its category 'x' is none"),
        ({"categories": ["1.5", "2"], "type": "integer"}, "its category '1.5' is none"),
        ({"categories": ["x", "y"], "type": "boolean"}, "type boolean, but its category 'x' is none"),
        ({"categories": ["1", "*"], "type": "integer"}, r"needs a value that stands for all others: write \['VALUE'"),
    ],
)
def test_categories_that_do_not_go_with_their_type(attribute: dict[str, Any], message: str) -> None:
    with pytest.raises(EvenhandError, match=message):
        decoded(kind="category", **attribute)


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        ({"step": 0.5, "domain": [0, 1], "type": "integer"}, "step = 0.5 does not go with type = 'integer'"),
        ({"width": 2.5, "domain": [0, 1], "type": "integer"}, "width = 2.5 does not go"),
        ({"edges": [0.2, 0.7], "type": "integer"}, "a bin without a whole number"),
        ({"edges": [0, 1], "typical": [-1, 0.5, 1], "type": "integer"}, "typical must be whole"),
        ({"edges": [0, 1], "typical": [-1, 2, 1]}, "a value within each bin"),
        ({"edges": [0, 1], "typical": [-1, 0]}, "one value for each bin"),
        ({"domain": [0, 2], "type": "boolean"}, r"within \[0, 1\]"),
        ({"domain": [0, 2], "type": "text"}, "cannot have the type text"),
        ({"domain": [0, 2], "step": 1, "width": 2}, "one of step, width and edges"),
        ({"domain": [0, 2], "moves": "none", "stride": 2}, "stride says how far"),
    ],
)
def test_numbers_whose_values_would_become_another_code_are_refused(attribute: dict[str, Any], message: str) -> None:
    with pytest.raises(EvenhandError, match=message):
        schema_with(kind="number", **attribute)
