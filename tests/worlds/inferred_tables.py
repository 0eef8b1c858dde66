"""Random tables such as people bring them, for the tests of what is inferred from them."""

from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from evenhand.data.dataset import encode
from evenhand.data.decoding import Decoder
from evenhand.data.schema import Schema

WORDS = st.sampled_from(["a", "b ", " c", "low", "high", "NA", "None", "?", "", "*", "other", "1", "01", "1.0", "true"])
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), max_size=6)


def column_values(rows: int) -> st.SearchStrategy[list[Any]]:
    """A column: all of one kind, some with missing values."""
    kinds = [
        WORDS,
        ANY_TEXT,
        st.integers(-3, 40),
        st.integers(0, 10**6),
        st.integers(-(2**62), 2**62),
        st.floats(allow_nan=True, allow_infinity=True),
        st.floats(-5, 5).map(lambda number: round(number, 1)),
        st.one_of(st.integers(0, 90), st.none()),
        st.one_of(st.floats(0, 1e6), st.none()),
        st.booleans(),
        st.one_of(st.booleans(), st.none()),
        st.sampled_from([1, 7, 900, 4711]),
        st.dates(),
    ]
    return st.one_of(*(st.lists(kind, min_size=rows, max_size=rows) for kind in kinds))


@st.composite
def tables(draw: st.DrawFn) -> pd.DataFrame:
    """Four columns and a label that has two values."""
    rows = draw(st.integers(2, 60))
    columns: dict[str, Any] = {name: draw(column_values(rows)) for name in ("age", "job_type", "x y", "z")}
    columns["label"] = ["yes", "no"] * (rows // 2) + ["yes"] * (rows % 2)
    return pd.DataFrame(columns)


def check_round_trip(schema: Schema) -> None:
    """Every code of every attribute leads to a raw value that leads back to it, in a frame and through a CSV file."""
    sizes = [attribute.size for attribute in schema.attributes]
    rows = min(max(sizes), 3_000)
    codes = np.stack([lower + np.arange(rows) % size for lower, size in zip(schema.lower, sizes, strict=True)], axis=1)
    frame = Decoder(schema).frame(codes.astype(np.int32))
    labels = np.resize(np.array(schema.label.values, dtype=object), rows)
    again = encode(schema, frame.assign(**{schema.label.column: labels})).codes
    for attribute, wanted, got in zip(schema.attributes, codes.T, again.T, strict=True):
        assert got.tolist() == wanted.tolist(), attribute
