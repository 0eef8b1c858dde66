"""Messy tables made on purpose: what people's files hold, drawn by a seeded generator."""

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

CELLS = "sex age office long tiny flag loud note mixed part same empty born ratio"
NOTES = ["NA", "n/a", "none", "None", "a, b", 'say "so"', " led by a blank", "tail ", "-"]
JOBS = ["clerk", "nurse", "driver", "teacher", "cook", "baker", "guard", "miner"]
RARE_JOBS = [f"{kind} {work}" for kind in ("chief", "deputy", "junior", "night") for work in [*JOBS, "diver", "piper"]]
RACES = ["Asian", "Black", "Hispanic", "Other", "White"]
PRAISE = ["came early and stayed late", "helped the others every day", "kept the books in good order"]
BLAME = ["was late on most of the days", "did not answer the letters", "left the accounts in disorder"]


def people(rows: int = 700, seed: int = 0) -> pd.DataFrame:
    """All that a table may hold, and a label `approved` that depends on all of it, on sex and race for no good reason.

    `income` has many values between round ones, `job` many rare ones, `hours` and `sector` are missing for some;
    `joined` is a date, `comment` free text, `id` tells people apart, `weight` says for how many a row stands.
    """
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "id": [f"P{number:06d}" for number in rng.permutation(rows) * 7 + 100_000],
            "age": rng.integers(18, 71, rows),
            "sex": rng.choice(["female", "male"], rows),
            "race": rng.choice(RACES, rows, p=[0.1, 0.25, 0.2, 0.05, 0.4]),
            "income": np.round(np.exp(rng.normal(7.6, 0.5, rows)), 2),
            "job": _jobs(rng, rows),
            "hours": np.where(rng.random(rows) < 0.2, np.nan, rng.integers(8, 61, rows)),
            "sector": pd.Series(rng.choice(["public", "private", "none"], rows)).mask(rng.random(rows) < 0.15),
            "member": rng.choice([False, True], rows),
            "region": rng.choice([11, 12, 20, 35], rows),
            "joined": _dates(rng, rows),
            "comment": [f"{rng.choice(PRAISE + BLAME)} in {rng.integers(1990, 2024)}" for _ in range(rows)],
            "weight": np.round(rng.uniform(0.2, 5, rows), 3),
        }
    )
    merit = merit_of(frame) + rng.normal(0, 0.4, rows)
    frame["approved"] = np.where(merit > merit.median(), "yes", "no")
    frame["grade"] = np.select([merit > merit.quantile(0.7), merit > merit.quantile(0.35)], ["high", "middle"], "low")
    return frame


def merit_of(frame: pd.DataFrame) -> pd.Series:
    """What the label is made from."""
    return (
        frame["income"] / 900
        + frame["age"] / 40
        + (frame["sex"] == "male") * 0.8
        + (frame["race"] == "White") * 0.7
        - (frame["race"] == "Black") * 0.5
        + frame["job"].str.contains("nurse|chief") * 1.0
        + frame["hours"].fillna(70) / 50
        + frame["sector"].isna() * 0.9
        + frame["member"] * 0.4
        + (frame["region"] == 20) * 0.6
        + frame["comment"].str.contains("|".join(PRAISE)) * 0.9
        - pd.to_datetime(frame["joined"]).dt.year.sub(2000) / 20
    )


def _jobs(rng: np.random.Generator, rows: int) -> NDArray[Any]:
    """Mostly one of the common ones; each rare one is had by a few."""
    return np.where(rng.random(rows) < 0.7, rng.choice(JOBS, rows), rng.choice(RARE_JOBS, rows))


def _dates(rng: np.random.Generator, rows: int) -> list[str]:
    days = pd.Timestamp("1998-01-01") + pd.to_timedelta(rng.integers(0, 9000, rows), unit="D")
    return [day.strftime("%Y-%m-%d") for day in days]


def table(folder: Path, columns: str, *, label: str = "approved", rows: int = 700, seed: int = 0) -> Path:
    """A CSV file with these columns, separated by blanks, and the label."""
    path = folder / "people.csv"
    people(rows, seed)[[*columns.split(), label]].to_csv(path, index=False)
    return path


def one_hot_table(folder: Path, *, two_races: int = 0) -> Path:
    """A column for each race and each sex; some rows may have two races."""
    frame = people()
    groups = pd.get_dummies(frame[["race", "sex"]], prefix=["Race", "Sex"], dtype=int)
    groups.loc[groups.index[:two_races], ["Race_Black", "Race_White"]] = 1
    path = folder / "people.csv"
    pd.concat([frame[["age", "income", "member"]], groups, frame[["approved"]]], axis=1).to_csv(path, index=False)
    return path


def western_table(folder: Path) -> Path:
    """In cp1252, with letters that are no ASCII in a header and in values."""
    frame = people()[["age", "sex", "job", "income", "approved"]]
    frame["job"] = frame["job"].replace({"nurse": "Krankenpflegerin über 40", "cook": "Köchin"})
    path = folder / "people.csv"
    frame.rename(columns={"job": "Tätigkeit"}).to_csv(path, index=False, encoding="cp1252")
    return path


def twice_named_table(folder: Path) -> Path:
    """Two columns called score; pandas reads the second as score.1."""
    frame = people()
    table = frame[["age", "sex", "income", "hours", "approved"]].fillna({"hours": 40})
    table.columns = pd.Index(["age", "sex", "score", "score", "approved"])
    path = folder / "people.csv"
    table.to_csv(path, index=False)
    return path


