"""A small world for checks: who is treated differently is known without asking."""

import numpy as np
from torch import nn

from evenhand.data.dataset import Dataset
from evenhand.data.schema import Schema
from tests.worlds.schemas import linear

LABEL = {"column": "approved", "values": ["no", "yes"], "favourable": "yes"}
SEX = {"name": "sex", "phrase": "{}", "kind": "category", "categories": ["f", "m"], "words": ["female", "male"]}
INCOME = {"name": "income", "kind": "number", "domain": [0, 9]}
SAVINGS = {"name": "savings", "kind": "number", "domain": [0, 9]}
CITY = {"name": "city", "kind": "category", "categories": ["X", "Y", "Z"]}


def loans(sums: list[int], **more: object) -> Dataset:
    """People by the sum of their income and savings, half of it each, all women of city X."""
    content = {
        "name": "loans",
        "file": "none.csv",
        "label": LABEL,
        "attribute": [SEX | {"protected": True}, INCOME, SAVINGS, CITY],
        **more,
    }
    schema = Schema.parse(content, where="the test")
    rows = [[0, total // 2, total - total // 2, 0] for total in sums]
    codes = np.array(rows, dtype=np.int32)
    return Dataset(schema, codes, np.zeros(len(rows), dtype=np.int64), np.ones(len(rows), dtype=bool))


def by_sex(threshold: float = 14.5) -> nn.Linear:
    """Approves women whose income and savings are above the threshold, men already from one less on.

    So at the default just those whose sum is 14 are treated differently.
    """
    return linear([1.0, 1.0, 1.0, 0.0], -threshold)


def by_sex_and_city() -> nn.Linear:
    """The same; it reads the city too, and decides by it never."""
    return linear([1.0, 1.0, 1.0, 0.01], -14.5)


def blind() -> nn.Linear:
    """Approves above 14.5 whatever the sex, which it reads without ever deciding by it."""
    return linear([0.01, 1.0, 1.0, 0.0], -14.5)
