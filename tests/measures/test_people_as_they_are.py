"""People of a table go to a model with the cells that the table has, whatever the schema makes of them."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import evenhand
from evenhand.data.dataset import load_dataset
from evenhand.data.infer.schema import infer_file

SCHEMA = """
name = "loans"
file = "loans.csv"
[label]
column = "granted"
values = ["no", "yes"]
[[attribute]]
name = "race"
columns = ["race_black", "race_white"]
categories = ["black", "white", "other"]
kind = "category"
protected = true
[[attribute]]
name = "age"
kind = "number"
width = 10
domain = [1, 8]
along = { age_group = ["young", "young", "young", "old", "old", "old", "old", "old"] }
[[attribute]]
name = "income"
kind = "number"
step = 500
domain = [0, 20]
missing = { value = "" }
[[attribute]]
name = "job"
kind = "category"
categories = ["clerk", ["cook", "*"]]
[[attribute]]
name = "since"
kind = "pass"
"""


def loans(rows: int, seed: int = 0) -> pd.DataFrame:
    """People whom the schema above rounds, puts together, or knows nothing of."""
    rng = np.random.default_rng(seed)
    race = rng.integers(0, 3, rows)
    income = rng.uniform(0, 12_000, rows).round(2)
    frame = pd.DataFrame(
        {
            "race_black": (race == 0).astype(int),
            "age": rng.integers(18, 90, rows),
            "age_group": rng.choice(["young", "old"], rows),
            "race_white": (race == 1).astype(int),
            "income": np.where(rng.random(rows) < 0.1, np.nan, income),
            "job": rng.choice(["clerk", "cook", "diver", "miner"], rows),
            "since": rng.choice(["2020-01-31", "2021-06-30", "2022-12-24"], rows),
        }
    )
    frame.loc[:2, ["race_black", "race_white"]] = 1
    frame["granted"] = np.where(predict(frame) == 1, "yes", "no")
    return frame


def predict(frame: pd.DataFrame) -> NDArray[np.int64]:
    """A model that looks at everything that a schema may lose."""
    score = (
        frame["race_black"] * 1.5
        - frame["race_white"]
        + (frame["age"] % 7) / 3
        + (frame["age_group"] == "old")
        + frame["income"].fillna(99_000) % 900 / 300
        + frame["job"].map({"clerk": 0.2, "cook": 1.1, "diver": -1.3, "miner": 2.0}).astype(float)
        + frame["since"].str[:4].astype(int).mod(3)
    )
    return (score > 4).to_numpy().astype(np.int64)


def written(folder: Path, frame: pd.DataFrame) -> str:
    frame.to_csv(folder / "loans.csv", index=False)
    (folder / "loans.toml").write_text(SCHEMA)
    return str(folder / "loans.toml")


def by_brute_force(frame: pd.DataFrame, values: list[dict[str, Any]]) -> NDArray[np.bool_]:
    """(rows,) whose label changes with other protected values, every other cell left alone."""
    own = predict(frame)
    changed = [predict(frame.assign(**value)) != own for value in values]
    return np.asarray(np.stack(changed).any(axis=0))


RACES = [{"race_black": b, "race_white": w} for b, w in ((1, 0), (0, 1), (0, 0))]


def test_exact_codes_lead_back_to_the_table(tmp_path: Path) -> None:
    frame = loans(400)
    data = load_dataset(written(tmp_path, frame))
    read = pd.read_csv(tmp_path / "loans.csv")
    decoded = data.decoder.frame(data.exact)
    pd.testing.assert_frame_equal(decoded, read[decoded.columns], check_dtype=False)


def test_samples_of_the_domain_have_one_race_and_one_group(tmp_path: Path) -> None:
    data = load_dataset(written(tmp_path, loans(400)))
    rng = np.random.default_rng(1)
    codes = rng.integers(data.schema.lower, data.schema.upper + 1, (500, 5), dtype=np.int32)
    frame = data.decoder.frame(codes)
    assert frame[["race_black", "race_white"]].sum(axis=1).max() == 1
    assert ((frame["age"] >= 40) == (frame["age_group"] == "old")).all()
    assert frame["income"].isna().any()
    assert frame["since"].nunique() == 1


@pytest.mark.parametrize("seed", range(3))
def test_the_rate_in_the_data_is_that_of_the_raw_rows(tmp_path: Path, seed: int) -> None:
    frame = loans(600, seed)
    out = evenhand.audit(written(tmp_path, frame), "race", model=predict, seeds=20, steps=5, out=tmp_path / "out")
    truth = by_brute_force(frame, RACES)
    rate = out.summary["data_rate"]["all"]
    assert (rate["discriminatory"], rate["samples"]) == (int(truth.sum()), len(frame))
    assert 0 < truth.sum() < len(frame)
    for example in out.summary["people"]:
        assert truth[example["seed_row"]]


def test_examples_say_what_the_table_says(tmp_path: Path) -> None:
    frame = loans(600)
    out = evenhand.audit(written(tmp_path, frame), "race", model=predict, seeds=5, steps=2, out=tmp_path / "out")
    row = out.summary["people"][0]["seed_row"]
    described = out.summary["examples"][0]["description"]
    assert f"age {frame['age'][row]}" in described
    assert frame["job"][row] in described
    assert frame["since"][row] in described
    income = frame["income"][row]
    assert ("income unknown" if np.isnan(income) else f"{income:,.10g}") in described
    assert out.summary["examples"][0]["origin"] == f"Row {row + 1:,} of the data, unchanged."


def column(draw: st.DrawFn, rows: int) -> list[Any]:
    kind = draw(st.sampled_from(["rare", "odd", "gaps", "dates"]))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    if kind == "rare":
        return [f"v{number}" for number in np.minimum(rng.geometric(0.1, rows), 60)]
    if kind == "odd":
        return list((rng.normal(size=rows) * 1000).round(draw(st.integers(0, 3))))
    if kind == "gaps":
        return [
            None if gap else value for gap, value in zip(rng.random(rows) < 0.2, rng.integers(0, 50, rows), strict=True)
        ]
    return [
        f"20{year}-01-0{day}" for year, day in zip(rng.integers(10, 25, rows), rng.integers(1, 9, rows), strict=True)
    ]


@st.composite
def tables(draw: st.DrawFn) -> pd.DataFrame:
    rows = 80
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    frame = pd.DataFrame({"sex": rng.choice(["f", "m"], rows), "size": rng.integers(0, 9, rows)})
    for number in range(draw(st.integers(1, 3))):
        frame[f"c{number}"] = column(draw, rows)
    return frame.assign(label=rng.choice(["no", "yes"], rows))


def hashed(frame: pd.DataFrame) -> NDArray[np.int64]:
    """A label that hangs on every character of every cell."""
    texts = frame.drop(columns="label", errors="ignore").astype(object).astype(str).agg("|".join, axis=1)
    return (pd.util.hash_pandas_object(texts, index=False) % 2).to_numpy().astype(np.int64)


@settings(max_examples=15)
@given(tables())
def test_any_table_is_asked_about_as_it_stands(tmp_path_factory: pytest.TempPathFactory, frame: pd.DataFrame) -> None:
    folder = tmp_path_factory.mktemp("table")
    frame.to_csv(folder / "t.csv", index=False)
    inferred = infer_file(folder / "t.csv", "label", ["sex"])
    (folder / "t.toml").write_text(inferred.toml)
    data = load_dataset(str(folder / "t.toml"))
    decoded = data.decoder.frame(data.exact)
    read = pd.read_csv(folder / "t.csv")[decoded.columns]
    pd.testing.assert_frame_equal(decoded, read, check_dtype=False)


# --- what a schema reads otherwise than the table has it ---

PEOPLE_SCHEMA = """
name = "people"
file = "people.csv"
[label]
column = "approved"
values = ["no", "yes"]
[[attribute]]
name = "age"
kind = "number"
step = 1
type = "integer"
domain = [20, 69]
[[attribute]]
name = "sex"
kind = "category"
categories = ["f", "m"]
[[attribute]]
name = "branch"
kind = "category"
{branch}
"""


def branches(tmp_path: Path, values: list[Any], about: str) -> tuple[Path, pd.DataFrame]:
    """People of some branch, and a schema that says this about it."""
    rng, rows = np.random.default_rng(0), 1200
    frame = pd.DataFrame(
        {
            "age": rng.integers(20, 70, rows),
            "sex": rng.choice(["f", "m"], rows),
            "branch": pd.Series(rng.choice(len(values), rows)).map(lambda place: values[place]),
        }
    )
    worth = frame["age"] / 20 + 0.8 * (frame["sex"] == "m") + 1.5 * (frame["branch"] == values[-1])
    frame["approved"] = np.where(worth + rng.normal(0, 0.2, rows) > 3, "yes", "no")
    frame.to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "people.toml").write_text(PEOPLE_SCHEMA.format(branch=about), encoding="utf-8")
    return tmp_path / "people.toml", pd.read_csv(tmp_path / "people.csv")


def treated_differently(predict: Any, frame: pd.DataFrame) -> int:
    return int((predict(frame.assign(sex="f")) != predict(frame.assign(sex="m"))).sum())


@pytest.mark.parametrize(
    ("values", "about"),
    [
        (["a", "b", "?"], 'categories = ["a", "b"]\nmissing = { value = "?", code = 7 }'),
        (["a", "b", "?"], 'categories = ["a", "b"]\nmissing = { value = "?" }\ndomain = [0, 1]'),
        ([1, 2, 3], "categories = [1, 2, 3]"),
        ([1, 2, 3], "categories = [1, 2, 3]\ndomain = [0, 1]"),
        (["a", "b", "c"], 'categories = ["a", "b", "c"]\ndomain = [0, 1]'),
    ],
    ids=["mark outside", "mark as a value", "numbers without a type", "numbers outside", "outside the domain"],
)
def test_a_pipeline_is_given_what_pandas_gave_it(tmp_path: Path, values: list[Any], about: str) -> None:
    schema, frame = branches(tmp_path, values, about)
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["sex", "branch"]), remainder="passthrough"
    )
    model = make_pipeline(columns, LogisticRegression(max_iter=500)).fit(
        frame.drop(columns="approved"), frame["approved"]
    )
    found = evenhand.audit(str(schema), "sex", model=model, seeds=20, steps=10, iterations=2)
    assert found.summary["data_rate"]["all"]["discriminatory"] == treated_differently(model.predict, frame)
    assert found.summary["model"]["unread"] == {}
    pairs = found.findings
    assert len(pairs)
    sample = pd.DataFrame({name: pairs[f"sample.{name}"] for name in ("age", "sex", "branch")})
    assert (model.predict(sample) == pairs["label"].astype(str)).all()


def test_a_category_outside_the_domain_has_its_own_column_in_a_matrix(tmp_path: Path) -> None:
    schema, frame = branches(tmp_path, ["a", "b", "c"], 'categories = ["a", "b", "c"]\ndomain = [0, 1]')

    def matrix(people: pd.DataFrame) -> NDArray[np.float64]:
        flags = [people["sex"] == "f", people["sex"] == "m", *(people["branch"] == name for name in "abc")]
        return np.column_stack([people["age"], *flags]).astype(float)

    model = LogisticRegression(max_iter=2000).fit(matrix(frame), frame["approved"])
    found = evenhand.audit(str(schema), "sex", model=model, inputs="onehot", seeds=5, steps=5, iterations=1)
    true = treated_differently(lambda people: model.predict(matrix(people)), frame)
    assert found.summary["data_rate"]["all"]["discriminatory"] == true


@pytest.mark.parametrize("kind", ["float32", "int16", "uint8"])
def test_short_numbers_stay_short(kind: str) -> None:
    rng, rows = np.random.default_rng(1), 600
    frame = pd.DataFrame({"age": rng.integers(18, 90, rows).astype(kind), "sex": rng.choice(["f", "m"], rows)})
    frame["pay"] = rng.normal(3, 1, rows).astype("float32")

    def rule(people: pd.DataFrame) -> NDArray[Any]:
        assert people["age"].dtype == kind
        assert people["pay"].dtype == "float32"
        worth = people["age"].to_numpy() * np.dtype(kind).type(3) % 50 / 20 + (people["sex"] == "m").to_numpy()
        return np.where(worth > 1.6, "yes", "no")

    frame["label"] = rule(frame)
    found = evenhand.audit(frame, "sex", model=rule, label="label", seeds=5, steps=5, iterations=1).summary
    assert found["data_rate"]["all"]["discriminatory"] == treated_differently(rule, frame) > 0


def test_all_of_many_protected_values_are_compared() -> None:
    rng, rows = np.random.default_rng(2), 900
    frame = pd.DataFrame({"age": rng.integers(18, 70, rows), "place": [f"p{n}" for n in rng.integers(0, 60, rows)]})
    frame["pay"] = rng.integers(1, 9, rows)

    def rule(people: pd.DataFrame) -> NDArray[Any]:
        return np.where(
            people["age"] / 20 + people["place"].str[1:].astype(int) / 30 + people["pay"] / 5 > 4, "yes", "no"
        )

    frame["label"] = rule(frame)
    other = [rule(frame.assign(place=place)) != frame["label"] for place in frame["place"].unique()]
    found = evenhand.audit(frame, "place", model=rule, label="label", seeds=5, steps=5, iterations=1).summary
    assert found["data_rate"]["all"]["discriminatory"] == np.any(other, axis=0).sum()
