"""A small table of people in raw values, as models of other frameworks read it, and the same as a data set."""

from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from evenhand.data.dataset import Dataset, encode
from evenhand.data.schema import Schema

ROWS = 600
LABELS = {2: ["no", "yes"], 3: ["no", "later", "yes"]}
ATTRIBUTES: list[dict[str, Any]] = [
    {"name": "age", "kind": "number", "step": 1, "domain": [18, 80], "type": "integer", "protected": True},
    {"name": "sex", "kind": "category", "categories": ["female", "male"], "protected": True},
    {
        "name": "job",
        "kind": "category",
        "categories": ["clerk", "nurse", "driver", "teacher"],
        "missing": {"value": "", "code": 4},
        "domain": [0, 4],
    },
    {
        "name": "region",
        "column": "region_code",
        "kind": "category",
        "categories": [11, 12, 20, 35],
        "type": "integer",
        "words": ["north", "north-east", "south", "islands"],
    },
    {"name": "income", "kind": "number", "step": 0.25, "domain": [2, 40], "type": "float", "unit": "thousands"},
    {"name": "member", "kind": "category", "categories": ["false", "true"], "type": "boolean"},
]


def people_schema(classes: int = 2) -> Schema:
    """Whole numbers, text with a missing value, integers that are codes, decimals, booleans; two or three labels."""
    label = {"column": "approved", "values": LABELS[classes]}
    return Schema.parse(
        {"name": "people", "file": "people.csv", "label": label, "attribute": ATTRIBUTES}, where="the test"
    )


def raw_people(classes: int = 2, rows: int = ROWS, seed: int = 0) -> pd.DataFrame:
    """The table with its own types and the label; the label depends on all columns, and on sex for no good reason."""
    rng = np.random.default_rng(seed)
    jobs = rng.choice(["clerk", "nurse", "driver", "teacher", ""], rows)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 81, rows),
            "sex": pd.array(rng.choice(["female", "male"], rows), dtype="str"),
            "job": pd.array([job or None for job in jobs], dtype="str"),
            "region_code": rng.choice([11, 12, 20, 35], rows),
            "income": rng.integers(2, 41, rows) * 0.25,
            "member": rng.choice([False, True], rows),
        }
    )
    merit = frame["age"] / 30 + frame["income"] / 3 + (jobs == "nurse") + (frame["region_code"] == 20) + frame["member"]
    merit += (frame["sex"] == "male") * 1.5 + rng.normal(0, 0.3, rows)
    codes = np.searchsorted(np.quantile(merit, np.arange(1, classes) / classes), merit)
    frame["approved"] = np.array(LABELS[classes])[codes]
    return frame


def people(classes: int = 2, rows: int = ROWS, seed: int = 0) -> Dataset:
    """The same people as codes."""
    return encode(people_schema(classes), raw_people(classes, rows, seed))


def codes_of(data: Dataset) -> Tensor:
    """(rows, 6) what a search hands to a model."""
    return torch.tensor(data.clipped, dtype=torch.float32)


def features_and_label(classes: int = 2) -> tuple[pd.DataFrame, NDArray[Any]]:
    """What a model is trained on: the raw columns, and the label as text."""
    frame = raw_people(classes)
    return frame.drop(columns="approved"), frame["approved"].to_numpy(dtype=object)
