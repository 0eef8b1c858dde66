"""Random tables with rare values, gaps and numbers between steps, and a model that looks at every cell exactly."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st
from numpy.typing import NDArray

LABELS = np.array(["no", "yes"])
SEXES = ["f", "m", "x"]


@st.composite
def tables(draw: st.DrawFn) -> pd.DataFrame:
    """Rows whose cells a schema cannot say exactly: more categories than it lists, more numbers than it has steps."""
    rows, seed = draw(st.integers(60, 120)), draw(st.integers(0, 10**6))
    jobs, decimals, gaps = draw(st.integers(2, 70)), draw(st.integers(0, 4)), draw(st.sampled_from([0.0, 0.1, 0.5]))
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "sex": rng.choice(SEXES[: draw(st.integers(2, 3))], rows),
            "job": [f"job {number}" for number in np.minimum(rng.integers(0, jobs, rows), rng.integers(0, jobs, rows))],
            "income": np.round(rng.lognormal(draw(st.sampled_from([1, 9])), 1, rows), decimals),
            "hours": np.where(rng.random(rows) < gaps, np.nan, rng.integers(0, 90, rows) * 0.5),
            "sector": pd.Series(rng.choice(["a", "b", "c"], rows)).mask(rng.random(rows) < gaps),
        }
    )
    frame["approved"] = LABELS[exact(frame)]
    return frame


def scores(frame: pd.DataFrame) -> NDArray[np.float64]:
    """(n,) a probability of yes that depends on the last decimal of each number and on each letter."""
    cells = pd.DataFrame(
        {
            "sex": frame["sex"].map(SEXES.index) * 3,
            "job": frame["job"].str[4:].astype(int) * 5,
            "income": (frame["income"] * 10**4).round() % 11,
            "hours": (frame["hours"] * 2).fillna(7) % 5,
            "sector": frame["sector"].fillna("cc").map(len) * 2,
        }
    )
    return np.asarray(cells.sum(axis=1) % 9 / 9 + 0.05, dtype=np.float64)


def exact(frame: pd.DataFrame, threshold: float = 0.5) -> NDArray[np.int64]:
    """(n,) 1 for yes."""
    return (scores(frame) >= threshold).astype(np.int64)


def labels(frame: pd.DataFrame) -> NDArray[Any]:
    """(n,) the label in words."""
    return LABELS[exact(frame)]


def different(frame: pd.DataFrame, threshold: float = 0.5) -> int:
    """How many people get another label with another sex of the table, every other cell as it is."""
    own = exact(frame, threshold)
    others = [exact(frame.assign(sex=sex), threshold) != own for sex in frame["sex"].unique()]
    return int(np.any(others, axis=0).sum())


def saved(frame: pd.DataFrame, folder: Path) -> Path:
    """The table as a CSV file that pandas reads back as it was."""
    path = folder / "people.csv"
    frame.to_csv(path, index=False)
    return path
