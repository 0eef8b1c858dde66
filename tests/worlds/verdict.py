"""A small table whose codes, values and raw numbers all differ, and models of each kind that were trained on it."""

import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import nn

from evenhand.data.dataset import Dataset, encode
from evenhand.data.schema import Schema

ROWS = 1500
NAMES = ["age", "sex", "region", "income", "noise"]
SCHEMA = """
name = "loans"
file = "loans.csv"
label = { column = "approved", values = ["no", "yes"], favourable = "yes" }
attribute = [
  { name = "age", kind = "number", step = 2, domain = [9, 40], type = "integer" },
  { name = "sex", kind = "category", categories = ["1", "2"], type = "integer", protected = true },
  { name = "region", kind = "category", categories = ["11", "25", "70"], type = "integer" },
  { name = "income", kind = "number", step = 0.5, domain = [2, 40], type = "float" },
  { name = "noise", kind = "number", step = 1, domain = [0, 5], type = "integer" },
]
"""


def loans_schema() -> Schema:
    return Schema.parse(tomllib.loads(SCHEMA), where="the test")


def raw_loans(rows: int = ROWS, seed: int = 0) -> pd.DataFrame:
    """Label by age, income, region and sex; nothing depends on the noise."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": 2 * rng.integers(9, 41, rows),
            "sex": rng.choice([1, 2], rows),
            "region": rng.choice([11, 25, 70], rows),
            "income": rng.integers(2, 41, rows) * 0.5,
            "noise": rng.integers(0, 6, rows),
        }
    )
    merit = frame["age"] / 20 + frame["income"] / 4 + 2 * (frame["sex"] == 2) + frame["region"] / 40
    frame["approved"] = np.where(merit + rng.normal(0, 0.3, rows) > 6.5, "yes", "no")
    return frame


def loans(rows: int = ROWS, seed: int = 0) -> Dataset:
    return encode(loans_schema(), raw_loans(rows, seed))


def files_in(folder: Path) -> str:
    """The table and its schema as files."""
    raw_loans().to_csv(folder / "loans.csv", index=False)
    (folder / "loans.toml").write_text(SCHEMA)
    return str(folder / "loans.toml")


def matrix_of(frame: pd.DataFrame) -> NDArray[np.float64]:
    """The table's own numbers."""
    return frame[NAMES].to_numpy(dtype=np.float64)


def target_of(frame: pd.DataFrame) -> NDArray[np.int64]:
    return np.where(frame["approved"] == "yes", 1, 0)


class Logistic(nn.Module):
    """Two logits from a linear function of raw numbers, with the coefficients of a fitted model."""

    def __init__(self, weights: NDArray[np.float64], bias: float, columns: int = 2) -> None:
        super().__init__()
        self.linear = nn.Linear(len(weights), 1)
        self.linear.weight.data = torch.tensor(weights[None], dtype=torch.float32)
        self.linear.bias.data = torch.tensor([bias], dtype=torch.float32)
        self.columns = columns

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        score: torch.Tensor = self.linear(x)
        return score if self.columns == 1 else torch.cat([torch.zeros_like(score), score], dim=1)


def fitted(matrix: NDArray[np.float64], target: NDArray[np.int64], columns: int = 2) -> Logistic:
    """A torch module fitted on a matrix."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(max_iter=5000).fit(matrix, target)
    return Logistic(model.coef_[0], float(model.intercept_[0]), columns)
