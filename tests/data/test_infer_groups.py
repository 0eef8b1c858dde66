"""One-hot groups and derived columns of tables as they are: gaps, slips, other names; and what is said of the rest."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

import evenhand
from evenhand.data.attribute import Attribute
from evenhand.data.dataset import load_dataset
from evenhand.data.infer.schema import Inferred, dataset_from, infer_file, infer_schema

ROWS = 600
RACES = ["black", "white", "asian"]


def people(seed: int = 0, **columns: Any) -> pd.DataFrame:
    draws = np.random.default_rng(seed)
    frame = pd.DataFrame({"age": draws.integers(18, 80, ROWS), "pay": draws.integers(0, 5_000, ROWS) * 10})
    return frame.assign(**columns, y=draws.choice(["no", "yes"], ROWS))


def flags(names: list[str], seed: int = 1, shares: list[float] | None = None) -> pd.DataFrame:
    which = np.random.default_rng(seed).choice(len(names), ROWS, p=shares)
    return pd.DataFrame({name: (which == code).astype(int) for code, name in enumerate(names)})


def attribute(found: Inferred, name: str) -> Attribute:
    return found.schema.attributes[found.schema.index(name)]


def as_read(folder: Path, frame: pd.DataFrame) -> tuple[str, pd.DataFrame]:
    """The schema that is inferred for a CSV file, and the file as pandas reads it."""
    frame.to_csv(folder / "t.csv", index=False)
    (folder / "t.toml").write_text(infer_file(folder / "t.csv", "y").toml)
    return str(folder / "t.toml"), pd.read_csv(folder / "t.csv")


def lenient(frame: pd.DataFrame) -> NDArray[np.int64]:
    """A model that looks at each flag, and at which is missing."""
    score = sum(
        weight * pd.to_numeric(frame[f"race_{race}"]).astype(float).fillna(0.4)
        for race, weight in zip(RACES, (2, -1, 0.5), strict=True)
    )
    return (score + frame["age"] / 40 > 2).to_numpy().astype(np.int64)


@pytest.mark.parametrize("kind", [int, bool, float])
@pytest.mark.parametrize("gaps", [1, 40])
def test_people_without_a_race_are_asked_about_as_they_are(tmp_path: Path, kind: type, gaps: int) -> None:
    frame = people(**flags([f"race_{race}" for race in RACES]).astype(kind).astype(object))
    frame.loc[: gaps - 1, "race_white"] = None
    frame.loc[gaps : gaps + 1, [f"race_{race}" for race in RACES]] = None
    frame["y"] = np.where(lenient(frame) == 1, "yes", "no")
    schema, read = as_read(tmp_path, frame)
    data = load_dataset(schema)
    race = data.schema.index("race")
    assert data.schema.attributes[race].columns == [f"race_{race}" for race in RACES]
    assert np.flatnonzero(data.codes[:, race] > 2).tolist() == list(range(gaps + 2))
    given = data.decoder.frame(data.exact)
    for column in given.columns:
        assert given[column].fillna(-1).tolist() == read[column].fillna(-1).tolist()
    assert data.text(race, int(data.exact[gaps, race]), exact=True) == "unknown"

    out = evenhand.audit(schema, "race", model=lenient, seeds=10, steps=3, out=tmp_path / "out")
    own = lenient(read)
    one_race = [{f"race_{each}": int(each == race) for each in RACES} for race in RACES]
    truth = np.any([lenient(read.assign(**values)) != own for values in one_race], axis=0)
    assert out.summary["data_rate"]["all"]["discriminatory"] == int(truth.sum()) > 0


def test_a_note_counts_the_rows_with_gaps() -> None:
    frame = people(**flags([f"race_{race}" for race in RACES]).astype(float))
    frame.loc[5, "race_black"] = np.nan
    notes = " ".join(infer_schema(frame, "y").notes["race"])
    assert "1 row has no value in some of them. It is looked at as it is" in notes


def test_a_column_that_is_empty_for_most_people_is_in_no_group() -> None:
    frame = people(**flags([f"race_{race}" for race in RACES]).astype(float))
    frame.loc[: int(0.6 * ROWS), "race_black"] = np.nan
    found = infer_schema(frame, "y")
    assert not {"race_black", "race_white"} <= set(found.schema.attributes[2].columns)


@pytest.mark.parametrize(
    ("names", "group", "categories"),
    [
        (["raceBlack", "raceWhite", "raceAsian"], "race", ["Black", "White", "Asian"]),
        (["black_race", "white_race", "asian_race"], "race", ["black", "white", "asian"]),
        (["male", "female"], "male or female", ["male", "female"]),
        (["is_male", "is_female"], "male or female", ["male", "female"]),
        (["isMale", "isFemale"], "Male or Female", ["Male", "Female"]),
        (["black", "asian", "hispanic"], "black or asian or hispanic", ["black", "asian", "hispanic"]),
        (["x0_black", "x0_white"], "x0", ["black", "white"]),
    ],
)
def test_groups_by_other_names_are_found_and_protected(names: list[str], group: str, categories: list[str]) -> None:
    found = infer_schema(people(**flags(names)), "y")
    it = attribute(found, group)
    assert (it.columns, it.categories, it.protected) == (names, categories, True)
    assert infer_schema(people(**flags(names)), "y", [names[0]]).schema.protected == [group]


def test_a_flag_that_shares_the_start_breaks_no_group() -> None:
    others = np.random.default_rng(5).integers(0, 2, (2, ROWS))
    frame = people(**flags([f"race_{race}" for race in RACES]), race_self_reported=others[0], race_known=others[1])
    found = infer_schema(frame, "y")
    assert attribute(found, "race").columns == [f"race_{race}" for race in RACES]
    assert {"race_self_reported", "race_known"} <= set(found.schema.names)


@pytest.mark.parametrize("dropped", [True, False])
def test_no_part_of_a_broken_group_stands_for_all_of_it(dropped: bool) -> None:
    """Two races in one row of ten: a group without one of them would be another question."""
    ones = flags([f"race_{race}" for race in [*RACES, "other"]])
    ones.loc[: ROWS // 10] = 0
    ones.loc[: ROWS // 10, ["race_black", "race_white"]] = 1
    frame = people(**ones.iloc[:, : 3 if dropped else 4])
    found = infer_schema(frame, "y")
    assert {"race_black", "race_white", "race_asian"} <= set(found.schema.names)
    assert any("No row says yes in two of the protected columns" in remark for remark in found.remarks)


def test_several_groups_share_a_start() -> None:
    first, second = flags(["is_black", "is_white", "is_asian"], 2), flags(["is_tall", "is_short"], 3)
    found = infer_schema(people(**first, **second, is_rich=np.random.default_rng(4).integers(0, 2, ROWS)), "y")
    assert attribute(found, "tall or short").columns == list(second.columns)
    assert attribute(found, "black or white or asian").columns == list(first.columns)
    assert attribute(found, "is_rich").columns == []


def test_rare_facts_are_not_picked_into_a_group() -> None:
    draws = np.random.default_rng(6)
    rare: dict[str, Any] = {f"had_{number}": (draws.random(ROWS) < 0.01).astype(int) for number in range(12)}
    found = infer_schema(people(**rare, had_car=draws.integers(0, 2, ROWS)), "y")
    assert not any(each.columns for each in found.schema.attributes)


def test_a_group_and_a_column_of_the_same_name_are_two_attributes() -> None:
    frame = people(race=np.random.default_rng(7).integers(1, 6, ROWS), **flags([f"race_{race}" for race in RACES]))
    found = infer_schema(frame, "y")
    assert attribute(found, "race").columns == []
    assert attribute(found, "race columns").columns == [f"race_{race}" for race in RACES]


def test_codes_in_the_names_of_a_group_ask_for_words() -> None:
    assert '# words = ["…", "…"]' in infer_schema(people(**flags(["Sex_1", "Sex_2"])), "y").toml
    assert "# words" not in infer_schema(people(**flags(["Sex_m", "Sex_f"])), "y").toml


def in_bins(ages: Any) -> NDArray[Any]:
    return np.asarray(np.array(["young", "middle", "old"])[np.digitize(ages, [25, 46])])


def test_a_one_hot_group_goes_along_with_its_number() -> None:
    frame = people()
    frame = frame[~frame["age"].isin([30, 50])].reset_index(drop=True)
    groups = pd.get_dummies(pd.Series(in_bins(frame["age"])), prefix="age-cat", dtype=int)
    frame = pd.concat([frame.rename(columns={"age": "age-num"}), groups], axis=1)
    found = infer_schema(frame, "y")
    age = attribute(found, "age-num")
    for column in groups.columns:
        wanted = in_bins(np.arange(age.domain[0], age.domain[1] + 1)) == column.removeprefix("age-cat_")
        assert age.along[column] == wanted.astype(int).tolist()
    assert infer_schema(frame, "y", ["age-cat_old"]).schema.protected == ["age-num"]
    data = dataset_from(frame, "y")
    pd.testing.assert_frame_equal(data.decoder.frame(data.exact), frame.drop(columns="y"))


def test_rare_flags_go_along_with_the_column_that_says_it_all() -> None:
    """One by one, the flag that three people have would be too rare to be sure of."""
    ones = flags([*(f"race_{race}" for race in RACES), "race_other"], shares=[0.3, 0.5, 0.195, 0.005])
    frame = people(race=np.array([*RACES, "other"])[ones.to_numpy().argmax(axis=1)], **ones)
    assert set(attribute(infer_schema(frame, "y"), "race").along) == set(ones.columns)


@pytest.mark.parametrize(("wrong", "joined"), [(1, True), (3, True), (4, False)])
@pytest.mark.parametrize("slip", ["old", None])
def test_a_few_slips_do_not_part_a_derived_column(wrong: int, joined: bool, slip: str | None) -> None:
    frame = people()
    frame["age_cat"] = in_bins(frame["age"])
    rows = frame.index[frame["age"] < 25][:wrong]
    frame.loc[rows, "age_cat"] = slip
    found = infer_schema(frame, "y")
    age = attribute(found, "age")
    assert bool(age.along) == joined
    if joined:
        assert age.along["age_cat"] == in_bins(np.arange(age.domain[0], age.domain[1] + 1)).tolist()
        assert f"{wrong} row{'s have' if wrong > 1 else ' has'} something else there" in " ".join(found.notes["age"])
        data = dataset_from(frame, "y")
        given = data.decoder.frame(data.exact)["age_cat"]
        assert given.fillna("-").tolist() == frame["age_cat"].fillna("-").tolist()
    else:
        assert "'age_cat' follows from 'age'" in " ".join(found.remarks)


def test_a_copy_is_a_copy_also_where_no_row_has_the_number() -> None:
    frame = people()
    frame = frame[frame["age"] % 5 != 0].reset_index(drop=True)
    frame = frame.assign(**{"age.1": frame["age"], "age in months": frame["age"] * 12 + 3})
    age = attribute(infer_schema(frame, "y"), "age")
    values = list(range(age.domain[0], age.domain[1] + 1))
    assert age.along["age.1"] == values
    assert age.along["age in months"] == [12 * value + 3 for value in values]


def test_what_a_protected_column_decides_unsaid_is_remarked() -> None:
    frame = people(sex=np.random.default_rng(8).choice(["f", "m"], ROWS))
    frame = frame.assign(birth_year=2024 - frame["age"], senior=(frame["age"] >= 65).astype(int))
    found = infer_schema(frame, "y")
    assert {"birth_year", "senior"} <= set(found.schema.names)
    assert len(found.remarks) == 1
    assert found.remarks[0].startswith("'birth_year' and 'senior' follow from 'age' in all or nearly all rows")
    assert "# 'birth_year' and 'senior' follow from 'age'" in found.toml
    assert infer_schema(frame, "y", ["sex"]).remarks == []


def test_what_a_nearly_unique_number_decides_is_remarked() -> None:
    wealth = np.random.default_rng(9).permutation(ROWS * 900)[:ROWS]
    frame = people(wealth=wealth, band=np.digitize(wealth, [90_000, 300_000]), log=np.log1p(wealth).round(6))
    frame["chance"] = np.random.default_rng(10).integers(0, 3, ROWS)
    (remark,) = infer_schema(frame, "y", ["wealth"]).remarks
    assert remark.startswith("'band' and 'log' follow from 'wealth'")


@pytest.mark.parametrize("words", [("0", "1"), ("N", "Y")])
def test_protected_flags_that_exclude_each_other_are_remarked(tmp_path: Path, words: tuple[str, str]) -> None:
    frame = people(**flags(["north", "south"], shares=[0.5, 0.5]).replace({0: words[0], 1: words[1]}))
    frame.to_csv(tmp_path / "t.csv", index=False)
    remarks = infer_file(tmp_path / "t.csv", "y", ["north", "south"]).remarks
    (remark,) = [each for each in remarks if "yes in two" in each]
    assert 'columns = ["north", "south"]' in remark
    assert ("write 0 and 1 for no and yes" in remark) == (words == ("N", "Y"))


def test_independent_protected_flags_are_not_remarked() -> None:
    draws = np.random.default_rng(11)
    frame = people(north=draws.integers(0, 2, ROWS), rich=draws.integers(0, 2, ROWS))
    assert infer_schema(frame, "y", ["north", "rich"]).remarks == []