def comma_table(folder: Path) -> Path:
    """Semicolons between values, and commas in numbers."""
    path = folder / "people.csv"
    people()[["age", "sex", "income", "job", "approved"]].to_csv(path, index=False, sep=";", decimal=",")
    return path


def blank_table(folder: Path) -> Path:
    """A blank after each comma, which pandas takes for a part of the value."""
    frame = people()[["age", "sex", "race", "hours", "approved"]].fillna({"hours": 40})
    rows = [", ".join(map(str, row)) for row in frame.itertuples(index=False)]
    path = folder / "people.csv"
    path.write_text("\n".join([",".join(frame.columns), *rows]) + "\n", encoding="utf-8")
    return path


def typographic_table(folder: Path) -> Path:
    """Balances below zero with a typographic minus, which no program reads as a number."""
    frame = people()[["age", "sex", "income", "approved"]]
    frame["balance"] = (frame.pop("income") - 1500).round().astype(int).astype(str).str.replace("-", "−")
    path = folder / "people.csv"
    frame[["age", "sex", "balance", "approved"]].to_csv(path, index=False)
    return path


def odd_cells_table(folder: Path) -> Path:
    """Cells that are easily read as something else; the label is a fingerprint of the whole row."""
    rng, rows = np.random.default_rng(1), 400
    frame = pd.DataFrame(
        {
            "sex": rng.choice(["female", "male"], rows),
            "age": rng.integers(18, 71, rows),
            "office": [f"{code:05d}" for code in rng.choice([1067, 4103, 80331, 99084], rows)],
            "long": rng.integers(2**53, 2**53 + 10**6, rows),
            "tiny": rng.choice(["1.5e-07", "2E-3", "-0.0", "0.30000000000000004", "1e5"], rows),
            "flag": rng.choice(["True", "False", ""], rows),
            "loud": rng.choice(["TRUE", "FALSE"], rows),
            "note": rng.choice(NOTES, rows),
            "mixed": rng.choice(["12", "3.0", "x", "03"], rows),
            "part": rng.choice(["12%", "7%", "100%"], rows),
            "same": "always",
            "empty": "",
            "born": _dates(rng, rows),
            "ratio": rng.normal(0, 1, rows),
        }
    )
    path = folder / "people.csv"
    frame.to_csv(path, index=False)
    again = pd.read_csv(path)
    again.assign(approved=fingerprint(again)).to_csv(path, index=False)
    _with_cells(path, frame)
    return path


def fingerprint(frame: pd.DataFrame) -> NDArray[Any]:
    """(n,) yes or no by a checksum of all cells of a row, so that no cell may be another one."""
    columns = [frame[name].map(_cell_text) for name in CELLS.split()]
    rows = ["|".join(cells).encode() for cells in zip(*columns, strict=True)]
    return np.array(["no", "yes"])[[zlib.crc32(row) & 1 for row in rows]]


def _cell_text(cell: Any) -> str:
    """A cell as it is, but for whether a whole number is an integer or a float."""
    if isinstance(cell, str | bool | np.bool_):
        return repr(cell) if isinstance(cell, str) else str(bool(cell))
    if pd.isna(cell):
        return "missing"
    return str(int(cell)) if isinstance(cell, int | np.integer) or float(cell).is_integer() else repr(float(cell))


def _with_cells(path: Path, frame: pd.DataFrame) -> None:
    """Write the cells as they were before pandas read them, with the label."""
    labels = pd.read_csv(path)["approved"]
    frame.assign(approved=labels).to_csv(path, index=False)


def counted_labels_table(folder: Path) -> Path:
    """Labels 1 and 2, as some registers count them."""
    frame = people()[["age", "sex", "income", "hours", "approved"]]
    frame["approved"] = np.where(frame["approved"] == "yes", 1, 2)
    path = folder / "people.csv"
    frame.to_csv(path, index=False)
    return path


def pandas_types(frame: pd.DataFrame) -> pd.DataFrame:
    """The types that people give to columns in memory: categories, whole numbers with gaps, dates."""
    kinds: dict[str, Any] = {"job": "category", "sex": "category", "hours": "Int64"}
    frame = frame.astype({name: kind for name, kind in kinds.items() if name in frame})
    return frame.assign(joined=pd.to_datetime(frame["joined"])) if "joined" in frame else frame


def in_memory(frame: pd.DataFrame) -> pd.DataFrame:
    """Text that a CSV file cannot hold (empty, NA, digits that are no number), many categories, gaps in booleans."""
    rng = np.random.default_rng(2)
    texts = np.array(["", "NA", "None", "007", "7", "x"], dtype=object)
    kinds = pd.CategoricalDtype([f"kind {number}" for number in rng.permutation(60)])
    return frame.assign(
        mark=texts[rng.integers(0, len(texts), len(frame))],
        branch=[f"{number:04d}" for number in rng.integers(0, 70, len(frame))],
        kind=pd.Categorical([f"kind {number}" for number in rng.integers(0, 60, len(frame))], dtype=kinds),
        flag=pd.Series(rng.random(len(frame)) < 0.5, dtype="boolean").mask(rng.random(len(frame)) < 0.2),
    )


def one_hot_apart_table(folder: Path) -> Path:
    """Columns of one attribute with others between them."""
    frame = people()
    groups = pd.get_dummies(frame["race"], prefix="Race", dtype=int)
    between = [groups.iloc[:, :2], frame[["age"]], groups.iloc[:, 2:], frame[["income", "sex", "approved"]]]
    path = folder / "people.csv"
    pd.concat(between, axis=1).to_csv(path, index=False)
    return path
