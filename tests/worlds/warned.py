"""Runs that have to be read with care, or whose figures are limited: a loan table and models that leave columns out.

A test file that wants the fixture says `pytest_plugins = ["tests.worlds.warned"]`.   PYTEST_DONT_REWRITE
"""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import evenhand
from tests.worlds.verdict import NAMES, loans, raw_loans

FRAME, DATA = raw_loans(), loans()
SMALL = {"seeds": 20, "steps": 20}


def dropping(names: list[str]) -> Any:
    """A pipeline that was fitted on all columns and hands only some of them on."""
    kept = make_column_transformer((StandardScaler(), names), remainder="drop")
    return make_pipeline(kept, LogisticRegression()).fit(FRAME[NAMES], FRAME["approved"])


def poor(people: pd.DataFrame) -> NDArray[np.float64]:
    """Agrees with hardly anybody's label."""
    return np.where(people["sex"] == 1, 0.9, 0.1)


@pytest.fixture(scope="session")
def warned(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Results by name, each with its files in a folder of its own."""

    def made(name: str, do: Any, *given: Any, **settings: Any) -> Any:
        return do(DATA, *given, out=tmp_path_factory.mktemp(name), **settings)

    unread, partly = dropping(["age", "region", "income"]), dropping(["age", "region", "income", "sex"])
    repair = {**SMALL, "half_width": 0.1}
    return {
        "not tested": made("none", evenhand.audit, "sex", model=unread),
        "not measured": made("nothing", evenhand.measure, "sex", model=unread, half_width=0.1),
        "partly": made("partly", evenhand.audit, ["sex", "noise"], model=partly, **SMALL),
        "partly measured": made("some", evenhand.measure, ["sex", "noise"], model=partly, half_width=0.1),
        "partly repaired": made("repaired", evenhand.repair, ["sex", "noise"], "average", model=partly, **repair),
        "poor": made("poor", evenhand.audit, "sex", model=poor, accept_poor_model=True, **SMALL),
        "within": made("near", evenhand.audit, "age", model=partly, within={"age": 10}, **SMALL),
        "within repaired": made(
            "mended", evenhand.repair, "age", "average", model=partly, within={"age": 10}, **repair
        ),
    }
